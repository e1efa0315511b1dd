"""CART without privacy: against scikit-learn on bundled data, and every kind of table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from hedgerow import Attribute, CARTClassifier, CARTRegressor, Domain, Target
from hedgerow.errors import Code, HedgerowError


def code_of(function, *args, **kwargs) -> Code:
    with pytest.raises(HedgerowError) as caught:
        function(*args, **kwargs)
    return caught.value.code


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_training_accuracy_equals_scikit_learn(criterion: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    ours = CARTClassifier(criterion=criterion, max_depth=3, max_bins=600).fit(X, y)
    theirs = DecisionTreeClassifier(criterion=criterion, max_depth=3, random_state=0).fit(X, y)
    # With 600 bins every distinct value has its own: the same splits but for ties.
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-12)


def test_regression_error_equals_scikit_learn() -> None:
    X, y = load_diabetes(return_X_y=True)
    ours = CARTRegressor(max_depth=4, max_bins=450).fit(X, y)
    theirs = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-9)


# Deeper trees on the cancer data meet a tie, which scikit-learn breaks by chance.
@pytest.mark.parametrize(("task", "depth"), [("classes", 1), ("numbers", 3)])
def test_importances_equal_scikit_learn(task: str, depth: int) -> None:
    if task == "classes":
        X, y = load_breast_cancer(return_X_y=True)
        ours, theirs = CARTClassifier(), DecisionTreeClassifier()
    else:
        X, y = load_diabetes(return_X_y=True)
        ours, theirs = CARTRegressor(), DecisionTreeRegressor()
    ours.set_params(max_depth=depth, max_bins=600).fit(X, y)
    theirs.set_params(max_depth=depth, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)


def test_pandas_arrow_and_numpy_give_the_same_tree() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    tables = [X, pa.Table.from_pandas(X), X.to_numpy()]
    models = [CARTClassifier(max_depth=3).fit(table, y) for table in tables]
    for model, table in zip(models, tables, strict=True):
        np.testing.assert_array_equal(model.predict(table), models[0].predict(X))
    assert list(models[1].feature_names_in_) == list(X.columns)
    assert not hasattr(models[2], "feature_names_in_")


def test_categories_in_and_labels_out() -> None:
    X = pd.DataFrame({"ward": ["a", "b", "c", "a"] * 10, "age": [1.0, 2.0, 3.0, 4.0] * 10})
    y = np.where(X.ward == "b", "yes", "no")
    model = CARTClassifier().fit(X, y)
    assert model.get_n_leaves() == 2
    assert set(model.predict(X)) == {"yes", "no"}
    assert model.score(X, y) == 1.0
    assert "ward = b" in model.to_text()


def test_missing_values_need_a_rule() -> None:
    X, y = np.array([[1.0], [2.0], [np.nan], [np.nan]]), [0, 0, 1, 1]
    assert code_of(CARTClassifier().fit, X, y) is Code.MISSING_VALUE
    model = CARTClassifier(missing="own bin").fit(X, y)
    assert model.score(X, y) == 1.0


def test_a_declared_domain_is_used() -> None:
    domain = Domain(
        attributes=(Attribute(name="x", kind="numeric", bounds=(0, 10), bins=10),),
        target=Target(name="y", classes=("a", "b", "c")),
    )
    model = CARTClassifier(domain=domain).fit(np.array([[1.0], [9.0]]), ["a", "b"])
    assert model.domain_ is domain
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.predict_proba([[1.0]]).shape == (1, 3)
    assert code_of(model.fit, [[1.0], [2.0]], ["a", "z"]) is Code.UNKNOWN_CLASS


def test_it_is_a_good_citizen_of_scikit_learn() -> None:
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(CARTClassifier(max_depth=3), X, y, cv=3).mean() > 0.9
    pipeline = make_pipeline(StandardScaler(), CARTClassifier())
    search = GridSearchCV(pipeline, {"cartclassifier__max_depth": [1, 3]}, cv=3).fit(X, y)
    assert search.best_params_ == {"cartclassifier__max_depth": 3}


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 0},
        {"max_depth": 1.5},
        {"max_leaf_nodes": 1},
        {"min_samples_split": 1},
        {"min_samples_leaf": 0},
        {"min_impurity_decrease": -1.0},
        {"min_impurity_decrease": float("nan")},
        {"splitter": "worst"},
        {"criterion": "squared_error"},
        {"max_features": 0},
        {"max_features": "all"},
        {"max_bins": 1},
        {"missing": "ignore"},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters: dict[str, object]) -> None:
    X, y = load_iris(return_X_y=True)
    assert code_of(CARTClassifier(**parameters).fit, X, y) is Code.BAD_PARAMETER


def test_bad_tables_are_refused() -> None:
    fit = CARTClassifier().fit
    assert code_of(fit, np.empty((0, 2)), []) is Code.EMPTY_TABLE
    assert code_of(fit, pd.DataFrame({"a": []}), []) is Code.EMPTY_TABLE
    assert code_of(fit, np.ones((3, 2)), [1, 1, 1]) is Code.ONE_CLASS
    assert code_of(fit, np.ones((3, 2)), [0, 1]) is Code.WRONG_SHAPE
    assert code_of(fit, np.ones(3), [0, 1, 0]) is Code.WRONG_SHAPE
    assert code_of(fit, np.array([[np.inf], [1.0]]), [0, 1]) is Code.OUTSIDE_BOUNDS
    twice = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    assert code_of(fit, twice, [0, 1]) is Code.DUPLICATE_COLUMN
    assert code_of(fit, np.ones((2, 1)), [0.5, 1.5]) is Code.BAD_TARGET
    assert code_of(CARTRegressor().fit, np.ones((2, 1)), ["a", "b"]) is Code.BAD_TARGET
    assert code_of(CARTRegressor().fit, np.ones((2, 1)), [1.0, np.nan]) is Code.MISSING_VALUE


def test_export_predicts_the_same() -> None:
    X, y = load_iris(return_X_y=True)
    model = CARTClassifier(max_depth=4).fit(X, y)
    np.testing.assert_array_equal(model.to_sklearn().predict(X), model.predict(X))
    assert model.to_svg().startswith("<svg")


def test_values_that_come_up_later_are_provided_for() -> None:
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": ["x", "y", "x", "y"]})
    model = CARTClassifier(missing="own bin").fit(X, [0, 1, 0, 1])
    later = pd.DataFrame({"a": [np.nan, 1.0], "b": ["z", None]})
    assert model.predict(later).shape == (2,)


@pytest.mark.parametrize("y", [["a", None, "b"], ["a", np.nan, "b"]])
def test_a_missing_class_is_a_missing_value(y: list[object]) -> None:
    labels = np.array(y, dtype=object)
    assert code_of(CARTClassifier().fit, np.ones((3, 1)), labels) is Code.MISSING_VALUE


def test_a_domain_is_not_a_path() -> None:
    assert code_of(CARTClassifier(domain="d.toml").fit, [[1.0]], [0]) is Code.BAD_PARAMETER


def test_columns_that_the_domain_does_not_know_are_left_out() -> None:
    domain = Domain(
        attributes=(Attribute(name="a", kind="numeric", bounds=(0, 4), bins=4),),
        target=Target(name="y", classes=(0, 1)),
    )
    frame = pd.DataFrame({"a": [1.0, 4.0], "y": [0, 1], "note": ["p", "q"]})
    for table in (frame, pa.Table.from_pandas(frame)):
        model = CARTClassifier(domain=domain).fit(table, [0, 1])
        assert list(model.feature_names_in_) == ["a"]
        assert model.predict(pd.DataFrame({"a": [4.0]})).tolist() == [1]
