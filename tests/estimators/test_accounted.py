"""Searches: they say that they spend, and an account adds them up."""

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

from hedgerow import (
    Account,
    CARTClassifier,
    DPTreeClassifier,
    Ledger,
    MedianForestClassifier,
    Target,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.estimators.accounted import FitLedger
from hedgerow.privacy import ROOT, Release
from tests.estimators.one_table import DOMAIN, rows


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
    assert warned(clone(model).fit, X, y) == 0
    assert warned(clone(model).fit, X, y) == 1
    assert warned(cross_val_score, CARTClassifier(), X.to_pandas()[["age"]], y, cv=2) == 0


def test_a_second_fit_without_an_account_warns_once() -> None:
    X, y = rows()
    model = tree().fit(X, y)
    with pytest.warns(HedgerowWarning, match="was fitted before: every fit on the same people"):
        model.fit(X, y)
    assert warned(model.fit, X, y) == 0
    # An account adds them up, and what promises nothing has nothing to spend.
    for promised in (tree(account=Account(Ledger(budget=100.0))), tree(random_state=1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            promised.fit(X, y).fit(X, y)
        assert not any("fitted before" in str(one.message) for one in caught)


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
    with pytest.warns(HedgerowWarning, match="no ledger counts scores") as seen:
        search.fit(ages, y)
    assert sum(issubclass(w.category, HedgerowWarning) for w in seen) == 1
    assert "costs its epsilon" not in str(seen[0].message)
    # Two candidates on two parts of the table, and the best of them once more on all of it.
    assert account.spent().epsilon == pytest.approx(5.0)
    assert search.best_estimator_.account is account
    small = Account.new(tmp_path / "account.json", 2.0)
    with pytest.warns(HedgerowWarning, match="scores"), pytest.raises(HedgerowError) as caught:
        cross_val_score(tree(account=small), ages, y, cv=3, error_score="raise")
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert small.spent().epsilon == pytest.approx(2.0)


@pytest.mark.filterwarnings("ignore:copies of this:hedgerow.errors.HedgerowWarning")
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


@pytest.mark.filterwarnings("ignore:copies of this:hedgerow.errors.HedgerowWarning")
def test_votes_are_paid_for_and_bagging_is_refused() -> None:
    X, y = rows()
    ages = X.to_pandas()
    account = Account(Ledger(budget=100.0))
    # Ensembles number the classes before their members see them.
    domain = DOMAIN.model_copy(update={"target": Target(name="ill", classes=(0, 1))})
    member = tree(account=account).set_params(domain=domain)
    VotingClassifier([("a", member), ("b", clone(member))]).fit(ages, y)
    assert account.spent().epsilon == pytest.approx(2.0)
    # It repeats rows and seeds its members; neither is what a fit is charged for.
    with pytest.raises(HedgerowError) as caught:
        BaggingClassifier(member, n_estimators=2).fit(ages, y)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert "seeded" in caught.value.found
    assert account.spent().epsilon == pytest.approx(2.0)


def test_an_account_pays_for_reservations() -> None:
    account = Account(Ledger(budget=10.0))
    ledger = FitLedger(account=account)
    worst = Release("two-sided geometric", 9.0, 0.0, 1.0, ROOT, "public", "counts")
    reserved = ledger.reserve(worst)
    assert account.spent().epsilon == ledger.total().epsilon == 9.0
    spent = Release("two-sided geometric", 2.0, 0.0, 1.0, ROOT, "public", "counts")
    ledger.realise(reserved, spent)
    assert account.spent().epsilon == 9.0
    with pytest.raises(HedgerowError) as caught:
        ledger.reserve(spent)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert len(ledger.releases) == 1
