"""Accountants: sums, maxima, replace, conversions, and that no epsilon is below the truth."""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hedgerow.errors import PrivacyError
from hedgerow.privacy.accounting import (
    Guarantee,
    Relation,
    basic,
    claimed_epsilon,
    covers,
    response_curve,
    sequence,
    tightest,
    zcdp,
)
from hedgerow.privacy.mechanisms import DiscreteGaussian
from hedgerow.privacy.release import Release
from hedgerow.privacy.renyi import RHO_ORDERS, epsilon_at, sampled_curve
from hedgerow.privacy.scopes import EACH, ROOT, part, step
from tests.privacy.release_strategies import FINITE, NODES, gaussian, release, release_lists

X, Y = ROOT / part(NODES, "x"), ROOT / part(NODES, "y")
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE


@given(release_lists(min_size=1))
@settings(max_examples=60)
def test_a_total_is_never_below_a_part_nor_above_the_sum(events: list[Release]) -> None:
    total = basic(events)
    alone = [basic([event]) for event in events]
    assert total.epsilon >= max(one.epsilon for one in alone)
    assert total.delta >= max(one.delta for one in alone)
    assert total.epsilon <= sum(one.epsilon for one in alone) * (1 + 1e-12)
    assert total.delta <= min(1, sum(one.delta for one in alone)) * (1 + 1e-12)


@given(release_lists(), release_lists(min_size=1, max_size=1), st.sampled_from(Relation))
@settings(max_examples=60)
def test_one_more_release_never_lowers_a_total(
    events: list[Release], more: list[Release], relation: Relation
) -> None:
    before, after = basic(events, relation), basic([*events, *more], relation)
    assert after.epsilon >= before.epsilon
    assert after.delta >= before.delta


@given(release_lists(), release_lists())
@settings(max_examples=60)
def test_steps_add_and_siblings_take_the_maximum(one: list[Release], two: list[Release]) -> None:
    def inside(scope: object, events: list[Release]) -> list[Release]:
        return [
            release(e.epsilon, type(ROOT)((*scope.segments, *e.scope.segments)), delta=e.delta)  # type: ignore[attr-defined]
            for e in events
        ]

    a, b = basic(inside(ROOT, one)), basic(inside(ROOT, two))
    steps = basic([*inside(ROOT / step("1"), one), *inside(ROOT / step("2"), two)])
    parts = basic([*inside(X, one), *inside(Y, two)])
    each = basic([*inside(ROOT / part(NODES, EACH), one), *inside(Y, two)])
    for total in (steps, each):
        assert math.isclose(total.epsilon, a.epsilon + b.epsilon, rel_tol=1e-12)
        assert math.isclose(total.delta, min(1, a.delta + b.delta), rel_tol=1e-12)
    assert parts.epsilon == max(a.epsilon, b.epsilon)
    assert parts.delta == max(a.delta, b.delta)


@given(release_lists(FINITE))
@settings(max_examples=60)
def test_replace_is_derived_from_the_composed_total(events: list[Release]) -> None:
    add, both = basic(events), basic(events, REPLACE)
    assert both.epsilon == 2 * add.epsilon
    exact = (1 + math.exp(add.epsilon)) * add.delta if add.epsilon < 700 else 1
    assert min(1, exact) <= both.delta <= min(1, exact * (1 + 1e-11))
    rho, _ = zcdp(events)
    assert zcdp(events, REPLACE).epsilon == pytest.approx(4 * rho)


def test_replace_with_extreme_figures() -> None:
    assert basic([release(math.inf)], REPLACE) == Guarantee(math.inf, 0.0, REPLACE)
    assert basic([release(1000.0)], REPLACE).delta == 0
    assert basic([release(1000.0, delta=1e-300)], REPLACE).delta == 1
    assert basic([release(1.7e308, times=3)]).epsilon == math.inf
    assert basic([release(1.7e308), release(1.7e308)]).epsilon == math.inf


