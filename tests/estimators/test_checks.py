"""scikit-learn's own checks: every estimator passes every one of them, so no exception is listed.

Private estimators run with their insecure switch, because the checks have no public domain to
give; scikit-learn itself leaves out the checks of repeatability for them, since their noise must
not repeat. Without noise a hidden tree has to pass those too. What the engines compute is the same
(`tests/everywhere`): most hidden models are checked in the clear, which is quicker.
"""

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    DPBoostingClassifier,
    DPBoostingRegressor,
    DPClassifier,
    DPRegressor,
    DPTreeClassifier,
    HiddenBoostingClassifier,
    HiddenBoostingRegressor,
    HiddenTreeClassifier,
    HiddenTreeRegressor,
    ID3Classifier,
    MedianForestClassifier,
    MedianForestRegressor,
    OpenTreeClassifier,
    TopDownTreeClassifier,
)

DRAFTED = {"insecure_domain_from_data": True}
EXACT = DRAFTED | {"noise": "none", "engine": "clear"}
ROUNDS = {"n_estimators": 4, "learning_rate": 0.5}
ESTIMATORS = [
    CARTClassifier(),
    CARTClassifier(splitter="random"),
    CARTClassifier(max_leaf_nodes=8),
    CARTRegressor(),
    CARTRegressor(max_features=0.5),
    ID3Classifier(),
    DPTreeClassifier(epsilon=100.0, **DRAFTED),
    DPTreeClassifier(epsilon=100.0, criterion="entropy", **DRAFTED),
    MedianForestClassifier(epsilon=200.0, n_estimators=2, **DRAFTED),
    MedianForestRegressor(epsilon=200.0, n_estimators=2, **DRAFTED),
    DPBoostingClassifier(epsilon=50.0, n_estimators=20, **DRAFTED),
    DPBoostingRegressor(epsilon=50.0, n_estimators=20, **DRAFTED),
    DPClassifier(epsilon=2.0, **DRAFTED),
    DPClassifier(epsilon=2.0, model="tree", **DRAFTED),
    DPRegressor(epsilon=2.0, **DRAFTED),
    TopDownTreeClassifier(epsilon=100.0, **DRAFTED),
    TopDownTreeClassifier(epsilon=1000.0, method="local-rnm", max_depth=4, **DRAFTED),
    HiddenTreeClassifier(epsilon=100.0, max_depth=2, **DRAFTED),
    HiddenTreeClassifier(max_depth=3, **EXACT),
    HiddenTreeClassifier(
        epsilon=100.0,
        max_depth=1,
        branching="wary",
        leaf_release="labels",
        n_owners=2,
        engine="clear",
        **DRAFTED,
    ),
    OpenTreeClassifier(epsilon=100.0, max_depth=2, engine="clear", **DRAFTED),
    HiddenTreeRegressor(max_depth=3, **EXACT),
    HiddenTreeRegressor(epsilon=100.0, max_depth=2, engine="clear", **DRAFTED),
    HiddenBoostingClassifier(**ROUNDS, **EXACT),
    HiddenBoostingRegressor(**ROUNDS, **EXACT),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::hedgerow.errors.HedgerowWarning")
def test_scikit_learn_checks(estimator: BaseEstimator, check: object) -> None:
    check(estimator)
