"""Totals kept up to date are those composed anew, bit for bit, and no budget is exceeded."""

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import PrivacyError
from hedgerow.privacy import calls as module
from hedgerow.privacy.accounting import Guarantee, basic, covers, tightest
from hedgerow.privacy.calls import ReservedSpending, RunningTotals
from hedgerow.privacy.entries import Budget, seen_by
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, ROOT, part, step
from tests.privacy.release_strategies import NODES, TREES, gaussian, release, release_lists


@given(release_lists(max_size=12))
def test_totals_are_those_of_basic_composition_after_every_release(events: list[Release]) -> None:
    totals = RunningTotals()
    for i, event in enumerate(events):
        totals.add(event)
        so_far = events[: i + 1]
        for audience in {e.audience for e in so_far}:
            assert totals.total(audience) == basic(seen_by(so_far, [audience]))
    again = RunningTotals([event] for event in events)
    assert all(again.total(e.audience) == totals.total(e.audience) for e in events)


@pytest.mark.parametrize(
    "epsilons",
    [
        [0.1] * 1000,
        [1e16, 1.0, 1.0, 1e-9],
        [5e-324, 5e-324, 1.0],
        [1e308, 1e308],
        [1.7e308, math.inf, 0.0],
        [0.1, 0.7, 1 / 3, 1e-300],
    ],
)
def test_sums_are_rounded_once(epsilons: list[float]) -> None:
    for scope in (ROOT, ROOT / step("a") / part(NODES, 1) / part(TREES, EACH)):
        events = [release(epsilon, scope, delta=1e-9) for epsilon in epsilons]
        assert RunningTotals([event] for event in events).total("public") == basic(events)


def test_the_dearest_part_may_change() -> None:
    events = [
        release(1.0, ROOT / part(NODES, "x")),
        release(0.6, ROOT / part(NODES, "y"), delta=0.01),
        release(0.6, ROOT / part(NODES, "y")),
        release(0.5, ROOT / part(NODES, EACH)),
        release(0.5, ROOT / part(NODES, "x"), delta=0.02),
    ]
    totals, seen = RunningTotals(), []
    for event in events:
        totals.add(event)
        seen.append(totals.total("public"))
    assert [(g.epsilon, g.delta) for g in seen] == [
        (1.0, 0.0),
        (1.0, 0.01),
        (1.2, 0.01),
        (1.7, 0.01),
        (2.0, 0.02),
    ]


def test_a_budget_is_checked_for_everyone_who_was_named() -> None:
    totals = RunningTotals([[release(0.6)], [release(0.6, audience="server 0")]])
    totals.check(Budget(1.2))
    with pytest.raises(PrivacyError, match=r"H207.*for server 0"):
        totals.check(Budget(1.0))
    assert totals.total("public") == Guarantee(0.6, 0.0)


def test_a_charge_costs_as_much_as_its_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Release] = []

    def pair_of(event: Release) -> module.Pair:
        counted.append(event)
        return module.Pair(event.epsilon, event.delta)

    monkeypatch.setattr(module, "pair_of", pair_of)
    ledger = Ledger(budget=1000.0)
    for i in range(200):
        ledger.charge(release(0.25, ROOT / part(NODES, i)))
    assert len(counted) == 200


@settings(max_examples=60)
@given(release_lists(max_size=10), st.floats(0, 6), st.sampled_from([0.0, 1e-9, 1.0]))
def test_no_budget_is_ever_exceeded(events: list[Release], epsilon: float, delta: float) -> None:
    ledger, free = Ledger(budget=(epsilon, delta)), Ledger()
    for event in events:
        before = ledger.releases
        with contextlib.suppress(PrivacyError):
            ledger.charge(event)
        assert ledger.releases in (before, (*before, event))
        for audience in ledger.audiences:
            budget = ledger.budget
            assert budget is not None
            # A delta that was granted may pay for one release: of a tiny epsilon, all of it.
            fits = budget.allows(ledger.total(audience))
            assert fits or budget.allows(ledger.tightest(audience, budget.delta))
        free.charge(event)
    if all(free.total(audience).epsilon <= epsilon for audience in free.audiences):
        assert delta < 1 or ledger.releases == free.releases


def test_pieces_of_an_epsilon_fit_into_it() -> None:
    for pieces in range(1, 50):
        Ledger(budget=1.7).charge(*[release(1.7 / pieces)] * pieces)


def test_a_budget_may_be_set_later_and_counts_what_went_before() -> None:
    ledger = Ledger(budget=2.0)
    ledger.charge(release(1.0))
    ledger.budget = None
    ledger.charge(release(3.0))
    ledger.budget = Budget(5.0)
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(release(1.5))
    ledger.charge(release(1.0))


