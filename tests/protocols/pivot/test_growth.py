"""Trees among peers are those of the clear, whatever is hidden; what is opened is what was said."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.protocols.checkpoint import Stage
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot import growth
from hedgerow.protocols.pivot.growth import cost_choose
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.programs import (
    PeerAnswers,
    PeerPart,
    PeerQuestion,
    respond,
)
from hedgerow.protocols.pivot.run import ask_peers, members_of
from hedgerow.protocols.pivot.trees import opened_trees
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from tests.protocols.pivot.peer_tables import charged, encoded, grown, in_the_clear, plan_for

LIMITED = {"min_samples_split": 30, "min_samples_leaf": 7, "min_impurity_decrease": 0.01}
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("iris", 2, {"max_depth": 3}),
    ("iris", 3, {"max_depth": 2, "hide": "thresholds"}),
    ("iris", 2, {"max_depth": 3, "hide": "features"}),
    ("iris", 2, {"max_depth": 3, "hide": "peers"}),
    ("iris", 4, {"max_depth": 1}),
    ("cancer", 3, {"max_depth": 2, **LIMITED}),
    ("cancer", 2, {"max_depth": 3, **LIMITED, "hide": "thresholds"}),
    ("diabetes", 2, {"max_depth": 3}),
    ("diabetes", 2, {"max_depth": 3, "min_impurity_decrease": 150.0}),
    ("diabetes", 2, {"max_depth": 2, "hide": "peers", "min_samples_leaf": 20}),
    ("iris", 3, {"max_depth": 2, "linear": "products"}),
    ("iris", 2, {"max_depth": 2, "linear": "products", "hide": "peers"}),
]


def revealed_trees(plan: PivotPlan, part: PeerPart) -> list[Tree]:
    """Return the trees, also what no peer sees of them: the shares of all peers added up."""
    tree: Any = part.model
    if plan.hide == "nothing":
        return opened_trees(plan, tree)
    choices = tree.choices.data.sum(axis=0, dtype=plan.ring.dtype)
    assert set(np.unique(choices)) <= {0, 1}
    assert (choices.sum(axis=1) == 1).all()
    held = tree.leaves.ring.signed(tree.leaves.data.sum(axis=0, dtype=tree.leaves.ring.dtype))
    if plan.classes and plan.n_trees == 1:
        held = (held == np.arange(plan.classes)).astype(np.int64)
    opened = replace(tree, groups=[choices.argmax(axis=1)], opened=held, choices=None, leaves=None)
    return opened_trees(replace(plan, hide="nothing"), opened)


def revealed(plan: PivotPlan, part: PeerPart) -> Tree:
    """Return the tree."""
    (found,) = revealed_trees(plan, part)
    return found


def answers(plan: PivotPlan, part: PeerPart, rows: Encoded, asker: int = 0) -> Any:
    bins = {j: rows.bins[:, j] for j in range(len(plan.owners))}
    return ask_peers(plan, part.model, bins, rows.n_slots, charged(plan), asker=asker)


def test_an_answer_is_refused_that_nobody_was_charged_for() -> None:
    rows = encoded("iris")
    plan = plan_for(rows, 2, max_depth=1)
    context = Context(
        Simulator(2),
        members_of(plan),
        plan,
        PeerQuestion(0, 1, "class"),
        PeerAnswers(grown(rows, plan).model.to_state(), {j: rows.bins[:1, j] for j in range(4)}),
        charged(plan),
    )
    context.ledger.charge(*plan.answer_releases(1))
    with pytest.raises(HedgerowError) as caught:
        respond(context)
    assert caught.value.code is Code.NOT_CHARGED
    context.ledger.charge(*plan.answer_releases(0))
    assert respond(context) is not None


@pytest.mark.parametrize("hide", ["nothing", "thresholds"])
def test_a_question_about_a_bin_that_there_is_not_is_refused(hide: str) -> None:
    rows = encoded("iris")
    plan = plan_for(rows, 2, max_depth=1, hide=hide)
    bins = {j: np.full(1, 8) for j in range(4)}
    with pytest.raises(HedgerowError) as caught:
        ask_peers(plan, grown(rows, plan).model, bins, 1, charged(plan))
    assert caught.value.code is Code.BAD_PARAMETER


@pytest.mark.parametrize(("name", "m", "options"), CASES)
def test_it_is_the_tree_of_the_clear(name: str, m: int, options: dict[str, Any]) -> None:
    rows = encoded(name, columns=8)
    plan = plan_for(rows, m, **options)
    part, clear = grown(rows, plan), in_the_clear(rows, plan)
    tree = revealed(plan, part)
    assert tree.n_nodes == clear.n_nodes > 1
    np.testing.assert_array_equal(tree.apply(rows.bins), clear.apply(rows.bins))
    found = answers(plan, part, rows)
    if plan.classes:
        np.testing.assert_array_equal(found, clear.predict_class(rows.bins))
    else:
        means, expected = found, clear.decide(rows.bins)[:, 0]
        half = plan.units.half
        np.testing.assert_allclose(means, expected, rtol=0, atol=2.0**-20 * half)
        np.testing.assert_allclose(
            tree.decide(rows.bins)[:, 0], expected, rtol=0, atol=2.0**-20 * half
        )


def test_a_tree_that_is_one_leaf() -> None:
    rows = encoded("iris")
    for hide in ("nothing", "peers"):
        plan = plan_for(rows, 2, min_samples_split=151, hide=hide)
        part = grown(rows, plan)
        assert part.model.shape.n_nodes == 1
        np.testing.assert_array_equal(answers(plan, part, rows), np.zeros(150))


def test_pure_nodes_are_leaves() -> None:
    rows = encoded("iris")
    plan = plan_for(rows, 2, max_depth=4)
    tree, clear = revealed(plan, grown(rows, plan)), in_the_clear(rows, plan)
    assert tree.n_nodes == clear.n_nodes < 2 * 2**4 - 1


def test_a_choice_costs_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    choose = growth._choose

    def metered(hist: Any, totals: Any, records: Any, plan: PivotPlan, among: Any) -> Any:
        meter, provider = hist.engine.network.meter, hist.engine.provider
        before = meter.snapshot()
        found = choose(hist, totals, records, plan, among)
        used = meter.since(before)
        cost = cost_choose(hist.engine, plan, hist.shape[0], among)
        assert (used.rounds, used.payload) == (cost.rounds, cost.bytes)
        # All was made ahead, and none too much.
        assert not any(provider._in_stock(kind) for kind in cost.demand)
        seen.append(hist.shape[0])
        return found

    monkeypatch.setattr(growth, "_choose", metered)
    for name, more in (("iris", {}), ("iris", {"min_impurity_decrease": 0.01}), ("diabetes", {})):
        rows = encoded(name, columns=4)
        plan = plan_for(rows, 2, max_depth=2, **more)
        grown(rows, plan)
        grown(rows, replace(plan, n_trees=3, max_features=2, bootstrap=True))
    assert seen == [1, 2, 3, 6] * 3


class OnDisk:
    """Keeps stages, and stops a run after so many of them."""

    def __init__(self, kept: dict[str, Stage], stop: int) -> None:
        self.kept, self.left = kept, stop
        self.marked: list[str] = []

    def load(self, stage: str) -> Stage | None:
        return self.kept.get(stage)

    def save(self, stage: str, arrays: Stage) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.kept[stage] = {name: array.copy() for name, array in arrays.items()}

    def mark(self, opening: str) -> None:
        self.marked.append(opening)


def attempts(rows: Encoded, plan: PivotPlan) -> Iterator[tuple[int, PeerPart, OnDisk]]:
    """Stop a run at every stage, and let it go on."""
    total = OnDisk({}, 1000)
    grown(rows, plan, stages=total)
    for stop in range(len(total.kept)):
        kept: dict[str, Stage] = {}
        with pytest.raises(KeyboardInterrupt):
            grown(rows, plan, stages=OnDisk(kept, stop))
        assert len(kept) == stop
        again = OnDisk(kept, 1000)
        yield stop, grown(rows, plan, stages=again), again


@pytest.mark.parametrize(("hide", "depth"), [("nothing", 2), ("thresholds", 1)])
def test_a_run_that_goes_on_opens_the_same(hide: str, depth: int) -> None:
    rows = encoded("iris", columns=3)
    plan = plan_for(rows, 2, max_depth=depth, hide=hide)
    clear = in_the_clear(rows, plan)
    for stop, part, stages in attempts(rows, plan):
        np.testing.assert_array_equal(
            revealed(plan, part).apply(rows.bins), clear.apply(rows.bins), err_msg=f"{stop}"
        )
        assert stages.marked == [
            opening.name for opening in plan.openings() if part.leakage._times_opened(opening.name)
        ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"n_peers": 1, "owners": (0,) * 4, "target_at": 0}, Code.BAD_PARAMETER),
        ({"n_peers": 11}, Code.BAD_PARAMETER),
        ({"target_at": 3}, Code.BAD_PARAMETER),
        ({"owners": (0, 0, 1, 3)}, Code.BAD_PARAMETER),
        ({"owners": (0, 1)}, Code.WRONG_SHAPE),
        ({"capacity": 1 << 33}, Code.BAD_PARAMETER),
        ({"depth": 0}, Code.BAD_PARAMETER),
    ],
)
def test_what_cannot_be_planned(change: dict[str, Any], code: Code) -> None:
    plan = plan_for(encoded("iris"), 3)
    with pytest.raises(HedgerowError) as caught:
        replace(plan, **change)
    assert caught.value.code is code


def test_too_many_bins_are_refused() -> None:
    rows = encoded("cancer", columns=2, bins=300)
    with pytest.raises(HedgerowError) as caught:
        plan_for(rows, 2)
    assert "256" in str(caught.value)


def test_a_table_of_another_length_is_refused() -> None:
    rows = encoded("iris")
    with pytest.raises(HedgerowError) as caught:
        grown(rows, replace(plan_for(rows, 2), capacity=151))
    assert caught.value.code is Code.WRONG_SHAPE


def test_plans_are_plain_data() -> None:
    plan = plan_for(encoded("iris"), 3, hide="features", min_impurity_decrease=0.5)
    again = PivotPlan.from_dict(plan.to_dict())
    assert again.to_dict() == plan.to_dict()
    assert again.openings() == plan.openings()


def test_sizes_of_options() -> None:
    assert PivotOptions(max_depth=7).size(None).depth == 7


def test_nothing_else_can_be_opened() -> None:
    """The engine refuses what the plan does not list, also to one peer."""
    plan = plan_for(encoded("iris"), 2, hide="thresholds")
    engine = AdditiveEngine(Simulator(2), Leakage(plan.openings(), ledger=charged(plan)))
    x = engine.public(np.zeros(1, dtype=np.uint8), plan.ring)
    for name, to in (("leaves", "peer"), ("splits of level 1", "peer"), ("sums", "peer 1")):
        with pytest.raises(HedgerowError) as caught:
            engine.open(x, name, to)
        assert caught.value.code in (Code.UNDECLARED_OPENING, Code.WRONG_OPENING_SHAPE)
