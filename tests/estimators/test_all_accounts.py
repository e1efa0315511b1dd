"""Every private estimator: an account adds its fits up, and a second fit is warned of."""

import math
import warnings
from dataclasses import replace
from typing import Any

import pytest
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hedgerow import (
    Account,
    HiddenForestClassifier,
    HiddenTreeClassifier,
    Ledger,
    VerticalID3Classifier,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.privacy import Scope
from hedgerow.privacy.accounting import basic
from hedgerow.protocols.vertical_id3.leakage import THEOREM_2
from tests.estimators.private_models import PRIVATE, small_model, small_rows

BUDGET = (1.8, 1e-4)


class Untouchable:
    """Rows that must not be read."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} of the rows was read")


def new_account() -> Account:
    return Account(Ledger(budget=BUDGET, delta=1e-6))


def messages(call: Any, *arguments: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call(*arguments)
    texts = [str(one.message) for one in seen if issubclass(one.category, HedgerowWarning)]
    # These tables are small: that noise drowns some of them is another matter.
    return [text for text in texts if "will drown" not in text]


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("kind", PRIVATE)
def test_an_account_has_what_the_ledger_of_a_fit_has(kind: type) -> None:
    account = new_account()
    model = small_model(kind, account=account).fit(*small_rows(kind))
    placed = account.ledger.releases
    charged = [replace(r, scope=Scope(r.scope.segments[1:])) for r in placed]
    assert charged == list(model.privacy_.releases)
    (fit,) = {r.scope.segments[0].label for r in placed}
    assert fit.startswith(f"fit 1: {type(model).__name__}, ")
    # Sites know whose records they have, so that what is spent is more, for them.
    assert account.charged().epsilon == pytest.approx(1.0, rel=1e-3)
    assert [cost.fit for cost in account.costs()] == [fit]
    # An account promises nothing to whom the fit itself promises nothing.
    named = {who for mark in model.privacy_.not_private for who in mark.audiences}
    for who in {*named, *model.privacy_.audiences}:
        ends = model.privacy_.total(who).epsilon, account.spent(who).epsilon
        assert math.isinf(ends[0]) == math.isinf(ends[1]), who


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("kind", [k for k in PRIVATE if k is not VerticalID3Classifier])
def test_beyond_a_budget_no_row_is_read(kind: type) -> None:
    account = new_account()
    model = small_model(kind, account=account).fit(*small_rows(kind))
    with pytest.raises(HedgerowError) as caught:
        model.fit(Untouchable(), Untouchable())
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert len(account.costs()) == 1
    check_is_fitted(model)
    if hasattr(model, "predict"):
        assert model.predict(small_rows(kind)[0]).shape == (60,)
    seeded = small_model(kind, account=new_account(), random_state=1)
    with pytest.raises(HedgerowError, match="is not private"):
        seeded.fit(Untouchable(), Untouchable())


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
@pytest.mark.parametrize("kind", PRIVATE)
def test_a_second_fit_and_a_search_are_warned_of_once(kind: type) -> None:
    rows = small_rows(kind)
    model = small_model(kind)
    assert messages(model.fit, *rows) == []
    (told,) = messages(model.fit, *rows)
    assert "was fitted before: every fit on the same people costs its epsilon (1)" in told
    assert messages(model.fit, *rows) == []
    clone(model)
    (told,) = messages(clone(model).fit, *rows)
    assert "as in a search or cross-validation" in told
    assert messages(small_model(kind, account=new_account()).fit, *rows) == []


def test_what_promises_nothing_has_nothing_to_spend() -> None:
    rows = small_rows(HiddenTreeClassifier)
    model = small_model(HiddenTreeClassifier, noise="none").fit(*rows)
    assert messages(model.fit, *rows) == []
    with pytest.raises(HedgerowError) as caught:
        small_model(HiddenTreeClassifier, noise="none", account=new_account()).fit(*rows)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    adds_up = Account(Ledger())
    small_model(HiddenTreeClassifier, noise="none", account=adds_up).fit(*rows)
    assert adds_up.spent().epsilon == float("inf")
    assert adds_up.spent("server 0").epsilon == 0.0


def test_all_votes_are_paid_for_with_the_fit() -> None:
    rows, target = small_rows(HiddenForestClassifier)
    account = Account(Ledger(budget=10.0))
    forest = small_model(
        HiddenForestClassifier, 9.0, noise="votes", queries=4, n_estimators=8, account=account
    )
    forest.fit(rows, target)
    assert account.spent().epsilon == pytest.approx(9.0)
    assert account.spent("public").epsilon == 0.0
    forest.predict(rows[:3])
    assert forest.answers_left() == 1
    assert account.spent().epsilon == pytest.approx(9.0)
    assert basic(forest.privacy_.releases).epsilon == pytest.approx(9.0)


def test_the_sites_of_a_vertical_tree_see_what_no_budget_pays_for() -> None:
    rows, target = small_rows(VerticalID3Classifier)
    account = new_account()
    exact = small_model(
        VerticalID3Classifier, account=account, cardinality="commutative", engine="simulate"
    )
    with pytest.raises(HedgerowError) as caught:
        exact.fit(rows, target)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert account.costs() == []
    model = small_model(VerticalID3Classifier, account=account).fit(rows, target)
    learned = model.what_was_learned_
    with pytest.raises(HedgerowError) as caught:
        model.predict(rows)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    assert model.what_was_learned_ == learned
    adds_up = Account(Ledger())
    model.set_params(account=adds_up).predict(rows)
    assert THEOREM_2 in {release.reason for release in adds_up.ledger.releases}
    charges = len(adds_up.ledger.releases)
    model.predict(rows)
    assert len(adds_up.ledger.releases) == charges
