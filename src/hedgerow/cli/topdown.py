"""``hedgerow topdown``: one tree of several owners, who send noisy counts or sealed shares."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from hedgerow.cli.printing import FolderArgument, Format, FormatOption

if TYPE_CHECKING:
    from hedgerow.parties.topdown.participant import Participant
    from hedgerow.parties.topdown.turns import RoundsStatus

app = typer.Typer(
    help="Grow a tree with the owners of several tables; what is released has noise.",
    no_args_is_help=True,
)
HERE = Path()
INTERRUPTED = 130

JobArgument = Annotated[Path, typer.Argument(help="what is grown, and with whom (TOML)")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="show no progress")]
SeedOption = Annotated[
    int | None,
    typer.Option(help="repeatable noise, for tests: NOT private, and refused by most policies"),
]


@app.command("plan")
def plan(job: JobArgument, format: FormatOption = Format.text) -> None:
    """Print what a job would charge every owner, and who would learn it; nothing is charged."""
    from hedgerow.parties.topdown.job import TopDownJob

    read = TopDownJob.load(job)
    made = read.make_plan()
    if format is Format.json:
        report = {
            "ok": True,
            "run": read.run_id,
            "hash": read.hash,
            "plan": made.digest,
            "owners": list(read.owners),
            "population": read.population,
            "costs": {
                audience: {"epsilon": _plain(cost.epsilon), "delta": cost.delta}
                for audience, cost in read.costs().items()
            },
            "releases": [
                {**release.to_dict(), "epsilon": _plain(release.epsilon)}
                for release in made.releases()
            ],
        }
        print(json.dumps(report))
        return
    print(f"run {read.run_id}, of the job with hash {read.hash}\n")
    print(made)
    print(
        f"\nEach of {', '.join(read.owners)} charges this to its own account of "
        f"{read.population}, before its first answer."
    )
    if read.plan.method == "secure-counts":
        print("So does each of the three servers, of which no two may work together.")
        print("The coordinator passes on sealed shares, and is trusted by nobody.")
    else:
        print("The coordinator sees the noisy answers of all owners, and is trusted by nobody.")


@app.command("coordinate")
def coordinate(
    job: JobArgument,
    folder: FolderArgument = HERE,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Carry a run between the owners; started again, it goes on where it was."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.daemon import logging_to
    from hedgerow.parties.topdown.carrying import Carrier
    from hedgerow.parties.topdown.job import TopDownJob

    config = PartyConfig.load(folder)
    read = TopDownJob.load(job)
    _end_on_term()
    with logging_to(config), Carrier(config, read) as carrier:
        address = f"{config.listen or config.me.host}:{config.me.port}"
        text = f"{config.name} carries {read.run_id} at {address}; run folder: {carrier.folder}"
        fields = {"run": read.run_id, "address": address, "folder": str(carrier.folder)}
        _say(format, text, quiet, event="carrying", **fields)
        with _shown(quiet, format, _status) as tell:
            try:
                report = carrier.carry(tell)
            except KeyboardInterrupt:
                _say(format, "interrupted; start it again to go on", quiet, event="interrupted")
                raise typer.Exit(INTERRUPTED) from None
        _finish(carrier.folder, report, format)


@app.command("join")
def join(
    job: JobArgument,
    folder: FolderArgument = HERE,
    *,
    table: Annotated[Path, typer.Option(help="CSV, Parquet or Arrow file of this owner")],
    insecure_seed: SeedOption = None,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Take part as an owner: once asked, charge the own account, then answer; no row leaves."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.policy import Policy
    from hedgerow.parties.topdown.job import TopDownJob
    from hedgerow.parties.topdown.owner import Joining

    config = PartyConfig.load(folder)
    policy = Policy.load(folder)
    read = TopDownJob.load(job)
    _end_on_term()
    with Joining(config, policy, read, table, insecure_seed=insecure_seed) as joining:
        _take_part(joining, quiet, format)


@app.command("serve")
def serve(
    job: JobArgument,
    folder: FolderArgument = HERE,
    *,
    insecure_seed: SeedOption = None,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Take part as a server, in method secure-counts: add up sealed shares, and draw the noise."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.policy import Policy
    from hedgerow.parties.roles.daemon import logging_to
    from hedgerow.parties.topdown.job import TopDownJob
    from hedgerow.parties.topdown.serving import Serving

    config = PartyConfig.load(folder)
    policy = Policy.load(folder)
    read = TopDownJob.load(job)
    _end_on_term()
    with logging_to(config), Serving(config, policy, read, insecure_seed=insecure_seed) as serving:
        _take_part(serving, quiet, format)


def _take_part(participant: Participant, quiet: bool, format: Format) -> None:
    """See a run through at an owner or a server."""
    config, job = participant.config, participant.job

    def charged(verb: str) -> None:
        cost = participant.ledger.total("public")
        text = f"{config.name} {verb} charged {job.population} for {job.run_id}: {cost}"
        fields = {"run": job.run_id, "population": job.population, "new": verb == "has"}
        _say(format, text, quiet, event="charged", **fields)

    if participant.charged:
        charged("had")
    with _shown(quiet, format, _news) as tell:

        def news(what: str, number: int, names: tuple[str, ...]) -> None:
            if what == "charged":
                charged("has")
                return
            tell({"what": what, "round": number, "waiting_for": list(names)})

        try:
            model = participant.take_part(news)
        except KeyboardInterrupt:
            _say(format, "interrupted; start it again to go on", quiet, event="interrupted")
            raise typer.Exit(INTERRUPTED) from None
    ledger = str(participant.folder / "ledger.json") if participant.charged else None
    if format is Format.json:
        print(json.dumps({"ok": True, "model": str(model), "ledger": ledger}))
        return
    print(f"model, as {config.coordinator.name} says: {model}")
    print(f"ledger: {ledger}" if ledger else "nothing was asked of this party, nothing is charged")


def _finish(folder: Path, report: dict[str, Any], format: Format) -> None:
    files = {name: str(folder / f"{name}.json") for name in ("model", "ledger", "meter", "report")}
    if format is Format.json:
        print(json.dumps({"ok": True, **report, **files}), flush=True)
        return
    print(f"{report['run']}: {report['rounds']} rounds, {report['bytes'] / 1e6:,.2f} MB")
    for number, owner, code in report.get("left_out", ()):
        print(f"  {owner} was left out in round {number}: {code}")
    for event in report["events"]:
        print(
            f"  {event['participant']} was {event['what']} in round {event['round']}: "
            f"{event['why']}"
        )
    for name, path in files.items():
        print(f"{name}: {path}")
    if report["not_private"]:
        Console(stderr=True).print("[bold red]This model is NOT private:[/] do not publish it.")


def _status(status: RoundsStatus) -> tuple[str, dict[str, Any]]:
    """Say in words and fields how far a coordinator is."""
    fields = {**vars(status), "bytes": status.octets}
    del fields["octets"]
    if status.done:
        return "done; handing out the model", fields
    waiting = ", ".join(f"{name}{_trouble(status, name)}" for name in status.waiting_for)
    text = f"round {status.round}: waiting for {waiting}; {status.octets / 1e6:,.2f} MB"
    return text + (f"; without {', '.join(status.dropped)}" if status.dropped else ""), fields


def _trouble(status: RoundsStatus, name: str) -> str:
    """Say why a participant may be missing."""
    if name in status.refused:
        return f" (refused: {status.refused[name]})"
    if name in status.absent:
        return " (has not called yet)"
    return " (late)" if name in status.late else ""


def _news(fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Say in words what an owner or a server does."""
    names = ", ".join(fields["waiting_for"]) or "the coordinator"
    match fields["what"]:
        case "answering":
            text = f"round {fields['round']}: answering"
        case "again":
            text = f"round {fields['round']}: the servers did not come together; trying again"
        case "dropped":
            text = "the run goes on without this owner; waiting for the model"
        case "away":
            text = f"waiting for {names}, which is not there"
        case _:
            text = f"round {fields['round']}: waiting for {names}"
    return text, fields


@contextmanager
def _shown(
    quiet: bool, format: Format, words: Callable[[Any], tuple[str, dict[str, Any]]]
) -> Iterator[Callable[[Any], None]]:
    """Yield what shows a line on standard error, or prints a line of JSON, if it has changed."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    hidden = quiet or format is Format.json
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=hidden
    ) as progress:
        task = progress.add_task("waiting", total=None)
        before: dict[str, Any] | None = None

        def tell(found: Any) -> None:
            nonlocal before
            text, fields = words(found)
            if fields == before:
                return
            before = fields
            # Names come from another party.
            progress.update(task, description=escape(text))
            if format is Format.json:
                print(json.dumps({"event": "status", **fields}), flush=True)

        yield tell


def _say(format: Format, text: str, quiet: bool, **fields: Any) -> None:
    if format is Format.json:
        print(json.dumps({"ok": True, **fields}), flush=True)
    elif not quiet:
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


def _end_on_term() -> None:
    """Let SIGTERM end a command as Ctrl-C does: whoever waits is told, and locks are let go."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def _plain(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
