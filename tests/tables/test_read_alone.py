"""What one row is read as depends on that row alone, whatever is added to the table.

Rows that pandas or NumPy have made one type of before they come here are theirs: the containers
below keep every value as it was given.
"""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.tables import Attribute, Domain, Target, encode, read_table
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.ids import id_bytes

ATTRIBUTES = (
    Attribute(name="size", kind="numeric", bounds=(-9, 90), bins=50, missing="own bin"),
    Attribute(
        name="word", kind="categorical", categories=("a", "1"), outside="clip", missing="own bin"
    ),
    Attribute(
        name="code", kind="categorical", categories=(0, 1, 0.1), outside="clip", missing="own bin"
    ),
    Attribute(name="flag", kind="categorical", categories=(False, True), missing="own bin"),
)
CLASSES = Domain(attributes=ATTRIBUTES, target=Target(name="y", classes=(0, 1)))
BOUNDS = Domain(attributes=ATTRIBUTES, target=Target(name="y", bounds=(0, 1)))

MISSING = st.sampled_from([None, math.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("nan")])
DAYS = st.dates(dt.date(1970, 1, 1), dt.date(1970, 2, 1))
TIMES = (
    DAYS
    | st.datetimes(dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 1, 2))
    | st.times()
    | st.timedeltas(dt.timedelta(-1), dt.timedelta(minutes=2))
    | st.integers(-100, 100).map(lambda n: np.datetime64(n, "s"))
    | st.integers(-100, 100).map(lambda n: np.timedelta64(n, "ms"))
    | st.integers(-100, 10**11).map(pd.Timestamp)
    | st.integers(-100, 10**11).map(pd.Timedelta)
    | st.integers(0, 90).map(lambda n: pd.Timestamp(n, unit="s", tz="Europe/Paris"))
)
SIZES = (
    st.integers(-20, 100)
    | st.floats(-20, 100)
    | st.floats(-20, 100, width=16).map(np.float16)
    | st.floats(-20, 100, width=32).map(np.float32)
    | st.integers(-20, 100).map(np.int8)
    | st.decimals(-20, 100, places=3)
    | st.fractions(-20, 100, max_denominator=9)
    | st.booleans()
    | st.sampled_from([2**70, math.inf, -math.inf, 10**400, Decimal("1e500"), pa.scalar(3.25)])
    | TIMES
    | MISSING
)
WORDS = st.sampled_from(["a", "1", "z", "", np.str_("a"), pa.scalar("1")]) | MISSING
CODES = st.sampled_from([0, 1, 0.1, 1.0, 7, np.float32(0.1), Decimal("0.1"), np.int16(1)]) | MISSING
FLAGS = st.sampled_from([True, False, np.True_, pa.scalar(False)]) | MISSING
LABELS = st.sampled_from([0, 1, 1.0, np.float32(1), np.int8(0), Decimal(1), Fraction(0, 3)])
IDS = st.integers(-5, 10**6) | st.sampled_from(["7", "07", "x", "-1", np.int16(3), np.str_("é")])
ROWS = st.lists(
    st.tuples(SIZES, WORDS, CODES, FLAGS, LABELS, IDS),
    min_size=1,
    max_size=6,
    unique_by=lambda row: str(row[5]),
)
# Some of these have no hash.
OBJECTS = [
    [1, 2],
    (1,),
    {},
    {"a": 1},
    set(),
    object(),
    np.array(5.0),
    np.array([1, 2]),
    np.complex64(1j),
    np.bytes_(b"a"),
    np.longdouble("1e4000"),
    np.datetime64("2020"),
    np.datetime64("NaT"),
    np.timedelta64(3),
    np.timedelta64(3, "Y"),
    np.ma.masked,
    pd.Period("2020-01"),
    pd.Interval(0, 1),
    pd.Categorical(["a"]),
    pd.Series([1.0]),
    pa.scalar([1]),
    pa.scalar(dt.timedelta(1)),
    pa.scalar(None),
    pa.array([1]),
    range(3),
    int,
]
ODD = (
    SIZES
    | WORDS
    | st.text(max_size=3)
    | st.integers()
    | st.floats()
    | st.binary(max_size=2)
    | st.complex_numbers()
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.decimals()
    | st.sampled_from(range(len(OBJECTS))).map(OBJECTS.__getitem__)
)


def as_objects(values):
    return np.fromiter(values, dtype=object, count=len(values))


