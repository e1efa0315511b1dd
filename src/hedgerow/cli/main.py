"""``hedgerow``: the verbs. No logic lives here."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow import __version__
from hedgerow.cli import (
    account,
    consortium,
    domain,
    export,
    fit,
    foresight,
    models,
    predict,
    query,
    serve,
    show,
    site,
    topdown,
    train,
    upload,
)
from hedgerow.cli.advice import error_fields, print_error
from hedgerow.cli.formats import Format, FormatOption
from hedgerow.errors import Code, HedgerowError, HedgerowWarning, write_pages

if TYPE_CHECKING:
    from hedgerow import audit as auditor

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(domain.app, name="domain")
app.add_typer(consortium.app, name="consortium")
app.command()(consortium.keys)
app.command()(foresight.plan)
app.command()(train.train)
app.add_typer(train.app, name="runs")
app.add_typer(models.app, name="models")
app.command()(query.query)
app.command()(serve.serve)
app.command()(upload.upload)
app.command("align-key")(upload.align_key)
app.command()(fit.fit)
app.command()(predict.predict)
app.command()(show.show)
app.command()(export.export)
app.command()(export.ledger)
app.add_typer(account.app, name="account")
app.add_typer(topdown.app, name="topdown")
app.add_typer(site.app, name="site")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="and stop")
    ] = False,
) -> None:
    """One tree model for several organisations, and nobody's rows cross the hedge."""


@app.command()
def version(format: FormatOption = Format.text) -> None:
    """Print the version."""
    print(json.dumps({"version": __version__}) if format is Format.json else __version__)


@app.command()
def errors(
    number: Annotated[str | None, typer.Argument(help="such as H201")] = None,
    write: Annotated[Path | None, typer.Option(help="write one page per number here")] = None,
    format: FormatOption = Format.text,
) -> None:
    """List the numbered errors, explain one, or write their pages."""
    if write is not None:
        write_pages(write)
        return
    wanted = None if number is None else f"H{number.upper().removeprefix('H')}"
    codes = [code for code in Code if wanted in (None, code.number)]
    if not codes:
        raise Code.UNKNOWN_ERROR_NUMBER.error(found=str(number))
    if format is Format.json:
        rows = [
            {
                "number": code.number,
                "name": code.name,
                "title": code.spec.title,
                "expected": code.spec.expected,
                "fix": code.spec.fix,
                "why": code.spec.why,
            }
            for code in codes
        ]
        print(json.dumps({"rows": rows}))
    elif number is None:
        table = Table("number", "title", "what to do")
        for code in codes:
            table.add_row(code.number, escape(code.spec.title), escape(code.spec.fix))
        Console().print(table)
    else:
        from rich.markdown import Markdown

        Console().print(Markdown(codes[0].page()))


@app.command()
def audit(
    names: Annotated[list[str] | None, typer.Argument(help="targets to attack")] = None,
    all_: Annotated[bool, typer.Option("--all", help="attack every registered target")] = False,
    list_: Annotated[bool, typer.Option("--list", help="print the targets and stop")] = False,
    runs: Annotated[int | None, typer.Option(help="runs per neighbouring input, at most")] = None,
    details: Annotated[bool, typer.Option(help="say which attack was the best")] = False,
    seed: Annotated[
        int | None, typer.Option(help="repeatable noise, for tests of the auditor itself")
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Attack mechanisms, estimators and protocols; fail if one leaks more than its ledger says."""
    from hedgerow import audit as auditor
    from hedgerow.privacy import NoiseSource

    if list_:
        rows = [{"target": t.name, "kind": t.kind, "sound": t.sound} for t in auditor.targets()]
        if format is Format.json:
            print(json.dumps({"rows": rows}))
        else:
            table = Table("target", "kind", "sound")
            for row in rows:
                table.add_row(*(str(value) for value in row.values()))
            Console().print(table)
        return
    targets = auditor.targets() if all_ else [auditor.lookup(name) for name in names or []]
    if not targets:
        raise Code.UNKNOWN_TARGET.error(found="no target", fix="name a target or pass --all")
    source = NoiseSource.system() if seed is None else NoiseSource.insecure_seeded(seed)
    results = auditor.audit_all(targets, runs, source, track=_shown)
    if format is Format.json:
        print(auditor.to_json(results))
    else:
        Console().print(auditor.table(results, details=details))
    raise typer.Exit(auditor.exit_code(results))


def _shown(targets: Sequence[auditor.AuditTarget]) -> Iterator[auditor.AuditTarget]:
    """Go through targets and show which one is under attack."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed}/{task.total} attacking {task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=len(targets))
        for target in targets:
            progress.update(task, description=target.name)
            yield target
            progress.advance(task)


def main() -> None:
    """Run the command line; a numbered error is printed without a traceback."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say(warnings.showwarning)
            app()
    except HedgerowError as error:
        if _wants_json(sys.argv):
            print(json.dumps({"ok": False, **error_fields(error)}))
        print_error(error)
        sys.exit(2)


def _say(otherwise: Callable[..., None]) -> Callable[..., None]:
    """Return what prints a warning of Hedgerow without the line of code that it comes from."""

    def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, HedgerowWarning):
            otherwise(message, category, *where, **more)
            return
        Console(stderr=True).print(f"[bold yellow]warning:[/] {escape(str(message))}")

    return say


def _wants_json(arguments: list[str]) -> bool:
    pairs = pairwise(arguments)
    return "--format=json" in arguments or ("--format", "json") in pairs


if __name__ == "__main__":
    main()
