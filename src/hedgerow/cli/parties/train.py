"""``hedgerow train`` and ``hedgerow runs``: train a model with others, and look at runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.completion import complete_run
from hedgerow.cli.parties.account import enter_server_charges
from hedgerow.cli.printing import (
    HERE,
    INTERRUPTED,
    NOT_ALL,
    FolderArgument,
    Format,
    FormatOption,
    numbers_of,
    print_forecast,
    print_line,
    print_table,
    time_text,
)
from hedgerow.errors import Code, HedgerowError

if TYPE_CHECKING:
    from hedgerow.parties.runs.client import RunClient, RunStatus
    from hedgerow.parties.runs.job_files import Job
    from hedgerow.parties.runs.reports import RunLine, RunReport


app = typer.Typer(help="Look at runs; stop and resume them.", no_args_is_help=True)
RunArgument = Annotated[
    str,
    typer.Argument(
        help="identifier, such as wards-0123456789ab, or its beginning",
        autocompletion=complete_run,
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="show no progress")]


def train(
    job: Annotated[Path, typer.Argument(help="what is trained, and with whom (TOML)")],
    folder: FolderArgument = HERE,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="until the model is trained")
    ] = True,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Post a job to those who take part and watch the training."""
    from hedgerow.parties.runs.jobs import load_job
    from hedgerow.protocols.forecast import forecast

    client = _client(folder)
    read = load_job(job)
    foreseen = forecast(read.make_plan())
    if format is Format.text and not quiet:
        print_forecast(foreseen)
    run = client.post(read)
    if format is Format.json:
        posted = {"event": "posted", "run": run, "hash": read.hash}
        print(json.dumps({**posted, "forecast": foreseen.to_dict()}), flush=True)
    elif not quiet:
        Console(stderr=True).print(f"run {run}", highlight=False)
    if wait:
        follow(client, run, folder, quiet=quiet, format=format)
    elif format is Format.text and quiet:
        print(run)


@app.command("list")
def list_(folder: FolderArgument = HERE, format: FormatOption = Format.text) -> None:
    """List the runs, with their state at each party; ends with 1 if one does not answer."""
    client = _client(folder)
    told = client.list()
    enter_server_charges(folder)
    refusals = [error for error in told.values() if isinstance(error, HedgerowError)]
    if len(refusals) == len(told):
        raise refusals[0]
    runs: dict[str, dict[str, RunLine]] = {}
    for party, lines in told.items():
        for line in lines if isinstance(lines, tuple) else ():
            runs.setdefault(line.run, {})[party] = line
    if format is Format.json:
        rows = [_row(known) for known in runs.values()]
        down = [name for name, lines in told.items() if isinstance(lines, HedgerowError)]
        print(json.dumps({"ok": not down, "unreachable": down, "rows": rows}))
        raise typer.Exit(NOT_ALL if refusals else 0)
    table = Table("run", "protocol", "model", "by", "since", *told)
    for known in runs.values():
        row = _row(known)
        texts = [escape(str(row[key])) for key in ("run", "protocol", "model", "by")]
        states = [_state(known.get(s), told[s]) for s in told]
        table.add_row(*texts, time_text(row["since"]), *states)
    print_table(table)
    raise typer.Exit(NOT_ALL if refusals else 0)


@app.command("show")
def show(
    run: RunArgument,
    folder: FolderArgument = HERE,
    wait: Annotated[bool, typer.Option("--wait", help="watch it until it has ended")] = False,
    quiet: QuietOption = False,
    job: Annotated[
        bool, typer.Option("--job", help="its job instead, as this party has it (TOML)")
    ] = False,
    format: FormatOption = Format.text,
) -> None:
    """Show how far a run is, what it waits for and why it has failed."""
    if job:
        _print_job(_kept_job(folder, run), format)
        return
    client = _client(folder)
    run = client.find(run)
    if wait:
        follow(client, run, folder, quiet=quiet, format=format)
        return
    status = client.status(run)
    enter_server_charges(folder)
    if format is Format.json:
        print(json.dumps({"ok": status.state != "failed", **status.to_dict()}))
        return
    _print(status)


