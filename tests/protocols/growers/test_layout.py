from typing import Any

import numpy as np
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.protocols.growers.layout import MOST_LEAVES, Layout, as_one_hot, counting_ring
from hedgerow.secure.ring import Z16, Z32
from hedgerow.tables import Attribute
from hedgerow.trees.layout import SplitKind
from tests.protocols.hidden.hidden_runs import ATTRIBUTES, domain, make_slots
from tests.protocols.sharing.shared_tables import columns_at, one_hot

BRANCHINGS = ("binary", "wary")
# Places of the attributes with 4, 1, 2, 5 and 1 bins.
FIRST = {"binary": [0, 4, 5, 7, 12], "wary": [0, 5, 10, 15, 20]}
COLUMNS = {"binary": 13, "wary": 25}


def categorical(*sizes: int) -> list[Attribute]:
    return [
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(size)))
        for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("branching", BRANCHINGS)
def test_sizes_follow_from_the_domain(branching: Any) -> None:
    layout = Layout(domain(), branching)
    assert layout.candidates.n_bins.tolist() == [4, 1, 2, 5, 1]
    assert layout.n_features == 5
    assert layout.width == 5
    assert layout.arity == (2 if branching == "binary" else 5)
    assert layout.n_columns == COLUMNS[branching]
    assert layout.first_column.tolist() == FIRST[branching]
    assert [layout.n_nodes(level) for level in range(4)] == [layout.arity**i for i in range(4)]
    # Thresholds 3, nothing, a single value of two, five values, nothing; or one per attribute.
    assert len(layout.candidates) == (9 if branching == "binary" else 5)


def test_left_holds_the_bins_that_each_binary_candidate_sends_left() -> None:
    layout = Layout(domain(), "binary")
    those = layout.candidates
    expected = np.zeros((len(those), layout.n_columns), dtype=np.uint8)
    for c in range(len(those)):
        feature, cut = int(those.feature[c]), int(those.cut[c])
        for b in range(int(those.n_bins[feature])):
            threshold = those.kind[c] == SplitKind.THRESHOLD
            expected[c, FIRST["binary"][feature] + b] = b <= cut if threshold else b == cut
    np.testing.assert_array_equal(layout.left, expected)
    # The missing bin of x is never left; it is alone on the right of the last cut.
    assert layout.left[:3, :4].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert layout.left[3].nonzero()[0].tolist() == [5]


@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("features", [None, (0,), (1, 3), (0, 2, 4), (3, 0)])
def test_one_hot_rows_against_a_loop(branching: Any, features: tuple[int, ...] | None) -> None:
    layout = Layout(domain(), branching)
    slots = make_slots(domain(), 3, 60)
    assert not slots.present.all()
    chosen = range(5) if features is None else features
    widths = [5] * len(chosen) if branching == "wary" else [(4, 1, 2, 5, 1)[a] for a in chosen]
    assert layout.widths(list(chosen)).tolist() == widths
    expected = np.zeros((60, sum(widths)), dtype=np.uint8)
    for row in range(60):
        for i, feature in enumerate(chosen):
            if slots.present[row]:
                expected[row, sum(widths[:i]) + slots.bins[row, feature]] = 1
    # Laid out side by side in the whole table they are the same cells.
    columns = columns_at(layout, list(chosen))
    np.testing.assert_array_equal(one_hot(layout, slots)[:, columns], expected)
    starts = [FIRST[branching][a] for a in chosen]
    assert columns.tolist() == [
        at + i for at, width in zip(starts, widths, strict=True) for i in range(width)
    ]


def test_wary_columns_of_values_that_do_not_exist_are_zero() -> None:
    layout = Layout(domain(), "wary")
    cells = one_hot(layout, make_slots(domain(), 4, 200)).reshape(200, 5, 5)
    assert cells.sum(axis=(0, 2)).tolist() == [int(cells[:, 0].sum())] * 5
    for feature, bins in enumerate((4, 1, 2, 5, 1)):
        assert cells[:, feature, bins:].sum() == 0


def test_deepest_and_refused_depths() -> None:
    binary, wary = Layout(domain(), "binary"), Layout(domain(), "wary")
    assert binary.deepest == 20
    assert wary.deepest == 5
    wide = Layout(domain(attributes=categorical(100, *[2] * 9)), "wary")
    assert wide.deepest == 3
    assert 100**3 <= MOST_LEAVES < 100**4
    for layout in (binary, wary, wide):
        layout.check_depth(1)
        layout.check_depth(layout.deepest)
        for depth in (0, -1, layout.deepest + 1, 10**9, 2.0, True):
            with pytest.raises(HedgerowError, match="H501"):
                layout.check_depth(depth)  # type: ignore[arg-type]
    with pytest.raises(HedgerowError, match="each attribute is used once"):
        wary.check_depth(6)
    with pytest.raises(HedgerowError, match="leaves"):
        wide.check_depth(4)


def test_a_domain_without_a_split_is_refused() -> None:
    with pytest.raises(HedgerowError, match=r"H501.*no candidate split"):
        Layout(domain(attributes=[ATTRIBUTES[1], ATTRIBUTES[4]]), "binary").check_depth(1)


def test_counting_ring_holds_every_count_and_one_more() -> None:
    assert counting_ring(1) == Z16
    assert counting_ring(2**15 - 2) == Z16
    assert counting_ring(2**15 - 1) == Z32
    assert counting_ring(2**31 - 2) == Z32
    with pytest.raises(HedgerowError, match="H501"):
        counting_ring(2**31 - 1)


def test_one_hot_of_indices() -> None:
    hot = as_one_hot(np.array([[2, 0], [1, 3]]), 3)
    assert hot.tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 0]]]
