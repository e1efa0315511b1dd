import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from tests.tables.table_strategies import attributes, encodeds, relaxed

AGE = Attribute(name="age", kind="numeric", bounds=(0, 100), edges=(18, 65), missing="own bin")
JOB = Attribute(name="job", kind="categorical", categories=("x", "y"), missing="own bin")
DOMAIN = Domain(attributes=(AGE, JOB), target=Target(name="y", classes=("no", "yes")))
COLUMNS = {"age": [18.0, 18.5, None, 70.0], "job": ["y", None, "x", "y"]}


def domain_of(**attribute):
    return Domain(attributes=(Attribute(**({"name": "a"} | attribute)),))


def bins_of(values, domain):
    return encode({"a": values}, domain).bins[:, 0].tolist()


def test_encode():
    encoded = encode(COLUMNS, DOMAIN, ["yes", "no", "no", "yes"], ids=[7, 8, 9, 10])
    assert encoded.bins.tolist() == [[0, 1], [1, 2], [3, 0], [2, 1]]
    assert encoded.bins.dtype == np.uint8
    assert encoded.bins.flags.f_contiguous
    assert encoded.target.tolist() == [1, 0, 0, 1]
    assert encoded.target.dtype == np.uint8
    assert encoded.present.all()
    assert encoded.ids.tolist() == [7, 8, 9, 10]
    assert (encoded.n_slots, encoded.n_features) == (4, 2)


def test_target_and_ids_as_columns():
    table = pa.table(COLUMNS | {"y": ["yes", "no", "no", "yes"], "id": list("abcd")})
    encoded = encode(table, DOMAIN, "y", ids="id")
    assert encoded.target.tolist() == [1, 0, 0, 1]
    assert encoded.ids.tolist() == list("abcd")
    assert encode(table, DOMAIN).target is None


def test_same_bins_from_every_library():
    expected = encode(COLUMNS, DOMAIN).bins
    rows = list(zip(*COLUMNS.values(), strict=True))
    table = pa.table(COLUMNS)
    frame = pd.DataFrame(COLUMNS)
    for same in (
        table,
        table.to_batches()[0],
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        table.select(["job", "age"]),
        frame,
        frame.astype({"job": "category"}),
        frame.convert_dtypes(),
        frame.assign(extra=object()),
        rows,
        np.array(rows, dtype=object),
        pd.DataFrame(rows),
    ):
        np.testing.assert_array_equal(encode(same, DOMAIN).bins, expected)


def test_numbers_of_numpy_pandas_and_arrow():
    X = np.random.default_rng(0).normal(size=(500, 3))
    X[::7, 1] = np.nan
    domain = Domain.suggest(X, quiet=True, max_bins=50)
    expected = encode(X, domain).bins
    names = list(domain.names)
    for same in (
        np.asfortranarray(X),
        X.tolist(),
        pd.DataFrame(X),
        pd.DataFrame(X, columns=names),
        pd.DataFrame(X, columns=["u", "v", "w"]),
        pa.table(list(X.T), names=names),
        dict(zip(names, X.T, strict=True)),
    ):
        np.testing.assert_array_equal(encode(same, domain).bins, expected)


def test_large_tables_are_encoded_on_all_cores():
    X = np.random.default_rng(0).normal(size=(30_000, 8))
    domain = Domain.suggest(X, quiet=True)
    encoded = encode(X, domain)
    for j, attribute in enumerate(domain.attributes):
        np.testing.assert_array_equal(
            encoded.bins[:, j], np.searchsorted(attribute.cuts, X[:, j], side="left")
        )


def slow_bin(attribute, value):
    """One cell, by the words of the definition."""
    if value is None:
        return attribute.n_bins - 1
    if attribute.kind == "categorical":
        if value in attribute.categories:
            return attribute.categories.index(value)
        return len(attribute.categories)
    value = min(max(value, attribute.bounds[0]), attribute.bounds[1])
    cuts = [-np.inf, *attribute.cuts.tolist(), np.inf]
    return next(b for b in range(attribute.n_values) if cuts[b] < value <= cuts[b + 1])