CONTAINERS = {
    "rows": lambda columns: [list(row) for row in zip(*columns, strict=True)],
    "objects": lambda columns: np.stack([as_objects(column) for column in columns], axis=1),
    "lists": lambda columns: dict(zip(NAMES, map(list, columns), strict=True)),
    "pandas": lambda columns: pd.DataFrame(
        {n: pd.Series(as_objects(c), dtype=object) for n, c in zip(NAMES, columns, strict=True)}
    ),
}
NAMES = tuple(attribute.name for attribute in ATTRIBUTES)


def read(container, rows, domain):
    *columns, labels, ids = zip(*rows, strict=True)
    return encode(CONTAINERS[container](columns), domain, list(labels), ids=list(ids))


def readings(container, rows, domain):
    encoded = read(container, rows, domain)
    return [
        (bins, target, name)
        for bins, target, name in zip(
            encoded.bins.tolist(), encoded.target.tolist(), id_bytes(encoded.ids), strict=True
        )
    ]


@pytest.mark.parametrize("domain", [CLASSES, BOUNDS], ids=["classes", "numbers"])
@pytest.mark.parametrize("container", CONTAINERS)
@settings(deadline=None, derandomize=True, max_examples=50)
@example([(5, "a", 1, True, 1, 1), (70, "1", 0, False, 0, 2)], dt.timedelta(0), 0, 0)
@example([(5, "a", 1, True, 1, 1), (70, "1", 0, False, 0, 2)], dt.date(1970, 1, 1), 0, 0)
@example([(np.float16(0.1), "a", 1, True, 1, 1)], 3, 0, 1)
@example([(1, "a", 1, True, np.float32(0.1), 1)], "x", 4, 1)
@given(ROWS, ODD, st.integers(0, 5), st.integers(0, 6))
def test_an_added_row_changes_no_other(container, domain, rows, odd, column, place):
    if domain is CLASSES and any(row[4] not in (0, 1) for row in rows):
        rows = [(*row[:4], 1, row[5]) for row in rows]
    before = [readings(container, [row], domain)[0] for row in rows]
    assert readings(container, rows, domain) == before
    place = min(place, len(rows))
    added = [3, "a", 0, True, 1, "added"]
    added[column] = odd
    try:
        after = readings(container, [*rows[:place], tuple(added), *rows[place:]], domain)
    except HedgerowError as error:
        refusal = error
    else:
        assert after[:place] + after[place + 1 :] == before
        return
    # Refused for what it holds itself, or because its id is that of another row.
    assert f"row {place}: " in refusal.found
    assert "1 row of" in refusal.found or refusal.code.number == "H110"


@pytest.mark.parametrize("domain", [CLASSES, BOUNDS], ids=["classes", "numbers"])
@pytest.mark.parametrize("container", CONTAINERS)
@settings(deadline=None, derandomize=True, max_examples=25)
@given(ROWS, st.lists(ODD, min_size=5, max_size=5), st.integers(0, 6))
def test_where_rows_are_absorbed_no_row_is_refused(container, domain, rows, odd, place):
    def read_all(rows):
        *columns, labels, _ = zip(*rows, strict=True)
        table = CONTAINERS[container](columns)
        encoded = encode(table, domain, list(labels), absorbed=AbsorbedRows())
        parts = encoded.bins.tolist(), encoded.target.tolist(), encoded.present.tolist()
        return list(zip(*parts, strict=True))

    place = min(place, len(rows))
    after = read_all([*rows[:place], (*odd, 0), *rows[place:]])
    assert after[:place] + after[place + 1 :] == read_all(rows)


