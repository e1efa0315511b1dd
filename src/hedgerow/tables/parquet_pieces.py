"""Parquet files as numbered pieces that can be read again, and whose change is noticed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hedgerow.errors import Code
from hedgerow.tables.column import name_list
from hedgerow.tables.frame import missing_columns
from hedgerow.tables.reading import numbered_errors, open_parquet, rechunk
from hedgerow.tables.sources.places import lacks_file, place_name

_EXPECTED = "a Parquet file or a folder of them: only these are read in pieces by their path"
_FIX = """\
check that the file is complete, or write the table to Parquet; other files are read by a \
function, Batches(lambda: read_batches(path, domain=domain), domain)"""


@dataclass(frozen=True)
class Piece:
    """Some rows of a table that is read in pieces; `first_row` is within `origin`."""

    number: int
    origin: str
    first_row: int
    table: pa.Table


@dataclass(frozen=True)
class _Run:
    """Consecutive row groups of one file: what is read at once, and the numbers of its pieces."""

    groups: tuple[int, ...]
    first_row: int
    numbers: range


@dataclass(frozen=True)
class _File:
    path: Path
    size: int
    modified: int
    schema: pa.Schema
    runs: tuple[_Run, ...]


class ParquetPieces:
    """The rows of Parquet files in pieces; the files are looked at once, here.

    Pieces follow from the order of the files, from their row groups and from `rows` alone: a piece
    is some whole row groups of one file, or a part of a large one. Of folders all ``*.parquet``
    within are read, by name; names of folders (``year=2024``) are not columns. H115 for what is not
    there or not Parquet, H107 for a file without one of the columns, H105 without rows unless
    `empty`.
    """

    def __init__(
        self, paths: Sequence[Path], columns: Sequence[str], rows: int, *, empty: bool = False
    ) -> None:
        self.columns, self.rows = list(columns), rows
        self._files: list[_File] = []
        for path in _files(paths):
            self._files.append(self._survey(path))
        if not len(self) and not empty:
            raise Code.EMPTY_TABLE.error(found=f"no rows in {name_list([str(p) for p in paths])}")

    def __len__(self) -> int:
        """Return the number of pieces."""
        return max((run.numbers.stop for file in self._files for run in file.runs), default=0)

    def _survey(self, path: Path) -> _File:
        stat = path.stat()
        with numbered_errors(path, expected=_EXPECTED, fix=_FIX), open_parquet(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        missing = [name for name in self.columns if name not in schema.names]
        if missing:
            raise missing_columns(missing, schema.names, f"{path}: ")
        runs: list[_Run] = []
        number, first_row, group = len(self), 0, 0
        while group < len(sizes):
            stop, n = group + 1, sizes[group]
            while stop < len(sizes) and n + sizes[stop] <= self.rows:
                n += sizes[stop]
                stop += 1
            numbers = range(number, number + -(-n // self.rows))
            if n:
                runs.append(_Run(tuple(range(group, stop)), first_row, numbers))
            number, first_row, group = numbers.stop, first_row + n, stop
        return _File(path, stat.st_size, stat.st_mtime_ns, schema, tuple(runs))

    def check(self) -> None:
        """Raise H119 if a file is not what it was."""
        for file in self._files:
            try:
                stat = file.path.stat()
            except OSError as error:
                raise Code.TABLE_CHANGED.error(found=f"{file.path}: {error.strerror}") from None
            if (stat.st_size, stat.st_mtime_ns) != (file.size, file.modified):
                raise Code.TABLE_CHANGED.error(
                    found=f"{file.path} was written after it was first looked at"
                )

    def read(self, without: Collection[int] = ()) -> Iterator[Piece]:
        """Read the pieces in order; those whose numbers are in `without` only where they must be.

        H115 for a file that cannot be read, H119 for one that has changed.
        """
        self.check()
        for file in self._files:
            runs = [run for run in file.runs if any(n not in without for n in run.numbers)]
            for run in runs:
                yield from self._read_run(file, run)
        # A change while the files were read.
        self.check()

    def _read_run(self, file: _File, run: _Run) -> Iterator[Piece]:
        with numbered_errors(file.path, expected=_EXPECTED), open_parquet(file.path) as reader:
            if not reader.schema_arrow.equals(file.schema):
                raise Code.TABLE_CHANGED.error(found=f"{file.path} has another schema")
            batches = reader.iter_batches(
                batch_size=self.rows, row_groups=list(run.groups), columns=self.columns
            )
            tables = rechunk((pa.Table.from_batches([batch]) for batch in batches), self.rows)
            for at, table in enumerate(tables):
                first_row = run.first_row + at * self.rows
                yield Piece(run.numbers[at], str(file.path), first_row, table)


def _files(paths: Sequence[Path]) -> list[Path]:
    """List the files of folders by name, in the order of `paths`."""
    found: list[Path] = []
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(file for file in path.rglob("*.parquet") if file.is_file())
            if not inside:
                raise Code.UNREADABLE_FILE.error(
                    expected=_EXPECTED, found=f"no *.parquet in the folder {path}", fix=_FIX
                )
            found += inside
        elif lacking := lacks_file(path):
            raise Code.UNREADABLE_FILE.error(
                expected=_EXPECTED, found=f"{place_name(path)} is {lacking}", fix="check the path"
            )
        else:
            found.append(path)
    return found