@app.command("stop")
def stop(
    run: RunArgument, folder: FolderArgument = HERE, format: FormatOption = Format.text
) -> None:
    """Stop a run; what it has charged stays charged, and it can be resumed."""
    client = _client(folder)
    _print_outcome(client.stop(client.find(run)), "stopped", format)


@app.command("resume")
def resume(
    run: RunArgument, folder: FolderArgument = HERE, format: FormatOption = Format.text
) -> None:
    """Take up a run that was stopped or has failed, where it was."""
    client = _client(folder)
    _print_outcome(client.resume(client.find(run)), "resumed", format)


@app.command("prepare")
def prepare(
    run: RunArgument, folder: FolderArgument = HERE, format: FormatOption = Format.text
) -> None:
    """Have the peers of a run make ahead what it uses up, while it waits."""
    client = _client(folder)
    run = client.find(run)
    made = client.prepare(run)
    if format is Format.json:
        print(json.dumps({"ok": True, "run": run, **made}))
        return
    print_line(
        f"{run}: prepared in {made['seconds']:,.1f} s; this peer has sent "
        f"{made['sent'] / 1e6:,.1f} MB and keeps {made['kept'] / 1e6:,.1f} MB for the first attempt"
    )


@app.command("approve")
def approve(
    run: RunArgument,
    folder: FolderArgument = HERE,
    refuse: Annotated[bool, typer.Option("--refuse", help="refuse it instead")] = False,
    by: Annotated[
        str, typer.Option(help="who decides; needed if the policy names several people")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask, at a terminal")] = False,
    format: FormatOption = Format.text,
) -> None:
    """Approve a run, in the folder of the party whose policy asks for it (`approvers`).

    Prints the whole job and, at a terminal, asks. The decision is signed with the key of the party
    and stays in its trail; the last one counts.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.policy import Policy
    from hedgerow.parties.runs.admission import decide_run

    config, policy = PartyConfig.load(folder), Policy.load(folder)
    person = by or (policy.approvers[0] if len(policy.approvers) == 1 else "")
    policy.check_approver(person)
    job = _kept_job(folder, run)
    run = job.run_id
    if format is Format.text:
        _print_job(job, format)
        if not (yes or refuse) and sys.stdin.isatty():
            typer.confirm(f"Approve {run} as {person}?", abort=True, err=True)
    decide_run(config, policy, run, person, approved=not refuse)
    if format is Format.json:
        decided = {"ok": True, "run": run, "person": person, "approved": not refuse}
        print(json.dumps(decided | {"hash": job.hash, "job": job.written()}))
    else:
        print_line(f"{run}: {'refused' if refuse else 'approved'} by {person} at {config.name}")


def _kept_job(folder: Path, run: str) -> Job:
    """Return the job of a run that this party takes part in, by the beginning of its name."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.names import complete
    from hedgerow.parties.runs.store import job_of_run
    from hedgerow.parties.store.database import open_store

    state = PartyConfig.load(folder).state
    with open_store(state).snapshot() as made:
        run = complete(run, [row["id"] for row in made.rows("runs")], "run")
    return job_of_run(state, run)


def _print_job(job: Job, format: Format) -> None:
    if format is Format.json:
        fields = {"ok": True, "run": job.run_id, "hash": job.hash, "job": job.written()}
        print(json.dumps(fields))
    else:
        # As it is: it is read, or written to a file for `hedgerow plan`.
        print(job.to_readable(), end="")


def _client(folder: Path) -> RunClient:
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.runs.client import RunClient

    return RunClient(PartyConfig.load(folder))


def follow(client: RunClient, run: str, folder: Path, *, quiet: bool, format: Format) -> None:
    """Watch a run to its end; leaving does not end it."""
    # Looking at runs and models needs no bars.
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[more]}"),
        TimeElapsedColumn(),
    )
    hidden = quiet or format is Format.json
    console = Console(stderr=True)
    status: RunStatus | None = None
    try:
        with Progress(*columns, console=console, transient=True, disable=hidden) as bars:
            task = bars.add_task("waiting", total=None, more="")
            for status in client.watch(run):
                if format is Format.json:
                    print(json.dumps({"event": "status", **status.to_dict()}), flush=True)
                known = status.level >= 0
                bars.update(
                    task,
                    description=escape(status.describe()),
                    completed=max(0, status.level),
                    total=status.depth if known else None,
                    more=escape(status.traffic()),
                )
    except KeyboardInterrupt:
        where = "" if folder == HERE else f" {folder}"
        console.print(
            f"\nThe run goes on. Look at it with: hedgerow runs show {run}{where} --wait",
            markup=False,
            highlight=False,
        )
        raise typer.Exit(INTERRUPTED) from None
    assert status is not None
    enter_server_charges(folder)
    if status.state == "failed" and status.error is not None:
        raise status.error
    if status.state != "done":
        raise Code.WRONG_RUN_STATE.error(
            expected=f"run {run} to be done",
            found=f"it is {status.state}",
            fix=f"hedgerow runs resume {run}",
        )
    if format is Format.text and not quiet:
        _print(status)
        where = "" if folder == HERE else f" {folder}"
        print_line(f"  a page about it: hedgerow report {run}{where}")


