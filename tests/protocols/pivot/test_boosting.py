"""Boosting among peers is Friedman's on the same bins; only what was said is opened."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.protocols.growers.choices import Restricted
from hedgerow.protocols.pivot import boosting
from hedgerow.protocols.pivot.boosting import PEER_BOOSTING, cost_level, opened_model
from hedgerow.protocols.pivot.boosting_plan import PivotBoostingPlan
from hedgerow.protocols.pivot.coins import drawn_rows
from hedgerow.protocols.pivot.options import PivotBoostingOptions
from hedgerow.protocols.pivot.programs import PeerPart
from hedgerow.protocols.pivot.run import ask_peers
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.cost import NOTHING
from hedgerow.tables import Encoded, Target
from tests.protocols.pivot.peer_tables import charged, encoded, grown
from tests.protocols.pivot.test_growth import attempts

FEW = {"n_estimators": 2, "max_depth": 2, "learning_rate": 0.5}
HIDE = ["nothing", "everything"]


def boosting_plan(rows: Encoded, m: int = 2, **options: Any) -> PivotBoostingPlan:
    d = len(rows.domain.names)
    found = PivotBoostingOptions(**{**FEW, **options}).plan(
        rows.domain,
        rows.n_slots,
        owners=[j * m // d for j in range(d)],
        n_peers=m,
        target_at=m - 1,
    )
    assert isinstance(found, PivotBoostingPlan)
    return found


def asked(plan: PivotBoostingPlan, part: PeerPart, rows: Encoded, proba: bool = False) -> Any:
    bins = {j: rows.bins[:, j] for j in range(len(plan.owners))}
    return ask_peers(plan, part.model, bins, rows.n_slots, charged(plan), proba=proba)


def scores_of(plan: PivotBoostingPlan, part: PeerPart, rows: Encoded) -> np.ndarray:
    """Return the scores of rows (n, s), or their values in half widths, added up in the clear."""
    trees: Any = part.model
    splits, leaves = trees.groups, trees.opened
    if plan.hides:
        choices = trees.choices.data.sum(axis=0, dtype=np.uint32)
        assert ((choices == 0) | (choices == 1)).all()
        assert (choices.sum(axis=1) == 1).all()
        splits = [choices.argmax(axis=1)]
        leaves = trees.leaves.data.sum(axis=0, dtype=np.uint32).view(np.int32)
    index, those = np.concatenate(splits), plan.layout.candidates
    node = np.arange(plan.n_trees)[:, None] * np.ones(rows.n_slots, dtype=np.int64)
    for level in range(plan.depth):
        here = index[plan.n_trees * (2**level - 1) :][: plan.n_trees << level][node]
        bins = rows.bins[np.arange(rows.n_slots), those.feature[here]]
        ordered = those.kind[here] == 1
        left = np.where(ordered, bins <= those.cut[here], bins == those.cut[here])
        node = 2 * node + 1 - left
    return leaves[node].sum(axis=0) / 2.0**plan.numbers.fraction


def textbook(rows: Encoded, plan: PivotBoostingPlan) -> np.ndarray:
    """Return the scores of rows (n, s) by Friedman's algorithms, node after node, in the clear."""
    n, columns, rate = rows.n_slots, plan.numbers.n_scores, plan.learning_rate
    if plan.classes:
        first = 0 if columns > 1 else 1
        y = (rows.target == np.arange(first, first + columns)[:, None]).astype(np.float64)
        count = y.sum(axis=1)
        rest = n if plan.numbers.loss == "softmax" else n - count
        scores = np.log(count / rest)[:, None] * np.ones(n)
    else:
        y = (plan.units.count(rows).target / plan.units.most)[None]
        scores = np.full((1, n), y.mean())
    for turn in range(plan.n_rounds):
        p, weight = 1 / (1 + np.exp(-scores)), np.ones((1, n))
        if plan.numbers.loss == "softmax":
            p = np.exp(scores) / np.exp(scores).sum(axis=0)
            rate = plan.learning_rate * (columns - 1) / columns
        if plan.classes:
            weight = p * (1 - p)
        gradient = y - (p if plan.classes else scores)
        for column in range(columns):
            scores[column] += rate * grown_step(rows, plan, turn, column, gradient, weight)
    return scores.T


