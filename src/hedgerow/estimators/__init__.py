"""scikit-learn estimators over everything below."""

from hedgerow.estimators.account import Account
from hedgerow.estimators.cart import CARTClassifier, CARTRegressor
from hedgerow.estimators.described import Described
from hedgerow.estimators.dp_auto import DPClassifier, DPRegressor
from hedgerow.estimators.dp_boosting import DPBoostingClassifier, DPBoostingRegressor
from hedgerow.estimators.dp_tree import DPTreeClassifier
from hedgerow.estimators.hidden.boosting import HiddenBoostingClassifier, HiddenBoostingRegressor
from hedgerow.estimators.hidden.forest import HiddenForestClassifier
from hedgerow.estimators.hidden.open_tree import OpenTreeClassifier
from hedgerow.estimators.hidden.regressor import HiddenTreeRegressor
from hedgerow.estimators.hidden.tree import HiddenTreeClassifier
from hedgerow.estimators.id3 import ID3Classifier
from hedgerow.estimators.median_forest import MedianForestClassifier, MedianForestRegressor
from hedgerow.estimators.pivot.boosting import PivotBoostingClassifier, PivotBoostingRegressor
from hedgerow.estimators.pivot.forest import PivotForestClassifier, PivotForestRegressor
from hedgerow.estimators.pivot.logistic import PivotLogisticRegression
from hedgerow.estimators.pivot.tree import PivotTreeClassifier, PivotTreeRegressor
from hedgerow.estimators.topdown_tree import TopDownTreeClassifier
from hedgerow.estimators.vertical_id3 import VerticalID3Classifier

__all__ = [
    "Account",
    "CARTClassifier",
    "CARTRegressor",
    "DPBoostingClassifier",
    "DPBoostingRegressor",
    "DPClassifier",
    "DPRegressor",
    "DPTreeClassifier",
    "HiddenBoostingClassifier",
    "HiddenBoostingRegressor",
    "HiddenForestClassifier",
    "HiddenTreeClassifier",
    "HiddenTreeRegressor",
    "ID3Classifier",
    "MedianForestClassifier",
    "MedianForestRegressor",
    "OpenTreeClassifier",
    "PivotBoostingClassifier",
    "PivotBoostingRegressor",
    "PivotForestClassifier",
    "PivotForestRegressor",
    "PivotLogisticRegression",
    "PivotTreeClassifier",
    "PivotTreeRegressor",
    "TopDownTreeClassifier",
    "VerticalID3Classifier",
]

for _name in __all__:
    if hasattr(globals()[_name], "_options_type"):
        globals()[_name].__doc__ = Described(globals()[_name])