def test_siblings_under_replace_really_cost_twice() -> None:
    """Moving a record between two noisy counts changes both: the loss reaches 2 epsilon."""
    epsilon, reach = 1.0, 30
    noise = np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))
    before, after = noise[1:], noise[:-1]  # counts 1 and 0 on a common range
    loss = np.log(np.outer(before, after) / np.outer(after, before))
    assert np.abs(loss).max() == pytest.approx(2 * epsilon)
    events = [release(epsilon, X), release(epsilon, Y)]
    assert basic(events).epsilon == epsilon
    assert basic(events, REPLACE).epsilon == 2 * epsilon
    assert tightest(events, 1e-12, REPLACE).epsilon > epsilon


def test_claims_compose_like_costs() -> None:
    events = [release(math.inf, X, claimed=0.5, times=3), release(1.0, Y), release(1.0)]
    assert claimed_epsilon(events) == 2.5
    assert basic(events).epsilon == math.inf


@given(release_lists(FINITE), st.sampled_from([0.0, 1e-12, 1e-6, 1e-2, 0.5]))
@settings(max_examples=50)
def test_tightest_is_never_above_basic_composition(events: list[Release], delta: float) -> None:
    for relation in Relation:
        total, found = basic(events, relation), tightest(events, delta, relation)
        assert found.relation is relation
        assert found.delta == delta
        if total.delta <= delta:
            assert found.epsilon <= total.epsilon


def truth(epsilons: list[float], deltas: list[float], epsilon: float) -> float:
    """Delta of the worst mechanisms with these costs, by enumerating their outcomes."""
    pure = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        pairs = list(zip(signs, epsilons, strict=True))
        p = math.prod(1 / (1 + math.exp(-s * e)) for s, e in pairs)
        pure += p * max(0.0, -math.expm1(epsilon - sum(s * e for s, e in pairs)))
    silent = math.prod(1 - d for d in deltas)
    return 1 - silent + silent * pure


@given(
    st.lists(st.tuples(st.floats(0.001, 2), st.sampled_from([0, 1e-9, 1e-3])), max_size=6),
    st.sampled_from([1e-9, 1e-6, 2e-3, 0.1]),
)
@settings(max_examples=100)
def test_tightest_is_never_below_the_optimum(
    costs: list[tuple[float, float]], delta: float
) -> None:
    epsilons, deltas = [e for e, _ in costs], [d for _, d in costs]
    events = [release(e, delta=d) for e, d in costs]
    found = tightest(events, delta)
    if math.isfinite(found.epsilon):
        # 1e-15: the truth is computed in floats around 1.
        assert truth(epsilons, deltas, found.epsilon * (1 + 1e-12)) <= delta + 1e-15
    else:
        assert sum(deltas) > delta


COSTS = st.tuples(st.floats(0.01, 1.5), st.sampled_from([0, 1e-9, 1e-4]))


@given(
    st.lists(COSTS, max_size=3),
    st.lists(COSTS, max_size=3),
    st.sampled_from([1e-6, 5e-3, 0.1]),
)
@settings(max_examples=60)
def test_tightest_covers_replacing_within_a_part_and_across_parts(
    one: list[tuple[float, float]], two: list[tuple[float, float]], delta: float
) -> None:
    events = [release(e, scope, delta=d) for scope, costs in ((X, one), (Y, two)) for e, d in costs]
    found = tightest(events, delta, REPLACE).epsilon
    if math.isinf(found):
        return
    # From x to y each part is met once; within a part each release is met twice in a row.
    across = [*one, *two]
    within = [[(2 * e, (1 + math.exp(e)) * d) for e, d in costs] for costs in (one, two)]
    for costs in (across, *within):
        met = truth([e for e, _ in costs], [d for _, d in costs], found * (1 + 1e-12))
        assert met <= delta + 1e-15


def test_what_a_charge_pays_for() -> None:
    lump, slots = release(2.0), release(0.5, times=4)
    assert covers(lump, [release(0.5, times=4)])
    assert covers(lump, [release(1.5), release(0.5, mechanism="exponential mechanism")])
    assert not covers(lump, [release(0.5, times=5)])
    assert covers(slots, [release(0.5), release(0.25), release(0.5, times=2)])
    assert not covers(slots, [release(2.0)])
    assert not covers(slots, [release(0.1, times=5)])
    assert covers(slots, [release(0.5, X, times=4), release(0.5, Y, times=3)])
    assert not covers(lump, [release(0.5, delta=1e-9)])
    choice = release(1.0, mechanism="exponential mechanism")
    assert covers(choice, [release(0.5, mechanism="exponential mechanism", times=2)])
    assert not covers(choice, [release(1.0)])
    assert covers(release(1.0), [release(1 / 7) for _ in range(7)])


