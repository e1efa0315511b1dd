"""Batches: the rows of the whole table, kept or read again; what is refused, and where."""

import os
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow import Attribute, Batches, Domain, Target, threads
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import encode, read_batches
from hedgerow.tables.batches import map_ahead

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=300, outside="error"),
        Attribute(name="ward", kind="categorical", categories=("a", "b"), missing="own bin"),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=1000,
)
N = 400


def table(n: int = N) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "id": np.arange(n),
            "ward": np.array(["a", "b", None], dtype=object)[rng.integers(0, 3, n)],
            "ill": np.array(["no", "yes"])[rng.integers(0, 2, n)],
            "age": rng.uniform(0, 100, n),
        }
    )


def parquet(folder: Path, rows: pa.Table | None = None, name: str = "t.parquet") -> Path:
    pq.write_table(table() if rows is None else rows, folder / name, row_group_size=90)
    return folder / name


def error_of(function, *args, **kwargs) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        function(*args, **kwargs)
    return caught.value


def joined(batches: Batches) -> tuple[list[int], np.ndarray, np.ndarray]:
    numbers, rows = zip(*batches, strict=True)
    bins, target = (np.concatenate([getattr(e, k) for e in rows]) for k in ("bins", "target"))
    return list(numbers), bins, target


def sources(folder: Path) -> dict[str, object]:
    whole = table()
    parts = [whole.slice(i, 90) for i in range(0, N, 90)]
    return {
        "file": parquet(folder),
        "name": str(folder / "t.parquet"),
        "folder": folder,
        "tables": parts,
        "pandas": [part.to_pandas() for part in parts],
        "reader": lambda: pa.RecordBatchReader.from_batches(
            whole.schema, whole.to_batches(max_chunksize=90)
        ),
        "generator": lambda: read_batches(folder / "t.parquet", rows=90),
        "with empty ones": lambda: [parts[0], whole.slice(0, 0), *parts[1:]],
    }


@pytest.mark.parametrize("cache_bytes", [0, 1000, 1 << 20], ids=["none", "some", "all"])
@pytest.mark.parametrize(
    "kind",
    ["file", "name", "folder", "tables", "pandas", "reader", "generator", "with empty ones"],
)
def test_batches_are_the_whole_table_in_every_pass(
    tmp_path: Path, kind: str, cache_bytes: int
) -> None:
    source = sources(tmp_path)[kind]
    batches = Batches(source, DOMAIN, rows=90, cache_bytes=cache_bytes)
    expected = encode(table(), DOMAIN, "ill")
    for _ in range(3):
        numbers, bins, target = joined(batches)
        assert numbers == list(range(6 if kind == "with empty ones" else 5))
        np.testing.assert_array_equal(bins, expected.bins)
        np.testing.assert_array_equal(target, expected.target)
    assert batches.n_records == N
    # 90 rows of two uint16 bins, a class and a presence bit.
    assert batches._cached_bytes <= cache_bytes
    assert (batches._cached_bytes > 0) == (cache_bytes > 0)


def test_a_full_cache_reads_nothing_again_and_a_small_one_does() -> None:
    opened = []

    def source() -> list[pa.Table]:
        opened.append(1)
        return [table()]

    for cache_bytes, times in ((1 << 20, 1), (0, 4)):
        opened.clear()
        batches = Batches(source, DOMAIN, cache_bytes=cache_bytes)
        assert batches.n_records == batches.n_records == N
        for _ in range(3):
            joined(batches)
        assert len(opened) == times


def test_errors_name_the_file_the_row_in_it_and_the_column(tmp_path: Path) -> None:
    age = table()["age"].to_numpy().copy()
    age[317] = 150.0
    bad = table().set_column(3, "age", pa.array(age))
    parquet(tmp_path, name="good.parquet")
    file = parquet(tmp_path, bad, "later.parquet")
    error = error_of(lambda: Batches(tmp_path, DOMAIN, rows=50).n_records)
    assert error.code is Code.OUTSIDE_BOUNDS
    assert str(file) in error.found
    assert "row 317: 150.0" in error.found
    assert "'age'" in error.found
    error = error_of(lambda: Batches([table(), bad], DOMAIN).n_records)
    assert "table 1: 1 row of column 'age' (row 317: 150.0" in error.found
    file = parquet(tmp_path, table().drop_columns("ward"), "less.parquet")
    error = error_of(Batches, tmp_path, DOMAIN)
    assert (error.code, str(file) in error.found) == (Code.MISSING_COLUMN, True)


