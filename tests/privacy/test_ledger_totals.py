"""Totals of a ledger: audiences, coalitions, marks, calls and deltas."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError, PrivacyError
from hedgerow.privacy.accounting import Guarantee, Relation, tightest
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import ROOT, part, step
from tests.privacy.release_strategies import (
    AUDIENCES,
    FINITE,
    NODES,
    gaussian,
    ledger_of,
    release,
    release_lists,
)

relaxed = settings(max_examples=60)


@relaxed
@given(release_lists(), st.sampled_from(AUDIENCES), st.sampled_from(Relation))
def test_public_releases_count_for_everyone(
    events: list[Release], audience: str, relation: Relation
) -> None:
    ledger = ledger_of(events)
    public, total = ledger.total("public", relation), ledger.total(audience, relation)
    assert total.epsilon >= public.epsilon
    assert total.delta >= public.delta
    for event in events:
        if event.audience in ("public", audience):
            assert total.epsilon >= event.epsilon


@relaxed
@given(release_lists(), st.lists(st.sampled_from(AUDIENCES), min_size=2, max_size=3))
def test_coalitions_learn_at_least_what_each_member_learns_and_at_most_the_sum(
    events: list[Release], members: list[str]
) -> None:
    ledger = ledger_of(events)
    together = ledger.coalition(members).epsilon
    alone = [ledger.total(member).epsilon for member in members]
    assert max(alone) <= together <= sum(alone) * (1 + 1e-12)


def test_coalitions_add_up_without_counting_public_releases_twice() -> None:
    ledger = ledger_of([release(1.0), release(2.0, audience="server 0")])
    ledger.charge(release(4.0, audience="server 1"))
    assert ledger.total("public").epsilon == 1
    assert ledger.total("server 0").epsilon == 3
    assert ledger.total("owner 7").epsilon == 1
    assert ledger.coalition(["server 0", "server 1"]).epsilon == 7
    assert ledger.total("server").epsilon == 7
    assert ledger.tightest(["server 0", "server 1"], 0).epsilon == 7
    assert ledger.audiences == ("public", "server 0", "server 1")


def test_a_role_is_told_together_and_counted_together() -> None:
    ledger = ledger_of([release(1.0, audience="analyst"), release(2.0, audience="analyst ana")])
    assert ledger.total("analyst ana").epsilon == 3
    assert ledger.total("analyst ben").epsilon == 1
    assert ledger.total("analyst").epsilon == 3


@pytest.mark.parametrize("audience", ["nobody", "", None])
def test_unknown_audiences_are_refused(audience: object) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        Ledger().total(audience)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="H205"):
        Ledger().coalition([])


def test_an_audience_that_is_none_is_told_which_there_are() -> None:
    ledger = Ledger()
    ledger.charge(release(audience="analyst"))
    ledger.mark_not_private("shares", ["server 0", "server 1"])
    for ask in (ledger.total, ledger.formal_total, lambda name: ledger.tightest(name, 1e-6)):
        with pytest.raises(HedgerowError) as caught:
            ask("server 0 + server 1")
        assert caught.value.code is Code.BAD_RELEASE
        assert caught.value.expected.endswith("public, analyst, server 0, server 1")
        assert "coalition(['server 0', 'server 1'])" in caught.value.fix
    assert math.isinf(ledger.coalition(["server 0", "server 1"]).epsilon)
    with pytest.raises(HedgerowError, match="name one of them"):
        ledger.total("nobody")


def test_a_ledger_that_says_who_takes_part_knows_nobody_else() -> None:
    ledger = Ledger(parties=["site 0", "site 1", "server 0"])
    ledger.charge(release(1.0), release(2.0, audience="site 0"), release(3.0, audience="owner"))
    ledger.mark_not_private("shares", ["peer 0"])
    for again in (ledger, Ledger.from_json(ledger.to_json())):
        assert [again.total(f"site {i}").epsilon for i in (0, 1)] == [3, 1]
        # A role is all who hold it; who is named by a charge or a mark is known by that.
        assert again.total("site").epsilon == again.coalition("site").epsilon == 3
        assert again.total("server").epsilon == again.total("server 0").epsilon == 1
        assert again.total("owner 7").epsilon == again.total("owner").epsilon == 4
        assert again.total("peer 0").why == "shares"
        for ask in (
            again.total,
            again.formal_total,
            again.realised_total,
            again.claimed_total,
            again.calls,
            lambda name, ledger=again: ledger.tightest(name, 1e-6),
            lambda name, ledger=again: ledger.coalition(["site 0", name]),
        ):
            for nobody in ("site 7", "server 1", "peer 1", "analyst", "analyst ana"):
                with pytest.raises(HedgerowError, match=f"Found: audience '{nobody}'") as caught:
                    ask(nobody)
                assert caught.value.code is Code.BAD_RELEASE
                assert caught.value.expected.startswith("an audience of this ledger: public, site")
    assert Ledger().total("site 7").epsilon == 0


def test_not_private_is_infinite_and_says_why() -> None:
    ledger = ledger_of([release(1.0)])
    ledger.mark_not_private("seeded noise")
    ledger.mark_not_private("seeded noise")
    ledger.mark_not_private("test run")
    for found in (ledger.total(), ledger.tightest("public", 1e-6), ledger.coalition(["peer 1"])):
        assert found.epsilon == math.inf
        assert not found.private
        assert found.why == "seeded noise; test run"
    assert ledger.formal_total() == Guarantee(1.0, 0.0)
    with pytest.raises(PrivacyError, match="H205"):
        ledger.mark_not_private(" ")


def test_a_mark_may_concern_a_coalition_only() -> None:
    ledger = ledger_of([release(1.0)])
    ledger.mark_not_private("two servers hold all shares", ["server 0", "server 1"])
    assert ledger.total("server 0").epsilon == 1
    assert ledger.coalition(["server 0", "owner 1"]).epsilon == 1
    assert ledger.coalition(["server 0", "server 1"]).epsilon == math.inf
    assert ledger.total("server").epsilon == math.inf
    ledger.mark_not_private("alignment reveals membership", "peer")
    assert ledger.total("peer 1").why == "alignment reveals membership"
    assert ledger.total("public").epsilon == 1


def test_a_reason_is_told_once_and_charges_are_told_beside_marks() -> None:
    ledger = ledger_of([release(1.0), release(2.0, audience="server")])
    for i in range(3):
        ledger.mark_not_private("two hold all", [f"server {i}", f"server {(i + 1) % 3}"])
    assert ledger.total("server").why == "two hold all"
    assert ledger.formal_total("server") == Guarantee(3.0, 0.0)
    for reason in ("shape", "labels"):
        ledger.charge(release(math.inf, audience="server", mechanism="exact", reason=reason))
    both = "no finite epsilon: shape, labels"
    for found in (ledger.total("server"), ledger.tightest("server", 1e-6)):
        assert found.why == f"{both}; two hold all"
    assert ledger.total("server 0").why == both
    for found in (ledger.formal_total("server"), ledger.realised_total("server")):
        assert (found.epsilon, found.method, found.why) == (math.inf, "none", both)
    assert ledger.formal_total() == Guarantee(1.0, 0.0)


def test_infinity_says_which_release_it_came_from() -> None:
    ledger = ledger_of([release(1.0), release(math.inf, reason="tree shape", claimed=0.5)])
    assert ledger.total().epsilon == ledger.total(relation=Relation.REPLACE).epsilon == math.inf
    assert ledger.total().why == "no finite epsilon: tree shape"
    assert ledger.claimed_total() == 1.5
    assert ledger.claimed_total("server 0") == 1.5
    assert ledger_of([release(1.0)]).claimed_total() is None


@relaxed
@given(release_lists(FINITE, max_size=4), st.sampled_from([0.0, 1e-6, 0.1]))
def test_tightest_is_at_most_the_total(events: list[Release], delta: float) -> None:
    ledger = ledger_of(events)
    total, found = ledger.total(), ledger.tightest("public", delta)
    assert found.epsilon <= total.epsilon or total.delta > delta


def test_releases_by_rho_are_told_at_a_delta() -> None:
    events = [gaussian(0.05, times=4), release(0.5), gaussian(0.1, audience="server 0")]
    ledger, open_ = ledger_of(events, delta=1e-6), ledger_of(events)
    total = ledger.total()
    assert total == ledger.formal_total()
    assert (total.delta, total.method) == (1e-6, "sum of 2 calls")
    assert total.epsilon == tightest(events[:1], 1e-6).epsilon + 0.5
    assert ledger.total("server 0") == ledger.coalition(["server 0", "owner 1"])
    assert ledger.total("server 0").delta == 2e-6
    assert ledger.total("server 0").epsilon > total.epsilon
    assert open_.total().epsilon == open_.formal_total().epsilon == math.inf
    assert "give the ledger" in open_.total().why
    assert "give the ledger" in open_.summary()[0]["why"]
    row = ledger.summary()[0]
    assert (row["epsilon"], row["delta"], row["why"]) == (total.epsilon, 1e-6, "sum of 2 calls")
    assert Ledger.from_json(ledger.to_json()).total() == total
    ledger.mark_not_private("seeded noise")
    assert ledger.total().why == "seeded noise"
    assert ledger.formal_total() == total
    ledger.charge(release(math.inf, mechanism="exact", reason="shape"))
    assert ledger.formal_total().epsilon == math.inf
    assert ledger_of([*events, release(math.inf, reason="shape")], delta=1e-6).total().why == (
        "no finite epsilon: shape"
    )
    # Who sees none of them is told as before.
    only = ledger_of([release(0.5), gaussian(0.1, audience="server 0")], delta=1e-6)
    assert only.total() == Guarantee(0.5, 0.0)


def test_one_call_is_told_by_its_tightest_figure() -> None:
    call = [gaussian(0.05, times=4), release(0.5), gaussian(0.1, audience="server 0")]
    ledger = Ledger(delta=1e-6)
    ledger.charge(*call)
    for relation in Relation:
        found = tightest(call[:2], 1e-6, relation)
        assert ledger.total("public", relation) == found
        assert ledger.formal_total("public", relation) == found
        assert ledger.tightest("public", 1e-6, relation) == found
        assert ledger.total("server 0", relation) == tightest(call, 1e-6, relation)
    assert ledger.total().method == "RDP"


def test_totals_of_calls_that_follow_from_each_other_add_up() -> None:
    """One who stops when the loss exceeds what a curve over all calls says finds it too small."""
    rhos = [0.01 * 1.3**k for k in range(20)]
    ledger = Ledger(delta=1e-2)
    for k, rho in enumerate(rhos, 1):
        ledger.charge(gaussian(rho, ROOT / step(f"query {k}")))
        for relation in Relation:
            pairs = [tightest([gaussian(r)], 1e-2, relation) for r in rhos[:k]]
            for total in (
                ledger.total("public", relation),
                ledger.coalition(["server 0"], relation),
            ):
                assert total.epsilon == pytest.approx(sum(pair.epsilon for pair in pairs))
                assert total.delta == pytest.approx(k * 1e-2)
                assert total.private
            assert ledger.formal_total("public", relation) == total
    together = ledger.tightest("public", 20e-2)
    assert together.epsilon < ledger.total().epsilon / 2
    assert together.method == "RDP, all charges fixed in advance"
    assert "all charges fixed in advance" not in str(ledger)
    lines = [line.split() for line in str(ledger).splitlines()[1:3]]
    assert [(line[2], " ".join(line[-4:])) for line in lines] == [("0.2", "sum of 20 calls")] * 2
    assert Ledger.from_json(ledger.to_json()).summary() == ledger.summary()
    # A delta of 1 or more is none.
    lax = ledger_of([gaussian(0.01), gaussian(0.01)], delta=0.6)
    assert (lax.total().delta, lax.total().private) == (1.0, False)


def test_calls_without_a_rho_cost_no_delta_and_keep_their_partitions() -> None:
    one, other = ROOT / part(NODES, "x"), ROOT / part(NODES, "y")
    pure = [release(0.5, one, delta=1e-9), release(0.7, other), release(0.1)]
    ledger = ledger_of([pure[0], gaussian(0.02, one), *pure[1:], gaussian(0.02, other)], delta=1e-6)
    each = tightest([gaussian(0.02)], 1e-6).epsilon
    total = ledger.total()
    assert total.epsilon == pytest.approx(0.8 + 2 * each, rel=1e-12)
    assert total.delta == pytest.approx(1e-9 + 2e-6, rel=1e-12)
    twice = ledger.total("public", Relation.REPLACE)
    each = tightest([gaussian(0.02)], 1e-6, Relation.REPLACE).epsilon
    assert twice.epsilon == pytest.approx(1.6 + 2 * each, rel=1e-12)
    assert twice.delta == pytest.approx((1 + math.exp(0.8)) * 1e-9 + 2e-6, rel=1e-9)


def test_the_condition_of_the_tightest_figure_is_named_where_it_matters() -> None:
    ledger = ledger_of([release(0.02, times=500)] * 2)
    assert ledger.tightest("public", 1e-6).method.endswith("(PLD), all charges fixed in advance")
    assert "fixed in advance" in str(ledger.tightest("public", 1e-6))
    # Basic composition holds for whatever was chosen when, and one call is fixed by itself.
    assert ledger.tightest("public", 0.0).method == "basic composition"
    ledger = ledger_of([release(0.02, times=500), release(0.3, audience="server 0")])
    assert ledger.tightest("public", 1e-6).method == "optimal composition (PLD)"
    assert ledger.tightest("server 0", 1e-6).method.endswith("fixed in advance")


def test_what_was_spent_in_a_reservation_is_one_call() -> None:
    ledger = Ledger(delta=1e-6)
    held = [ledger.reserve(gaussian(0.1, ROOT / step(name), times=2)) for name in "ab"]
    for reservation in (*held, *held):
        ledger.realise(reservation, replace(reservation.release, times=1))
    assert ledger.realised_total() == ledger.total()
    assert ledger.total().delta == 2e-6
    assert ledger.total().epsilon == 2 * tightest([gaussian(0.1, times=2)], 1e-6).epsilon