def grown_step(
    rows: Encoded,
    plan: PivotBoostingPlan,
    turn: int,
    column: int,
    gradients: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Grow one tree; return what its leaves say of each row."""
    n, those, seed = rows.n_slots, plan.layout.candidates, plan.public_seed
    gradient, weight = gradients[column], weights[column]
    sides = np.stack([
        rows.bins[:, f] <= cut if kind == 1 else rows.bins[:, f] == cut
        for f, cut, kind in zip(those.feature, those.cut, those.kind, strict=True)
    ])  # fmt: skip
    drawn = np.ones(n)
    if plan.subsample < 1:
        drawn = drawn_rows(seed, f"rows of round {turn}", n, plan.subsample)
    node, step = np.zeros(n, dtype=np.int64), np.zeros(n)
    for level in range(plan.depth):
        valid = np.ones((len(gradients), 2**level, len(those)), dtype=np.bool_)
        if plan.n_chosen_from < len(plan.owners):
            any_: Any = None
            coins = Restricted(any_, those.feature, plan.n_chosen_from, seed, f"round {turn}")
            valid = coins.draw(level, valid.shape[:2])
        children = np.zeros(n, dtype=np.int64)
        for one in range(2**level):
            inside, worth = (node == one) * drawn, np.zeros(len(those))
            for side in (sides, ~sides):
                count = (inside * side).sum(axis=1)
                worth += (gradient * inside * side).sum(axis=1) ** 2 / np.maximum(count, 1)
                worth += 1e-9 * (count > 0)
            best = np.where(valid[column, one], worth, -1).argmax()
            children[node == one] = 2 * one + ~sides[best][node == one]
        node = children
    for leaf in range(2**plan.depth):
        level = plan.depth
        # An empty leaf says what the node above it would.
        while not (inside := (node >> (plan.depth - level) == leaf >> (plan.depth - level))
                   * drawn).any():  # fmt: skip
            level -= 1
        step[node == leaf] = (gradient * inside).sum() / (weight * inside).sum()
    return step


CASES: list[Any] = [
    ("iris", 2, {"hide": "nothing"}),
    ("iris", 2, {"hide": "everything", "subsample": 0.6}),
    pytest.param("iris", 2, {"hide": "nothing", "loss": "one-vs-rest"}, marks=pytest.mark.slow),
    pytest.param(
        "cancer",
        3,
        {"hide": "nothing", "subsample": 0.5, "max_features": 2},
        marks=pytest.mark.slow,
    ),
    ("cancer", 2, {"hide": "everything", "max_features": "sqrt", "public_seed": 3}),
    ("diabetes", 2, {"hide": "nothing", "max_depth": 3}),
    pytest.param(
        "diabetes",
        2,
        {"hide": "everything", "subsample": 0.7, "max_features": 3},
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("name", "m", "options"), CASES)
def test_scores_are_those_of_the_textbook(name: str, m: int, options: dict[str, Any]) -> None:
    rows = encoded(name, columns=5)
    plan = boosting_plan(rows, m, **options)
    part = grown(rows, plan)
    found, scores = scores_of(plan, part, rows), plan.numbers.n_scores
    # A step is off by what gradients are, up to 0.003 of at most 1, over a weight.
    off = np.abs(found - textbook(rows, plan))
    assert np.quantile(off, 0.95) < (0.02 if plan.classes else 0.001)
    if plan.classes:
        proba = asked(plan, part, rows, proba=True)
        odds = 1 / (1 + np.exp(-found))
        if scores == 1:
            odds = np.hstack([1 - odds, odds])
        elif plan.numbers.loss == "softmax":
            odds = np.exp(found)
        assert np.abs(proba - odds / odds.sum(axis=1, keepdims=True)).max() < 1e-12
        index = found.argmax(axis=1) if scores > 1 else (found[:, 0] >= 0).astype(np.int64)
        assert np.array_equal(asked(plan, part, rows), index)
    else:
        values = plan.units.values(found[:, 0], 0)
        low, high = plan.units.low, plan.units.high
        assert np.abs(asked(plan, part, rows) - np.clip(values, low, high)).max() < 1e-9


@pytest.mark.parametrize("name", ["cancer", "diabetes", "iris"])
def test_opened_models_answer_by_themselves_as_scikit_learn(name: str) -> None:
    rows = encoded(name, columns=4)
    plan = boosting_plan(rows, n_estimators=4)
    part = grown(rows, plan)
    model = opened_model(plan, part.model)
    raw, scores = model.raw(rows.bins), scores_of(plan, part, rows)
    assert np.abs(raw - (scores if plan.classes else plan.units.values(scores, 0))).max() < 1e-9
    like = {"n_estimators": 4, "max_depth": 2, "learning_rate": 0.5, "random_state": 0}
    if plan.classes:
        clear = GradientBoostingClassifier(**like).fit(rows.bins, rows.target)
        found = model.distribution(rows.bins)
        assert np.allclose(found, asked(plan, part, rows, proba=True))
        off = np.abs(found - clear.predict_proba(rows.bins))
    else:
        numbers = GradientBoostingRegressor(**like).fit(rows.bins, rows.target)
        off = np.abs(raw[:, 0] - numbers.predict(rows.bins)) / plan.units.half
    # Equal splits are many, and complete trees go on where scikit-learn's are pure.
    assert np.quantile(off, 0.9) < 0.02


@pytest.mark.parametrize("hide", HIDE)
def test_nothing_but_what_is_declared_is_opened(hide: str) -> None:
    rows = encoded("cancer", columns=3)
    plan = boosting_plan(rows, hide=hide)
    part = grown(rows, plan)
    assert all(row["equal"] for row in part.leakage.compare())
    learned = {row["name"] for row in part.leakage.what_was_learned("peer 0")}
    expected = {"leaf values of round 0", "splits of level 1 of round 1"}
    assert expected <= learned if hide == "nothing" else not learned
    assert set(part.model.to_state()) - {"trees", "first_child", "sizes", "groups"} == (
        {"opened"} if hide == "nothing" else {"choices", "leaves"}
    )


@pytest.mark.parametrize(
    ("hide", "name"),
    [pytest.param("nothing", "cancer", marks=pytest.mark.slow), ("everything", "diabetes")],
)
def test_a_run_that_goes_on_opens_the_same(hide: str, name: str) -> None:
    rows = encoded(name, columns=2)
    plan = boosting_plan(rows, hide=hide, max_depth=1, n_estimators=2)
    whole = scores_of(plan, grown(rows, plan), rows)
    for stop, part, stages in attempts(rows, plan):
        assert np.quantile(np.abs(scores_of(plan, part, rows) - whole), 0.95) < 0.002, stop
        done = sum(f"round {turn}" in stages.kept for turn in range(2))
        assert done == 2
        # Of rounds that were done before, nothing is opened again.
        names = [one.name for one in plan.openings() if part.leakage._times_opened(one.name)]
        assert stages.marked == names
        assert len(names) >= (0 if hide == "everything" else 2)


def test_a_level_costs_what_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def checked(engine: Any, plan: Any, nodes: int) -> Any:
        cost = cost_level(engine, plan, nodes)
        seen.append((nodes, dict(cost.demand), engine.provider))
        return cost

    monkeypatch.setattr(boosting, "cost_level", checked)
    rows = encoded("iris", columns=3)
    plan = boosting_plan(rows)
    grown(rows, plan)
    assert [nodes for nodes, _, _ in seen] == [3, 6] * 2
    # All of it was used up.
    for _, demand, provider in seen:
        assert not any(provider._in_stock(kind) for kind in demand)
    engine = AdditiveEngine(Simulator(2), Leakage([]))
    each = (cost_level(engine, plan, nodes) for nodes in (3, 6))
    ahead = PEER_BOOSTING.cost_ahead(engine, plan)
    assert ahead == sum(each, NOTHING) * 2


@pytest.mark.parametrize(
    "change",
    [
        {"align": "hidden"},
        {"depth": 0},
        {"n_rounds": 10_000, "learning_rate": 1.0},
        {"capacity": 1 << 27},
    ],
)
def test_what_cannot_be_planned(change: dict[str, Any]) -> None:
    plan = boosting_plan(encoded("iris"))
    with pytest.raises(HedgerowError) as caught:
        replace(plan, **change)
    assert caught.value.code is Code.BAD_PARAMETER


@pytest.mark.parametrize(
    "options",
    [{"n_estimators": 0}, {"subsample": 0.0}, {"hide": "thresholds"}, {"learning_rate": 1.5}],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(HedgerowError) as caught:
        PivotBoostingOptions(**options)
    assert caught.value.code is Code.BAD_JOB


def test_a_booster_for_each_class_is_no_single_model() -> None:
    rows = encoded("iris", columns=2)
    plan = boosting_plan(rows, n_estimators=1, max_depth=1, loss="one-vs-rest")
    with pytest.raises(HedgerowError, match="a booster for each class"):
        opened_model(plan, grown(rows, plan).model)


def test_more_classes_than_softmax_takes_are_refused() -> None:
    rows = encoded("iris", columns=2)
    many = rows.domain.model_copy(update={"target": Target(name="y", classes=tuple(range(16)))})
    with pytest.raises(HedgerowError, match="one-vs-rest"):
        PivotBoostingOptions().plan(many, 100, owners=[0, 1])
    PivotBoostingOptions(loss="one-vs-rest").plan(many, 100, owners=[0, 1])


def test_plans_are_plain_data_and_options_have_a_size() -> None:
    plan = boosting_plan(encoded("iris"), 3, hide="everything", subsample=0.5)
    again = PivotBoostingPlan.from_dict(plan.to_dict())
    assert again.to_dict() == plan.to_dict()
    assert again.openings() == plan.openings()
    size = PivotBoostingOptions(n_estimators=7, max_depth=4).size(plan.domain.target)
    assert (size.trees, size.depth) == (21, 4)
