"""``hedgerow site``: a tree over columns that lie at several sites, each on its own machine."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import FolderArgument, Format, FormatOption
from hedgerow.errors import Code

app = typer.Typer(
    help="Grow and ask an ID3 tree with other sites, who hold other columns of the same records.",
    no_args_is_help=True,
)
HERE = Path()
_LOOK = 0.25

JobArgument = Annotated[Path, typer.Argument(help="what is grown, and with whom (TOML)")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="show no progress")]


@app.command("serve")
def serve(
    job: JobArgument,
    folder: FolderArgument = HERE,
    *,
    table: Annotated[
        Path, typer.Option(help="CSV, Parquet or Arrow file with this site's columns")
    ],
    domain: Annotated[Path, typer.Option(help="this site's own domain (TOML)")],
    ids: Annotated[str, typer.Option(help="column with the ids of the records")] = "id",
    instances: Annotated[
        Path | None, typer.Option(help="records that may be asked about; without, the table")
    ] = None,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Take part in training, keep the own nodes, then answer tokens until told to stop."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.policy import Policy
    from hedgerow.parties.roles.daemon import logging_to
    from hedgerow.parties.sites.job import VerticalJob
    from hedgerow.parties.sites.run import SiteRun
    from hedgerow.parties.sites.service import SiteService, status_fields

    config, policy, read = PartyConfig.load(folder), Policy.load(folder), VerticalJob.load(job)
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def note(what: str, fields: dict[str, Any]) -> None:
        _say(format, _words(what, fields), event=what, **fields)

    run = SiteRun(config, policy, read, domain, table, ids, instances=instances, tell=note)
    try:
        with logging_to(config), SiteService(run):
            address = f"{config.listen or config.me.host}:{config.me.port}"
            held = run.instance_ids
            ids_are = "text" if held.dtype.kind == "U" else "whole numbers"
            text = (
                f"{config.name} serves {read.run_id} at {address}, with {len(held):,} instances "
                f"whose ids are {ids_are}; run folder: {run.folder}"
            )
            fields = {"run": read.run_id, "address": address, "folder": str(run.folder)}
            _say(format, text, event="serving", instances=len(held), ids=ids_are, **fields)
            with _show_status(quiet, format, read.starter, begins=run.begins) as show:
                while True:
                    _, status = run.status()
                    show(status_fields(status))
                    time.sleep(_LOOK)
    except KeyboardInterrupt:
        _say(format, f"{config.name} has stopped", event="stopped")


@app.command("count")
def count(
    job: JobArgument,
    folder: FolderArgument = HERE,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Count for the sites of a job on secret counts, as one of three servers, until it is grown."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.policy import Policy
    from hedgerow.parties.roles.daemon import logging_to
    from hedgerow.parties.sites.counting import CountRun
    from hedgerow.parties.sites.job import VerticalJob
    from hedgerow.parties.sites.service import CountService

    config, policy, read = PartyConfig.load(folder), Policy.load(folder), VerticalJob.load(job)
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def note(what: str, fields: dict[str, Any]) -> None:
        if what == "grown":
            answered = f"{fields['answered']:,} questions"
            _say(format, f"the tree is grown, with {answered}", event=what, **fields)
        else:
            _say(format, _words(what, fields), event=what, **fields)

    run = CountRun(config, policy, read, tell=note)
    if run.done.is_set():
        text = f"the tree of {read.run_id} is grown; nobody needs {config.name} to count for it"
        _say(format, text, event="grown before")
        return
    try:
        with logging_to(config), CountService(run):
            address = f"{config.listen or config.me.host}:{config.me.site_port}"
            text = f"{config.name} counts for {read.run_id} at {address}; run folder: {run.folder}"
            fields = {"run": read.run_id, "address": address, "folder": str(run.folder)}
            _say(format, text, event="counting", **fields)
            with _line(quiet, format) as show:
                while not run.done.wait(_LOOK):
                    status = run.status()
                    begun = status.state == "counting"
                    show(
                        f"counting: {status.answered:,} questions answered"
                        if begun
                        else f"waiting for {read.starter} to begin"
                    )
    except KeyboardInterrupt:
        _say(format, f"{config.name} has stopped", event="stopped")


@app.command("train")
def train(
    job: JobArgument,
    folder: FolderArgument = HERE,
    quiet: QuietOption = False,
    format: FormatOption = Format.text,
) -> None:
    """Grow the tree, at the site with the class or else at the first; all sites must serve."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.sites.client import SiteClient
    from hedgerow.parties.sites.job import VerticalJob

    config, read = PartyConfig.load(folder), VerticalJob.load(job)
    client = SiteClient(config, read)
    try:
        with _show_status(quiet, format, read.starter, events=True) as show:
            status = client.train(show)
    except KeyboardInterrupt:
        text = "training goes on without this command; whoever stops a site ends it"
        _say(format, text, event="left")
        raise typer.Exit(130) from None
    fields = {"run": read.run_id, "tree": status["attempt"], "root": status["root"]}
    if format is Format.json:
        more = {"nodes": status["nodes"], "records": status["records"]}
        print(json.dumps({"ok": True, **fields, **more}))
        return
    print(f"{read.run_id} is {_grown_text(status)}")