def test_sources_that_cannot_be_read_again_are_refused() -> None:
    reader = table().to_reader()
    for source in (reader, iter([table()]), 3, [], ["t.parquet", table()]):
        assert error_of(Batches, source, DOMAIN).code is Code.WRONG_TYPE
    assert "once" in error_of(Batches, reader, DOMAIN).found
    bare = DOMAIN.model_copy(update={"target": None})
    assert error_of(Batches, [table()], bare).code is Code.BAD_TARGET
    assert error_of(Batches, [table()], DOMAIN, rows=0).code is Code.BAD_PARAMETER
    assert error_of(Batches, [table()], DOMAIN, cache_bytes=-1).code is Code.BAD_PARAMETER
    empty = Batches([table().slice(0, 0)], DOMAIN)
    assert error_of(lambda: empty.n_records).code is Code.EMPTY_TABLE


@pytest.mark.parametrize("cache_bytes", [0, 300], ids=["none kept", "one kept"])
@pytest.mark.parametrize("change", ["order", "fewer rows", "fewer batches", "more batches"])
def test_other_rows_in_a_later_pass_are_refused(change: str, cache_bytes: int) -> None:
    first = [table().slice(i, 50) for i in range(0, N, 50)]
    last = first[-1]
    later = {
        "order": [*first[:-1], last.take(list(range(50))[::-1])],
        "fewer rows": [*first[:-1], last.slice(1)],
        "fewer batches": first[:-1],
        "more batches": [*first, last],
    }[change]
    passes = iter([first, later])
    batches = Batches(lambda: next(passes), DOMAIN, cache_bytes=cache_bytes)
    assert batches.n_records == N
    assert error_of(joined, batches).code is Code.TABLE_CHANGED


def test_a_file_that_was_written_again_is_refused_even_if_its_rows_are_kept(tmp_path: Path) -> None:
    file = parquet(tmp_path)
    batches = Batches(file, DOMAIN)
    assert batches.n_records == N
    assert batches._cached_bytes > 0
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
    assert error_of(joined, batches).code is Code.TABLE_CHANGED


def test_an_interrupted_first_pass_is_made_up_for() -> None:
    batches = Batches([table().slice(i, 50) for i in range(0, N, 50)], DOMAIN)
    passing = batches.each(lambda number, encoded: number)
    assert next(passing) == 0
    passing.close()
    assert batches.n_records == N


def test_numbers_as_targets(tmp_path: Path) -> None:
    domain = DOMAIN.model_copy(update={"target": Target(name="cost", bounds=(0, 10))})
    frame = pd.DataFrame({"age": [1.0, 2.0], "ward": ["a", None], "cost": [3.0, 30.0]})
    ((_, rows),) = list(Batches([frame], domain))
    assert rows.target is not None
    assert rows.target.tolist() == [3.0, 10.0]


def test_results_come_in_order_and_few_items_are_drawn_ahead() -> None:
    drawn = []

    def items():
        for i in range(50):
            drawn.append(i)
            yield i

    for used, result in enumerate(map_ahead(lambda i: i * i, items())):
        assert result == used**2
        assert len(drawn) <= used + threads.available() + 1
    assert used == 49


def test_an_error_comes_in_its_place_and_ends_the_work() -> None:
    done = []

    def task(i: int) -> int:
        if i == 3:
            raise ValueError("three")
        done.append(i)
        return i

    results = map_ahead(task, range(1000))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert len(done) < 50


def test_a_closed_iterator_leaves_no_thread_behind() -> None:
    results = map_ahead(lambda i: i, range(100))
    assert next(results) == 0
    results.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("hedgerow-ahead")]
