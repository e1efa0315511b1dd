"""``hedgerow serve``: take part in runs of a consortium, as whoever this party is."""

from __future__ import annotations

import json
from typing import Any

from hedgerow.cli.printing import HERE, FolderArgument, Format, FormatOption, print_line


def serve(folder: FolderArgument = HERE, format: FormatOption = Format.text) -> None:
    """Serve: take jobs, take part in their runs and, as a server, take uploads and answer queries.

    Runs until it is told to stop (Ctrl-C, or SIGTERM); what is under way goes on at the next start.
    SIGHUP reads policy.toml and the certificates again.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.policy import Policy
    from hedgerow.parties.roles.daemon import LOG_FILE
    from hedgerow.parties.roles.daemon import serve as run

    config = PartyConfig.load(folder)
    policy = Policy.load(folder)
    log = config.state.path(LOG_FILE)

    def ready() -> None:
        address = f"{config.listen or config.me.host}:{config.me.port}"
        if not config.me.takes_calls:
            address = f"no address, and calls {', '.join(one.name for one in config.leaders)}"
        text = f"{config.name} serves {config.consortium} at {address}; log: {log}"
        _print_event(format, text, event="serving", name=config.name, address=address, log=str(log))

    run(config, policy, ready=ready)
    _print_event(format, f"{config.name} has stopped", event="stopped", name=config.name)


def _print_event(format: Format, text: str, **fields: Any) -> None:
    if format is Format.json:
        print(json.dumps({"ok": True, **fields}), flush=True)
    else:
        print_line(text, stderr=True)
