"""Tables from files, CSV, Parquet and Arrow, and from databases; whole or in batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.attribute import Target
from hedgerow.tables.domain import Domain
from hedgerow.tables.sources.cells import BadCells, kinds_of, read_cells
from hedgerow.tables.sources.places import lacks_file, place_name
from hedgerow.tables.sources.sql import SqlQuery
from hedgerow.tables.sources.text import PLAIN, TextFormat, record_pieces, wrong_encoding

_Format = Literal["csv", "parquet", "arrow"]
FORMATS: dict[str, _Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
# The Arrow file format begins with this; the stream format does not.
_ARROW_FILE = b"ARROW1"
# What Arrow says of a cell that it cannot convert; it knows neither the name nor the row.
_CELLS = re.compile(r"Expected (\d+) columns?, got \d+")
_BAD_CELL = re.compile(
    r"In CSV column #(?P<column>\d+): .*conversion error to (?P<type>[^:]+): "
    r"invalid value '(?P<value>.*)'",
    re.DOTALL,
)
# What Arrow, and `_clean_csv`, say of text in another encoding.
_NOT_UTF8 = ("not UTF-8 text", "invalid UTF8")


def read_table(
    path: str | Path | SqlQuery,
    *,
    domain: Domain | Target | None = None,
    text: TextFormat = PLAIN,
    bad: list[BadCells] | None = None,
    absorbed: AbsorbedRows | None = None,
) -> pa.Table:
    """Read a file whole: .csv, .parquet, .arrow, .feather or .ipc, which chooses the reader.

    Or what a query finds in a database, whose columns have types as those of Parquet have.

    CSV has no types: with a domain every cell is read alone, under the declared kind of its column
    ("007" stays "007" where categories are strings, and is 7 where they are numbers; a date is
    seconds), and other columns stay text; a target alone will do. Without one, types are guessed
    from all rows. An empty cell is null. Cells that do not spell what the domain says are refused,
    or null and noted in `bad`.

    With `absorbed` nothing that a row holds is refused, and there may be no rows: cells as in `bad`
    are null, lines of a CSV file with more or fewer cells than names are left out, bytes that are
    not UTF-8 are replaced. It counts them, for the owner's eyes only. For CSV it takes a domain.

    H115 if there is no such file or it cannot be read, H903 or H904 if a CSV file has another
    delimiter or encoding than `text`, H105 if it has no rows; for a query H120, H121 and H122.
    """
    if isinstance(path, SqlQuery):
        return pa.concat_tables(read_batches(path, absorbed=absorbed))
    path = Path(path)
    kind = _format(path, text, domain)
    with numbered_errors(path):
        if kind == "csv":
            if domain is None:
                table = _clean_csv(pa.csv.read_csv(path, text.read, text.parse))
            else:
                table = pa.concat_tables(_csv_batches(path, domain, text, bad, absorbed))
        elif kind == "parquet":
            with open_parquet(path) as file:
                table = file.read()
        else:
            with _open_arrow(path) as reader:
                table = reader.read_all()
            _check_buffers(table, absorbed)
    if absorbed is None:
        _not_empty(table.num_rows, path)
    return table


def read_batches(
    path: str | Path | SqlQuery,
    *,
    rows: int = 65_536,
    domain: Domain | Target | None = None,
    text: TextFormat = PLAIN,
    bad: list[BadCells] | None = None,
    absorbed: AbsorbedRows | None = None,
) -> Iterator[pa.Table]:
    """Read a file in pieces of exactly `rows` rows, but for the last; as `read_table`.

    Without a domain the types of a CSV file are taken from its beginning, and a later line may not
    fit them. `bad` is complete when the pieces are. With `absorbed` a file without rows is one
    empty piece. H115 when a piece cannot be read, H501 if `rows` is not positive.
    """
    if rows < 1:
        raise Code.BAD_PARAMETER.error(expected="rows of at least 1", found=f"rows={rows}")
    if isinstance(path, SqlQuery):
        return _pieces(path, _sql_batches(path, absorbed), rows, absorbed)
    path = Path(path)
    kind = _format(path, text, domain)
    if kind == "csv":
        return _pieces(path, _csv_batches(path, domain, text, bad, absorbed), rows, absorbed)
    batches = _parquet_batches(path, rows) if kind == "parquet" else _arrow_batches(path, absorbed)
    return _pieces(path, batches, rows, absorbed)


def _pieces(
    path: Path | SqlQuery, tables: Iterable[pa.Table], rows: int, absorbed: AbsorbedRows | None
) -> Iterator[pa.Table]:
    n_rows, empty = 0, None
    with numbered_errors(path):
        for piece in rechunk(tables, rows):
            n_rows += piece.num_rows
            empty = piece if not piece.num_rows else None
            if empty is None:
                yield piece
    if absorbed is None:
        _not_empty(n_rows, path)
    elif empty is not None:
        yield empty


def _format(path: Path, text: TextFormat, domain: Domain | Target | None) -> _Format:
    """Choose the reader, or say why there is nothing to read."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise Code.UNREADABLE_FILE.error(
            expected=f"a file ending in {', '.join(FORMATS)}", found=place_name(path)
        )
    if lacking := lacks_file(path):
        raise Code.UNREADABLE_FILE.error(found=f"{place_name(path)} is {lacking}")
    if path.stat().st_size == 0:
        raise Code.UNREADABLE_FILE.error(found=f"{path} has 0 bytes")
    if kind == "csv":
        text.check(path, None if domain is None else kinds_of(domain))
    return kind