@app.command("classify")
def classify(
    job: JobArgument,
    folder: FolderArgument = HERE,
    *,
    id: Annotated[list[str], typer.Option("--id", help="an instance; may be given several times")],
    format: FormatOption = Format.text,
) -> None:
    """Ask for the class of instances; shows their tokens as far as this site sees them."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.sites.client import SiteClient
    from hedgerow.parties.sites.job import VerticalJob

    config, read = PartyConfig.load(folder), VerticalJob.load(job)
    answers = SiteClient(config, read).ask(id)
    rows = [
        {
            "id": answer.id,
            "class": None if answer.counts is None else _class(read.label, answer.counts),
            "counts": None if answer.counts is None else list(answer.counts),
            "path": list(answer.path),
        }
        for answer in answers
    ]
    if format is Format.json:
        print(json.dumps({"ok": True, "answers": rows}))
        return
    for answer, row in zip(answers, rows, strict=True):
        said = f"{row['class']} {row['counts']}" if row["counts"] else f"kept by {read.class_at}"
        print(f"{answer.id}: {' > '.join(answer.path)} : {said}")


@app.command("kept")
def kept(
    job: JobArgument, folder: FolderArgument = HERE, format: FormatOption = Format.text
) -> None:
    """Print the answers that this site, which holds the class, keeps to itself."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.sites.answering import read_kept
    from hedgerow.parties.sites.job import VerticalJob
    from hedgerow.parties.sites.store import RunRoom

    config, read = PartyConfig.load(folder), VerticalJob.load(job)
    read.index(config)
    if read.answers_to != "class site" or config.name != read.class_at:
        raise Code.WRONG_ROLE.error(
            expected="the class site of a job with answers_to = 'class site'",
            found=f"{config.name}; answers go to the {read.answers_to}",
            fix="whoever asks sees the answers with `hedgerow site classify`"
            if read.answers_to == "asker"
            else f"look in the folder of {read.class_at}",
        )
    rows = [
        {"id": name, "class": _class(read.label, counts), "counts": counts}
        for name, counts in read_kept(RunRoom.of(config, read).folder)
    ]
    if format is Format.json:
        print(json.dumps({"ok": True, "answers": rows}))
        return
    for row in rows:
        print(f"{row['id']}: {row['class']} {row['counts']}")
    if not rows:
        _say(format, "nobody has asked yet")