@given(
    release_lists(st.floats(0, 2), max_size=8),
    st.sampled_from(["two-sided geometric", "exponential mechanism"]),
    st.floats(0.1, 3),
    st.integers(1, 6),
)
@settings(max_examples=150)
def test_what_is_spent_is_judged_as_by_composing_it_anew(
    spent: list[Release], mechanism: str, epsilon: float, times: int
) -> None:
    reserved = release(epsilon, times=times, delta=0.02, mechanism=mechanism)
    running_sum = ReservedSpending(reserved)
    for i, event in enumerate(spent):
        running_sum.add(event)
        so_far = spent[: i + 1]
        assert running_sum.is_paid() == covers(reserved, so_far)
        assert running_sum.total == basic(so_far)
    assert ReservedSpending(reserved, spent).is_paid() == covers(reserved, spent)


def test_many_small_spendings_take_linear_time() -> None:
    def steps(n: int) -> int:
        ledger = Ledger()
        held = ledger.reserve(release(0.01, ROOT / step("a"), times=n))
        calls = 0
        touched = module._Node.add

        def count(*given: object) -> None:
            nonlocal calls
            calls += 1
            touched(*given)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module._Node, "add", count)
            for _ in range(n):
                ledger.realise(held, release(0.01, ROOT / step("a")))
        return calls

    assert steps(400) == 2 * steps(200)


def test_a_delta_that_is_granted_is_composed_with() -> None:
    many = release(0.02, times=1000)
    needed = tightest([many], 1e-6).epsilon
    assert needed < 4 < 20
    for budget in (Budget(needed), Budget(needed, 2.0**-40), Budget(needed * 0.999, 1e-6)):
        ledger = Ledger(budget=budget)
        with pytest.raises(PrivacyError, match="H207"):
            ledger.charge(many)
        assert not ledger.releases
    ledger = Ledger(budget=(needed, 1e-6))
    ledger.charge(many)
    assert ledger.total().epsilon == pytest.approx(20)
    row = ledger.summary()[-1]
    assert (row["epsilon"], row["delta"], row["private"]) == (needed, 1e-6, "yes")
    assert str(Ledger.from_json(ledger.to_json())) == str(ledger)
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(release(0.01))
    # A delta of 1 promises nothing, and buys nothing.
    assert not Budget(1.0, 1.0).grants_delta


def test_tighter_accountants_do_not_admit_charges_that_may_be_adaptive() -> None:
    """Two branches that are both within the budget, chosen by the first outcome, are not."""
    budget = Budget(1.0, 1e-4)
    parts = [release(0.001), release(0.02793, times=128)]
    assert budget.allows(tightest(parts, budget.delta))
    ledger = Ledger(budget=budget)
    ledger.charge(parts[0])
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(parts[1])
    ledger.charge(release(0.99))


def test_releases_of_one_call_are_composed_together() -> None:
    call = [release(0.02, times=500), release(0.03, times=200), gaussian(0.01)]
    needed = tightest(call, 1e-6).epsilon
    ledger = Ledger(budget=(needed, 1e-6))
    ledger.charge(*call)
    for more in (release(0.01), gaussian(1e-6), release(0.0, delta=1e-9)):
        with pytest.raises(PrivacyError, match="H207"):
            ledger.charge(more)
    assert len(ledger.releases) == 3
    assert ledger.to_json().count('"together": true') == 2
    assert Ledger.from_json(ledger.to_json()).to_json() == ledger.to_json()
    # One by one they may follow from each other's outcomes, and take a delta each.
    other = Ledger(budget=(needed, 1e-6))
    other.charge(call[0])
    with pytest.raises(PrivacyError, match="H207"):
        other.charge(call[1])


def test_calls_add_up_as_pairs_at_the_delta_of_the_ledger() -> None:
    one = tightest([gaussian(0.01), gaussian(0.02)], 1e-7).epsilon
    ledger = Ledger(budget=(2 * one + 0.5, 2e-7), delta=1e-7)
    ledger.charge(gaussian(0.01), gaussian(0.02))
    ledger.charge(release(0.5))
    ledger.charge(gaussian(0.01), gaussian(0.02))
    assert len(ledger.releases) == 5
    for more in (gaussian(1e-9), release(0.01)):
        with pytest.raises(PrivacyError, match="H207"):
            ledger.charge(more)
    # A third call has no delta left, however small it is; the order of the others is kept.
    again = Ledger.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()
    assert again.total() == ledger.total()
    # What is stated is what the budget counts, and no row says less.
    assert ledger.total().delta == 2e-7
    assert ledger.total().epsilon == pytest.approx(2 * one + 0.5)
    assert [row["relation"] for row in ledger.summary()] == ["add/remove", "replace"]
    assert ledger.tightest("public", 2e-7).epsilon < 2 * one + 0.5


