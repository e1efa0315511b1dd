"""``hedgerow predict``: what a public model says of the rows of a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.printing import (
    DelimiterOption,
    EncodingOption,
    Format,
    FormatOption,
    ProbaOption,
)
from hedgerow.cli.sources import SqlOption, SqlTimeoutOption, TableArgument, source_of


def predict(
    model: Annotated[Path, typer.Argument(help="model file (JSON)")],
    table: TableArgument,
    *,
    proba: ProbaOption = False,
    out: Annotated[
        Path | None, typer.Option(help="file ending in .csv or .parquet; else CSV is printed")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a file of that name")] = False,
    sql: SqlOption = None,
    sql_timeout: SqlTimeoutOption = None,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
    format: FormatOption = Format.text,
) -> None:
    """Predict every row with a model of a file; its columns are found by name."""
    from hedgerow.parties.store.durable import replacing
    from hedgerow.tables import TextFormat
    from hedgerow.tables.writing import check_new, write_pieces
    from hedgerow.trees import read_model
    from hedgerow.trees.table_answers import answer_table

    if out is not None:
        check_new(out, force=force)
    rows, text = source_of(table, sql, sql_timeout), TextFormat(delimiter, encoding)
    pieces = answer_table(read_model(model).model, rows, proba=proba, text=text)
    if out is not None:
        with replacing(out) as file:
            n_rows = write_pieces(pieces, file, out.suffix.lower())
        as_json = json.dumps({"ok": True, "out": str(out), "rows": n_rows})
        print(as_json if format is Format.json else f"{n_rows:,} rows: {out}")
    elif format is Format.json:
        print(json.dumps({"ok": True, "rows": [row for p in pieces for row in p.to_pylist()]}))
    else:
        write_pieces(pieces, sys.stdout.buffer, ".csv")
