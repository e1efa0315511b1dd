"""``hedgerow serve``: take part in runs of a consortium, as whoever this party is."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from hedgerow.cli.printing import HERE, FolderArgument, Format, FormatOption, print_line


def serve(
    folder: FolderArgument = HERE,
    console: Annotated[
        bool,
        typer.Option(
            "--console/--no-console", help="a page for the operator of this party, on this machine"
        ),
    ] = True,
    console_port: Annotated[
        int, typer.Option(help="of that page on 127.0.0.1; 0 takes a free one", min=0, max=65535)
    ] = 0,
    format: FormatOption = Format.text,
) -> None:
    """Serve: take jobs, take part in their runs and, as a server, take uploads and answer queries.

    Runs until it is told to stop (Ctrl-C, or SIGTERM); what is under way goes on at the next start.
    SIGHUP reads policy.toml and the certificates again. The address of the console has a token, and
    is for the operator alone: it is printed at a terminal, and else only the file that has it.
    """
    from hedgerow.parties.console.access import ADDRESS_FILE
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.policy import Policy
    from hedgerow.parties.roles.daemon import LOG_FILE
    from hedgerow.parties.roles.daemon import serve as run

    config = PartyConfig.load(folder)
    policy = Policy.load(folder)
    log, file = config.state.path(LOG_FILE), config.state.path(ADDRESS_FILE)

    def ready(page: str | None) -> None:
        address = f"{config.listen or config.me.host}:{config.me.port}"
        if not config.me.takes_calls:
            address = f"no address, and calls {', '.join(one.name for one in config.leaders)}"
        text = f"{config.name} serves {config.consortium} at {address}; log: {log}"
        if page is None:
            # Of a start that was killed.
            file.unlink(missing_ok=True)
        else:
            # What is no terminal may be a log, which others read.
            text += f"\nconsole: {page if sys.stderr.isatty() else f'its address is in {file}'}"
        fields = {"name": config.name, "address": address, "log": str(log)}
        where = None if page is None else str(file)
        _print_event(format, text, event="serving", **fields, console=where)

    run(config, policy, console_port=console_port if console else None, ready=ready)
    _print_event(format, f"{config.name} has stopped", event="stopped", name=config.name)


def _print_event(format: Format, text: str, **fields: Any) -> None:
    if format is Format.json:
        print(json.dumps({"ok": True, **fields}), flush=True)
    else:
        print_line(text, stderr=True)
