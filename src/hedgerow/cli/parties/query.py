"""``hedgerow query``: ask a model, as an analyst; or a tree in pieces, as who has some of it."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.completion import complete_model
from hedgerow.cli.printing import (
    HERE,
    DelimiterOption,
    EncodingOption,
    FolderArgument,
    ProbaOption,
    print_table,
)
from hedgerow.cli.sources import TABLE_HELP, SqlOption, SqlTimeoutOption, source_of

if TYPE_CHECKING:
    import pyarrow as pa

    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.queries.asking import ModelAnswers
    from hedgerow.tables import SqlQuery, TextFormat

_MOST_SHOWN = 1000
"""Rows of a table for people; more are printed as CSV."""


class AnswerFormat(StrEnum):
    """How answers are printed."""

    text = "text"
    json = "json"
    csv = "csv"


def query(
    model: Annotated[
        str,
        typer.Argument(help="name of the model, or its beginning", autocompletion=complete_model),
    ],
    rows: Annotated[str | None, typer.Argument(help=f"rows to ask about: {TABLE_HELP}")] = None,
    folder: FolderArgument = HERE,
    *,
    id: Annotated[
        list[str] | None,
        typer.Option("--id", help="at a site or peer: id of an instance; may be repeated"),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            help="column of the file with ids, for the answers; sites and peers ask by them"
        ),
    ] = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="at the class site: show the answers that it keeps")
    ] = False,
    proba: ProbaOption = False,
    out: Annotated[
        Path | None, typer.Option(help="file ending in .csv or .parquet, in place of printing")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a file of that name")] = False,
    timeout: Annotated[float, typer.Option(help="seconds to wait for the servers")] = 120.0,
    sql: SqlOption = None,
    sql_timeout: SqlTimeoutOption = None,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
    format: Annotated[
        AnswerFormat, typer.Option("--format", help="text for people, json and csv for programs")
    ] = AnswerFormat.text,
) -> None:
    """Ask for the class, or the value, of every row; answers name it by its number, from 0.

    Of a hidden model, the three servers answer, and none sees row or answer. What is published
    answers here, and nobody hears of the rows.

    A site asks the other sites, a peer the other peers, about instances by their ids: those of a
    file, in the column of ids that its own table has, or one by one (--id). No row of the file is
    sent; among peers all of them hear the ids, and who asks alone the answers.
    """
    from hedgerow.errors import Code
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.vertical.answering import is_in_pieces
    from hedgerow.tables import TextFormat
    from hedgerow.tables.writing import check_new

    if not timeout > 0:
        raise Code.BAD_PARAMETER.error(expected="--timeout above 0", found=f"{timeout}")
    if out is not None:
        # Answers are charged: what cannot be written is found out before.
        check_new(out, force=force)
    if rows is None or id or kept:
        # Without a file of rows, the folder is the first that is named.
        folder, rows = folder if rows is None else Path(rows), None
    source = None if rows is None else source_of(rows, sql, sql_timeout)
    config, text = PartyConfig.load(folder), TextFormat(delimiter, encoding)
    model, left = _find(config, model), None
    if source is None or is_in_pieces(config, model):
        asked = None if source is None else _read_ids(config, model, source, ids, text)
        table = _ask_holders(config, model, id or [], asked, kept=kept, proba=proba)
    else:
        table, left = _ask(config, model, source, ids, text, proba=proba, timeout=timeout)
    _show(table, model, left, format, out)


def _find(config: PartyConfig, model: str) -> str:
    """Return the model whose name begins so; H501 if several do.

    As it is if none does, or nobody tells: who is asked next says why, or is waited for.
    """
    from hedgerow.errors import Code, HedgerowError
    from hedgerow.parties.consortium.names import complete
    from hedgerow.parties.roles.server_reports import ModelClient
    from hedgerow.parties.store.models import list_models

    here = {one.name for one in list_models(config.state)}
    found = complete(model, here, "model")
    try:
        return found if found in here else ModelClient(config).find(model)
    except HedgerowError as error:
        if error.code is Code.BAD_PARAMETER:
            raise
        return model


def _ask(
    config: PartyConfig,
    model: str,
    rows: Path | SqlQuery,
    ids: str | None,
    text: TextFormat,
    *,
    proba: bool,
    timeout: float,
) -> tuple[pa.Table, int | None]:
    """Ask the servers, or a published model; the answers, and how many rows are left."""
    from hedgerow.parties.queries.asking import Analyst, Reader, answer_with_tree
    from hedgerow.tables import encode, read_table

    with Console(stderr=True).status(f"asking {escape(model)}") as status:
        known = Reader(config).find_published(model)
        if known is None:
            analyst = Analyst(config, timeout=timeout, waits=lambda why: status.update(escape(why)))
            known = analyst.find(model)
        asked = read_table(rows, domain=known.plan.domain, text=text)
        names = None if ids is None else _column(asked, ids)
        answers: ModelAnswers
        if known.tree is not None:
            answers = answer_with_tree(known, encode(asked, known.plan.domain), proba=proba)
            return answers.to_table(names), None
        answers = analyst.ask(known, asked, proba=proba)
    return answers.to_table(names), known.left - len(answers)


def _ask_holders(
    config: PartyConfig,
    model: str,
    one_by_one: list[str],
    asked: pa.ChunkedArray | None,
    *,
    kept: bool,
    proba: bool,
) -> pa.Table:
    """Ask those who have pieces of a tree, or return what the class site keeps."""
    import pyarrow as pa

    from hedgerow.errors import Code
    from hedgerow.parties.consortium.config import HOLDERS
    from hedgerow.parties.vertical.answering import ask_holders, kept_answers

    if config.role not in HOLDERS or bool(one_by_one) + kept + (asked is not None) != 1:
        raise Code.BAD_PARAMETER.error(
            expected="a file of rows; or, at a site or a peer, ids of instances or --kept",
            found=f"neither, or both, at {config.name}, which is {config.me.kind}",
            fix="`hedgerow query MODEL ROWS`, or at a site `hedgerow query MODEL --id ID`",
        )
    if kept:
        found, answers = kept_answers(config, model, proba=proba)
        return answers.to_table(pa.array(found))
    names: Any = pa.array(one_by_one) if asked is None else asked
    with Console(stderr=True).status(f"asking {escape(model)}"):
        told = ask_holders(config, model, names.cast(pa.string()).to_pylist(), proba=proba)
    if told is None:
        Console(stderr=True).print("The class site keeps the answers to itself.")
        return pa.table({"id": names[:0], "class": pa.array([], pa.string())})
    return told.to_table(names)


def _read_ids(
    config: PartyConfig, model: str, rows: Path | SqlQuery, ids: str | None, text: TextFormat
) -> pa.ChunkedArray:
    """Return the ids of a file, in the column that is named or that the site's own table has."""
    from hedgerow.parties.vertical.answering import id_column
    from hedgerow.tables import read_table

    return _column(read_table(rows, text=text), ids or id_column(config, model))


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    from hedgerow.errors import Code

    if name not in table.column_names:
        raise Code.MISSING_COLUMN.error(
            expected=f"a column {name!r} with ids",
            found=f"{', '.join(table.column_names[:10])}",
            fix="name the column of ids with --ids",
        )
    return table.column(name)


