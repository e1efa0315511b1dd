"""What all estimators share with those that have no public tree."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from hedgerow import Attribute, CARTClassifier, Domain, Target
from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.table import TableClassifier, TableRegressor

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
