"""``hedgerow``: puts the verbs together, and prints errors and warnings."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from hedgerow import __version__
from hedgerow.cli import audit, errors, papers
from hedgerow.cli.doctor import doctor
from hedgerow.cli.manual import Verbs, describe
from hedgerow.cli.model_files import export, predict, report
from hedgerow.cli.parties import (
    account,
    consortium,
    evaluate,
    models,
    plan,
    query,
    serve,
    train,
    upload,
    uploads,
)
from hedgerow.cli.printing import error_fields, print_error
from hedgerow.cli.tables import domain, fit
from hedgerow.errors import HedgerowError, HedgerowWarning

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    cls=Verbs,
)
app.add_typer(domain.app, name="domain")
app.add_typer(consortium.app, name="consortium")
app.command()(consortium.keys)
app.command()(plan.plan)
app.command()(plan.estimate)
app.command()(train.train)
app.add_typer(train.app, name="runs")
app.add_typer(models.app, name="models")
app.command()(query.query)
app.command()(evaluate.evaluate)
app.command()(serve.serve)
app.command()(upload.upload)
app.add_typer(uploads.app, name="uploads")
app.command("align-key")(upload.align_key)
app.command()(fit.fit)
app.command()(predict.predict)
app.command()(report.show)
app.command()(report.report)
app.command()(export.export)
app.command()(export.ledger)
app.add_typer(account.app, name="account")
app.add_typer(account.trail_app, name="trail")
app.command()(errors.version)
app.command()(doctor)
app.command()(errors.errors)
app.command()(papers.papers)
app.command()(audit.audit)

describe(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print it and stop"),
    ] = False,
) -> None:
    """One tree model for several organisations, and nobody's rows cross the hedge."""


def main() -> None:
    """Run the command line; a numbered error is printed without a traceback."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warning_printer(warnings.showwarning)
            app()
    except HedgerowError as error:
        if _wants_json(sys.argv):
            print(json.dumps({"ok": False, **error_fields(error)}))
        print_error(error)
        sys.exit(2)


def _warning_printer(otherwise: Callable[..., None]) -> Callable[..., None]:
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
