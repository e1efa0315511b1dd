"""Hedgerow: one tree model for several organisations, and nobody's rows cross the hedge."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.estimators import (
        Account,
        CARTClassifier,
        CARTRegressor,
        DPBoostingClassifier,
        DPBoostingRegressor,
        DPClassifier,
        DPRegressor,
        DPTreeClassifier,
        HiddenBoostingClassifier,
        HiddenBoostingRegressor,
        HiddenForestClassifier,
        HiddenTreeClassifier,
        HiddenTreeRegressor,
        ID3Classifier,
        MedianForestClassifier,
        MedianForestRegressor,
        OpenTreeClassifier,
        PivotBoostingClassifier,
        PivotBoostingRegressor,
        PivotForestClassifier,
        PivotForestRegressor,
        PivotLogisticRegression,
        PivotTreeClassifier,
        PivotTreeRegressor,
        TopDownTreeClassifier,
        VerticalID3Classifier,
    )
    from hedgerow.parties.roles.client import Consortium
    from hedgerow.privacy import Ledger
    from hedgerow.tables import Attribute, Batches, Domain, Target, read_sql
    from hedgerow.trees import read_model

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Attribute",
    "Batches",
    "CARTClassifier",
    "CARTRegressor",
    "Consortium",
    "DPBoostingClassifier",
    "DPBoostingRegressor",
    "DPClassifier",
    "DPRegressor",
    "DPTreeClassifier",
    "Domain",
    "HiddenBoostingClassifier",
    "HiddenBoostingRegressor",
    "HiddenForestClassifier",
    "HiddenTreeClassifier",
    "HiddenTreeRegressor",
    "ID3Classifier",
    "Ledger",
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
    "Target",
    "TopDownTreeClassifier",
    "VerticalID3Classifier",
    "read_model",
    "read_sql",
]

_ROOMS = {
    "Attribute": "tables",
    "Batches": "tables",
    "Consortium": "parties.roles.client",
    "Domain": "tables",
    "Target": "tables",
    "Ledger": "privacy",
    "read_model": "trees",
    "read_sql": "tables",
}


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    # Loaded on first use: scikit-learn and Numba take seconds, `hedgerow errors` should not.
    if name not in __all__:
        raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")
    return getattr(import_module(f"hedgerow.{_ROOMS.get(name, 'estimators')}"), name)