def test_what_is_stated_stays_within_a_budget_whose_delta_is_not_split() -> None:
    """Deltas that earlier calls brought are taken off what the call with a rho is stated at."""
    own = 3e-8
    left = 1e-6 - own
    needed = 0.5 + tightest([gaussian(0.02)], left).epsilon
    ledger = Ledger(budget=(needed, 1e-6))
    ledger.charge(release(0.5, delta=own))
    ledger.charge(gaussian(0.02))
    budget = ledger.budget
    assert budget is not None
    assert budget.allows(ledger.total())
    assert ledger.total().delta == pytest.approx(1e-6, rel=1e-12)
    assert ledger.total().epsilon == pytest.approx(needed, rel=1e-12)
    assert len(ledger.summary()) == 2
    # What rounding leaves of a delta pays for nothing, however much epsilon there is.
    for first in (own, 1e-7 / 3, 7e-8, 1.1e-10):
        wide = Ledger(budget=(100.0, 1e-6))
        wide.charge(release(0.5, delta=first))
        wide.charge(gaussian(0.02))
        with pytest.raises(PrivacyError, match="H207"):
            wide.charge(gaussian(0.001))
        assert wide.total().delta <= 1e-6 * (1 + 1e-12)


def test_coalitions_of_a_budget_whose_delta_is_not_split() -> None:
    ledger = Ledger(budget=(1.0, 1e-6))
    ledger.charge(gaussian(0.01, audience="server 0"))
    ledger.charge(gaussian(0.01, audience="server 1"))
    one, both = ledger.total("server 0"), ledger.coalition(["server 0", "server 1"])
    assert (one.delta, both.delta) == (1e-6, 2e-6)
    assert both.epsilon == 2 * one.epsilon


def test_the_row_at_the_delta_of_a_budget_counts_call_by_call() -> None:
    many = release(0.02, times=1000)
    each = tightest([many], 1e-6).epsilon
    ledger = Ledger(budget=(2 * each + 0.1, 2e-6), delta=1e-6)
    ledger.charge(many)
    assert ledger.summary()[-1]["epsilon"] == tightest([many], 2e-6).epsilon
    ledger.charge(many)
    ledger.charge(release(0.1))
    row = ledger.summary()[-1]
    assert (row["delta"], row["why"]) == (2e-6, "sum of 3 calls")
    assert row["epsilon"] == pytest.approx(2 * each + 0.1, rel=1e-12)
    assert ledger.tightest("public", 2e-6).epsilon < row["epsilon"]
    # Where basic composition fits, the total says it already.
    plain = Ledger(budget=(50.0, 1e-6))
    plain.charge(many)
    plain.charge(many)
    assert len(plain.summary()) == 2
    # A coalition is no audience of its own, and may cost more than the budget.
    ledger = Ledger(budget=(each, 1e-6))
    for server in (0, 1):
        ledger.charge(release(0.02, times=1000, audience=f"server {server}"))
    ledger.mark_not_private("shares", ["server 0", "server 1"])
    rows = [row["audience"] for row in ledger.summary() if row["why"] and row["private"] == "yes"]
    assert rows == ["public", "server 0", "server 1"]


def test_a_budget_without_a_delta_has_no_room_for_rho() -> None:
    with pytest.raises(PrivacyError, match="H207"):
        Ledger(budget=100.0).charge(gaussian(1e-9))
    Ledger(budget=100.0, delta=1e-6).charge(gaussian(0.1))
    Ledger(budget=math.inf).charge(gaussian(0.1))


def test_every_audience_has_its_own_calls() -> None:
    needed = tightest([gaussian(0.01)], 1e-6).epsilon
    ledger = Ledger(budget=(needed, 1e-6))
    ledger.charge(gaussian(0.01, audience="server 0"), gaussian(0.01, audience="server 1"))
    ledger.charge(gaussian(0.01, audience="owner 2"))
    with pytest.raises(PrivacyError, match=r"H207.*for server 1"):
        ledger.charge(gaussian(0.001, audience="server 1"))
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(gaussian(0.001))


def test_a_call_fits_as_it_did_when_it_was_made() -> None:
    """A pure call that fits as it is stays so; the one after it is counted by its tightest."""
    pure, many = release(0.5), release(0.02, times=1000)
    rest = tightest([many], 1e-6).epsilon
    ledger = Ledger(budget=(0.5 + rest, 1e-6))
    ledger.charge(pure)
    ledger.charge(many)
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(release(1e-3))
    ledger.charge(release(0.0))
    assert Ledger.from_json(ledger.to_json()).releases == ledger.releases


def test_reservations_by_rho() -> None:
    ledger = Ledger(delta=1e-6)
    held = ledger.reserve(gaussian(0.1, ROOT / step("a"), times=3))
    ledger.realise(held, gaussian(0.1, ROOT / step("a") / step("b"), times=2))
    with pytest.raises(PrivacyError, match="H207"):
        ledger.realise(held, gaussian(0.11, ROOT / step("a")))
    ledger.realise(held, gaussian(0.1, ROOT / step("a")))
    assert ledger.realised_total() == ledger.total()
