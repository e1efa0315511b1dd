"""One small estimator of every kind that has a ledger, on one table."""

from typing import Any

import numpy as np

from hedgerow import (
    Attribute,
    Domain,
    DPBoostingClassifier,
    DPBoostingRegressor,
    DPTreeClassifier,
    HiddenBoostingClassifier,
    HiddenBoostingRegressor,
    HiddenForestClassifier,
    HiddenTreeClassifier,
    HiddenTreeRegressor,
    MedianForestClassifier,
    MedianForestRegressor,
    OpenTreeClassifier,
    Target,
    TopDownTreeClassifier,
    VerticalID3Classifier,
)

ATTRIBUTES = (
    Attribute(name="age", kind="numeric", bounds=(0, 100), bins=4),
    Attribute(name="ward", kind="categorical", categories=("a", "b")),
)
CLASSES = Domain(
    attributes=ATTRIBUTES, target=Target(name="ill", classes=("no", "yes")), capacity=64
)
NUMBERS = Domain(attributes=ATTRIBUTES, target=Target(name="cost", bounds=(0, 200)), capacity=64)

SMALL: dict[type, dict[str, Any]] = {
    DPTreeClassifier: {"max_depth": 1},
    TopDownTreeClassifier: {"n_splits": 2, "max_depth": 2},
    MedianForestClassifier: {"n_estimators": 1, "max_depth": 1},
    MedianForestRegressor: {"n_estimators": 1, "max_depth": 1},
    DPBoostingClassifier: {"n_estimators": 2, "max_leaves": 2},
    DPBoostingRegressor: {"n_estimators": 2, "max_leaves": 2},
    HiddenTreeClassifier: {"max_depth": 1, "engine": "clear"},
    HiddenForestClassifier: {"max_depth": 1, "n_estimators": 2, "engine": "clear"},
    HiddenTreeRegressor: {"max_depth": 1, "engine": "clear"},
    HiddenBoostingClassifier: {"max_depth": 1, "n_estimators": 1, "engine": "clear"},
    HiddenBoostingRegressor: {"max_depth": 1, "n_estimators": 1, "engine": "clear"},
    OpenTreeClassifier: {"max_depth": 1, "engine": "clear"},
    VerticalID3Classifier: {"max_depth": 1, "cardinality": "secret", "engine": "clear"},
}
PRIVATE = tuple(SMALL)


def small_model(kind: type, epsilon: float = 1.0, **parameters: Any) -> Any:
    """Return an estimator that is fitted in a moment."""
    domain = NUMBERS if kind.__name__.endswith("Regressor") else CLASSES
    return kind(epsilon=epsilon, domain=domain, **SMALL[kind] | parameters)


def small_rows(kind: type) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and the target of such an estimator."""
    rng = np.random.default_rng(3)
    age = rng.integers(0, 100, 60)
    rows = np.array([[a, "ab"[a % 2]] for a in age.tolist()], dtype=object)
    if kind.__name__.endswith("Regressor"):
        return rows, 2.0 * age
    return rows, np.where(age > 60, "yes", "no")
