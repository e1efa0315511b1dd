"""Trees as nodes that compare, test membership and search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from hedgerow.tables.attribute import Attribute
from hedgerow.trees.export.onnx_trees import EQ, LEQ, MEMBER, Part, ensemble, structure
from hedgerow.trees.layout import SplitKind
from tests.trees.tree_strategies import quick, single_split, trees_with_bins, walk

COLOURS = Attribute(name="c", kind="categorical", categories=tuple("abcdefgh"))


def sets(members):
    """The sets of the MEMBER nodes, which NaN ends."""
    found, now = [], set()
    for x in members:
        if np.isnan(x):
            found.append(now)
            now = set()
        else:
            now.add(x)
    assert not now
    return found


def follow(made, row):
    """Original leaf of one row of bins, node by node."""
    at, rank = 0, np.cumsum(made.mode == MEMBER) - 1
    members = sets(made.members)
    while at >= 0:
        b = float(row[made.feature[at]])
        true = {
            LEQ: lambda b, at: b <= made.split[at],
            EQ: lambda b, at: b == made.split[at],
            MEMBER: lambda b, at: b in members[rank[at]],
        }[int(made.mode[at])](b, at)
        at = int(made.true[at] if true else made.false[at])
    return int(made.leaves[~at])


@quick
@given(trees_with_bins(rows=40))
def test_every_row_arrives_at_its_leaf(case):
    tree, bins = case
    made = structure(tree, "bins")
    assert [follow(made, row) for row in bins] == [walk(tree, row) for row in bins]
    assert len(set(made.leaves.tolist())) == len(made.leaves)
    assert len(made.feature) == max(1, len(made.leaves) - 1)


@pytest.mark.parametrize(
    ("tree", "modes", "members"),
    [
        (single_split(COLOURS, SplitKind.SUBSET, 0, [1, 0, 0, 1, 0, 0, 0, 1]), [MEMBER], [0, 3, 7]),
        (single_split(COLOURS, SplitKind.SUBSET, 0, [0] * 8), [LEQ], []),
        (single_split(COLOURS, SplitKind.VALUE, 3), [EQ], []),
        (single_split(COLOURS, SplitKind.THRESHOLD, 3), [LEQ], []),
        (single_split(COLOURS, SplitKind.WARY), [LEQ] * 7, []),
    ],
)
def test_nodes_by_hand(tree, modes, members):
    made = structure(tree, "bins")
    assert made.mode.tolist() == modes
    assert made.members[~np.isnan(made.members)].tolist() == members


def test_trees_lie_behind_each_other():
    tree = single_split(COLOURS, SplitKind.SUBSET, 0, [1, 0, 0, 1, 0, 0, 0, 1])
    one, two = np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0, 4.0])
    made = ensemble([Part(tree, one, 0), Part(tree, two, 1)], 2, "bins")
    assert made["tree_roots"] == [0, 1]
    assert made["nodes_truenodeids"] == [0, 2]
    assert made["nodes_falsenodeids"] == [1, 3]
    assert made["nodes_trueleafs"] == made["nodes_falseleafs"] == [1, 1]
    assert made["leaf_targetids"] == [0, 0, 1, 1]
    assert made["leaf_weights"].tolist() == [1, 2, 3, 4]
    assert sets(made["membership_values"]) == [{0, 3, 7}] * 2
