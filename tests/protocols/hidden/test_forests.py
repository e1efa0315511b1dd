"""Hidden forests: disjoint and sampled trees, extra trees, attributes drawn for each node."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.protocols.growers.choices import BestSplits, RandomSplits, Restricted
from hedgerow.protocols.growers.leaves import LEAF_COUNTS
from hedgerow.protocols.hidden import training
from hedgerow.protocols.hidden.answers import HIDDEN_TREE, distribution
from hedgerow.protocols.hidden.sampling import sample_rows
from hedgerow.protocols.hidden.server_plan import LABELS
from hedgerow.trees import Limits, grow_cart, grow_id3
from tests.protocols.hidden.forest_runs import (
    BINS,
    ENGINES,
    asked,
    domain,
    part_of,
    planned,
    slots,
    trained,
)
from tests.protocols.sharing.shared_tables import one_hot
from tests.protocols.votes.test_votes import Recorder, voted
from tests.secure.engines import reveal

TREES = 5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("seed", range(3))
def test_a_forest_without_noise_is_the_majority_of_its_trees(
    engine: str, branching: str, seed: int
) -> None:
    criterion = "gini" if branching == "binary" else "max"
    plan = planned(noise="none", n_trees=TREES, branching=branching, criterion=criterion)
    table, queries = slots(plan.n_slots, seed), asked(seed=seed + 10)
    openings = [
        *HIDDEN_TREE.answer_openings(plan, 60),
        *HIDDEN_TREE.answer_openings(plan, 60, "distribution"),
    ]
    forest = trained(plan, table, engine, openings=openings)
    counts = voted(plan, table, queries)
    assert np.array_equal(forest.ask(queries), counts.argmax(axis=1))
    found = forest.ask(queries, "distribution")
    assert np.array_equal(found, counts)
    np.testing.assert_allclose(distribution(found), counts / TREES)
    assert all(row["equal"] for row in forest.leakage.compare())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_a_forest_on_disjoint_slots_costs_as_much_as_one_tree(engine: str, branching: str) -> None:
    plan = planned(noise="splits+leaves", n_trees=TREES, branching=branching, epsilon=2.0)
    forest = trained(plan, slots(plan.n_slots), engine)
    forest.ask(asked())
    assert forest.ledger.formal_total("analyst").epsilon == pytest.approx(2.0, rel=1e-12)
    assert forest.ledger.formal_total("server").epsilon == 0
    alone = trained(planned(noise="splits+leaves", branching=branching, epsilon=2.0), slots())
    assert alone.ledger.formal_total("analyst").epsilon == pytest.approx(2.0, rel=1e-12)
    assert all(row["equal"] for row in forest.leakage.compare())


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("sampling", ["disjoint", "poisson"])
def test_extra_trees_pay_for_their_leaves_alone(engine: str, branching: str, sampling: str) -> None:
    plan = planned(
        noise="leaves",
        random_splits=True,
        n_trees=TREES,
        branching=branching,
        epsilon=1.5,
        sampling=sampling,
        depth=3,
    )
    assert plan.split_epsilon == 0
    forest = trained(plan, slots(plan.n_slots), engine)
    forest.ask(asked())
    total = forest.ledger.formal_total("analyst").epsilon
    # Sampled or not, the budget is that of all trees together.
    assert total == pytest.approx(1.5, rel=1e-9)
    if sampling == "disjoint":
        assert plan.answers_derive_from() == (LEAF_COUNTS,)
        assert [release.reason for release in forest.ledger.releases] == [LEAF_COUNTS]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_the_splits_of_extra_trees_come_from_public_coins(engine: str, branching: str) -> None:
    options = {"noise": "none", "random_splits": True, "n_trees": TREES, "branching": branching}
    plan = planned(**options, depth=3, public_seed=4)
    assert plan.answers_derive_from() == (LABELS,)
    first, second = (
        reveal(trained(plan, slots(plan.n_slots, seed), engine).model.splits) for seed in (0, 1)
    )
    assert np.array_equal(first, second)
    assert np.array_equal(first.sum(axis=-1), np.ones(first.shape[:2]))
    other = planned(**options, depth=3, public_seed=5)
    assert not np.array_equal(first, reveal(trained(other, slots(plan.n_slots)).model.splits))
    if branching == "wary":
        # No attribute twice on a path.
        w = max(BINS)
        index = first.argmax(axis=-1)
        levels = np.split(index, [1, 1 + w], axis=1)
        for tree in range(TREES):
            for leaf in range(w**2):
                path = {levels[k][tree, leaf // w ** (2 - k)] for k in range(3)}
                assert len(path) == 3


def test_extra_trees_label_leaves_by_their_rows() -> None:
    plan = planned(noise="none", random_splits=True, n_trees=1, branching="binary", depth=1)
    table, queries = slots(plan.n_slots), asked()
    forest = trained(plan, table)
    left = plan.layout.left[reveal(forest.model.splits)[0, 0].argmax()]
    side = one_hot(plan.layout, table) @ left
    labels = [
        np.bincount(table.target[table.present & (side == s)], minlength=3).argmax() for s in (0, 1)
    ]
    found = forest.ask(queries)
    assert np.array_equal(found, np.take(labels, one_hot(plan.layout, queries) @ left))


@pytest.mark.parametrize("engine", ENGINES)
def test_nodes_choose_from_the_attributes_that_were_drawn(engine: str) -> None:
    plan = planned(noise="none", n_trees=TREES, criterion="gini", max_features=2, public_seed=3)
    feature = plan.layout.candidates.feature
    forest = trained(plan, slots(plan.n_slots), engine)
    splits = reveal(forest.model.splits)
    replayed = Restricted(BestSplits(), feature, 2, 3)
    drawn = [replayed.draw(0, (TREES, 1)), replayed.draw(1, (TREES, 2))]
    mask = np.concatenate(drawn, axis=1)
    assert (mask & (splits == 1)).sum() == TREES * 3
    for row in mask.reshape(-1, feature.size):
        assert np.unique(feature[row]).size == 2
        assert np.isin(feature, np.unique(feature[row])).sum() == row.sum()
    # Of those, the best: a tree grown in the clear on these attributes alone begins alike.
    whole = slots(plan.n_slots)
    for tree in range(TREES):
        own = part_of(whole, slice(tree, None, TREES))
        kept = np.unique(feature[mask[tree, 0]])
        narrow = type(own)(
            domain().select(list(kept)),
            np.asfortranarray(own.bins[:, kept]),
            own.target,
            own.present,
        )
        best = grow_cart(narrow, criterion="gini")
        chosen = splits[tree, 0].argmax()
        assert kept[best.feature[0]] == feature[chosen]
        assert best.cut[0] == plan.layout.candidates.cut[chosen]


def test_all_attributes_are_the_same_as_none_drawn() -> None:
    some, none = (
        planned(noise="none", n_trees=TREES, criterion="gini", max_features=f)
        for f in (len(BINS), 0)
    )
    first, second = (reveal(trained(p, slots(p.n_slots)).model.splits) for p in (some, none))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_sampled_at_rate_one_every_tree_is_that_of_the_whole_table(
    engine: str, branching: str
) -> None:
    criterion = "gini" if branching == "binary" else "max"
    plan = planned(
        noise="none",
        n_trees=3,
        branching=branching,
        criterion=criterion,
        sampling="poisson",
        rate=1.0,
    )
    table, queries = slots(plan.n_slots), asked()
    assert plan.n_slots == plan.tree_rows == table.n_slots
    if branching == "wary":
        tree = grow_id3(table, criterion="max", max_depth=2)
    else:
        tree = grow_cart(table, criterion="gini", limits=Limits(max_depth=2))
    forest = trained(plan, table, engine)
    assert np.array_equal(forest.ask(queries), tree.predict_class(queries.bins))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_sampled_tree_is_that_of_the_rows_its_coins_picked(
    engine: str, branching: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whole counts: exact ties are ties here and there.
    plan = planned(
        noise="none",
        n_trees=TREES,
        branching=branching,
        criterion="max",
        sampling="poisson",
        rate=0.4,
        depth=depth,
    )
    table, queries = slots(plan.n_slots), asked()
    seen = []

    def watched(made: Any, *given: Any) -> Any:
        drawn = sample_rows(made, *given)
        seen.append(reveal(drawn).astype(np.bool_))
        return drawn

    monkeypatch.setattr(training, "sample_rows", watched)
    found = trained(plan, table, engine).ask(queries)
    counts = np.zeros((queries.n_slots, plan.n_classes), dtype=np.int64)
    for picked in seen[0]:
        own = replace(table, present=table.present & picked)
        if branching == "wary":
            tree = grow_id3(own, criterion="max", max_depth=depth)
        else:
            tree = grow_cart(own, criterion="max", limits=Limits(max_depth=depth))
        counts[np.arange(len(counts)), tree.predict_class(queries.bins)] += 1
    assert np.array_equal(found, counts.argmax(axis=1))


@pytest.mark.parametrize("sampling", ["disjoint", "poisson"])
@pytest.mark.parametrize("random_splits", [False, True])
def test_transcripts_have_one_shape_for_all_tables(sampling: str, random_splits: bool) -> None:
    plans = []
    for seed in range(3):
        network = Recorder()
        plan = planned(
            noise="splits+leaves",
            n_trees=3,
            sampling=sampling,
            random_splits=random_splits,
        )
        table = slots(plan.n_slots, seed, filled=0.3 * (seed + 1))
        trained(plan, table, "three servers", network=network, seed=seed).ask(asked(seed=seed))
        plans.append(network.plans)
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_trees": 0},
        {"sampling": "poisson", "rate": 0.0},
        {"sampling": "poisson", "rate": float("nan")},
        {"max_features": 5},
        {"max_features": -1},
        {"max_features": 2, "branching": "wary"},
        {"sampling": "poisson", "n_trees": 1, "grower": "grouped"},
        {"n_trees": 2, "grower": "grouped"},
        {"sampling": "sometimes"},
    ],
)
def test_forests_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HedgerowError, match="H501"):
        planned(**{"noise": "none", **wrong})


def test_public_choices_need_public_candidates() -> None:
    forest = trained(planned(noise="none"), slots())
    secret = forest.engine.public(np.ones((1, 1, 3)).astype(int), forest.model.ring)
    with pytest.raises(HedgerowError, match="secret candidates"):
        RandomSplits(0).draw(0, (1, 1, 3), secret)
    with pytest.raises(HedgerowError, match="candidates of the path"):
        Restricted(BestSplits(), np.arange(3), 1, 0)(0, secret, 1, secret)
