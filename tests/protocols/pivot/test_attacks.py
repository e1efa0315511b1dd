"""The two attacks of section 5.1 of the paper: they succeed where the tree is seen, else they fail.

Colluding peers have all columns but those of one peer, and what was opened. Of what was not opened
they have no better idea than any that fits: they draw it, many times, and take the majority.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.trees import opened_trees
from hedgerow.tables import Encoded
from hedgerow.trees.tree import Tree
from tests.protocols.pivot.peer_tables import encoded, grown, in_the_clear, plan_for

DRAWS = 300


def trees(plan: PivotPlan, tree: PeerTrees) -> list[Tree]:
    """Return trees that fit what was opened: the one, or drawn ones."""
    if plan.hide == "nothing":
        return opened_trees(plan, tree)
    rng, those = np.random.default_rng(0), plan.layout.candidates
    found = []
    for _ in range(DRAWS):
        chosen = []
        for group in tree.groups:
            fits = [np.flatnonzero(those.feature == feature) for feature in group]
            chosen.append(np.array([rng.choice(few) for few in fits], dtype=np.int64))
        labels = np.eye(plan.classes or 0, dtype=np.int64)
        leaves = labels[rng.integers(0, plan.classes or 0, tree.shape.n_leaves)]
        drawn = replace(tree, groups=chosen, opened=leaves, choices=None, leaves=None)
        found += opened_trees(replace(plan, hide="nothing"), drawn)
    return found


def setting(hide: str, owners: list[int], target_at: int) -> tuple[Encoded, PivotPlan, PeerTrees]:
    rows = encoded("cancer", columns=6)
    plan = replace(plan_for(rows, 3, max_depth=2, hide=hide), owners=tuple(owners))
    plan = replace(plan, target_at=target_at)
    return rows, plan, grown(rows, plan).model


def labels_by_collusion(rows: Encoded, plan: PivotPlan, tree: PeerTrees) -> Any:
    """Example 1: peers that have all the columns infer the labels of the one that has none."""
    votes = [found.predict_class(rows.bins) for found in trees(plan, tree)]
    return np.mean(votes, axis=0) > 0.5


def sides_by_collusion(
    rows: Encoded, plan: PivotPlan, tree: PeerTrees, victim: int, truth: Tree
) -> tuple[Any, Any]:
    """Example 2: peers with the labels infer on which side of its cut the victim's rows are.

    Of the victim's split nearest to the root, whose rows the others know: all, at the root.
    """
    assert truth.feature[0] in [j for j, owner in enumerate(plan.owners) if owner == victim]
    votes = []
    for found in trees(plan, tree):
        # Which class stands left of the root, by the leaves below it.
        on_left = [int(found.labels[leaf]) for leaf in _below(found, int(found.first_child[0]))]
        votes.append(np.asarray(rows.target) == max(set(on_left), key=on_left.count))
    actual = rows.bins[:, truth.feature[0]] <= truth.cut[0]
    return np.mean(votes, axis=0) > 0.5, actual


def _below(tree: Tree, node: int) -> list[int]:
    if tree.first_child[node] < 0:
        return [node]
    first = int(tree.first_child[node])
    return [leaf for child in (first, first + 1) for leaf in _below(tree, child)]


@pytest.mark.parametrize("hide", ["nothing", "thresholds"])
def test_labels_of_the_one_that_has_them(hide: str) -> None:
    rows, plan, tree = setting(hide, [0, 0, 0, 1, 1, 1], target_at=2)
    found = labels_by_collusion(rows, plan, tree)
    target = np.asarray(rows.target)
    right, base = np.mean(found == target), max(np.mean(target), 1 - np.mean(target))
    if hide == "nothing":
        assert right > base + 0.2
    else:
        assert right < base + 0.05


@pytest.mark.parametrize("hide", ["nothing", "thresholds"])
def test_values_of_a_peer(hide: str) -> None:
    # The tree's root is an attribute of the victim.
    rows = encoded("cancer", columns=6)
    truth = in_the_clear(rows, plan_for(rows, 3, max_depth=2))
    owners = [2 if j == truth.feature[0] else 0 for j in range(6)]
    rows, plan, tree = setting(hide, owners, target_at=1)
    found, actual = sides_by_collusion(rows, plan, tree, 2, truth)
    right, base = np.mean(found == actual), max(np.mean(actual), 1 - np.mean(actual))
    if hide == "nothing":
        assert right > base + 0.1
    else:
        assert right < base + 0.05
