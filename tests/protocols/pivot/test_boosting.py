"""Boosting among peers is Friedman's on the same bins; only what was said is opened."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.multiclass import OneVsRestClassifier

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.protocols.growers.choices import Restricted
from hedgerow.protocols.growers.gradients import Labels, gradients
from hedgerow.protocols.pivot import boosting
from hedgerow.protocols.pivot.boosting import PEER_BOOSTING, cost_level, opened_model
from hedgerow.protocols.pivot.boosting_plan import PeerNumbers, PivotBoostingPlan
from hedgerow.protocols.pivot.coins import drawn_rows
from hedgerow.protocols.pivot.options import PivotBoostingOptions
from hedgerow.protocols.pivot.programs import PeerPart
from hedgerow.protocols.pivot.run import ask_peers
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.cost import NOTHING
from hedgerow.secure.ring import Z32
from hedgerow.tables import Encoded, Target
from tests.protocols.pivot.peer_tables import charged, encoded, grown
from tests.protocols.pivot.test_growth import attempts
from tests.secure.worst_case import ERRORS, ErringEngine

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
    ("iris", 2, {"hide": "everything", "loss": "one-vs-rest"}),
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
        index = found.argmax(axis=1) if scores > 1 else (found[:, 0] > 0).astype(np.int64)
        assert np.array_equal(asked(plan, part, rows), index)
    else:
        values = plan.units.values(found[:, 0], 0)
        low, high = plan.units.low, plan.units.high
        assert np.abs(asked(plan, part, rows) - np.clip(values, low, high)).max() < 1e-9


@pytest.mark.parametrize(
    ("name", "loss"),
    [("cancer", "softmax"), ("diabetes", "softmax"), ("iris", "softmax"), ("iris", "one-vs-rest")],
)
def test_opened_models_answer_by_themselves_as_scikit_learn(name: str, loss: str) -> None:
    rows = encoded(name, columns=4)
    plan = boosting_plan(rows, n_estimators=4, loss=loss)
    part = grown(rows, plan)
    model = opened_model(plan, part.model)
    raw, scores = model.raw(rows.bins), scores_of(plan, part, rows)
    assert np.abs(raw - (scores if plan.classes else plan.units.values(scores, 0))).max() < 1e-9
    like = {"n_estimators": 4, "max_depth": 2, "learning_rate": 0.5, "random_state": 0}
    if plan.classes:
        clear: Any = GradientBoostingClassifier(**like)
        if loss == "one-vs-rest":
            clear = OneVsRestClassifier(clear)
        clear.fit(rows.bins, rows.target)
        found = model.distribution(rows.bins)
        assert np.allclose(found, asked(plan, part, rows, proba=True))
        off = np.abs(found - clear.predict_proba(rows.bins))
    else:
        numbers = GradientBoostingRegressor(**like).fit(rows.bins, rows.target)
        off = np.abs(raw[:, 0] - numbers.predict(rows.bins)) / plan.units.half
    # Equal splits are many, and complete trees go on where scikit-learn's are pure.
    assert np.quantile(off, 0.9) < 0.02


@pytest.mark.parametrize(
    ("capacity", "unit_bits"), [(65_535, 14), (65_536, 13), (1 << 20, 9), (1 << 25, 4)]
)
@pytest.mark.parametrize("name", ["cancer", "iris"])
def test_probabilities_are_off_by_a_line_and_units(
    name: str, capacity: int, unit_bits: int
) -> None:
    """Units are the coarser the more rows there are, so that sums fit."""
    domain = encoded(name, columns=2).domain
    of, worst = PeerNumbers(domain, capacity, 20, 3, 0.3), []
    assert of.unit_bits == unit_bits
    k = max(2, of.n_scores)
    stated = 0.00075 + 2.0**-unit_bits
    if k > 2:
        stated = (k + 3) / 2048 + 2 * 2.0**-unit_bits
    scores = np.random.default_rng(0).normal(0, 3, (of.n_scores, 4000))
    exact = 1 / (1 + np.exp(-scores)) if k == 2 else np.exp(scores) / np.exp(scores).sum(axis=0)
    for how in ERRORS:
        engine, ones = ErringEngine(how), np.ones(4000, dtype=np.int64)
        labels = Labels(
            engine.public(ones, Z32), engine.public(np.zeros(scores.shape, np.int64), Z32), ones
        )
        given = np.rint(scores * 2.0**of.fraction).astype(np.int64)
        gradient, weight = gradients(labels, engine.public(given, Z32), of)
        found = [Z32.signed(one.data) / 2.0**unit_bits for one in (-gradient, weight)]
        worst.append(np.abs(found[0] - exact).max())
        assert np.abs(found[1] - exact * (1 - exact)).max() < stated
    assert max(worst) < stated
    if k == 2 and unit_bits < 10:
        # Of a million rows, lines alone do not explain it.
        assert max(worst) > 0.002


@pytest.mark.parametrize(("name", "room"), [("iris", 1 << 15), ("cancer", 1 << 16)])
def test_scores_are_refused_where_they_have_no_room_and_told_which(name: str, room: int) -> None:
    plan = replace(boosting_plan(encoded(name)), learning_rate=1.0)
    each = 64 * 2 / 3 if name == "iris" else 64
    rounds = next(n for n in range(int(room / each) - 3, 2000) if not fits(plan, n))
    most = [replace(plan.numbers, n_rounds=n).largest_score for n in (rounds - 1, rounds)]
    assert most[0] < room <= most[1]
    with pytest.raises(HedgerowError) as caught:
        replace(plan, n_rounds=rounds)
    assert f"scores below {room:,}" in str(caught.value)
    assert f"scores up to {most[1]:,}" in str(caught.value)


def fits(plan: PivotBoostingPlan, rounds: int) -> bool:
    try:
        replace(plan, n_rounds=rounds)
    except HedgerowError:
        return False
    return True


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
