"""Reading tables the scikit-learn way: what one row is read as depends on that row alone."""

import math
import warnings
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from hedgerow import (
    Attribute,
    CARTClassifier,
    Domain,
    DPTreeClassifier,
    HiddenTreeClassifier,
    MedianForestClassifier,
    MedianForestRegressor,
    Target,
    TopDownTreeClassifier,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.estimators.table import TableClassifier, TableRegressor
from hedgerow.privacy import NoiseSource
from hedgerow.tables import encode

NUMBER = Attribute(name="x", kind="numeric", bounds=(0, 1), bins=2)
CLASSES = Domain(attributes=(NUMBER,), target=Target(name="y", classes=("b", "a")))
BOUNDS = Domain(attributes=(NUMBER,), target=Target(name="y", bounds=(0, 2)))


class Classes(TableClassifier):
    def __init__(self, domain: Domain | None = None) -> None:
        self.domain = domain


class Numbers(TableRegressor):
    def __init__(self, domain: Domain | None = None) -> None:
        self.domain = domain


def test_classes_are_those_of_the_domain_in_its_order() -> None:
    model = Classes(CLASSES)
    encoded = model._encode_training([[0.2], [0.8]], ["a", "b"], CLASSES)
    assert encoded.target.tolist() == [1, 0]
    assert model.classes_.tolist() == ["b", "a"]
    assert model.domain_ == CLASSES


def test_without_a_domain_classes_keep_their_type() -> None:
    model = Classes()
    model._encode_training([[0.2], [0.8]], np.array([3, 1], dtype=np.int16), None)
    assert model.classes_.dtype == np.int16
    assert not model.domain_.is_public


@pytest.mark.parametrize(("kind", "wrong"), [(Classes, BOUNDS), (Numbers, CLASSES)])
def test_the_domain_must_suit_the_task(kind: type, wrong: Domain) -> None:
    with pytest.raises(HedgerowError) as caught:
        kind(wrong)._take_domain(wrong)
    assert caught.value.code is Code.BAD_TARGET


def test_numbers_are_clipped_by_the_domain() -> None:
    assert Numbers(BOUNDS)._encode_training([[0.2]], [9.0], BOUNDS).target.tolist() == [2.0]


def test_one_class_is_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        Classes()._encode_training([[0.2], [0.8]], [1, 1], None)
    assert caught.value.code is Code.ONE_CLASS


def refusal(act) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        act()
    return caught.value


def test_columns_in_another_order() -> None:
    frame = pd.DataFrame({"a": [0.1, 0.9], "b": [1.0, 2.0]})
    model = Classes()
    model._encode_training(frame, ["n", "y"], None)
    for table in (frame[["b", "a"]], pa.Table.from_pandas(frame[["b", "a"]])):
        error = refusal(lambda table=table: model._table(table, reset=False))
        assert error.code is Code.MISSING_COLUMN
        assert error.found.startswith("the same columns in another order")
        assert "the order of fit: 'a', 'b'" in error.expected
        assert "X[model.feature_names_in_]" in error.fix
    model._table(frame[["b", "a"]][model.feature_names_in_], reset=False)
    other = refusal(lambda: model._table(frame.rename(columns={"b": "c"}), reset=False))
    assert "another order" not in other.found
    assert other.fix == "pass exactly these columns, under these names"


def test_shapes_that_do_not_fit_say_what_helps_and_quote_no_value() -> None:
    rows, y = [[0.2, 1.0], [0.8, 1.0]], ["a", "b"]
    model = Classes()
    model._encode_training(rows, y, None)
    for act, found, fix in (
        (lambda: model._table([0.123456, 0.8], reset=False), "Expected 2D", "one row per record"),
        (lambda: model._table([[0.2], [0.8]], reset=False), "1 features", "as many columns"),
        (lambda: model._table({"x": [1.0]}, reset=False), "a dict", "pandas.DataFrame(X)"),
        (lambda: model._encode_training(rows, ["a"], None), "2 rows and 1", "the same rows"),
        (lambda: model._encode_training(rows, [y, y], None), "1d array", "one column as y"),
        (lambda: model._encode_training(rows, None, None), "y", "pass y"),
    ):
        error = refusal(act)
        assert error.code is Code.WRONG_SHAPE
        assert found in error.found
        assert fix in error.fix
        assert "0.123456" not in str(error)


def test_output_of_a_transformer_without_names_is_refused_with_what_keeps_them() -> None:
    frame = pd.DataFrame({"age": np.arange(40), "ward": np.array(["a", "b"])[np.arange(40) % 2]})
    labels = np.arange(40) % 2
    domain = Domain(
        attributes=(
            Attribute(name="age", kind="numeric", bounds=(0, 100), bins=4),
            Attribute(name="ward", kind="categorical", categories=("a", "b")),
        ),
        target=Target(name="y", classes=(0, 1)),
    )
    encoder = [("one", OneHotEncoder(), ["ward"])]
    for threshold, code, words in (
        (0.0, Code.WRONG_SHAPE, ("set_output(transform='pandas')", "the domain must declare")),
        (1.0, Code.WRONG_TYPE, ("leave one-hot encoding out", "sparse_threshold=0")),
    ):
        one = ColumnTransformer(encoder, remainder="passthrough", sparse_threshold=threshold)
        with pytest.raises(HedgerowError) as caught:
            CARTClassifier(domain=domain).fit(one.fit_transform(frame), labels)
        assert caught.value.code is code
        for part in words:
            assert part in caught.value.fix


DECLARED = Domain(
    attributes=(
        Attribute(
            name="word",
            kind="categorical",
            categories=("a", "1", "nan"),
            outside="clip",
            missing="own bin",
        ),
        Attribute(
            name="code",
            kind="categorical",
            categories=(0, 1, 0.1),
            outside="clip",
            missing="own bin",
        ),
        Attribute(name="size", kind="numeric", bounds=(-10, 10), bins=7, missing="own bin"),
    ),
    target=Target(name="y", classes=(0, 1)),
    capacity=100,
)
MISSING = st.sampled_from([None, math.nan])
WORDS = st.sampled_from(["a", "1", "nan", "z", ""]) | MISSING
CODES = st.sampled_from([0, 1, 0.1, 1.0, 7, 2**60 + 1]) | MISSING
SIZES = st.integers(-20, 20) | st.floats(-20, 20) | MISSING
ROWS = st.lists(st.tuples(WORDS, CODES, SIZES), min_size=1, max_size=12)


@settings(deadline=None, derandomize=True)
@given(ROWS)
def test_one_row_is_read_alike_alone_and_among_others(rows: list[tuple[object, ...]]) -> None:
    model = DPTreeClassifier(1.0, DECLARED)
    classes = [0] * len(rows)
    together = model._encode_training([list(r) for r in rows], classes, DECLARED).bins
    for i, row in enumerate(rows):
        alone = model._encode_training([list(row)], [0], DECLARED).bins
        np.testing.assert_array_equal(together[i], alone[0])
        np.testing.assert_array_equal(encode([row], DECLARED).bins, alone)


def test_a_decimal_does_not_change_how_the_others_are_read() -> None:
    domain = Domain(
        attributes=(
            Attribute(name="x", kind="categorical", categories=(38.1, -1.0), outside="clip"),
        )
    )
    values = [Decimal("38.1"), Decimal("0." + "0" * 24 + "1")]
    alone = encode(pd.DataFrame({"x": values[:1]}), domain).bins[0, 0]
    among = encode(pd.DataFrame({"x": values}), domain).bins[0, 0]
    assert alone == among == 0


def test_an_instant_is_one_number_in_every_unit() -> None:
    rng = np.random.default_rng(0)
    instants = rng.integers(-(2**50), 2**50, 500)
    domain = Domain(
        attributes=(Attribute(name="t", kind="numeric", bounds=(-2e9, 2e9), bins=60_000),)
    )
    micro = pd.DataFrame({"t": instants.astype("datetime64[us]")})
    nano = pd.DataFrame({"t": (instants * 1000).astype("datetime64[ns]")})
    np.testing.assert_array_equal(encode(micro, domain).bins, encode(nano, domain).bins)
    seconds = encode(pd.DataFrame({"t": [datetime(1970, 1, 2)]}), domain)
    assert seconds.bins[0, 0] == encode({"t": [86_400.0]}, domain).bins[0, 0]


def test_categories_that_floats_cannot_hold_are_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        Attribute(name="id", kind="categorical", categories=(2**53 + 1,))
    assert caught.value.code is Code.BAD_ATTRIBUTE


def test_declared_classes_are_not_guessed_at() -> None:
    # scikit-learn takes (0.5, 1.0) for numbers as soon as a row has 0.5.
    domain = DECLARED.model_copy(update={"target": Target(name="y", classes=(0.5, 1.0))})
    rows = [["a", 0, 1.0]] * 3
    for classes in ([1.0, 1.0, 1.0], [1.0, 0.5, 1.0]):
        assert list(DPTreeClassifier(1.0, domain).fit(rows, classes).classes_) == [0.5, 1.0]


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
def test_rows_without_a_number_to_learn_are_named_and_to_be_dropped():
    domain = Domain(
        attributes=(Attribute(name="x", kind="numeric", bounds=(0, 9), bins=3),),
        target=Target(name="cost", bounds=(0, 9)),
        capacity=10,
    )
    y = np.array([1.0, np.nan, 2.0, np.inf, np.nan, np.nan])
    with pytest.raises(HedgerowError) as caught:
        MedianForestRegressor(1.0, domain).fit(np.zeros((6, 1)), y)
    assert caught.value.code is Code.MISSING_VALUE
    # Infinity is beyond the bounds, and the domain clips.
    assert "3 rows of column 'cost' (row 1: nan, row 4: nan, row 5: nan;" in caught.value.found
    assert caught.value.fix == "drop the rows without a target"


ONE = Domain(
    attributes=(Attribute(name="x", kind="numeric", bounds=(0, 100), bins=2),),
    target=Target(name="y", classes=(0, 1)),
    capacity=1000,
)
BOUNDED = ONE.model_copy(update={"target": Target(name="y", bounds=(0, 1))})
# A type that Arrow would give to all values of a column with one such value in it.
TYPES = (timedelta(0), time(0), date(1970, 1, 1), pd.Timestamp(0), np.timedelta64(0, "s"))


def attacked(model: DPTreeClassifier, first: object, runs: int) -> float:
    """Return what an attack finds, at 99.9%, between a table and the same with one more row."""
    rows, classes = [[x] for x in [20] * 200 + [80] * 400], [0] * 200 + [1] * 400

    def learns(X: list[list[object]], y: list[int], seed: int) -> bool:
        model._noise = NoiseSource.insecure_seeded(seed)
        # If all values are read as nearly 0, most rows there have the other class.
        return bool(model.fit(X, y).predict([[20]])[0] == 0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgerowWarning)
        without = sum(learns(rows, classes, seed) for seed in range(runs))
        added = sum(learns([[first], *rows], [0, *classes], 10**6 + s) for s in range(runs))
    least = beta.ppf(0.0005, without, runs - without + 1) if without else 0.0
    most = beta.ppf(0.9995, added + 1, runs - added) if added < runs else 1.0
    return math.log(least / most) if least else 0.0


def test_one_record_does_not_choose_the_type_of_a_column() -> None:
    found = attacked(DPTreeClassifier(0.1, ONE, max_depth=1), timedelta(0), runs=150)
    # Read by one type for all, the same 300 fits show more than 2.5.
    assert found <= 0.1


@pytest.mark.parametrize("first", TYPES, ids=lambda value: type(value).__name__)
def test_an_odd_value_leaves_the_bins_of_all_others(first: object) -> None:
    rows = [[x] for x in range(0, 100, 5)]
    classes, numbers = [0, 1] * 10, [np.float32(k / 7) for k in range(7)] * 2 + [0.5] * 6
    for model, domain, y, odd in (
        (DPTreeClassifier(0.1, ONE), ONE, classes, 0),
        (TopDownTreeClassifier(0.1, ONE), ONE, classes, 0),
        (MedianForestClassifier(0.1, ONE), ONE, classes, 0),
        (MedianForestRegressor(0.1, BOUNDED), BOUNDED, numbers, first),
        (HiddenTreeClassifier(0.1, ONE), ONE, classes, 0),
    ):
        alone = model._encode_training(rows, y, domain)
        among = model._encode_training([[first], *rows], [odd, *y], domain)
        np.testing.assert_array_equal(among.bins[1:], alone.bins)
        np.testing.assert_array_equal(among.target[1:], alone.target)


def test_a_number_beside_a_string_is_the_same_target() -> None:
    model = MedianForestRegressor(1.0, BOUNDED)
    alone = model._encode_training([[1]], [np.float32(0.1)], BOUNDED)
    assert alone.target[0] == float(np.float32(0.1)) != 0.1
    with pytest.raises(HedgerowError, match=r"H109.*row 1: 'x'"):
        model._encode_training([[1], [2]], [np.float32(0.1), "x"], BOUNDED)
    with pytest.raises(HedgerowError, match=r"H109.*row 1: '0.3'"):
        model._encode_training([[1], [2]], [np.float32(0.1), "0.3"], BOUNDED)