@contextmanager
def numbered_errors(
    path: Path | SqlQuery, *, expected: str | None = None, fix: str | None = None
) -> Iterator[None]:
    """Raise what Arrow and the operating system say of a file as H115, or H904 if not UTF-8."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise wrong_encoding(str(path), str(error)) from None
    except (pa.ArrowException, OSError) as error:
        if any(words in str(error) for words in _NOT_UTF8):
            raise wrong_encoding(str(path), str(error)) from None
        cells = _CELLS.search(str(error))
        if cells is not None:
            expected = f"{cells[1]} cells in every line, as in the line of names"
            fix = "correct that line; a cell that has the separator in it stands in double quotes"
        raise Code.UNREADABLE_FILE.error(
            expected=expected, found=f"{path}: {error}", fix=fix
        ) from None


@contextmanager
def _cells_of(path: Path, names: Sequence[str]) -> Iterator[None]:
    """Say of a CSV cell that does not fit its column which column that is, and what it holds."""
    try:
        yield
    except pa.ArrowInvalid as error:
        cell = _BAD_CELL.search(str(error))
        if cell is None or int(cell["column"]) >= len(names):
            raise
        name = names[int(cell["column"])]
        raise _bad_cell(path, name, cell["type"], cell["value"]) from None


def bad_cells(path: Path | SqlQuery, cells: BadCells) -> HedgerowError:
    """Build H115 for cells that do not spell what the domain says, for their owner's eyes."""
    place = f", row {cells.rows[0]}; rows counted from 0"
    return _bad_cell(path, cells.column, cells.kind, cells.texts[0], place)


def _bad_cell(
    path: Path | SqlQuery, column: str, expected: str, value: str, place: str = ""
) -> HedgerowError:
    return Code.UNREADABLE_FILE.error(
        expected=f"a {expected} in every cell of column {column!r}",
        found=f"{path}: the value {value!r} in column {column!r}{place}",
        fix="correct the value, or check the column's kind in the domain; leave a cell empty "
        "where the value is missing",
    )


def _not_empty(n_rows: int, path: Path | SqlQuery) -> None:
    if not n_rows:
        raise Code.EMPTY_TABLE.error(found=f"no rows in {path}")


