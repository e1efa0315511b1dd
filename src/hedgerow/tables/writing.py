"""Tables to files, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hedgerow.errors import Code

ENDINGS = (".csv", ".parquet")


def check_new(path: Path, *, force: bool = False) -> None:
    """Raise H115 for a file that cannot be written by its ending, H902 for one that is there."""
    if path.suffix.lower() not in ENDINGS:
        raise Code.UNREADABLE_FILE.error(
            expected=f"a file ending in {' or '.join(ENDINGS)}",
            found=f"{path.name!r}",
            fix="choose one of these endings",
        )
    if os.path.exists(path) and not force:
        raise Code.FILE_EXISTS.error(found=str(path))


def write_pieces(pieces: Iterable[pa.Table], file: BinaryIO, ending: str) -> int:
    """Write at least one table, all of one schema, as ".csv" or ".parquet"; return the rows."""
    writer: Any = None
    n_rows = 0
    try:
        for piece in pieces:
            if writer is None:
                if ending == ".csv":
                    options = pa.csv.WriteOptions(quoting_style="needed")
                    writer = pa.csv.CSVWriter(file, piece.schema, write_options=options)
                else:
                    writer = pa.parquet.ParquetWriter(file, piece.schema)
            writer.write_table(piece)
            n_rows += piece.num_rows
    finally:
        if writer is not None:
            writer.close()
    return n_rows
