"""scikit-learn estimators over everything below."""

from hedgerow.estimators.cart import CARTClassifier, CARTRegressor
from hedgerow.estimators.dp_tree import DPTreeClassifier
from hedgerow.estimators.id3 import ID3Classifier

__all__ = ["CARTClassifier", "CARTRegressor", "DPTreeClassifier", "ID3Classifier"]
