import numpy as np

from hedgerow.trees.growing.nodes import Nodes, NodeSplits
from hedgerow.trees.layout import SplitKind


def test_nodes_grow_and_keep_what_they_hold():
    nodes = Nodes(10, np.array([[4, 6]]), 3)
    for step in range(1, 40):
        size = nodes.size
        counts = np.full((step, 2), step)
        constant = np.full((step, 3), step % 2 == 0)
        nodes.append(np.arange(step), np.arange(step) + step, counts, constant)
        assert nodes.size == size + step
        np.testing.assert_array_equal(nodes.lengths(np.arange(size, size + step)), step)
        np.testing.assert_array_equal(nodes.counts[size : size + step], step)
        assert (nodes.constant[size : size + step] == (step % 2 == 0)).all()
    assert nodes.lengths(np.array([0])).tolist() == [10]
    assert nodes.counts[0].tolist() == [4, 6]


def test_centred_thresholds():
    split = NodeSplits(
        nodes=np.arange(4),
        feature=np.zeros(4, dtype=np.int32),
        kind=np.array(
            [SplitKind.THRESHOLD, SplitKind.THRESHOLD, SplitKind.VALUE, SplitKind.THRESHOLD],
            dtype=np.uint8,
        ),
        cut=np.array([2, 5, 3, 1], dtype=np.int32),
        first=np.array([0, 2, 4, 6, 8]),
        counts=np.zeros((8, 2), dtype=np.int64),
        gap=np.array([[2, 7], [5, 6], [3, 0], [-1, 4]]),
    )
    centred = split.centre_cuts()
    assert centred.cut.tolist() == [4, 5, 3, 1]
    assert centred.cut.dtype == np.int32
    assert split.owner.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