def _clean_csv(table: pa.Table) -> pa.Table:
    """Make empty cells of string columns null, as Arrow does for all other types.

    Arrow's own switch would also turn the strings "NA" and "null" into nulls, and these may be
    categories. Text that is not UTF-8 comes from Arrow as bytes and is refused.
    """
    for i, (name, field) in enumerate(zip(table.schema.names, table.schema, strict=True)):
        if pa.types.is_binary(field.type):
            raise pa.ArrowInvalid(f"column {name!r} is not UTF-8 text")
        if pa.types.is_string(field.type):
            column = table.column(i)
            blank = pc.equal(column, "")
            table = table.set_column(i, field, pc.if_else(blank, None, column))
    return table


def _csv_batches(
    path: Path,
    domain: Domain | Target | None,
    text: TextFormat,
    bad: list[BadCells] | None,
    absorbed: AbsorbedRows | None,
) -> Iterator[pa.Table]:
    """Give the rows of a CSV file; one table without rows at the least, with its names."""
    kinds = None if domain is None else kinds_of(domain)
    first_row = 0
    for table in _csv_tables(path, domain, text, absorbed):
        if kinds is None:
            yield _clean_csv(table)
            continue
        table, wrong = read_cells(table, kinds, first_row)
        if wrong and bad is None and absorbed is None:
            raise bad_cells(path, wrong[0])
        for cells in wrong:
            if absorbed is not None:
                absorbed.count(cells.column, unreadable=len(cells.rows))
            elif bad is not None:
                bad.append(cells)
        yield table
        first_row += table.num_rows


def _csv_tables(
    path: Path, domain: Domain | Target | None, text: TextFormat, absorbed: AbsorbedRows | None
) -> Iterator[pa.Table]:
    """Parse a CSV file; with a domain all cells are text."""
    parse = text.parse
    if absorbed is not None:

        def broken(row: Any) -> str:
            absorbed.count_rows(broken=1)
            return "skip"

    types: dict[str, pa.DataType] = {}
    names: list[str] | None = None
    n_rows = 0
    for piece in record_pieces(path, text, "strict" if absorbed is None else "replace"):
        if names is None and absorbed is not None:
            parse.invalid_row_handler = lambda row: "skip"
            # Every byte is a character of Latin-1, and no name depends on those of a row.
            read = _parse(piece.decode("latin-1").encode(), None, parse, {}).schema.names
            names = [name.encode("latin-1").decode() for name in read]
            types = dict.fromkeys(names, pa.string())
            parse.invalid_row_handler = broken
            table = _parse(_replaced(piece), None, parse, types)
        elif names is None:
            schema = _parse(piece, None, parse, {}).schema
            types = dict(zip(schema.names, schema.types, strict=True))
            if domain is not None:
                types = dict.fromkeys(types, pa.string())
            table = _parse(piece, None, parse, types)
            names = schema.names
        elif piece.strip(b"\r\n"):
            if absorbed is not None:
                piece = _replaced(piece)
            with _cells_of(path, names):
                table = _parse(piece, names, parse, types, n_rows + 1)
        else:
            continue
        n_rows += table.num_rows
        yield table
    if names is None:
        raise pa.ArrowInvalid("no line of names")


def _replaced(piece: bytes) -> bytes:
    """Replace what is not UTF-8: Arrow refuses such a line before anybody may leave it out."""
    return piece.decode("utf-8", "replace").encode()


def _parse(
    piece: bytes,
    names: list[str] | None,
    parse: pa.csv.ParseOptions,
    types: dict[str, pa.DataType],
    rows_before: int = 0,
) -> pa.Table:
    """Parse whole records, after their names where these are not given."""
    read = pa.csv.ReadOptions(column_names=names, block_size=len(piece) + 1)
    convert = pa.csv.ConvertOptions(column_types=types)
    try:
        return pa.csv.read_csv(pa.BufferReader(piece), read, parse, convert)
    except pa.ArrowInvalid:
        # Arrow knows the number of a row only where it reads one after the other.
        read.use_threads = False
        try:
            return pa.csv.read_csv(pa.BufferReader(piece), read, parse, convert)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(
                re.sub(
                    r"Row #(\d+)", lambda m: f"Row #{int(m[1]) + rows_before}", str(error), count=1
                )
            ) from None


