"""Noise inside trees among peers: its laws, what it covers, what it costs, and what it is not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Relation
from hedgerow.protocols.contract import Context
from hedgerow.protocols.forecast import forecast
from hedgerow.protocols.pivot import growth
from hedgerow.protocols.pivot.growth import cost_choose
from hedgerow.protocols.pivot.options import PivotForestOptions, PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan, leaf_name
from hedgerow.protocols.pivot.programs import peer
from hedgerow.protocols.pivot.run import members_of
from hedgerow.tables import Encoded, Target
from hedgerow.trees.growing.candidates import Candidates
from tests.protocols.pivot.peer_tables import charged, encoded, grown, plan_for, table_of
from tests.protocols.pivot.test_forests import forest_plan
from tests.protocols.pivot.test_growth import OnDisk, answers, attempts, revealed
from tests.protocols.pivot.test_joining import CLASSES, NUMBERS, N
from tests.protocols.pivot.test_joining import run as joined

NOISY: dict[str, Any] = {"noise": "splits+leaves", "epsilon": 2.0}


def peers_total(plan: PivotPlan) -> float:
    return charged(plan).total("peer 0").epsilon


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("iris", {}),
        ("iris", {"stop_share": 0.2}),
        ("diabetes", {"split_share": 0.5, "sum_share": 0.5}),
        ("diabetes", {"stop_share": 0.3, "split_share": 0.3}),
    ],
)
def test_epsilon_is_divided_and_used_up(name: str, options: dict[str, Any]) -> None:
    rows = encoded(name)
    plan = plan_for(rows, 2, max_depth=3, **NOISY, **options)
    level = plan.split_epsilon + plan.stop_epsilon
    whole = 3 * level + plan.leaf_epsilon + plan.sum_epsilon + plan.count_epsilon
    assert whole == pytest.approx(2.0, rel=1e-12)
    assert 2.0 * (1 - 1e-12) < peers_total(plan) <= 2.0
    assert 3 * plan.stop_epsilon == pytest.approx(2.0 * options.get("stop_share", 0.0))
    assert 3 * plan.split_epsilon == pytest.approx(2.0 * options.get("split_share", 0.7))
    both = charged(plan).total("peer 0", Relation.REPLACE)
    assert both.epsilon == pytest.approx(4.0)


def test_trees_of_a_forest_divide_epsilon_and_each_has_a_scope() -> None:
    plan = forest_plan(encoded("iris"), 2, n_estimators=4, bootstrap=False, max_depth=2, **NOISY)
    scopes = {str(release.scope).split(" / ")[0] for release in plan.model_releases()}
    assert scopes == {f"tree {t}" for t in range(4)}
    assert 2.0 * (1 - 1e-12) < peers_total(plan) <= 2.0
    alone = plan_for(encoded("iris"), 2, max_depth=2, noise="splits+leaves", epsilon=0.5)
    assert plan.split_epsilon == pytest.approx(alone.split_epsilon)


@pytest.mark.parametrize(
    "options",
    [
        {"min_samples_leaf": 2},
        {"min_impurity_decrease": 0.1},
        {"min_samples_split": 20},
        {"split_share": 0.8, "stop_share": 0.2},
    ],
)
def test_what_noise_does_not_cover_is_refused(options: dict[str, Any]) -> None:
    for noise in ("splits+leaves", "as published"):
        with pytest.raises(HedgerowError) as caught:
            PivotOptions.from_parameters({"noise": noise, "epsilon": 1.0, **options})
        assert caught.value.code is Code.BAD_PARAMETER


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({}, "bootstrap=False"),
        ({"bootstrap": False, "max_samples": 0.5}, "max_samples"),
        ({"bootstrap": False, "n_estimators": 257}, "256"),
    ],
)
def test_rows_of_trees_that_noise_does_not_cover(options: dict[str, Any], fix: str) -> None:
    with pytest.raises(HedgerowError, match=fix) as caught:
        PivotForestOptions.from_parameters({**NOISY, **options})
    assert caught.value.code is Code.BAD_PARAMETER


def test_an_epsilon_goes_with_noise_and_noise_with_an_epsilon() -> None:
    for given in ({"epsilon": 1.0}, {"noise": "splits+leaves"}, {"criterion": "max"}):
        with pytest.raises(HedgerowError) as caught:
            PivotOptions.from_parameters(given)
        assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError, match="noise = 'none'"):
        PivotOptions.from_table({"epsilon": 1.0})
    with pytest.raises(HedgerowError, match="number"):
        plan_for(encoded("diabetes"), 2, noise="as published", epsilon=1.0)
    with pytest.raises(HedgerowError) as caught:
        plan_for(encoded("iris"), 2, max_depth=1, noise="splits+leaves", epsilon=4000.0)
    assert caught.value.code is Code.BAD_EPSILON


@pytest.mark.parametrize(
    ("name", "hide"),
    [("iris", "nothing"), pytest.param("diabetes", "peers", marks=pytest.mark.slow)],
)
def test_with_little_noise_it_is_the_exact_tree(name: str, hide: str) -> None:
    rows = encoded(name, columns=4)
    options: dict[str, Any] = {"max_depth": 2, "hide": hide}
    exact = plan_for(rows, 2, **options)
    noisy = plan_for(rows, 2, **options, noise="splits+leaves", epsilon=900.0, criterion="gini")
    expected = answers(exact, grown(rows, exact), rows)
    found = answers(noisy, grown(rows, noisy), rows)
    if exact.classes:
        np.testing.assert_array_equal(found, expected)
    else:
        # Coarse units, and a grid of their own.
        assert np.abs(found - expected).max() < 0.01 * noisy.units.half


def small_rows(n: int = 12) -> Encoded:
    """Return the first rows of each class of iris, by two attributes."""
    rows = encoded("iris", columns=2, bins=3)
    place = np.concatenate([np.arange(n // 3) + 50 * c for c in range(3)])
    assert rows.target is not None
    return replace(
        rows, bins=rows.bins[place], target=rows.target[place], present=rows.present[place]
    )


def many(rows: Encoded, trees: int, **options: Any) -> PivotPlan:
    """Return the plan of independent trees, each with all of epsilon."""
    alone = plan_for(rows, 2, max_depth=1, **options)
    return replace(alone, n_trees=trees)


def gini_scores(rows: Encoded, those: Candidates) -> np.ndarray:
    """Return the sum of n_c^2 / n over both branches of every candidate."""
    assert rows.target is not None
    hot = rows.target[:, None] == np.arange(3)
    found = []
    for feature, kind, cut in zip(those.feature, those.kind, those.cut, strict=True):
        bins = rows.bins[:, feature]
        left = bins <= cut if kind == 1 else bins == cut
        sides = [hot[side].sum(axis=0) for side in (left, ~left)]
        found.append(sum((c**2).sum() / max(1, c.sum()) for c in sides))
    return np.array(found)


def law_of_noisy_max(scores: np.ndarray, p: float, reach: int = 400) -> np.ndarray:
    """Return the probability of each index: argmax of score + geometric, the lowest of equals."""
    steps = np.arange(int(scores.max()) + reach)
    below = np.array([1 - p ** np.clip(steps - s + 1, 0, None) for s in scores])
    less = np.array([1 - p ** np.clip(steps - s, 0, None) for s in scores])
    at = below - less
    law = [
        (at[i] * np.prod(less[:i], axis=0) * np.prod(below[i + 1 :], axis=0)).sum()
        for i in range(len(scores))
    ]
    return np.array(law)


def test_choices_stops_and_labels_have_their_laws() -> None:
    rows, trees = small_rows(), 2_000
    plan = many(
        rows,
        trees,
        noise="splits+leaves",
        epsilon=2.0,
        criterion="max",
        stop_share=0.3,
        split_share=0.4,
        min_samples_split=13,
    )
    part = grown(rows, plan)
    shape: Any = part.model.shape
    stopped = shape.first_child[:trees] < 0
    # P[12 + X < 13] of a two-sided geometric X.
    p = np.exp(-plan.stop_epsilon)
    expected = 1 - p / (1 + p)
    assert abs(stopped.mean() - expected) < 5 * np.sqrt(expected * (1 - expected) / trees)
    hot = rows.target[:, None] == np.arange(3)
    labels = part.model.opened[:, :].argmax(axis=1)[: int(stopped.sum())]
    law = law_of_noisy_max(hot.sum(axis=0), float(np.exp(-plan.leaf_epsilon)))
    assert chisquare(np.bincount(labels, minlength=3), law * labels.size).pvalue > 1e-4
    those = plan.layout.candidates
    scores = []
    for feature, kind, cut in zip(those.feature, those.kind, those.cut, strict=True):
        bins = rows.bins[:, feature]
        left = bins <= cut if kind == 1 else bins == cut
        scores.append(sum(hot[side].sum(axis=0).max() for side in (left, ~left)))
    law = law_of_noisy_max(np.array(scores), float(np.exp(-plan.split_epsilon)))
    chosen = np.bincount(part.model.groups[0], minlength=len(those))
    assert chisquare(chosen, law * chosen.sum()).pvalue > 1e-4


@pytest.mark.slow
def test_the_published_choice_does_not_depend_on_epsilon() -> None:
    """Probabilities exp(gain - zeta) / sum: zeta cancels, so that nothing is left of epsilon."""
    rows, trees = small_rows(30), 400
    found = []
    for epsilon in (0.01, 100.0):
        plan = many(rows, trees, noise="as published", epsilon=epsilon)
        part = grown(rows, plan, seed=3)
        assert peers_total(plan) == np.inf
        found.append(part.model.groups[0])
    np.testing.assert_array_equal(*found)
    gains = gini_scores(rows, plan.layout.candidates) / rows.n_slots
    law = np.exp(gains) / np.exp(gains).sum()
    chosen = np.bincount(found[0], minlength=law.size)
    assert chisquare(chosen, law * trees).pvalue > 1e-4
    # Gains are far below 1: the best split is hardly likelier than the worst.
    assert law.max() / law.min() < 1.8


def test_a_level_costs_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    choose = growth._choose_noisily

    def metered(level: int, hist: Any, totals: Any, plan: PivotPlan, among: Any, noise: Any) -> Any:
        meter, provider = hist.engine.network.meter, hist.engine.provider
        before = meter.snapshot()
        found = choose(level, hist, totals, plan, among, noise)
        used = meter.since(before)
        cost = cost_choose(hist.engine, plan, hist.shape[0], among)
        assert (used.rounds, used.payload) == (cost.rounds, cost.bytes)
        # All was made ahead, and none too much.
        assert not any(provider._in_stock(kind) for kind in cost.demand)
        seen.append(hist.shape[0])
        return found

    monkeypatch.setattr(growth, "_choose_noisily", metered)
    for name, more in (("iris", {"criterion": "gini"}), ("diabetes", {"stop_share": 0.1})):
        rows = encoded(name, columns=4)
        grown(rows, plan_for(rows, 2, max_depth=1, **NOISY, **more))
    rows = encoded("iris", columns=4)
    options = {"max_features": 2, "bootstrap": False, "n_estimators": 3, "criterion": "max"}
    plan = forest_plan(rows, 2, max_depth=1, stop_share=0.1, **NOISY, **options)
    grown(rows, plan)
    assert seen == [1, 1, 3]


@pytest.mark.parametrize("hide", ["nothing", pytest.param("peers", marks=pytest.mark.slow)])
def test_a_run_that_goes_on_draws_nothing_twice(hide: str) -> None:
    rows = encoded("iris", columns=2)
    plan = plan_for(rows, 2, max_depth=1, hide=hide, stop_share=0.2, **NOISY)
    for stop, part, stages in attempts(rows, plan):
        assert stages.marked == [
            opening.name for opening in plan.openings() if part.leakage._times_opened(opening.name)
        ]
        # Another attempt, which has all stages, is the same tree, whatever the noise would be.
        for _ in range(2):
            again = grown(rows, plan, stages=OnDisk(stages.kept, 0))
            assert revealed(plan, again).to_dict() == revealed(plan, part).to_dict(), stop


def test_nothing_is_opened_that_was_not_charged() -> None:
    rows = encoded("iris", columns=2)
    plan = plan_for(rows, 2, max_depth=1, stop_share=0.2, **NOISY)
    ledger = Ledger()
    ledger.charge(*plan.releases()[1:])
    context = Context(
        Simulator(2), members_of(plan), plan, table=table_of(rows, plan), ledger=ledger
    )
    with pytest.raises(HedgerowError) as caught:
        peer(context)
    assert caught.value.code is Code.NOT_CHARGED
    assert leaf_name(0) in [opening.name for opening in plan.openings()]


def test_all_nodes_are_split_where_no_count_decides() -> None:
    rows = encoded("iris", columns=4)
    plan = plan_for(rows, 2, max_depth=3, **NOISY)
    part = grown(rows, plan)
    assert revealed(plan, part).n_leaves == 8
    assert not [
        name for name in (row["name"] for row in part.leakage.compare()) if "leaves of" in name
    ]


def test_plans_are_plain_data() -> None:
    plan = plan_for(encoded("iris"), 2, stop_share=0.1, **NOISY)
    again = PivotPlan.from_dict(plan.to_dict())
    assert again.releases() == plan.releases()
    assert again.openings() == plan.openings()


@pytest.mark.parametrize("epsilon", [0.5, 50.0])
def test_noise_is_foreseen(epsilon: float) -> None:
    for name in ("iris", "diabetes"):
        options: dict[str, Any] = {"noise": "splits+leaves", "epsilon": epsilon, "stop_share": 0.1}
        found = forecast(plan_for(encoded(name), 2, **options))
        assert found.drowns == (epsilon < 1)
        assert found.expected[0].noise == pytest.approx(np.sqrt(2) / (0.1 * epsilon / 4), rel=0.5)
        assert not forecast(plan_for(encoded(name), 2)).expected


@pytest.mark.parametrize(
    "target", [CLASSES, pytest.param(NUMBERS, marks=pytest.mark.slow)], ids=["classes", "numbers"]
)
def test_rows_that_are_not_common_count_nowhere(target: Target) -> None:
    """Joined rows are as many as there is room for; counts are of those that are present."""
    common = N - 2 * 4
    options: dict[str, Any] = {"epsilon": 900.0, "stop_share": 0.3, "split_share": 0.3}
    for least in (common, common + 1):
        more = {**options, "noise": "splits+leaves", "min_samples_split": least}
        found = joined(target, "hidden", 4, **more)
        assert (found.model.shape.first_child[0] < 0) == (least > common)
