"""scikit-learn's own checks: every estimator passes every one of them, so no exception is listed.

Private estimators run with their insecure switch, because the checks have no public domain to
give; scikit-learn itself leaves out the checks of repeatability for them, since their noise must
not repeat. Without noise a hidden tree has to pass those too.
"""

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    DPTreeClassifier,
    HiddenBoostingClassifier,
    HiddenBoostingRegressor,
    HiddenTreeClassifier,
    HiddenTreeRegressor,
    ID3Classifier,
    OpenTreeClassifier,
    TopDownTreeClassifier,
)

ESTIMATORS = [
    CARTClassifier(),
    CARTClassifier(splitter="random"),
    CARTClassifier(max_leaf_nodes=8),
    CARTRegressor(),
    CARTRegressor(max_features=0.5),
    ID3Classifier(),
    DPTreeClassifier(epsilon=100.0, insecure_domain_from_data=True),
    DPTreeClassifier(epsilon=100.0, insecure_domain_from_data=True, criterion="entropy"),
    TopDownTreeClassifier(epsilon=100.0, insecure_domain_from_data=True),
    TopDownTreeClassifier(
        epsilon=1000.0, insecure_domain_from_data=True, method="local-rnm", max_depth=4
    ),
    HiddenTreeClassifier(epsilon=100.0, insecure_domain_from_data=True, max_depth=2),
    HiddenTreeClassifier(
        epsilon=100.0,
        insecure_domain_from_data=True,
        max_depth=1,
        branching="wary",
        leaf_release="labels",
        n_owners=2,
        engine="clear",
    ),
    HiddenTreeClassifier(noise="none", insecure_domain_from_data=True, max_depth=3),
    OpenTreeClassifier(epsilon=100.0, insecure_domain_from_data=True, max_depth=2, engine="clear"),
    HiddenTreeRegressor(noise="none", insecure_domain_from_data=True, max_depth=3),
    HiddenTreeRegressor(epsilon=100.0, insecure_domain_from_data=True, max_depth=2, engine="clear"),
    HiddenBoostingClassifier(
        noise="none",
        insecure_domain_from_data=True,
        n_estimators=4,
        learning_rate=0.5,
        engine="clear",
    ),
    HiddenBoostingRegressor(
        noise="none",
        insecure_domain_from_data=True,
        n_estimators=4,
        learning_rate=0.5,
        engine="clear",
    ),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::hedgerow.errors.HedgerowWarning")
def test_scikit_learn_checks(estimator: BaseEstimator, check: object) -> None:
    check(estimator)
