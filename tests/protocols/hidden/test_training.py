import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import EACH, Leakage, Ledger, Relation
from hedgerow.protocols.growers.choices import (
    BestSplits,
    Exponential,
    Noisy,
    RandomSplits,
    split_reason,
)
from hedgerow.protocols.growers.leaves import (
    LEAF_COUNTS,
    LEAF_LABELS,
    Majority,
    NoisyLabels,
    NoisyLeafCounts,
    PaperLeaves,
)
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.server_plan import LABELS, STRUCTURE
from hedgerow.protocols.hidden.training import (
    leaf_update_of,
    splits_of,
    train_hidden,
)
from hedgerow.tables import Encoded
from tests.net.readings import same_bytes
from tests.protocols.hidden.hidden_runs import (
    ENGINES,
    answers_of,
    domain,
    look,
    make_engine,
    make_rows,
    make_slots,
    run_hidden,
    shared,
)
from tests.secure.replicated.wires import Recorder

CAPACITY = 60

MODES: dict[str, dict[str, Any]] = {
    "exact w-ary": {"noise": "none", "branching": "wary"},
    "exact binary": {"noise": "none", "criterion": "gini"},
    "exact grouped": {"noise": "none", "criterion": "gini", "grower": "grouped"},
    "exact forest": {"noise": "none", "n_trees": 3},
    "counts in leaves": {"noise": "leaves", "branching": "wary"},
    "labels in leaves": {"noise": "leaves", "leaf_release": "labels"},
    "the paper's Laplace": {"noise": "leaves", "branching": "wary", "mechanism": "laplace"},
    "the paper's exponential": {
        "noise": "leaves",
        "branching": "wary",
        "mechanism": "exponential",
    },
    "noisy w-ary": {"branching": "wary"},
    "noisy binary": {},
    "noisy grouped": {"grower": "grouped"},
    "noisy labels": {"leaf_release": "labels", "criterion": "gini"},
    "noisy forest": {"n_trees": 3},
    "noisy Laplace": {"branching": "wary", "mechanism": "laplace"},
    "noisy exponential": {"mechanism": "exponential"},
    "drawn splits": {"random_splits": True},
}


def planned(mode: str, **options: Any) -> HiddenPlan:
    wanted = {"capacity": CAPACITY, "depth": 2, "epsilon": 1.3, **MODES[mode], **options}
    return plan_hidden(domain(), **wanted)


def table_for(plan: HiddenPlan, seed: int = 0, **options: Any) -> Encoded:
    return make_slots(domain(), seed, plan.n_slots, **options)


QUERIES = make_rows(domain(), make_slots(domain(), 9, 7, filled=1.0).bins)