def _print(status: RunStatus) -> None:
    print_line(f"{status.run}: {status.state}")
    print_line(
        f"  protocol {status.protocol}, model {status.model}, posted by {status.by} at "
        f"{time_text(status.since)}"
    )
    for party, state in status.parties.items():
        print_line(f"  {party}: {state}")
    traffic = status.traffic()
    if status.without:
        print_line(f"  without {', '.join(status.without)}, who did not come")
    if not status.has_ended:
        print_line(f"  {status.describe()}{'; ' if traffic else ''}{traffic}")
    elif status.octets:
        print_line(f"  {traffic} in {status.seconds:,.1f} s")
    if status.reason is not None and not status.has_ended:
        print_line(f"  why: {status.reason}")
    if status.error is not None:
        print_line(f"  {status.error}")


def _row(known: dict[str, RunLine]) -> dict[str, Any]:
    """Return what parties tell of a run, as JSON has it."""
    one = next(iter(known.values()))
    return {
        **one.model_dump(include={"run", "job", "hash", "protocol", "model", "by"}),
        "since": one.created,
        "parties": {party: at.state for party, at in known.items()},
        "attempts": {party: at.attempt for party, at in known.items()},
        "errors": {party: at.error for party, at in known.items() if at.error},
    }


def _state(known: RunLine | None, told: tuple[RunLine, ...] | HedgerowError) -> str:
    if isinstance(told, HedgerowError):
        return "unreachable"
    if known is None:
        return "-"
    return escape(known.state + (f" ({known.error})" if known.error else ""))


def _print_outcome(told: dict[str, RunReport | HedgerowError], what: str, format: Format) -> None:
    refusals = {name: error for name, error in told.items() if isinstance(error, HedgerowError)}
    if len(refusals) == len(told):
        raise next(iter(refusals.values()))
    if format is Format.json:
        states = {n: one.state for n, one in told.items() if not isinstance(one, HedgerowError)}
        failed = numbers_of(refusals)
        print(json.dumps({"ok": not refusals, "parties": states, "refused": failed}))
    else:
        for name, one in told.items():
            if isinstance(one, HedgerowError):
                print_line(f"{name}: {one}")
            else:
                print_line(f"{name}: {'is done' if one.state == 'done' else what}")
    raise typer.Exit(NOT_ALL if refusals else 0)