@app.command("learned")
def learned(
    job: JobArgument, folder: FolderArgument = HERE, format: FormatOption = Format.text
) -> None:
    """Print what this party has learned, attempt by attempt, beside what was declared."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.sites.job import VerticalJob
    from hedgerow.parties.sites.store import ANY_NUMBER, UNDER_WAY, LearnedRecord, RunRoom

    config, read = PartyConfig.load(folder), VerticalJob.load(job)
    if config.name not in read.parties(config):
        read.index(config)
    records = LearnedRecord.all_of(RunRoom.of(config, read))
    if format is Format.json:
        rows = [
            {"attempt": one.attempt, "begun": one.begun, "state": one.state, "rows": one.rows}
            for one in records
        ]
        print(json.dumps({"ok": True, "site": config.name, "records": rows}))
        return
    console = Console()
    for one in records:
        table = Table("what", "at most", "learned", "numbers", "why")
        # Of a process that was killed, or goes on, what was declared is all that is known.
        known = one.state != UNDER_WAY
        for row in one.rows:
            if row["learned"] or not known:
                most = "any number" if row["declared"] >= ANY_NUMBER else f"{row['declared']:,}"
                why = row["why"].removeprefix("release: ").removesuffix(f" ({row['name']})")
                seen = (f"{row['learned']:,}", f"{row['values']:,}") if known else ("unknown", "")
                table.add_row(*map(escape, (row["name"], most, *seen, why)))
        silent = sum(not row["learned"] for row in one.rows)
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.begun))
        head = f"{config.name}, {one.attempt}, begun {begun}: {one.state}"
        console.print(escape(head), soft_wrap=True)
        console.print(table)
        console.print(f"declared besides, and never seen: {silent}\n" if known else "")
    if not records:
        _say(format, f"{config.name} has taken part in no attempt of {read.run_id} yet")


def _class(label: Callable[[int], str], counts: list[int] | tuple[int, ...]) -> str:
    """Return the class with most records; the first of equal ones."""
    return label(max(range(len(counts)), key=lambda i: (counts[i], -i)))


def _words(what: str, fields: dict[str, Any]) -> str:
    """Say in words what has happened."""
    match what:
        case "token":
            path = " > ".join(fields["path"])
            many = "1 instance" if fields["instances"] == 1 else f"{fields['instances']} instances"
            return f"{many} from {fields['from']}: {path}"
        case "grown":
            return f"the tree is {_grown_text(fields)}"
        case "failed":
            return f"the attempt has ended, and nothing of it is kept. {fields['error']}"
        case "refused":
            return f"refused {fields['site']}: {fields['error']}"
    return f"{fields['site']} has not heard that the tree is grown: {fields['error']}"


def _grown_text(fields: dict[str, Any]) -> str:
    """Say from what a tree was grown, where it begins and how much of it lies here."""
    records, nodes = fields["records"], fields["nodes"]
    of = "" if records is None else f" from {records[0]:,} of the {records[1]:,} records here"
    lie = "1 node lies here" if nodes == 1 else f"{nodes:,} nodes lie here"
    return f"grown{of}; its root is {fields['root']}, {lie}"


def _progress(status: dict[str, Any], starter: str, *, begins: bool = False) -> str:
    """Say in words how far a run is, and whom it waits for."""
    away = set(status["away"])
    names = ", ".join(
        f"{name} (not reached)" if name in away else name for name in status["waiting_for"]
    )
    match status["state"]:
        case "gathering":
            return f"waiting for {names or 'all sites'} to serve the job"
        case "growing":
            sent = f"{status['messages']:,} messages, {status['bytes'] / 1e6:,.2f} MB sent"
            return f"growing: {f'waiting for {names}' if names else 'computing'}; {sent}"
        case "storing":
            return "grown; waiting until all sites have their nodes on disk"
        case "grown":
            return "answering"
    if begins:
        return "waiting for `hedgerow site train`, here in another terminal"
    return f"waiting for {starter} to begin"


@contextmanager
def _show_status(
    quiet: bool, format: Format, starter: str, *, events: bool = False, begins: bool = False
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield what shows a status on standard error, or prints a line of JSON, if it has changed."""
    before = ""
    with _line(quiet, format) as say:

        def show(status: dict[str, Any]) -> None:
            nonlocal before
            text = _progress(status, starter, begins=begins)
            if text == before:
                return
            before = text
            say(text)
            if events and format is Format.json:
                print(json.dumps({"event": "status", **status}), flush=True)

        yield show


@contextmanager
def _line(quiet: bool, format: Format) -> Iterator[Callable[[str], None]]:
    """Yield what replaces the line on standard error that says how far it is."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    hidden = quiet or format is Format.json
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=hidden
    ) as progress:
        task = progress.add_task("waiting", total=None)
        # Names come from another party.
        yield lambda text: progress.update(task, description=escape(text))


def _say(format: Format, text: str, **fields: Any) -> None:
    if format is Format.json:
        print(json.dumps({"ok": "error" not in fields, **fields}), flush=True)
    else:
        Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
