"""What every tree estimator shares."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

from hedgerow import CARTClassifier, CARTRegressor, DPTreeClassifier, ID3Classifier
from hedgerow.errors import Code, HedgerowError

ALL = [CARTClassifier(), CARTRegressor(), ID3Classifier(), DPTreeClassifier()]


@pytest.mark.parametrize("model", ALL, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("name", ["get_depth", "get_n_leaves", "to_text", "to_svg", "to_json"])
def test_nothing_works_before_fit(model, name: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(model, name)()
    with pytest.raises(NotFittedError):
        _ = model.feature_importances_


@pytest.mark.parametrize("kind", [int, float, str])
def test_many_classes_stay_classes(kind: type) -> None:
    y = np.arange(300) % 150
    X = y[:, None].astype(float)
    model = CARTClassifier().fit(X, y.astype(kind))
    assert len(model.classes_) == 150
    assert model.score(X, y.astype(kind)) == 1.0


class OnlyStream:
    """A table of another library: nothing but the Arrow stream."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_any_arrow_stream_is_a_table() -> None:
    table = pa.table({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]})
    model = CARTClassifier().fit(OnlyStream(table), [0, 1, 0])
    assert list(model.feature_names_in_) == ["a", "b"]
    assert model.predict(OnlyStream(table)).tolist() == [0, 1, 0]


def test_other_columns_than_in_fit_are_refused() -> None:
    model = CARTClassifier().fit(pd.DataFrame({"a": [1.0, 2.0]}), [0, 1])
    with pytest.raises(HedgerowError) as caught:
        model.predict(pd.DataFrame({"b": [1.0]}))
    assert caught.value.code is Code.MISSING_COLUMN
    assert "feature names" in str(caught.value)


def test_leaves_are_numbered_as_in_the_tree() -> None:
    model = CARTClassifier().fit([[0.0], [1.0]], [0, 1])
    leaves = model.apply([[0.0], [1.0]])
    np.testing.assert_array_equal(model.tree_.value[leaves], [[1, 0], [0, 1]])