def reasons(plan: HiddenPlan) -> list[str]:
    """Say what is charged, by the description of the modes alone."""
    if plan.random_splits:
        found = []
    elif plan.noise == "splits+leaves":
        found = [split_reason(level) for level in range(plan.depth)]
    else:
        found = [STRUCTURE]
    if plan.noise == "none":
        return [*found, LABELS]
    only = plan.mechanism == "exponential" or (
        plan.mechanism == "discrete" and plan.leaf_release == "labels"
    )
    return [*found, LEAF_LABELS if only else LEAF_COUNTS]


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_charged_and_opened(name: str, mode: str) -> None:
    plan = planned(mode)
    whats = ("class", "distribution") if plan.shows_counts else ("class",)
    run = run_hidden(name, table_for(plan), plan, QUERIES, whats=whats, private=True)
    ledger = run.ledger
    assert [release.reason for release in ledger.releases] == reasons(plan)
    assert plan.answers_derive_from() == tuple(reasons(plan))
    assert {release.audience for release in ledger.releases} == {"analyst"}
    total = ledger.total("analyst")
    private = plan.noise == "splits+leaves" and plan.mechanism == "discrete"
    if private:
        assert total.epsilon == pytest.approx(1.3, rel=1e-12)
        assert total.epsilon <= 1.3 * (1 + 1e-15)
        assert 0 < total.delta < (plan.depth + 1) * 2**-60
        assert ledger.total("analyst", Relation.REPLACE).epsilon == pytest.approx(2.6)
        assert ledger.claimed_total("analyst") is None
        for release in ledger.releases:
            assert release.scope.segments[-1].label == EACH
            trees = [
                s for s in release.scope.segments if s.partition and s.partition.name == "trees"
            ]
            assert len(trees) == (plan.n_trees > 1)
    else:
        assert total.epsilon == math.inf
        claim = ledger.claimed_total("analyst")
        if plan.noise == "none":
            assert claim is None
        else:
            # The paper says that answers cost what the noise at the leaves (and splits) costs.
            assert claim == pytest.approx(1.3, rel=1e-12)
    for audience in ("server", "server 0", "owner", "public"):
        assert ledger.total(audience).epsilon == 0
    assert all(row["equal"] for row in run.leakage.compare())
    assert [row["name"] for row in run.leakage.what_was_learned("analyst")] == [
        opening.name for what in whats for opening in HIDDEN_TREE.answer_openings(plan, 7, what)
    ]
    learned = {row["name"] for row in run.leakage.what_was_learned("server")}
    assert learned == {opening.name for opening in plan.openings()}
    assert bool(learned) == (plan.grower == "grouped")
    assert run.classes.shape == (7,)
    assert set(run.classes.tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("mode", MODES)
def test_traffic_does_not_depend_on_the_data(mode: str) -> None:
    plan = planned(mode)
    whats = ("class", "distribution") if plan.shows_counts else ("class",)
    seen = []
    for seed, filled in ((0, 0.9), (1, 0.0)):
        network = Recorder(5)
        slots = table_for(plan, seed, filled=filled)
        rows = make_rows(domain(), make_slots(domain(), seed + 7, 7, filled=1.0).bins)
        run_hidden("three servers", slots, plan, rows, whats=whats, network=network)
        seen.append(network)
    first, second = seen
    assert len(first.plans) > 20
    # Steps, senders, recipients, shapes and types of every message, in order.
    assert first.plans == second.plans
    assert same_bytes(first.meter.snapshot(), second.meter.snapshot())
    # The contents are other ones.
    assert not np.array_equal(first.received(0), second.received(0))


def _append_rounds(network: Simulator, rounds: list[int], levels: int) -> None:
    rounds.append(network.meter.snapshot().rounds)


@pytest.mark.parametrize(
    "mode", ["exact w-ary", "exact binary", "noisy w-ary", "noisy binary", "noisy exponential"]
)
def test_rounds_of_a_level_depend_neither_on_rows_nor_on_nodes(mode: str) -> None:
    found = []
    # Numbers of as many bits, so that comparisons are equally deep.
    for capacity, trees in ((70, 1), (127, 1), (3 * 70, 3)):
        plan = planned(mode, capacity=capacity, depth=4, n_trees=trees)
        engine = make_engine("three servers", network=Simulator(5))
        table = shared(engine, table_for(plan), plan.layout, plan.ring)
        rounds = [engine.network.meter.snapshot().rounds]
        count = partial(_append_rounds, engine.network, rounds)
        train_hidden(table, plan, Ledger(), count)
        found.append(np.diff(rounds).tolist())
    assert found[0] == found[1] == found[2]
    first, *rest = found[0]
    if plan.branching == "binary":
        # Going down takes a product and a multiplication; after the last choice there is one
        # product for the leaves instead.
        assert rest == [first, first, first - 1]
    else:
        # Used attributes are masked from the second level on. Going down takes three rounds, of
        # which the last is put off to the last histogram where there are many nodes.
        assert rest == [first + 1, first, first]


@pytest.mark.parametrize(
    ("mode", "splits", "leaves"),
    [
        ("exact w-ary", BestSplits, Majority),
        ("counts in leaves", BestSplits, NoisyLeafCounts),
        ("labels in leaves", BestSplits, NoisyLabels),
        ("the paper's Laplace", BestSplits, PaperLeaves),
        ("noisy binary", Noisy, NoisyLeafCounts),
        ("noisy labels", Noisy, NoisyLabels),
        ("noisy Laplace", Exponential, PaperLeaves),
        ("noisy exponential", Exponential, PaperLeaves),
        ("drawn splits", RandomSplits, NoisyLeafCounts),
    ],
)
def test_which_mechanism_a_plan_stands_for(mode: str, splits: Any, leaves: Any) -> None:
    plan, ledger = planned(mode), Ledger()
    assert isinstance(splits_of(plan, ledger), splits)
    assert isinstance(leaf_update_of(plan, ledger), leaves)
    if splits is Noisy:
        assert splits_of(plan, ledger).mechanism == plan.split_mechanism
    if leaves is PaperLeaves:
        assert leaf_update_of(plan, ledger).exponential == (mode == "noisy exponential")


@pytest.mark.parametrize("name", ENGINES)
def test_drawn_splits_are_public_and_cost_nothing(name: str) -> None:
    plans = [planned("drawn splits", public_seed=seed) for seed in (3, 3, 4)]
    found = []
    for seed, plan in enumerate(plans):
        run = run_hidden(name, table_for(plan, seed), plan, QUERIES)
        found.append(look(run.model.splits))
        assert [release.reason for release in run.ledger.releases] == [LEAF_COUNTS]
    # Whatever the records are.
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


@pytest.mark.parametrize("name", ENGINES)
def test_with_little_noise_a_private_tree_is_the_exact_one(name: str) -> None:
    exact = planned("exact w-ary", depth=2)
    plan = planned("noisy w-ary", depth=2, epsilon=150.0, criterion="max")
    slots = table_for(plan, 3)
    # Attributes with equal scores are told apart by their index in one and by noise in the other,
    # so that only the noise of the leaves is small enough to be ruled out; here scores differ.
    one = run_hidden(name, slots, exact, slots)
    other = run_hidden(name, slots, plan, slots)
    np.testing.assert_array_equal(look(one.model.splits)[:, 0], look(other.model.splits)[:, 0])
    filled = slots.present
    assert (one.classes[filled] == other.classes[filled]).mean() > 0.9


@pytest.mark.parametrize("name", ENGINES)
def test_a_budget_that_would_be_exceeded_ends_training_before_it_is_drawn(name: str) -> None:
    plan = planned("noisy binary")
    ledger = Ledger(domain=plan.domain, budget=0.9)
    engine = make_engine(name, Leakage([], ledger=ledger), private=True)
    table = shared(engine, table_for(plan), plan.layout, plan.ring)
    with pytest.raises(HedgerowError, match="H207"):
        train_hidden(table, plan, ledger)
    assert ledger.total("analyst").epsilon <= 0.9


@pytest.mark.parametrize("name", ENGINES)
def test_a_forest_votes(name: str) -> None:
    plan = planned("exact forest", depth=1)
    slots = table_for(plan)
    run = run_hidden(name, slots, plan, QUERIES, whats=("class", "distribution"))
    votes = run.answers["distribution"]
    assert votes.shape == (7, 3)
    assert votes.sum(axis=1).tolist() == [3] * 7
    np.testing.assert_array_equal(run.classes, votes.argmax(axis=1))
    # Every tree is the one of its own slots.
    single = planned("exact binary", capacity=20, depth=1, criterion="max")
    expected = np.zeros((7, 3), dtype=np.int64)
    for tree in range(3):
        own = slots.rows(np.arange(tree, 60, 3))
        labels = run_hidden(name, own, single, QUERIES).classes
        expected[np.arange(7), labels] += 1
    np.testing.assert_array_equal(votes, expected)


@pytest.mark.parametrize("name", ENGINES)
def test_one_model_answers_several_batches(name: str) -> None:
    plan = planned("noisy binary")
    ledger = Ledger(domain=plan.domain)
    engine = make_engine(name, Leakage([], ledger=ledger))
    model = train_hidden(shared(engine, table_for(plan), plan.layout, plan.ring), plan, ledger)
    spent = ledger.releases
    found = []
    for _ in range(2):
        engine.leakage = Leakage(HIDDEN_TREE.answer_openings(plan, 7), ledger=ledger)
        found.append(answers_of(model, plan, QUERIES, "class", ledger))
    # The same answers, at no further cost.
    np.testing.assert_array_equal(*found)
    assert ledger.releases == spent
