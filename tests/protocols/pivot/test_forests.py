"""A forest among peers is the one that its public coins make of the table, in the clear."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.protocols.pivot.coins import open_candidates, row_weights
from hedgerow.protocols.pivot.growth import Among, cost_choose
from hedgerow.protocols.pivot.options import PivotForestOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.trees import opened_trees
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from tests.protocols.pivot.peer_tables import encoded, grown
from tests.protocols.pivot.test_growth import answers, attempts, revealed_trees

FEW = {"n_estimators": 3, "max_depth": 2}
CASES: list[Any] = [
    ("iris", 2, {"n_estimators": 4, "max_depth": 3}),
    ("iris", 3, {**FEW, "hide": "thresholds", "max_features": None}),
    ("iris", 2, {**FEW, "hide": "peers", "bootstrap": False, "max_samples": 0.5}),
    ("cancer", 2, {**FEW, "max_features": 3, "min_samples_leaf": 20, "public_seed": 7}),
    ("cancer", 2, {**FEW, "bootstrap": False, "max_features": 2, "min_impurity_decrease": 0.05}),
    ("diabetes", 2, {**FEW}),
    pytest.param(
        "diabetes",
        3,
        {**FEW, "hide": "features", "max_samples": 0.3, "min_samples_leaf": 5},
        marks=pytest.mark.slow,
    ),
]


def forest_plan(rows: Encoded, m: int, **options: Any) -> PivotPlan:
    d = len(rows.domain.names)
    owners = [j * m // d for j in range(d)]
    found = PivotForestOptions(**options).plan(
        rows.domain, rows.n_slots, owners=owners, n_peers=m, target_at=m - 1
    )
    assert isinstance(found, PivotPlan)
    return found


def impurity(columns: np.ndarray, plan: PivotPlan) -> float:
    """Return impurity times rows of columns (k, rows) with their weights in."""
    if plan.classes:
        counts = columns.sum(axis=1)
        return float(counts.sum() - (counts**2).sum() / max(1, counts.sum()))
    # Presence and sum; the sum of squares is the same on both sides together.
    return float(-(columns[1].sum() ** 2) / max(1, columns[0].sum()))


def textbook(rows: Encoded, plan: PivotPlan, tree: int) -> np.ndarray:
    """Return for each row the class or mean of its leaf: one node after the other, in the clear."""
    n = rows.n_slots
    weights = row_weights(plan, n)
    weight = np.ones(n, dtype=np.int64) if weights is None else weights[tree]
    if plan.classes:
        columns = (rows.target == np.arange(plan.classes)[:, None]) * weight
    else:
        units = plan.units.count(rows).target
        columns = np.stack([weight, weight * units])
    those, found = plan.layout.candidates, np.zeros(n)
    size = float(weight.sum())

    def count(where: np.ndarray) -> float:
        held = columns[:, where]
        return float(held.sum() if plan.classes else held[0].sum())

    def grow(where: np.ndarray, level: int, path: int) -> None:
        held = columns[:, where]
        best, chosen = -np.inf, None
        pure = plan.classes and (held.sum(axis=1) > 0).sum() <= 1
        enough = count(where) >= max(plan.least_split, 2 * plan.least_leaf)
        if level < plan.depth and enough and not pure:
            place = (tree << level) + path
            allowed = open_candidates(plan, level, np.array([place]))
            for c in range(len(those)):
                if allowed is not None and not allowed[0, c]:
                    continue
                bins = rows.bins[:, those.feature[c]]
                ordered = those.kind[c] == those.kinds[0] and those.kind[c] == 1
                side = bins <= those.cut[c] if ordered else bins == those.cut[c]
                left, right = where & side, where & ~side
                if min(count(left), count(right)) < plan.least_leaf:
                    continue
                gain = impurity(held, plan) - impurity(columns[:, left], plan)
                gain -= impurity(columns[:, right], plan)
                if gain > best + 1e-6:
                    best, chosen = gain, (left, right)
        scale = 1.0 if plan.classes else float(plan.units.most) ** 2 / float(plan.units.half) ** 2
        least = plan.least_decrease * size * scale
        if chosen is None or best < least - 1e-9 or (not plan.classes and best <= 1e-9):
            if plan.classes:
                found[where] = held.sum(axis=1).argmax()
            else:
                found[where] = plan.means(
                    np.rint(held[1].sum() / max(1, held[0].sum()) / plan.units.most * 2**24)
                )
            return
        grow(chosen[0], level + 1, 2 * path)
        grow(chosen[1], level + 1, 2 * path + 1)

    grow(np.ones(n, dtype=np.bool_), 0, 0)
    return found


def told(tree: Tree, rows: Encoded, plan: PivotPlan) -> np.ndarray:
    found = tree.distribution(rows.bins) if plan.classes else tree.decide(rows.bins)
    return found.argmax(axis=1) if plan.classes else found[:, 0]


@pytest.mark.parametrize(("name", "m", "options"), CASES)
def test_it_is_the_forest_of_the_clear(name: str, m: int, options: dict[str, Any]) -> None:
    rows = encoded(name, columns=8)
    plan = forest_plan(rows, m, **options)
    part = grown(rows, plan)
    trees = revealed_trees(plan, part)
    assert len(trees) == plan.n_trees
    each = np.stack([textbook(rows, plan, t) for t in range(plan.n_trees)])
    seen = np.stack([told(tree, rows, plan) for tree in trees])
    if plan.classes:
        assert np.array_equal(seen, each)
        votes = (each[:, :, None] == np.arange(plan.classes)).sum(axis=0)
        assert np.array_equal(answers(plan, part, rows), votes.argmax(axis=1))
    else:
        width = plan.units.half * 2.0**-20
        assert np.abs(seen - each).max() < width
        assert np.abs(answers(plan, part, rows) - each.mean(axis=0)).max() < width


@pytest.mark.parametrize("hide", ["nothing", "thresholds"])
def test_a_forest_that_goes_on_opens_the_same(hide: str) -> None:
    rows = encoded("iris", columns=3)
    plan = forest_plan(rows, 2, n_estimators=3, max_depth=1, hide=hide)
    expected = [textbook(rows, plan, tree) for tree in range(plan.n_trees)]
    stops = []
    for stop, part, stages in attempts(rows, plan):
        for tree, found in zip(expected, revealed_trees(plan, part), strict=True):
            np.testing.assert_array_equal(found.predict_class(rows.bins), tree, err_msg=f"{stop}")
        assert stages.marked == [
            opening.name for opening in plan.openings() if part.leakage._times_opened(opening.name)
        ]
        stops.append(stop)
    assert len(stops) >= 2


def test_trees_of_a_forest_differ_and_a_seed_gives_them_again() -> None:
    rows = encoded("iris")
    plan = forest_plan(rows, 2, n_estimators=3, max_depth=2)
    first, again = (opened_trees(plan, grown(rows, plan).model) for _ in range(2))
    assert [t.to_dict() for t in first] == [t.to_dict() for t in again]
    other = replace(plan, public_seed=5)
    assert [t.to_dict() for t in opened_trees(other, grown(rows, other).model)] != [
        t.to_dict() for t in first
    ]
    assert len({str(t.to_dict()) for t in first}) == 3


def test_coins_draw_what_was_asked_for() -> None:
    rows = encoded("cancer", columns=8)
    plan = forest_plan(rows, 2, n_estimators=50, max_features=3, max_samples=0.5)
    weights = row_weights(plan, 1000)
    assert weights is not None
    assert weights.shape == (50, 1000)
    assert (weights.sum(axis=1) == 500).all()
    # Half of a sample with replacement of half the rows leaves e^-1/2 of them out.
    assert abs((weights == 0).mean() - np.exp(-0.5)) < 0.01
    among = open_candidates(plan, 2, np.arange(200))
    assert among is not None
    feature = plan.layout.candidates.feature
    chosen = [set(feature[one]) for one in among]
    assert {len(one) for one in chosen} == {3}
    often = np.bincount([j for one in chosen for j in one], minlength=8)
    # 75 of 200 each, seven standard deviations.
    assert (np.abs(often - 75) < 7 * np.sqrt(200 * 3 / 8 * 5 / 8)).all()


def test_all_rows_and_attributes_need_no_coins() -> None:
    rows = encoded("iris")
    plan = forest_plan(rows, 2, bootstrap=False, max_features=None)
    assert row_weights(plan, 100) is None
    assert open_candidates(plan, 0, np.arange(10)) is None


def test_the_choice_among_some_candidates_costs_less() -> None:
    rows = encoded("cancer", columns=8)
    plan = forest_plan(rows, 2, n_estimators=3, max_depth=2, max_features=2)
    among = Among.of(open_candidates(plan, 0, np.arange(3)))
    assert among is not None
    whole = replace(plan, max_features=None)
    asked = AdditiveEngine(Simulator(2), Leakage([]))
    some, every = cost_choose(asked, plan, 3, among), cost_choose(asked, whole, 3)
    assert sum(some.preprocessing) < 0.5 * sum(every.preprocessing)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"n_estimators": 0}, Code.BAD_JOB),
        ({"max_samples": 0.0}, Code.BAD_JOB),
        ({"max_features": "log2"}, Code.BAD_JOB),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], code: Code) -> None:
    with pytest.raises(HedgerowError) as caught:
        PivotForestOptions(**options)
    assert caught.value.code is code


def test_more_means_than_fit_and_a_forest_of_ciphertexts_are_refused() -> None:
    rows = encoded("diabetes")
    with pytest.raises(HedgerowError, match="at most 127 trees"):
        forest_plan(rows, 2, n_estimators=128)
    with pytest.raises(HedgerowError, match="for a forest"):
        replace(forest_plan(rows, 2), linear="paillier")


def test_more_votes_than_their_ring_compares_are_refused_in_the_plan() -> None:
    rows = encoded("iris")
    assert forest_plan(rows, 2, n_estimators=(1 << 15) - 1).ring.bits == 16
    with pytest.raises(HedgerowError, match="at most 32,767 trees") as caught:
        forest_plan(rows, 2, n_estimators=1 << 15)
    assert caught.value.code is Code.BAD_PARAMETER