@relaxed
@given(attributes(), st.data())
def test_bins_against_a_slow_reference(attribute, data):
    if attribute.kind == "numeric":
        lo, hi = attribute.bounds
        values = st.floats(lo, hi) | st.sampled_from([lo, hi, *attribute.cuts.tolist()])
        outside = st.floats(allow_nan=False)
    else:
        values = st.sampled_from(attribute.categories)
        kind = type(attribute.categories[0])
        outside = {str: st.text(max_size=2), bool: st.booleans()}.get(kind, st.integers(-20, 20))
        if kind is float:
            outside = outside.map(float)
    if attribute.outside == "clip":
        values |= outside
    if attribute.missing == "own bin":
        values |= st.none()
    column = data.draw(st.lists(values, min_size=1, max_size=30))
    encoded = encode({attribute.name: column}, Domain(attributes=(attribute,)))
    assert encoded.bins[:, 0].tolist() == [slow_bin(attribute, value) for value in column]


def test_two_bytes():
    wide = domain_of(kind="numeric", bounds=(0, 300), edges=tuple(range(300)))
    assert bins_of([0.0, 0.5, 299.5, 300], wide) == [0, 1, 300, 300]
    assert encode({"a": [1]}, wide).bins.dtype == np.uint16
    many = domain_of(kind="categorical", categories=tuple(range(256)), missing="own bin")
    assert bins_of([255, None, 0], many) == [255, 256, 0]


def test_a_full_byte():
    full = domain_of(kind="categorical", categories=tuple(range(255)), outside="clip")
    assert full.dtype == np.uint8
    assert bins_of([0, 254, 999], full) == [0, 254, 255]


def test_clip():
    numeric = domain_of(kind="numeric", bounds=(0, 10), bins=2)
    assert bins_of([-1e9, -np.inf, 11, np.inf], numeric) == [0, 0, 1, 1]
    categorical = domain_of(
        kind="categorical", categories=("x",), outside="clip", missing="own bin"
    )
    assert bins_of(["q", "x", None], categorical) == [1, 0, 2]


def test_dates_for_a_numeric_attribute():
    seconds = domain_of(kind="numeric", bounds=(0, 86_400 * 10), edges=(86_400,))
    assert bins_of([dt.date(1970, 1, 2), dt.date(1970, 1, 3)], seconds) == [0, 1]
    assert bins_of(np.array([86_400, 86_401], dtype="M8[s]"), seconds) == [0, 1]


NUMERIC = domain_of(kind="numeric", bounds=(0, 10), outside="error")
CATEGORICAL = domain_of(kind="categorical", categories=("x", "y"))


@pytest.mark.parametrize(
    ("values", "domain", "number", "found"),
    [
        ([1.0, None], NUMERIC, "H101", "1 row of column 'a' (row 1: None"),
        (np.array([np.nan, 1]), NUMERIC, "H101", "1 row of column 'a' (row 0: nan"),
        (["x", None], CATEGORICAL, "H101", "1 row of column 'a' (row 1: None"),
        (["x", "q", "r", "x", "q"], CATEGORICAL, "H102", "3 rows of column 'a' (row 1: 'q', row 2"),
        ([1.0, 10.5], NUMERIC, "H103", "1 row of column 'a' (row 1: 10.5"),
        ([-1.0, 1.0], NUMERIC, "H103", "row 0: -1.0"),
        (np.array([np.inf]), NUMERIC, "H103", "row 0: inf"),
        (["1"], NUMERIC, "H109", "strings"),
        ([1], CATEGORICAL, "H109", "numbers"),
        ([1, "x"], CATEGORICAL, "H109", "column 'a'"),
        ([dt.date(1970, 1, 2)], CATEGORICAL, "H109", "dates or times"),
        ([[1]], NUMERIC, "H109", "list"),
        ([], NUMERIC, "H105", "0 rows"),
    ],
)
def test_bad_values(values, domain, number, found):
    with pytest.raises(HedgerowError, match=number) as caught:
        encode({"a": values}, domain)
    assert found in caught.value.found


def test_first_bad_column_is_named_whatever_the_threads_do():
    X = np.zeros((50_000, 8))
    domain = Domain.suggest(X, quiet=True)
    X[5, 3] = X[0, 6] = np.nan
    with pytest.raises(HedgerowError, match=r"H101.*1 row of column 'x3' \(row 5: nan"):
        encode(X, domain)


@pytest.mark.parametrize(
    ("frame", "number"),
    [
        (np.zeros((2, 3)), "H108"),
        (np.zeros(2), "H108"),
        (np.zeros((0, 2)), "H105"),
        ({"age": [1]}, "H107"),
        (pa.table([[1], ["x"], ["y"]], names=["age", "job", "job"]), "H106"),
        (3, "H109"),
    ],
)
def test_bad_tables(frame, number):
    with pytest.raises(HedgerowError, match=number):
        encode(frame, DOMAIN)