def _show(
    table: pa.Table, model: str, left: int | None, format: AnswerFormat, out: Path | None
) -> None:
    from hedgerow.parties.store.durable import replacing
    from hedgerow.tables.writing import write_pieces

    about: dict[str, Any] = {"ok": True, "model": model, "left": left}
    if out is not None:
        with replacing(out) as file:
            write_pieces([table], file, out.suffix.lower())
        n = table.num_rows
        as_json = json.dumps({**about, "out": str(out), "rows": n})
        print(as_json if format is AnswerFormat.json else f"{n:,} rows: {out}")
    elif format is AnswerFormat.json:
        print(json.dumps({**about, "rows": table.to_pylist()}))
    elif format is AnswerFormat.csv or table.num_rows > _MOST_SHOWN:
        write_pieces([table], sys.stdout.buffer, ".csv")
    elif table.num_rows:
        shown = Table(*(escape(name) for name in table.column_names))
        for record in table.to_pylist():
            shown.add_row(*(escape(_cell(value)) for value in record.values()))
        print_table(shown)
    if left is not None and format is AnswerFormat.text:
        # Others may have asked meanwhile.
        Console(stderr=True).print(f"{max(0, left):,} rows of {model} may still be asked, at most.")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        # As its column of probabilities, and files, have it.
        return str(value).lower()
    return f"{value:.3f}" if isinstance(value, float) else str(value)
