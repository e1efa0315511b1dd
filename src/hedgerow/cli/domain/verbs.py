"""``hedgerow domain``: what is public about a table, drafted and checked."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from hedgerow.cli.printing import (
    DelimiterOption,
    EncodingOption,
    Format,
    FormatOption,
    error_fields,
    print_error,
)
from hedgerow.cli.sources import SqlOption, SqlTimeoutOption, TableArgument, source_of

if TYPE_CHECKING:
    from hedgerow.tables.checking import TableCheck

app = typer.Typer(help="Write and check the public domain of a table.", no_args_is_help=True)

FEW_CLASSES = 10
"""So many whole numbers may well be classes; more of them may as well be a quantity."""

REFUSED = 2
"""Exit code of a check that found what a fit refuses."""


class Task(StrEnum):
    """What is to be predicted."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


@app.command("suggest")
def suggest(
    table: TableArgument,
    target: Annotated[str | None, typer.Option(help="column to predict")] = None,
    task: Annotated[
        Task, typer.Option(help="auto: at most 100 different whole numbers are classes")
    ] = Task.auto,
    bins: Annotated[int, typer.Option(help="largest number of bins of a numeric column")] = 32,
    sql: SqlOption = None,
    sql_timeout: SqlTimeoutOption = None,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
) -> None:
    """Print a draft of the domain as TOML: it reads the data, so check every value by hand."""
    from hedgerow.tables import Domain, TextFormat, read_table

    source = source_of(table, sql, sql_timeout)
    rows = read_table(source, text=TextFormat(delimiter, encoding))
    draft = Domain.suggest(
        rows, target, max_bins=bins, spacing="uniform", task=task.value, quiet=True
    )
    note = Console(stderr=True)
    note.print(
        "This draft was READ FROM THE DATA. Take out columns that name people, check every bound, "
        "category and class against public knowledge, add a line such as capacity = 1000 (an upper "
        'bound on the number of rows), then set provenance = "confirmed public".'
    )
    classes = () if draft.target is None else draft.target.classes or ()
    numbers = [c for c in classes if isinstance(c, int | float) and not isinstance(c, bool)]
    if task is Task.auto and target is not None and len(numbers) > FEW_CLASSES:
        note.print(
            f"The target {escape(target)!r} was taken for {len(numbers)} classes, since its values "
            "are whole numbers. If it is a quantity, pass --task regression: it then has bounds."
        )
    for attribute in draft.attributes:
        if attribute.kind == "categorical" and 2 * attribute.n_values > rows.num_rows:
            note.print(
                f"[bold red]{escape(attribute.name)!r} lists {attribute.n_values} values of "
                f"{rows.num_rows} rows: it may name people.[/] Take it out."
            )
    print(draft.to_toml(), end="")


@app.command("check")
def check(
    domain: Annotated[Path, typer.Argument(help="domain file (TOML)")],
    table: TableArgument,
    ids: Annotated[
        str | None, typer.Option(help="column of ids: a person in two rows is found")
    ] = None,
    sql: SqlOption = None,
    sql_timeout: SqlTimeoutOption = None,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
    format: FormatOption = Format.text,
) -> None:
    """Say all that does not fit the domain, and what is clipped, for the owner's eyes."""
    from hedgerow.tables import Domain, TextFormat, read_table
    from hedgerow.tables.checking import check_table
    from hedgerow.tables.reading import bad_cells
    from hedgerow.tables.sources.cells import BadCells

    source = source_of(table, sql, sql_timeout)
    public, bad = Domain.from_toml(domain), list[BadCells]()
    rows = read_table(source, domain=public, text=TextFormat(delimiter, encoding), bad=bad)
    # Of each column the first that a reader meets.
    unread = {cells.column: bad_cells(source, cells) for cells in reversed(bad)}
    found = check_table(rows, public, unread, ids=ids)
    if format is Format.json:
        report = {
            "ok": found.fits,
            "rows": found.rows,
            "attributes": found.attributes,
            "clipped": found.clipped,
            "problems": [error_fields(problem) for problem in found.problems],
        }
        print(json.dumps(report))
    else:
        _print(found)
    raise typer.Exit(0 if found.fits else REFUSED)


def _print(found: TableCheck) -> None:
    if found.fits:
        print(f"{found.rows:,} rows fit the domain of {found.attributes} attributes.")
    for problem in found.problems:
        print_error(problem)
    for name, count in found.clipped.items():
        values = "1 value" if count == 1 else f"{count:,} values"
        print(f"{values} of {name!r} will be clipped: outside what the domain declares")