TYPED = {
    "float16": (st.floats(-20, 100, width=16), lambda v: np.array(v, dtype=np.float16)),
    "float32": (st.floats(-20, 100, width=32), lambda v: np.array(v, dtype=np.float32)),
    "longdouble": (st.floats(-20, 100), lambda v: np.array(v, dtype=np.longdouble)),
    "uint64": (st.integers(0, 2**64 - 1), lambda v: np.array(v, dtype=np.uint64)),
    "pandas Float32": (
        st.none() | st.floats(-20, 100, width=32),
        lambda v: pd.Series(v, dtype="Float32"),
    ),
    "pandas Int64": (st.none() | st.integers(-20, 100), lambda v: pd.Series(v, dtype="Int64")),
    "pandas category": (st.none() | st.floats(0, 90), lambda v: pd.Series(v, dtype="category")),
    "pandas category of objects": (
        st.sampled_from([1, 2.5, "x", None]),
        lambda v: pd.Series(pd.Categorical(v, categories=[1, 2.5, "x"])),
    ),
    "decimal": (
        st.none() | st.decimals(-20, 100, places=2),
        lambda v: pa.array(v, pa.decimal128(38, 25)),
    ),
    "half": (st.floats(-20, 100, width=16), lambda v: pa.array(v, pa.float16())),
    "dictionary": (st.floats(0, 90), lambda v: pa.array(v).dictionary_encode()),
    "string": (st.none() | st.text(max_size=3), lambda v: pa.array(v, pa.string())),
    "bool": (st.none() | st.booleans(), lambda v: pa.array(v, pa.bool_())),
    "datetime64[us]": (
        st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(1980, 1, 1)),
        lambda v: np.array(v, dtype="M8[us]"),
    ),
    "datetime64[D]": (DAYS, lambda v: np.array(v, dtype="M8[D]")),
    "date32": (st.none() | DAYS, lambda v: pa.array(v, pa.date32())),
    "duration": (
        st.none() | st.timedeltas(dt.timedelta(-9), dt.timedelta(9)),
        lambda v: pa.array(v, pa.duration("us")),
    ),
    "time": (st.none() | st.times(), lambda v: pa.array(v, pa.time64("us"))),
    "masked": (st.floats(0, 90), lambda v: np.ma.masked_less(np.array(v), 40)),
    "union": (
        st.sampled_from([1, 2.5, "a", True, None]),
        lambda v: pa.UnionArray.from_sparse(
            pa.array([[int, float, str, bool, type(None)].index(type(x)) for x in v], pa.int8()),
            [
                pa.array([x if type(x) is kind else None for x in v], of)
                for kind, of in (
                    (int, pa.int64()),
                    (float, pa.float64()),
                    (str, pa.string()),
                    (bool, pa.bool_()),
                    (type(None), pa.null()),
                )
            ],
        ),
    ),
}


def outcomes(values, attribute):
    """The bin of every value, or the number of what refuses it."""
    domain = Domain(attributes=(attribute,))
    found = []
    for value in values:
        try:
            found.append(int(encode({attribute.name: [value]}, domain).bins[0, 0]))
        except HedgerowError as error:
            found.append(error.code.number)
    return found


@pytest.mark.parametrize("kind", TYPED)
@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.data())
def test_a_column_of_one_type_is_read_as_each_of_its_values(kind, data):
    values, make = TYPED[kind]
    drawn = data.draw(st.lists(values, min_size=1, max_size=8))
    column = make(drawn)
    if kind == "masked":
        drawn = list(column)
    for attribute in ATTRIBUTES:
        one_by_one = outcomes(drawn, attribute)
        refused = {number for number in one_by_one if isinstance(number, str)}
        domain = Domain(attributes=(attribute,))
        if refused:
            with pytest.raises(HedgerowError, match="|".join(refused)):
                encode({attribute.name: column}, domain)
        else:
            assert encode({attribute.name: column}, domain).bins[:, 0].tolist() == one_by_one


NUMBERS = ["1", "0", "07", " 2.5", "+3", "1e1", "0.1", "inf"]
WORDS_AND_TIMES = ["", "NA", "a", "true", "False", "x1", "1970-01-01", "00:01:30", "2020-13-01"]
CELLS = st.sampled_from(NUMBERS) | st.sampled_from(WORDS_AND_TIMES)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(CELLS, min_size=1, max_size=6), CELLS, st.integers(0, 6))
def test_a_cell_of_a_csv_file_is_read_alone(tmp_path_factory, cells, odd, place):
    path = tmp_path_factory.mktemp("cells") / "t.csv"

    def outcome(texts):
        path.write_text("size,word,code,flag,id\n" + "".join(f"{t},{t},{t},{t},i\n" for t in texts))
        found = []
        for attribute in ATTRIBUTES:
            domain = Domain(attributes=(attribute,))
            try:
                found.append(encode(read_table(path, domain=domain), domain).bins[:, 0].tolist())
            except HedgerowError as error:
                found.append([error.code.number])
        return found

    alone = [[found[0] for found in outcome([cell])] for cell in [*cells, odd]]
    place = min(place, len(cells))
    order = [*alone[: len(cells)]]
    order.insert(place, alone[-1])
    for j, together in enumerate(outcome([*cells[:place], odd, *cells[place:]])):
        expected = [row[j] for row in order]
        refused = [number for number in expected if isinstance(number, str)]
        assert together == ([refused[0]] if refused else expected)