REGRESSION = DOMAIN.model_copy(update={"target": Target(bounds=(0, 10))})
STRICT = DOMAIN.model_copy(update={"target": Target(bounds=(0, 10), outside="error")})


def test_numeric_target():
    encoded = encode(COLUMNS, REGRESSION, [-5, 0.5, 10, 99])
    assert encoded.target.dtype == np.float64
    assert encoded.target.tolist() == [0, 0.5, 10, 10]
    assert encode(COLUMNS, STRICT, [0, 1, 2, 10]).target.tolist() == [0, 1, 2, 10]


def test_many_classes():
    domain = DOMAIN.model_copy(update={"target": Target(classes=tuple(range(257)))})
    assert encode(COLUMNS, domain, [0, 1, 2, 256.0]).target.dtype == np.uint16


@pytest.mark.parametrize(
    ("domain", "y", "number"),
    [
        (DOMAIN, ["yes", "no", "no", "maybe"], "H104"),
        (DOMAIN, ["yes", "no", "no", None], "H101"),
        (DOMAIN, ["yes", "no", "no"], "H108"),
        (DOMAIN, np.array([["yes"]] * 4), "H108"),
        (DOMAIN, [1, 2, 3, 4], "H109"),
        (DOMAIN, 3, "H109"),
        (DOMAIN, "nope", "H107"),
        (REGRESSION, [1, 2, 3, np.nan], "H101"),
        (REGRESSION, ["1", "2", "3", "4"], "H109"),
        (STRICT, [1, 2, 3, 11], "H103"),
        (STRICT, [1, 2, 3, np.inf], "H103"),
        (Domain(attributes=(AGE, JOB)), [1, 2, 3, 4], "H116"),
    ],
)
def test_bad_target(domain, y, number):
    with pytest.raises(HedgerowError, match=number):
        encode(COLUMNS, domain, y)


@pytest.mark.parametrize(
    ("ids", "number"), [([1, 2, 3, 3], "H110"), ([1, 2, 3], "H108"), ([1, 2, 3, None], "H101")]
)
def test_bad_ids(ids, number):
    with pytest.raises(HedgerowError, match=number):
        encode(COLUMNS, DOMAIN, ids=ids)


@relaxed
@given(encodeds(), st.data())
def test_rows_and_select(encoded, data):
    n, d = encoded.bins.shape
    picks = data.draw(st.lists(st.integers(0, n - 1), max_size=8)) if n else []
    part = encoded.rows(np.array(picks, dtype=np.intp))
    np.testing.assert_array_equal(part.bins, encoded.bins[picks])
    np.testing.assert_array_equal(part.ids, encoded.ids[picks])
    np.testing.assert_array_equal(part.present, encoded.present[picks])
    assert part.bins.flags.f_contiguous
    columns = data.draw(st.permutations(range(d)))
    chosen = encoded.select([encoded.domain.names[j] for j in columns], target=False)
    np.testing.assert_array_equal(chosen.bins, encoded.bins[:, columns])
    assert chosen.target is None
    assert chosen.domain.names == tuple(encoded.domain.names[j] for j in columns)


def test_select_narrows_the_type():
    wide = Attribute(name="w", kind="numeric", bounds=(0, 1), bins=300)
    domain = Domain(attributes=(wide, AGE))
    encoded = encode({"w": [0.5], "age": [70]}, domain)
    assert encoded.bins.dtype == np.uint16
    assert encoded.select(["age"]).bins.dtype == np.uint8


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"bins": np.zeros((4, 3), dtype=np.uint8)}, "H108"),
        ({"bins": np.zeros(4, dtype=np.uint8)}, "H108"),
        ({"bins": np.zeros((4, 2))}, "H109"),
        ({"present": np.ones(3, dtype=np.bool_)}, "H108"),
        ({"target": np.zeros((4, 1))}, "H108"),
        ({"ids": np.arange(5)}, "H108"),
    ],
)
def test_arrays_that_do_not_fit(change, number):
    good = encode(COLUMNS, DOMAIN)
    arrays = {"bins": good.bins, "target": None, "present": good.present} | change
    with pytest.raises(HedgerowError, match=number):
        Encoded(domain=DOMAIN, **arrays)
