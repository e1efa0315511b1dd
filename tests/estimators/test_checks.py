"""scikit-learn's own checks: every estimator passes every one of them, so no exception is listed.

`DPTreeClassifier` runs with its insecure switch, because the checks have no public domain to give;
scikit-learn itself leaves out the checks of repeatability for it, since its noise must not repeat.
"""

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import CARTClassifier, CARTRegressor, DPTreeClassifier, ID3Classifier

ESTIMATORS = [
    CARTClassifier(),
    CARTClassifier(splitter="random"),
    CARTClassifier(max_leaf_nodes=8),
    CARTRegressor(),
    CARTRegressor(max_features=0.5),
    ID3Classifier(),
    DPTreeClassifier(epsilon=100.0, insecure_domain_from_data=True),
    DPTreeClassifier(epsilon=100.0, insecure_domain_from_data=True, criterion="entropy"),
]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::hedgerow.errors.HedgerowWarning")
def test_scikit_learn_checks(estimator: BaseEstimator, check: object) -> None:
    check(estimator)