@given(
    release_lists(FINITE, max_size=4),
    st.floats(0.1, 5),
    st.integers(1, 4),
    st.sampled_from(["two-sided geometric", "exponential mechanism"]),
)
@settings(max_examples=60)
def test_what_is_paid_for_is_never_dearer_than_the_charge(
    spent: list[Release], epsilon: float, times: int, mechanism: str
) -> None:
    charge = release(epsilon, times=times, delta=0.01, mechanism=mechanism)
    if not covers(charge, spent):
        return
    for relation in Relation:
        for delta in (0.2, 0.5):
            paid = tightest([charge], delta, relation).epsilon
            assert tightest(spent, delta, relation).epsilon <= paid * (1 + 1e-3) + 1e-9


def test_every_accountant_wins_somewhere() -> None:
    few = [release(1.0)]
    assert tightest(few, 0).method == "basic composition"
    assert tightest([release(0.1, times=100)], 1e-6).method == "optimal composition (PLD)"
    many = [release(0.05, mechanism="exponential mechanism", times=400)]
    found = tightest(many, 1e-6)
    assert found.method == "RDP"
    assert found.epsilon < 0.6 * tightest([release(0.05, times=400)], 1e-6).epsilon
    assert tightest([], 1e-6) == Guarantee(0.0, 1e-6)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, math.nan, "1e-6", None])
def test_a_delta_out_of_range_is_refused(delta: object) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        tightest([release()], delta)  # type: ignore[arg-type]


def test_infinity_and_too_large_deltas_leave_no_epsilon() -> None:
    assert tightest([release(math.inf), release()], 1e-6).epsilon == math.inf
    found = tightest([release(delta=1e-6), release(delta=1e-6)], 1.5e-6)
    assert found.epsilon == math.inf
    assert "2e-06" in found.why
    assert tightest([release(delta=1e-6)], 1e-6).epsilon == 1.0
    # Under replace the same release brings (1 + e) times the delta.
    assert tightest([release(delta=1e-6)], 3e-6, REPLACE).epsilon == math.inf
    assert tightest([release(delta=1e-6)], 4e-6, REPLACE).epsilon <= 2.0


def test_siblings_do_not_cost_more_than_the_dearest() -> None:
    one = [release(0.1, X, times=50)]
    both = [*one, release(0.1, Y, times=40), release(0.05, Y, times=10)]
    assert tightest(both, 1e-6) == tightest(one, 1e-6)


def test_the_part_may_depend_on_earlier_answers() -> None:
    """First one answer; then a record is in part x (one release at 1.5) or in y (two at 1).

    If the answer decides the part, the loss is worse than in either part alone.
    """
    first, parts = 1.0, {X: [1.5], Y: [1.0, 1.0]}
    positive = 1 / (1 + math.exp(-first))

    def adaptive(at: float) -> float:
        after = [max(truth(e, [], at - loss) for e in parts.values()) for loss in (first, -first)]
        return positive * after[0] + (1 - positive) * after[1]

    events = {scope: [release(e, scope) for e in epsilons] for scope, epsilons in parts.items()}
    everything = [release(first), *events[X], *events[Y]]
    for delta in (1e-3, 0.1, 0.3, 0.5):
        assert adaptive(tightest(everything, delta).epsilon) <= delta * (1 + 1e-9)
    alone = max(tightest([release(first), *e], 0.5).epsilon for e in events.values())
    assert adaptive(alone) > 0.53


