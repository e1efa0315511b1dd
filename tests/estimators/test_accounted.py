"""Searches: they say that they spend, and an account adds them up."""

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from one_table import DOMAIN, rows
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

from hedgerow import Account, CARTClassifier, DPTreeClassifier, Ledger, MedianForestClassifier
from hedgerow.errors import Code, HedgerowError, HedgerowWarning


def tree(**parameters: object) -> DPTreeClassifier:
    return DPTreeClassifier(1.0, DOMAIN, max_depth=1, **parameters)


def warned(call, *arguments, **named) -> int:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call(*arguments, **named)
    return sum(issubclass(w.category, HedgerowWarning) for w in seen)


def test_a_search_warns_once_that_it_spends() -> None:
    X, y = rows()
    ages = X.to_pandas()
    search = GridSearchCV(tree(), {"split_share": [0.5, 0.7]}, cv=2)
    with pytest.warns(HedgerowWarning, match="epsilon \\(1\\) again") as seen:
        search.fit(ages, y)
    assert sum(issubclass(w.category, HedgerowWarning) for w in seen) == 1
    pipeline = Pipeline([("tree", tree())])
    assert warned(cross_val_score, pipeline, ages, y, cv=3) == 1
    forest = MedianForestClassifier(1.0, DOMAIN, n_estimators=1, max_depth=1)
    assert warned(cross_val_score, forest, ages, y, cv=2) == 1


def test_one_fit_or_no_claim_does_not_warn() -> None:
    X, y = rows()
    model = tree()
    assert warned(model.fit, X, y) == 0
    assert warned(model.fit, X, y) == 0
    assert warned(clone(model).fit, X, y) == 0
    assert warned(clone(model).fit, X, y) == 1
    assert warned(cross_val_score, CARTClassifier(), X.to_pandas()[["age"]], y, cv=2) == 0


def test_a_copy_in_a_worker_knows_its_number() -> None:
    model = tree()
    clone(model)
    second = pickle.loads(pickle.dumps(clone(model)))
    with pytest.warns(HedgerowWarning, match="search"):
        second.fit(*rows())


def test_an_account_adds_a_search_up_and_ends_it(tmp_path: Path) -> None:
    X, y = rows()
    ages = X.to_pandas()
    account = Account(Ledger(budget=100.0))
    search = GridSearchCV(tree(account=account), {"split_share": [0.5, 0.7]}, cv=2)
    assert warned(search.fit, ages, y) == 0
    # Two candidates on two parts of the table, and the best of them once more on all of it.
    assert account.spent().epsilon == pytest.approx(5.0)
    assert search.best_estimator_.account is account
    small = Account.new(tmp_path / "account.json", 2.0)
    with pytest.raises(HedgerowError) as caught:
        cross_val_score(tree(account=small), ages, y, cv=3, error_score="raise")
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert small.spent().epsilon == pytest.approx(2.0)


def test_workers_charge_one_file(tmp_path: Path) -> None:
    X, y = rows()
    path = tmp_path / "account.json"
    account = Account.new(path, 100.0)
    pipeline = Pipeline([("tree", tree(account=str(path)))])
    search = GridSearchCV(pipeline, {"tree__split_share": [0.5, 0.7]}, cv=2, n_jobs=2)
    search.fit(X.to_pandas(), y)
    assert account.spent().epsilon == pytest.approx(5.0)
    assert len(account.costs()) == 5
    assert np.isfinite(search.best_score_)
    # In memory, what workers spend would be lost: they refuse.
    inside = GridSearchCV(
        tree(account=Account(Ledger())), {"split_share": [0.5]}, n_jobs=2, error_score="raise"
    )
    with pytest.raises(HedgerowError) as caught:
        inside.fit(X.to_pandas(), y)
    assert "memory of another process" in caught.value.found
