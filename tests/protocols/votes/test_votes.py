"""Votes: their law, their budget, and what they leave behind in the ledger."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import HedgerowError, LeakageError, PrivacyError
from hedgerow.net.network import Array, Route
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.votes import votes
from hedgerow.protocols.votes.budget import vote_mechanism
from hedgerow.secure.noise.releases import Prepaid
from hedgerow.secure.ring import Z16, Z32
from hedgerow.trees import Limits, grow_cart, grow_id3
from tests.protocols.hidden.forest_runs import (
    ENGINES,
    asked,
    domain,
    part_of,
    planned,
    slots,
    trained,
)

TREES = 7


def voted(plan: Any, table: Any, queries: Any) -> np.ndarray:
    """Votes of trees grown in the clear on the same slots, (n, k)."""
    counts = np.zeros((queries.n_slots, plan.n_classes), dtype=np.int64)
    for j in range(plan.n_trees):
        own = part_of(table, slice(j, None, plan.n_trees))
        if plan.branching == "wary":
            tree = grow_id3(own, criterion="max", max_depth=plan.depth)
        else:
            limits = Limits(max_depth=plan.depth)
            tree = grow_cart(own, criterion=plan.criterion, limits=limits)
        counts[np.arange(len(counts)), tree.predict_class(queries.bins)] += 1
    return counts


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_with_little_noise_the_majority_wins(engine: str, branching: str) -> None:
    criterion = "gini" if branching == "binary" else "max"
    plan = planned(
        noise="votes",
        n_trees=TREES,
        branching=branching,
        criterion=criterion,
        epsilon=60.0 * 60,
        queries=60,
    )
    table, queries = slots(plan.n_slots), asked()
    forest = trained(plan, table, engine)
    counts = voted(plan, table, queries)
    top = np.sort(counts, axis=1)
    clear = top[:, -1] > top[:, -2]
    assert clear.sum() > 30
    assert np.array_equal(forest.ask(queries)[clear], counts.argmax(axis=1)[clear])
    assert all(row["equal"] for row in forest.leakage.compare())


@pytest.mark.parametrize("engine", ENGINES)
def test_the_law_is_that_of_noisy_max_over_the_votes(engine: str, chi_square: Any) -> None:
    runs, kinds = 35_000, 3
    plan = planned(noise="votes", n_trees=TREES, branching="wary", epsilon=1.0, queries=1)
    plan = replace(plan, query_epsilon=0.4, queries=runs * kinds)
    table = slots(plan.n_slots)
    several = asked(200)
    counts = voted(plan, table, several)
    # Three queries with different votes, each asked many times.
    _, first = np.unique(counts, axis=0, return_index=True)
    chosen = first[np.argsort(counts[first].max(axis=1))[:: max(1, len(first) // 3)][:kinds]]
    queries = replace(
        several,
        bins=np.asfortranarray(np.tile(several.bins[chosen], (runs, 1))),
        present=np.ones(runs * kinds, dtype=np.bool_),
    )
    forest = trained(plan, table, engine, n=runs * kinds)
    found = forest.ask(queries).reshape(runs, kinds)
    for i, at in enumerate(chosen):
        law = vote_mechanism(0.4).law(counts[at])
        assert chi_square(np.bincount(found[:, i], minlength=plan.n_classes), law) > 1e-4


def test_answers_beyond_the_budget_are_refused_before_a_byte_is_sent() -> None:
    plan = planned(noise="votes", n_trees=4, epsilon=2.0, queries=25)
    network = Simulator(3)
    openings = votes.vote_openings(10, times=3)
    forest = trained(
        plan, slots(plan.n_slots), "three servers", openings=openings, n=10, network=network
    )
    queries = asked(10)
    first = forest.ask(queries)
    assert first.shape == (10,)
    assert votes.answers_left(forest.ledger) == 15
    forest.ask(queries)  # the same again is ten more
    before, state = network.meter.snapshot(), forest.ledger.to_json()
    record, shares = str(forest.leakage), {k: v.copy() for k, v in forest.model.shares().items()}
    for _ in range(2):
        with pytest.raises(PrivacyError, match=r"H207.*10 more asked for, 5 left"):
            forest.ask(queries)
    spent = network.meter.snapshot() - before
    assert spent.rounds == 0
    assert not any(spent.payload)
    assert forest.ledger.to_json() == state
    assert str(forest.leakage) == record
    assert all(np.array_equal(v, shares[k]) for k, v in forest.model.shares().items())
    # What is left can still be asked for, and then nothing more.
    engine = forest.engine
    engine.leakage = type(forest.leakage)(votes.vote_openings(5), ledger=forest.ledger)
    forest.ask(asked(5))
    assert votes.answers_left(forest.ledger) == 0
    with pytest.raises(PrivacyError, match="H207"):
        forest.ask(asked(1))


def test_the_budget_survives_a_file() -> None:
    plan = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100)
    forest = trained(plan, slots(plan.n_slots))
    forest.ask(asked())
    again = Ledger.from_json(forest.ledger.to_json())
    assert votes.answers_left(again) == 40
    with pytest.raises(PrivacyError, match="H207"):
        votes.spend_answers(again, 41)
    votes.spend_answers(again, 40)
    assert votes.answers_left(again) == 0


def test_the_ledger_is_charged_for_all_answers_at_once() -> None:
    plan = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100)
    forest = trained(plan, slots(plan.n_slots))
    total = forest.ledger.formal_total("analyst")
    assert total.epsilon == pytest.approx(2.0, rel=1e-12)
    assert total.epsilon <= 2.0
    assert 0 < total.delta < 100 * 2.0**-60
    assert forest.ledger.realised_total("analyst").epsilon == 0
    forest.ask(asked())
    assert forest.ledger.formal_total("analyst") == total
    assert forest.ledger.realised_total("analyst").epsilon == pytest.approx(60 * 2.0 / 100)
    assert forest.ledger.formal_total("server").epsilon == 0
    assert [(e.kind, e.release.times) for e in forest.ledger.entries] == [
        ("reservation", 100),
        ("realised", 60),
    ]
    # Seeded engines are not private, and the ledger says so.
    assert [mark.reason for mark in forest.ledger.not_private] == ["seeded noise"]


def test_a_delta_is_granted_and_printed() -> None:
    plan = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100, delta=1e-6)
    assert plan.query_epsilon > 2 * 2.0 / 100
    ledger = Ledger(domain=domain())
    plan.charge(ledger)
    assert ledger.total("analyst").epsilon == pytest.approx(100 * plan.query_epsilon)
    found = ledger.tightest("analyst", 1e-6)
    assert found.epsilon == pytest.approx(2.0, rel=1e-5)
    assert found.epsilon <= 2.0
    row = ledger.summary()[-1]
    assert (row["audience"], row["epsilon"], row["delta"]) == ("analyst", found.epsilon, 1e-6)
    assert found.method in str(ledger)
    again = Ledger.from_json(ledger.to_json())
    assert str(again) == str(ledger)
    # Another release to the analyst would go beyond what was granted.
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(replace(ledger.releases[0], times=3))


def test_only_what_was_paid_is_drawn() -> None:
    plan = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100)
    forest = trained(plan, slots(plan.n_slots))
    paid = votes.spend_answers(forest.ledger, 3)
    prepaid = Prepaid(forest.ledger, [paid])
    for wrong in ({"times": 4}, {"epsilon": 0.1}, {"delta": 0.0}):
        with pytest.raises(LeakageError, match="H306"):
            prepaid.charge(replace(paid, **wrong))
    prepaid.charge(paid)
    with pytest.raises(LeakageError, match="H306"):
        prepaid.charge(paid)


def test_votes_stay_in_the_smallest_ring() -> None:
    small = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100)
    assert votes.vote_ring(small) == Z16
    many = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100_000)
    assert votes.vote_ring(many) == Z32
    large = planned(noise="votes", n_trees=4, epsilon=2.0, queries=10, capacity=200_000)
    assert large.ring == Z32
    table = slots(large.n_slots, filled=0.01)
    assert trained(large, table).model.ring == Z16


class Recorder(Simulator):
    """A simulator that keeps plans."""

    def __init__(self) -> None:
        super().__init__(3)
        self.plans: list[tuple[str, tuple[Route, ...]]] = []

    def _move(self, step: str, plan: Any, outbox: Any) -> dict[int, Array]:
        self.plans.append((step, tuple(plan)))
        return super()._move(step, plan, outbox)


def test_transcripts_have_one_shape_for_all_tables_and_queries() -> None:
    plans = []
    for seed in range(3):
        network = Recorder()
        plan = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100)
        table = slots(plan.n_slots, seed, filled=0.3 * (seed + 1))
        forest = trained(plan, table, "three servers", network=network)
        forest.ask(asked(seed=seed))
        plans.append(network.plans)
    assert plans[0] == plans[1] == plans[2]


def test_wrong_use_is_refused() -> None:
    plan = planned(noise="votes", n_trees=4, epsilon=2.0, queries=100)
    forest = trained(plan, slots(plan.n_slots))
    shared = forest.share(asked())
    paid = votes.spend_answers(forest.ledger, 60)
    with pytest.raises(HedgerowError, match="one reservation of answers"):
        HIDDEN_TREE.answers(forest.model, plan, shared, "class", Ledger())
    with pytest.raises(HedgerowError, match="noise='votes'"):
        votes.answered(forest.model, replace(plan, noise="none"), shared, forest.ledger, paid)
    with pytest.raises(HedgerowError, match="at least one query"):
        votes.answered(forest.model, plan, shared[:0], forest.ledger, paid)
    for wrong in ({"queries": 0}, {"queries": 5, "sampling": "poisson", "rate": 0.5}):
        with pytest.raises(HedgerowError, match="H501"):
            planned(noise="votes", n_trees=4, **wrong)


def test_answers_can_be_computed_without_being_opened() -> None:
    plan = planned(noise="votes", n_trees=4, epsilon=60.0 * 60, queries=60)
    forest = trained(plan, slots(plan.n_slots), "three servers")
    queries = forest.share(asked())
    n = queries.shape[0]
    left = votes.answers_left(forest.ledger)
    found = votes.answered(
        forest.model, plan, queries, forest.ledger, votes.price_of(forest.ledger, n)
    )
    assert found.shape == (n,)
    assert votes.answers_left(forest.ledger) == left
    assert not any(row["opened"] for row in forest.leakage.compare())
    with pytest.raises(LeakageError, match="H306"):
        votes.answered(
            forest.model, plan, queries, forest.ledger, votes.price_of(forest.ledger, n - 1)
        )
