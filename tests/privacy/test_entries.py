"""What a ledger is made of: budgets, coalitions and what they see."""

import math

import pytest

from hedgerow.errors import PrivacyError
from hedgerow.privacy.accounting import Guarantee
from hedgerow.privacy.entries import Budget, as_budget, seen_by, sees, viewers_of
from tests.privacy.release_strategies import AUDIENCES, release


@pytest.mark.parametrize(
    "figures",
    [(-1,), (math.nan,), (10**400,), ("1",), (1, -0.1), (1, 1.1), (1, math.nan), (1, 10**400)],
    ids=lambda figures: str(figures)[:12],
)
def test_odd_budgets_are_refused(figures: tuple[float, ...]) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        Budget(*figures)


def test_budgets_are_read_from_numbers() -> None:
    assert as_budget(None) is None
    assert as_budget(1.5) == Budget(1.5)
    assert as_budget((1.5, 1e-6)) == Budget(1.5, 1e-6)
    assert as_budget(Budget(2)) == Budget(2)


def test_a_budget_forgives_rounding_and_nothing_else() -> None:
    budget = Budget(5.0, 1e-6)
    assert budget.allows(Guarantee(6 * (5 / 6), 1e-6))
    assert budget.allows(Guarantee(5.000000000000001, 1e-6))
    assert not budget.allows(Guarantee(5.0000001, 0.0))
    assert not budget.allows(Guarantee(1.0, 1.0001e-6))
    assert not Budget(5.0).allows(Guarantee(1.0, 1e-9))  # room for finite precision only
    assert Budget(5.0).allows(Guarantee(1.0, 1000 * 2.0**-60))


def test_coalitions_see_what_their_members_see() -> None:
    events = [release(audience=audience) for audience in AUDIENCES]
    assert [e.audience for e in seen_by(events, ["server 0", "owner 2"])] == [
        "public",
        "server 0",
        "owner 2",
    ]
    assert sees(viewers_of("analyst"), "analyst ana")
    with pytest.raises(PrivacyError, match="H205"):
        viewers_of([])
    with pytest.raises(PrivacyError, match="H205"):
        viewers_of(["somebody"])