def open_parquet(path: Path) -> pa.parquet.ParquetFile:
    """Open a Parquet file; its dictionaries of text are read as they are stored."""
    file = pa.parquet.ParquetFile(path)
    coded = [
        field.name
        for field in file.schema_arrow
        if pa.types.is_dictionary(field.type) and pa.types.is_string(field.type.value_type)
    ]
    if not coded:
        return file
    # Arrow would cast them to the indices of whoever wrote it, and refuse all for one bad text.
    file.close()
    return pa.parquet.ParquetFile(path, read_dictionary=coded)


def _parquet_batches(path: Path, rows: int) -> Iterator[pa.Table]:
    with open_parquet(path) as file:
        for batch in file.iter_batches(batch_size=rows):
            yield pa.Table.from_batches([batch])
        yield file.schema_arrow.empty_table()


def _arrow_batches(path: Path, absorbed: AbsorbedRows | None) -> Iterator[pa.Table]:
    with _open_arrow(path) as reader:
        if isinstance(reader, pa.ipc.RecordBatchFileReader):
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in batches:
            table = pa.Table.from_batches([batch])
            _check_buffers(table, absorbed)
            yield table
        yield reader.schema.empty_table()


def _sql_batches(query: SqlQuery, absorbed: AbsorbedRows | None) -> Iterator[pa.Table]:
    for table in query.batches():
        _check_buffers(table, absorbed)
        yield table


def _check_buffers(table: pa.Table, absorbed: AbsorbedRows | None) -> None:
    """Refuse offsets and indices that point outside of their file, which nothing in it guards.

    Values are refused as well, such as a text that is not UTF-8, unless rows are absorbed.
    """
    if absorbed is None:
        table.validate(full=True)
        return
    for column in table.columns:
        for chunk in column.chunks:
            _check_structure(chunk)


def _check_structure(array: pa.Array) -> None:
    array.validate()
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # As bytes, of which every value is one.
        array.view(pa.binary() if pa.types.is_string(kind) else pa.large_binary()).validate(
            full=True
        )
    elif pa.types.is_dictionary(kind):
        of_entry = pa.nulls(len(array.dictionary))
        pa.DictionaryArray.from_arrays(array.indices, of_entry, safe=False).validate(full=True)
        _check_structure(array.dictionary)
    elif pa.types.is_union(kind):
        codes = [kind.type_codes[i] for i in range(kind.num_fields)]
        if not np.isin(array.type_codes.to_numpy(), codes).all():
            raise pa.ArrowInvalid("a union with a type that it does not have")
        for i in range(kind.num_fields):
            _check_structure(array.field(i))


def _open_arrow(path: Path) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    with path.open("rb") as file:
        is_file = file.read(len(_ARROW_FILE)) == _ARROW_FILE
    source = pa.memory_map(str(path))
    return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)


def rechunk(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut tables of one schema into pieces, without copying; one is empty if there are no rows."""
    waiting: list[pa.Table] = []
    n_waiting, cut = 0, False
    for table in tables:
        waiting.append(table)
        n_waiting += table.num_rows
        if n_waiting < rows:
            continue
        joined = pa.concat_tables(waiting)
        whole = n_waiting - n_waiting % rows
        for start in range(0, whole, rows):
            yield joined.slice(start, rows)
        waiting, n_waiting, cut = [joined.slice(whole)], n_waiting - whole, True
    if n_waiting or (waiting and not cut):
        yield pa.concat_tables(waiting)
