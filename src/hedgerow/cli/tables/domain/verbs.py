"""Verbs of ``hedgerow domain``: a draft from data that somebody confirms, and a check."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
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
    print_line,
)
from hedgerow.cli.sources import SqlOption, SqlTimeoutOption, TableArgument, source_of
from hedgerow.errors import Code, HedgerowError, ask_whether

if TYPE_CHECKING:
    from hedgerow.cli.tables.domain.guide import Draft
    from hedgerow.tables import Domain, SqlQuery
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
    public: Annotated[
        list[str] | None,
        typer.Option(
            "--public",
            metavar="NAME[=VALUES]",
            help="confirm that what was read of a column, or VALUES (0:120; a,b), is public",
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", help="a column that the domain has not")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(help="public upper bound on the number of rows")
    ] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="ask nothing, at a terminal neither")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="file for the domain; else printed")] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a file of that name")] = False,
    sql: SqlOption = None,
    sql_timeout: SqlTimeoutOption = None,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
) -> None:
    """Draft a domain from the data, show what was read, and ask what of it is public.

    At a terminal every column is asked about; in a script --public names what is confirmed. Until
    all columns are, the file is marked as read from the data, which private fits refuse.
    """
    from hedgerow.cli.tables.domain.guide import (
        Draft,
        ask,
        columns_of_moments,
        may_name_people,
        print_draft,
        unlisted,
    )
    from hedgerow.tables import Domain, TextFormat, read_table
    from hedgerow.tables.column import name_list

    if out is not None:
        _check_place(out, force=force)
    source = source_of(table, sql, sql_timeout)
    rows = read_table(source, text=TextFormat(delimiter, encoding))
    # Before anything is drafted: a column that is left out may be of a kind that has no domain.
    for name in leave_out or ():
        if name not in rows.column_names:
            raise Code.MISSING_COLUMN.error(
                expected=f"one of the columns {name_list(rows.column_names)}",
                found=repr(name) + ask_whether(name, rows.column_names),
            )
        rows = rows.drop_columns([name])
    made = read = Draft(
        Domain.suggest(rows, target, max_bins=bins, spacing="uniform", task=task.value, quiet=True),
        bins=bins,
        moments=columns_of_moments(rows),
    )
    for flag in public or ():
        made = made.confirm_flag(flag)
    if capacity is not None:
        made = made.with_capacity(capacity)
    note, people = Console(stderr=True), may_name_people(made, rows)
    print_draft(made, read, rows, note)
    if task is Task.auto:
        _say_classes(made.domain, note)
    for name, why in people.items():
        note.print(f"[bold red]{escape(name)!r} {why}: it may name people.[/] Take it out.")
    if not (draft or public) and sys.stdin.isatty() and sys.stderr.isatty():
        made = ask(made, rows, people, note)
    for name, values in unlisted(made, read).items():
        note.print(f"Read of {escape(repr(name))} and not listed: {escape(name_list(values))}.")
    _say_unconfirmed(made, note)
    if out is None:
        print(made.to_toml(), end="")
    else:
        _write(made.to_toml(), out)
        options = {"--sql": sql, "--delimiter": delimiter, "--encoding": encoding}
        check = _check_of(out, table, source, options)
        # What there is still to do to the file stands above.
        is_whole = not made.unconfirmed and made.domain.capacity is not None
        done = f"next, {check}" if is_whole else "written"
        print_line(f"{out}: {done}", stderr=True)


def _check_place(out: Path, *, force: bool) -> None:
    """Refuse a file that is there, H902, or cannot be made, H869, before anybody has answered."""
    if os.path.exists(out) and not force:
        raise Code.FILE_EXISTS.error(found=str(out))
    if os.path.isdir(out) or not os.path.isdir(out.parent):
        reason = "is a folder" if os.path.isdir(out) else "no such folder"
    elif not os.access(out.parent, os.W_OK | os.X_OK):
        reason = "nobody but others may write there"
    else:
        return
    raise Code.STATE_NOT_WRITTEN.error(
        expected="a file for --out in a folder that can be written to",
        found=f"{out}: {reason}",
        fix="choose another --out",
    )


def _write(text: str, out: Path) -> None:
    from hedgerow.parties.store.durable import replacing

    try:
        with replacing(out) as file:
            file.write(text.encode())
    except HedgerowError:
        # What somebody has answered is not to be answered again.
        print(text, end="")
        raise


def _check_of(
    out: Path, table: str, source: Path | SqlQuery, options: Mapping[str, str | None]
) -> str:
    """Return the command that checks the table, as it can be typed."""
    name = table
    try:
        if not isinstance(source, Path):
            source.to_keep()
    except HedgerowError:
        # It may have a password in it.
        name = "TABLE"
    usual = {"--sql": None, "--delimiter": ",", "--encoding": "utf-8"}
    more = [w for key, value in options.items() if value != usual[key] for w in (key, value or "")]
    return shlex.join(["hedgerow", "domain", "check", str(out), name, *more])


def _say_classes(draft: Domain, note: Console) -> None:
    classes = () if draft.target is None else draft.target.classes or ()
    numbers = [c for c in classes if isinstance(c, int | float) and not isinstance(c, bool)]
    if draft.target is not None and len(numbers) > FEW_CLASSES:
        note.print(
            f"The target {escape(draft.target.name)!r} was taken for {len(numbers)} classes, since "
            "its values are whole numbers. If it is a quantity, pass --task regression: it then "
            "has bounds."
        )


def _say_unconfirmed(draft: Draft, note: Console) -> None:
    from hedgerow.tables.column import name_list

    left = draft.unconfirmed
    if left:
        note.print(
            f"NOT PUBLIC: the facts of {escape(name_list(left))} were READ FROM THE DATA, and "
            "nobody has confirmed them; private fits refuse this domain. Name what is public "
            '(--public), or correct the file by hand and set provenance = "confirmed public".'
        )
    if draft.domain.capacity is None:
        note.print("No capacity: pass --capacity, a public upper bound on the number of rows.")


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
