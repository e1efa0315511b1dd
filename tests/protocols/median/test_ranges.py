"""What splits leave possible, and the public choices."""

import numpy as np

from hedgerow.protocols.median.ranges import (
    SAMPLED,
    Attributes,
    Ranges,
    draw_attributes,
    public_words,
)
from hedgerow.tables import Attribute, Domain
from hedgerow.trees.counts.forest import ForestSplits
from hedgerow.trees.layout import SplitKind

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 10), bins=5, missing="own bin"),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
        Attribute(name="uneven", kind="numeric", bounds=(0, 10), edges=(1, 5), missing="own bin"),
        Attribute(name="one", kind="categorical", categories=("only",)),
    )
)
OWN = Attributes.of(DOMAIN)
WARD_A_C = np.array([[True, False, True]])


def test_attributes_are_read_from_the_domain() -> None:
    assert OWN.categorical.tolist() == [False, True, False, True]
    assert OWN.place.tolist() == [0, 0, 3, 3, 4]
    assert OWN.uniform.tolist() == [True, True, False, True]
    begin = OWN.measure_first[2]
    widths = np.diff(OWN.measure[begin : begin + 5])
    np.testing.assert_allclose(widths[:3] / widths[:3].sum(), [0.1, 0.4, 0.5], atol=1e-6)
    assert OWN.bipartitions(0, 0).shape[0] == 0


def test_splits_narrow_what_is_possible_below() -> None:
    splits = ForestSplits(
        np.array([0, 1, -1], dtype=np.int32),
        np.array([SplitKind.THRESHOLD, SplitKind.SUBSET, SplitKind.LEAF], dtype=np.uint8),
        np.array([2, 0, -1], dtype=np.int32),
        WARD_A_C,
    )
    below = Ranges.roots(OWN, 3).below(splits)
    assert below.low[:, 0].tolist() == [0, 3, 0, 0, 0]
    assert below.high[:, 0].tolist() == [2, 5, 5, 5, 5]
    ward = below.possible[:, :3].tolist()
    assert ward == [[1, 1, 1], [1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1]]
    # One ward is left in the fourth node, and the last attribute never had two.
    assert below.available.tolist() == [
        [1, 1, 1, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 0],
        [1, 0, 1, 0],
        [1, 1, 1, 0],
    ]


def test_attributes_are_drawn_uniformly_among_those_that_can_be_split() -> None:
    available = np.ones((60_000, 4), dtype=np.bool_)
    available[:, 3] = False
    available[::2, 0] = False
    nodes, features = draw_attributes(available, 2, 0, 0)
    assert available[nodes, features].all()
    np.testing.assert_array_equal(nodes, np.arange(60_000).repeat(2))
    odd = features.reshape(-1, 2)[1::2]
    assert (odd[:, 0] != odd[:, 1]).all()
    counts = np.bincount(odd.ravel(), minlength=3)
    assert (np.abs(counts - 20_000) < 5 * np.sqrt(20_000)).all()
    again = draw_attributes(available, 2, 0, 0)[1]
    np.testing.assert_array_equal(features, again)
    assert (features != draw_attributes(available, 2, 1, 0)[1]).any()
    assert (features != draw_attributes(available, 2, 0, 1)[1]).any()


def test_a_node_with_nothing_to_split_has_no_ask() -> None:
    available = np.array([[True, False], [False, False], [True, True]])
    nodes, features = draw_attributes(available, 2, 0, 0)
    assert nodes.tolist() == [0, 2, 2]
    assert sorted(features[1:].tolist()) == [0, 1]


def test_bipartitions_are_public_and_differ_by_level() -> None:
    wide = Domain(
        attributes=(Attribute(name="x", kind="categorical", categories=tuple(range(100))),)
    )
    own = Attributes.of(wide)
    tables = own.bipartitions(3, 0)
    assert tables.shape == (1, SAMPLED, 2)
    np.testing.assert_array_equal(tables, own.bipartitions(3, 0))
    assert (tables != own.bipartitions(3, 1)).any()
    assert (tables != own.bipartitions(4, 0)).any()
    assert public_words(0, "x", (3,)).dtype == np.uint64
