"""Counts of merged rows equal counts of the rows."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.counts.leaves import LeafCounts, merge_equal_rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.layout import SplitKind


def _table(seed: int, n: int = 400) -> Encoded:
    rng = np.random.default_rng(seed)
    attributes = (
        Attribute(name="a", kind="numeric", bounds=(0, 4), bins=4),
        Attribute(name="b", kind="categorical", categories=("x", "y", "z")),
        Attribute(name="c", kind="categorical", categories=("p", "q")),
    )
    domain = Domain(attributes=attributes, target=Target(name="t", classes=(0, 1, 2)))
    bins = np.asfortranarray(
        np.column_stack([rng.integers(0, k, n) for k in domain.n_bins]).astype(np.uint8)
    )
    present = rng.random(n) < 0.9
    return Encoded(domain, bins, rng.integers(0, 3, n).astype(np.uint8), present)


def _goes_first(bins: np.ndarray, candidates: Candidates, chosen: int) -> np.ndarray:
    column, cut = bins[:, candidates.feature[chosen]], candidates.cut[chosen]
    return column <= cut if candidates.kind[chosen] == SplitKind.THRESHOLD else column == cut


@pytest.mark.parametrize("seed", range(5))
def test_counts_are_those_of_the_rows(seed: int) -> None:
    table = _table(seed)
    candidates = Candidates.from_domain(table.domain)
    counts = LeafCounts(table, candidates)
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(table.present)]
    free = [0]
    for _ in range(4):
        nodes = [free.pop(rng.integers(len(free))) for _ in range(min(2, len(free)))]
        choices = rng.integers(0, len(candidates), len(nodes))
        counts.split(nodes, choices)
        for node, choice in zip(nodes, choices, strict=True):
            first = _goes_first(table.bins[rows[node]], candidates, choice)
            free += [len(rows), len(rows) + 1]
            rows += [rows[node][first], rows[node][~first]]
    assert table.target is not None
    everything = np.arange(counts.n_nodes)
    classes, histogram = counts.class_counts(everything), counts.histogram(everything)
    for node, mine in enumerate(rows):
        assert np.array_equal(classes[node], np.bincount(table.target[mine], minlength=3))
        for f in range(3):
            here = slice(candidates.offset[f], candidates.offset[f + 1])
            expected = np.zeros((candidates.n_bins[f], 3), dtype=np.int64)
            np.add.at(expected, (table.bins[mine, f], table.target[mine]), 1)
            assert np.array_equal(histogram[node, here], expected)
    assert counts.n_records == int(table.present.sum())


def test_merging_loses_no_row() -> None:
    table = _table(0, 3000)
    assert table.target is not None
    bins, label, number = merge_equal_rows(table.bins, table.target)
    assert len(bins) == 4 * 3 * 2 * 3  # every cell occurs, and once
    assert number.sum() == 3000
    back = np.repeat(np.column_stack([bins, label]), number, axis=0)
    ours = np.column_stack([table.bins, table.target])
    assert np.array_equal(back[np.lexsort(back.T)], ours[np.lexsort(ours.T)])


def test_cells_count_as_their_records() -> None:
    table = _table(1)
    assert table.target is not None
    candidates = Candidates.from_domain(table.domain)
    present = table.present
    cells = merge_equal_rows(table.bins[present], table.target[present])
    other = LeafCounts.of_cells(*cells, candidates, 3)
    ours = LeafCounts(table, candidates)
    assert np.array_equal(other.histogram([0]), ours.histogram([0]))


def test_an_empty_table_has_counts_of_zero() -> None:
    table = _table(2, 0)
    counts = LeafCounts(table, Candidates.from_domain(table.domain))
    counts.split([0], [0])
    assert counts.n_records == 0
    assert counts.histogram([0, 1, 2]).sum() == 0


def test_a_node_that_does_not_exist_is_refused() -> None:
    table = _table(3)
    counts = LeafCounts(table, Candidates.from_domain(table.domain))
    with pytest.raises(HedgerowError) as caught:
        counts.class_counts([1])
    assert caught.value.code is Code.BAD_PARAMETER