@given(
    st.floats(0.05, 2),
    st.lists(st.floats(-1, 1), min_size=12, max_size=12),
    st.floats(0, 0.05),
    st.floats(0, 4),
)
def test_deltas_of_nearby_laws_add_up(
    epsilon: float, noise: list[float], size: float, at: float
) -> None:
    """Two releases, each near an epsilon-DP law: H(P',Q') <= H(P,Q) + sum (1 + e^eps) tau."""
    u = np.array(noise).reshape(2, 2, 3)
    ideal, near, price = [], [], 0.0
    for i in range(2):
        p = np.exp(u[i, 0])
        p /= p.sum()
        q = p * np.exp(epsilon / 2 * u[i, 1])  # log-ratios within epsilon after normalising
        q /= q.sum()
        moved = [np.maximum(law + size * np.roll(u[i, 1], i), 0) for law in (p, q)]
        assume(all(law.sum() > 0 for law in moved))
        moved = [law / law.sum() for law in moved]
        tau = max(np.abs(a - b).sum() / 2 for a, b in zip(moved, (p, q), strict=True))
        price += (1 + math.exp(epsilon)) * tau
        ideal.append((p, q))
        near.append(moved)

    def stick(pairs: list) -> float:
        p, q = (np.outer(pairs[0][side], pairs[1][side]) for side in (0, 1))
        return float(np.maximum(p - math.exp(at) * q, 0).sum())

    assert stick(near) <= stick(ideal) + price + 1e-12


def test_a_better_curve_needs_a_delta_of_the_right_kind() -> None:
    exact = release(0.1, mechanism="exponential mechanism")
    assert zcdp([exact]) == (pytest.approx(0.00125), 0)
    near = release(0.1, mechanism="exponential mechanism", delta=2.0**-60)
    assert zcdp([near]) == (pytest.approx(0.00125), 2.0**-60)
    assert zcdp([release(0.1, delta=2.0**-60)]).epsilon == pytest.approx(0.005)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.1, 1.0, 20.0, 400.0, 5000.0])
def test_the_curve_of_randomised_response(epsilon: float) -> None:
    orders = np.array([1.02, 1.5, 2.0, 17.0, 1e3, 1e6])
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        exact = [
            mpmath.log((mpmath.exp(a * e) + mpmath.exp((1 - a) * e)) / (1 + mpmath.exp(e)))
            / (a - 1)
            for a in map(mpmath.mpf, orders.tolist())
        ]
        for found, truth_ in zip(response_curve(epsilon, orders).tolist(), exact, strict=True):
            assert truth_ <= found <= min(e, truth_ * (1 + mpmath.mpf(1e-9)))


def test_releases_by_rho_have_an_epsilon_at_a_delta_only() -> None:
    events = [gaussian(0.1, times=3), gaussian(0.2, X), gaussian(0.3, Y), release(1.0)]
    assert basic(events) == Guarantee(math.inf, 0.0)
    assert zcdp(events) == (pytest.approx(0.3 + 0.3 + 0.5), 0.0)
    assert zcdp(events, REPLACE).epsilon == pytest.approx(4 * 1.1)
    assert sequence(events, ADD)[math.inf] > 0
    found = tightest(events, 1e-6)
    assert found.method == "RDP"
    # Pure releases keep their own curve: an epsilon of 1 is less than a rho of 1/2.
    assert found.epsilon < tightest([gaussian(1.1)], 1e-6).epsilon
    assert found.epsilon > tightest(events[:3], 1e-6).epsilon
    assert tightest(events, 0.0) == Guarantee(
        math.inf, 0.0, ADD, "none", "no delta is left for releases by rho"
    )
    assert tightest([*events, release(math.inf)], 1e-6).epsilon == math.inf
    assert tightest([gaussian(0.0)], 1e-6).epsilon <= 1e-9


@given(
    st.lists(st.sampled_from([0.4, 1.0, 3.0]), min_size=1, max_size=3),
    st.lists(st.floats(0.05, 1.0), max_size=2),
    st.sampled_from([1e-8, 1e-4, 0.05]),
)
@settings(max_examples=40)
def test_tightest_is_never_below_the_truth_of_gaussians(
    sigmas: list[float], pure: list[float], delta: float
) -> None:
    """Counts 0 and 1 with discrete Gaussian noise, and responses: all outcomes, all losses."""
    events = [gaussian(1 / (2 * s * s)) for s in sigmas] + [release(e) for e in pure]
    found = tightest(events, delta).epsilon
    assert math.isfinite(found)
    p, losses = np.ones(1), np.zeros(1)
    for s in sigmas:
        mechanism = DiscreteGaussian(1 / (2 * s * s))
        k = np.arange(-math.ceil(9 * s), math.ceil(9 * s) + 1)
        p = np.outer(p, mechanism.law(k)).ravel()
        losses = np.add.outer(losses, (1 - 2 * k) / (2 * s * s)).ravel()
    for e in pure:
        p = np.outer(p, [1 / (1 + math.exp(-e)), 1 / (1 + math.exp(e))]).ravel()
        losses = np.add.outer(losses, [e, -e]).ravel()
    exact = float(np.sum(p * np.maximum(0, -np.expm1(found - losses))))
    assert exact <= delta * (1 + 1e-9) + 1e-15


