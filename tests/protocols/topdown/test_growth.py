"""Growth: about as many questions as levels, and the tree that one leaf at a time gives."""

import numpy as np
import pytest

from hedgerow.protocols.topdown.coordinator import CoordinatorTraffic
from hedgerow.protocols.topdown.growth import BestFirstGrowth, NodeEstimates
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from tests.protocols.topdown.topdown_cases import grow_topdown, owners, plan, table


def _uneven(n: int = 4000) -> Encoded:
    """Noise in the labels everywhere, so that best-first order goes up and down the levels."""
    whole = table(n, seed=3)
    assert whole.target is not None
    rng = np.random.default_rng(1)
    flipped = rng.random(n) < 0.05 + 0.4 * (whole.bins[:, 0] / 8) ** 2
    target = np.where(flipped, 1 - whole.target, whole.target).astype(np.uint8)
    return Encoded(whole.domain, whole.bins, target, whole.present)


def _grown(**options: object) -> tuple[Tree, CoordinatorTraffic]:
    common: dict[str, object] = {"n_splits": 60, "max_depth": 12, "min_gain": 0.0, "error": 0.0}
    made = plan("single-machine", **(common | options))
    return grow_topdown(made, owners(made, _uneven()))


@pytest.mark.parametrize("lookahead", [1, 5])
def test_looking_ahead_changes_rounds_and_not_the_tree(lookahead: int) -> None:
    tree, traffic = _grown(epsilon=None)
    same, slower = _grown(epsilon=None, lookahead=lookahead)
    assert tree.to_dict() == same.to_dict()
    assert tree.n_leaves == 61
    assert slower.rounds > traffic.rounds


@pytest.mark.parametrize("epsilon", [None, 1.0, 50.0])
def test_there_are_about_as_many_rounds_as_levels(epsilon: float | None) -> None:
    tree, traffic = _grown(epsilon=epsilon)
    # The root, a level each, and the leaves; below the deepest leaf one more is looked at.
    assert traffic.rounds <= tree.depth + 3


def test_the_papers_accounting_without_noise_is_no_other_growth() -> None:
    for criterion in ("gini", "entropy"):
        ours, _ = _grown(epsilon=None, criterion=criterion, min_gain=0.01)
        paper, _ = _grown(epsilon=None, criterion=criterion, min_gain=0.01, accounting="paper")
        assert ours.to_dict() == paper.to_dict()


def test_looks_in_vain_leave_enough_for_the_splits_to_come() -> None:
    """Every look finds two leaves that are better than all others: the worst there is."""
    for n_splits in (1, 2, 7, 30):
        growth = BestFirstGrowth(
            plan("single-machine", n_splits=n_splits, max_depth=200, epsilon=None)
        )
        worth = np.linspace(0.1, 0.4, 2 * growth.shape.looks_left + 4)
        while not (question := growth.question()).leaves:
            nodes = np.array(question.nodes)
            growth.hear(NodeEstimates(np.ones(len(nodes)), np.zeros_like(nodes), worth[nodes]))
            assert growth.shape.looks_left >= 0
        assert len(growth.made) == n_splits
