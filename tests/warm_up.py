"""Compile the kernels once, ahead of the tests, whose processes would compile them all at once.

Run by ``make test``, a process for each part. Estimators are fitted to small tables: what most
tests use is then in Numba's cache. A kernel that is not met is compiled by the test that needs it.
"""

import sys

import numpy as np

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    Domain,
    DPBoostingClassifier,
    DPBoostingRegressor,
    DPTreeClassifier,
    HiddenBoostingClassifier,
    HiddenForestClassifier,
    HiddenTreeRegressor,
    ID3Classifier,
    MedianForestClassifier,
    MedianForestRegressor,
    PivotTreeClassifier,
    PivotTreeRegressor,
    TopDownTreeClassifier,
    VerticalID3Classifier,
)
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64

CRITERIA = ("gini", "entropy", "max")
METHODS = ("local-rnm", "noisy-counts", "secure-counts")

X = np.random.default_rng(0).uniform(size=(120, 3))
Y = (X[:, 0] > X[:, 1]).astype(np.int64)
Z = X[:, 0] - X[:, 1]


def domain(target: np.ndarray, task: str) -> Domain:
    """Return the domain of the numbers above, which are nobody's."""
    return Domain.suggest(X, target, task=task, capacity=len(X), quiet=True).confirm_public()


def trees() -> None:
    """Fit what is grown by the kernels of single trees."""
    for splitter in ("best", "random"):
        CARTClassifier(splitter=splitter).fit(X, Y).predict_proba(X)
        CARTRegressor(splitter=splitter).fit(X, Z).predict(X)
    CARTClassifier(max_leaf_nodes=4, criterion="entropy").fit(X, Y).predict(X)
    ID3Classifier().fit(X, Y).predict(X)
    public = domain(Y, "classification")
    for criterion in CRITERIA:
        DPTreeClassifier(10.0, public, criterion=criterion).fit(X, Y).predict(X)
    for method in METHODS:
        TopDownTreeClassifier(10.0, public, method=method, max_depth=2).fit(X, Y).predict(X)
    for hide in ("nothing", "thresholds"):
        PivotTreeClassifier(n_peers=2, max_depth=2, hide=hide).fit(X, Y).predict(X[:2])
        PivotTreeRegressor(n_peers=2, max_depth=2, hide=hide).fit(X, Z).predict(X[:2])


def sums() -> None:
    """Fit what is grown by other kernels: forests, sums of trees, and trees on servers."""
    public, real = domain(Y, "classification"), domain(Z, "regression")
    HiddenTreeRegressor(10.0, real, max_depth=1).fit(X, Z).predict(X[:2])
    HiddenForestClassifier(10.0, public, n_estimators=2, max_depth=1).fit(X, Y).predict(X[:2])
    HiddenBoostingClassifier(10.0, public, n_estimators=1).fit(X, Y).predict(X[:2])
    DPBoostingClassifier(10.0, public, n_estimators=2).fit(X, Y).predict(X)
    DPBoostingRegressor(10.0, real, n_estimators=2).fit(X, Z).predict(X)
    MedianForestClassifier(10.0, public, n_estimators=2).fit(X, Y).predict(X)
    MedianForestRegressor(10.0, real, n_estimators=2).fit(X, Z).predict(X)
    VerticalID3Classifier(max_bins=2, max_depth=1).fit(X, Y)
    engines = AdditiveEngine(Simulator(2), Leakage([])), ReplicatedEngine(Simulator(3), Leakage([]))
    for engine in engines:
        for ring in (Z16, Z32, Z64):
            x = engine.public(np.arange(12).reshape(3, 4), ring)
            engine.shuffle(x * x @ x.transpose(), engine.permutation(3))


if __name__ == "__main__":
    for part in sys.argv[1:]:
        {"trees": trees, "sums": sums}[part]()