def test_samples_make_releases_by_rho_cheaper() -> None:
    whole, part_ = [gaussian(0.1, times=50)], [gaussian(0.1, times=50, sample_rate=0.1)]
    for relation in Relation:
        found = tightest(part_, 1e-6, relation)
        assert found.method in ("RDP", "Gaussian losses (PLD)")
        assert found.epsilon < 0.3 * tightest(whole, 1e-6, relation).epsilon
    assert zcdp(part_) == zcdp(whole)
    assert tightest(part_, 1e-6, REPLACE).epsilon > 1.5 * tightest(part_, 1e-6).epsilon


def test_deltas_of_releases_by_rho() -> None:
    near = gaussian(0.1, delta=1e-9)
    assert tightest([near], 1e-6).epsilon >= tightest([gaussian(0.1)], 1e-6 - 1e-9).epsilon
    assert "1e-09" in tightest([near], 1e-10).why
    both = tightest([near], 1e-6, REPLACE)
    assert both.method == "RDP, twice"
    # (2 epsilon, (1 + e^epsilon) d): from the total at a smaller d, and above 4 rho.
    assert both.epsilon > tightest([gaussian(0.1)], 1e-6, REPLACE).epsilon
    assert both.epsilon == pytest.approx(2 * tightest([near], 1e-6 / 7).epsilon, rel=0.1)
    assert tightest([near], 1e-9, REPLACE).epsilon == math.inf
    assert tightest([near], 0.0, REPLACE).epsilon == math.inf


def test_a_release_with_a_delta_is_not_counted_as_mirrored() -> None:
    exact, near = (gaussian(0.01, sample_rate=0.1, times=50, delta=d) for d in (0.0, 1e-15))
    assert exact.rule.mirrored
    for release_, mirrored in ((exact, True), (near, False)):
        curve = 50 * sampled_curve(0.01, 0.1, RHO_ORDERS, mirrored=mirrored)
        epsilon = epsilon_at(RHO_ORDERS, curve, 1e-6 - 50 * release_.delta)
        # With a variance they would be counted by their losses.
        moments = tightest([replace(release_, sensitivity=1e-9)], 1e-6)
        assert moments.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert tightest([near], 1e-6).epsilon > 1.1 * tightest([exact], 1e-6).epsilon


def test_what_a_charge_by_rho_pays_for() -> None:
    charge = gaussian(0.1, times=4)
    assert covers(charge, [gaussian(0.4)])
    assert covers(charge, [gaussian(0.1, times=3), gaussian(0.05, times=2)])
    assert covers(charge, [gaussian(0.4, X), gaussian(0.4, Y)])
    assert covers(charge, [gaussian(0.3, sample_rate=0.5)])
    assert not covers(charge, [gaussian(0.41)])
    assert not covers(charge, [gaussian(0.1, delta=1e-9)])
    assert not covers(charge, [release(0.1)])
    assert not covers(charge, [release(math.inf, mechanism="exact")])
    assert not covers(release(5.0), [gaussian(1e-6)])
    sampled = gaussian(0.1, times=4, sample_rate=0.1)
    assert covers(sampled, [gaussian(0.1, times=3, sample_rate=0.1)])
    assert covers(sampled, [gaussian(0.05, times=4, sample_rate=0.05)])
    assert not covers(sampled, [gaussian(0.2, sample_rate=0.1)])
    assert not covers(sampled, [gaussian(0.1, sample_rate=0.2)])
    assert not covers(sampled, [gaussian(0.1, times=5, sample_rate=0.1)])
    assert not covers(sampled, [gaussian(0.1)])


def test_a_guarantee_reads_well() -> None:
    assert str(Guarantee(1.0, 0.0)) == "epsilon 1, delta 0, add/remove, basic composition"
    assert not Guarantee(math.inf, 0.0).private
    assert not Guarantee(1.0, 1.0).private
    assert Guarantee(1.0, 1e-9).private
