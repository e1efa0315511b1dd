"""Pieces of Parquet files: which rows they have, and that a change is noticed."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.parquet_pieces import ParquetPieces


def write(path: Path, first: int, n: int, group: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"a": list(range(first, first + n)), "b": [0] * n}
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


def code_of(function, *args) -> Code:
    with pytest.raises(HedgerowError) as caught:
        function(*args)
    return caught.value.code


@pytest.mark.parametrize("group", [3, 10, 100], ids=lambda g: f"groups of {g}")
@pytest.mark.parametrize("rows", [1, 7, 10, 1000])
def test_pieces_have_every_row_once_in_order(tmp_path: Path, group: int, rows: int) -> None:
    write(tmp_path / "two.parquet", 50, 33, group)
    write(tmp_path / "deep" / "one.parquet", 0, 50, group)
    pieces = ParquetPieces([tmp_path], ["a"], rows)
    found = list(pieces.read())
    assert [piece.number for piece in found] == list(range(len(pieces)))
    assert all(0 < piece.table.num_rows <= rows for piece in found)
    whole = pa.concat_tables([piece.table for piece in found])
    assert whole["a"].to_pylist() == list(range(83))
    assert {tuple(piece.table.column_names) for piece in found} == {("a",)}
    for piece in found:
        begin = 50 if piece.origin.endswith("two.parquet") else 0
        assert piece.table["a"][0].as_py() == begin + piece.first_row


def test_what_is_not_needed_is_not_read(tmp_path: Path) -> None:
    pieces = ParquetPieces([write(tmp_path / "a.parquet", 0, 100, 10)], ["a"], 10)
    assert [piece.number for piece in pieces.read({0, 1, 2, 5})] == [3, 4, 6, 7, 8, 9]
    assert list(pieces.read(range(10))) == []
    large = ParquetPieces([tmp_path / "a.parquet"], ["a"], 4)
    # Three pieces to a row group, which is read whole if one of them is needed.
    assert [piece.number for piece in large.read(set(range(30)) - {4})] == [3, 4, 5]


def test_refusals(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", 0, 10, 10)
    assert code_of(ParquetPieces, [tmp_path / "b.parquet"], ["a"], 5) is Code.UNREADABLE_FILE
    (tmp_path / "empty").mkdir()
    assert code_of(ParquetPieces, [tmp_path / "empty"], ["a"], 5) is Code.UNREADABLE_FILE
    assert code_of(ParquetPieces, [file], ["a", "z"], 5) is Code.MISSING_COLUMN
    broken = tmp_path / "c.parquet"
    broken.write_bytes(file.read_bytes()[:-9])
    assert code_of(ParquetPieces, [broken], ["a"], 5) is Code.UNREADABLE_FILE
    none = write(tmp_path / "d.parquet", 0, 0, 10)
    assert code_of(ParquetPieces, [none], ["a"], 5) is Code.EMPTY_TABLE


def test_a_file_that_changes_is_refused_before_and_while_it_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", 0, 10, 5)
    pieces = ParquetPieces([file], ["a"], 5)
    before = file.stat()
    assert len(list(pieces.read())) == 2
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert code_of(list, pieces.read()) is Code.TABLE_CHANGED
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    reading = pieces.read()
    next(reading)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert code_of(list, reading) is Code.TABLE_CHANGED
    file.unlink()
    assert code_of(list, pieces.read(range(2))) is Code.TABLE_CHANGED


def test_another_schema_is_refused_even_with_the_old_size_and_time(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", 0, 10, 5)
    pieces = ParquetPieces([file], ["a"], 5)
    before = file.stat()
    pq.write_table(pa.table({"a": range(10), "c": [0] * 10}), file, row_group_size=5)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert code_of(list, pieces.read()) is Code.TABLE_CHANGED


def test_what_is_not_parquet_is_not_said_to_be_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a,b\n1,2\n")
    (tmp_path / "empty").mkdir()
    for path in (file, tmp_path / "empty", tmp_path / "nowhere.parquet"):
        with pytest.raises(HedgerowError) as caught:
            ParquetPieces([path], ["a"], 5)
        assert caught.value.code is Code.UNREADABLE_FILE
        assert caught.value.expected.startswith("a Parquet file or a folder")
        assert str(path) in caught.value.found
        assert ("read_batches(path" in caught.value.fix) == path.exists()
