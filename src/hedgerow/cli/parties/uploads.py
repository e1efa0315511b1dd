"""``hedgerow uploads``: what servers keep of an owner's tables, and what it allows on them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.printing import (
    HERE,
    NOT_ALL,
    FolderArgument,
    Format,
    FormatOption,
    numbers_of,
    print_line,
    print_refusals,
)

if TYPE_CHECKING:
    from hedgerow.parties.consortium.policy import OwnerTerms
    from hedgerow.parties.roles.own_uploads import OwnUpload, UploadClient

app = typer.Typer(
    help="Look after the tables that were shared with the servers.", no_args_is_help=True
)
LifetimeOption = Annotated[
    float | None,
    typer.Option(
        help="what jobs of the servers may cost the population in all; inf: all that is left"
    ),
]


@app.command("list")
def list_(folder: FolderArgument = HERE, format: FormatOption = Format.text) -> None:
    """List what each server keeps of this owner's uploads, and which runs name them."""
    uploads, refusals = _client(folder).list()
    well = not refusals and all(one.is_well for one in uploads)
    if format is Format.json:
        rows = [one.to_dict() for one in uploads]
        print(json.dumps({"ok": well, "refused": numbers_of(refusals), "rows": rows}))
    else:
        for one in uploads:
            _print(one)
        print_line(f"{len(uploads)} uploads of this owner")
        print_refusals(refusals)
    raise typer.Exit(0 if well else NOT_ALL)


@app.command("withdraw")
def withdraw(
    id: Annotated[str, typer.Argument(help="of an upload of this owner")],
    folder: FolderArgument = HERE,
    format: FormatOption = Format.text,
) -> None:
    """Have every server remove its part of an upload, for ever; no job is trained on it any more.

    What was charged stays charged, models stay, and the id is never used again. Repeat it if a
    server did not answer.
    """
    found = _client(folder).withdraw(id)
    if format is Format.json:
        told = {"id": found.id, "servers": found.servers, "refused": numbers_of(found.refusals)}
        print(json.dumps({"ok": found.is_whole, **told}))
    else:
        print_line(found.id)
        for name, state in found.servers.items():
            print_line(f"  {name}: {state}")
        print_refusals(found.refusals)
    raise typer.Exit(0 if found.is_whole else NOT_ALL)


@app.command("terms")
def terms(
    population: Annotated[str, typer.Argument(help="whose account is charged")],
    folder: FolderArgument = HERE,
    lifetime_epsilon: LifetimeOption = None,
    format: FormatOption = Format.text,
) -> None:
    """Tell the servers what policy.toml of this owner allows now, on all its uploads.

    It counts for every job that begins afterwards, whoever has posted it.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.uploading import renew_terms

    config = PartyConfig.load(folder)
    sent = renew_terms(config, population, lifetime_epsilon)
    if format is Format.json:
        print(json.dumps({"ok": True, **json.loads(sent.to_json())}))
        return
    print(terms_text(sent) or f"{population}: no more jobs")
    print(f"{', '.join(server.name for server in config.servers)} hold to it from now on.")


def _client(folder: Path) -> UploadClient:
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.own_uploads import UploadClient

    return UploadClient(PartyConfig.load(folder))


def _print(one: OwnUpload) -> None:
    """Print an upload in lines that are not cut: ids are there to be copied."""
    line = one.line
    target = "and the target" if line.target else "without a target"
    columns = f"{line.columns} columns {target} ({line.planes} bits)"
    print_line(f"{line.id}: {line.slots:,} slots of {line.population}, {columns}")
    for name, state in one.servers.items():
        when = one.times.get(name)
        since = "" if when is None else f" since {datetime.fromtimestamp(when, UTC):%F %T} UTC"
        print_line(f"  {name}: {state}{since}")
    print_line(f"  runs: {', '.join(one.runs) or 'none'}")
    print_line(f"  digest: {line.digest}")


def terms_text(terms: OwnerTerms) -> str:
    """Say what servers may spend of the population that terms are about; nothing if nothing."""
    return "; ".join(
        f"{population}: jobs of at most epsilon {terms.largest_epsilon_per_job:g} each, and "
        f"{lifetime.epsilon:.6g} with delta {lifetime.delta:.3g} in all"
        for population, lifetime in terms.populations.items()
    )
