import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.counts import rows as rows_module
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import CRITERIA, Public
from hedgerow.trees.growing.scoring import integer_scores_from_histogram
from tests.trees.small_tables import (
    channels,
    children,
    encoded,
    random_table,
    scores_from_histogram,
)

N_BINS = [6, 3, 9, 2, 4]
ORDERED = [True, False, True, False, True]


def grown(regression=False, branching="binary", n_threads=2, **options):
    """Rows after two levels of arbitrary splits, and the nodes of the last level."""
    table = random_table(1, 500, N_BINS, ordered=ORDERED, regression=regression)
    candidates = Candidates.from_domain(table.domain, branching)
    rows = Rows(table, candidates, n_threads=n_threads, **options)
    nodes = np.zeros(1, dtype=np.int64)
    for level in range(2):
        choices = (3 * nodes + level) % len(candidates)
        first = rows.split(nodes, choices)
        nodes = np.arange(first[0], rows.n_nodes)
    return table, rows, nodes


@pytest.fixture(params=[1, 2])
def always_threaded(request, monkeypatch):
    """Divide even small work among the threads, as large work is."""
    monkeypatch.setattr(rows_module, "_WORTH_A_THREAD", 0)
    return request.param


@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("name", ["max", "gini", "entropy", "gain", "squared_error"])
def test_fused_scores_equal_those_of_the_histogram_bit_for_bit(name, branching, always_threaded):
    regression = name == "squared_error"
    _, rows, nodes = grown(regression, branching, always_threaded)
    hist = rows.histogram(nodes)
    assert hist.shape == (nodes.size, sum(N_BINS), 3)
    expected = scores_from_histogram(hist, rows.candidates, CRITERIA[name])
    np.testing.assert_array_equal(rows.scores(nodes, CRITERIA[name]), expected)


@pytest.mark.parametrize("name", ["max", "gini", "entropy", "gain", "squared_error"])
def test_fused_integer_scores_equal_those_of_the_histogram(name, always_threaded):
    options = {}
    if name == "squared_error":
        options["target"] = np.random.default_rng(0).integers(-20, 20, 500)
    _, rows, nodes = grown(n_threads=always_threaded, **options)
    public = Public(500, bounds=(-20, 20))
    expected = integer_scores_from_histogram(
        rows.histogram(nodes), rows.candidates, CRITERIA[name], public, 10
    )
    scores = rows.integer_scores(nodes, CRITERIA[name], public, 10)
    assert scores.dtype == np.int64
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("regression", [False, True])
def test_rows_follow_the_splits(regression):
    table, rows, _ = grown(regression)
    candidates = rows.candidates
    members = {0: np.arange(500)}
    nodes = np.zeros(1, dtype=np.int64)
    made = 1
    for level in range(2):
        choices = (3 * nodes + level) % len(candidates)
        for node, choice in zip(nodes, choices, strict=True):
            column = table.bins[members[node], candidates.feature[choice]]
            child = children(column, candidates.kind[choice], candidates.cut[choice], 0)
            for c in range(2):
                members[made] = members[node][child == c]
                made += 1
        nodes = np.arange(made - 2 * nodes.size, made)
    assert rows.n_nodes == made
    for node in range(made):
        expected = channels(table.target[members[node]], 3)
        np.testing.assert_allclose(rows.counts([node])[0], expected, atol=1e-9)
        assert rows.sizes([node])[0] == members[node].size
    # The last level lies in order, each node a range, rows ascending within it.
    np.testing.assert_array_equal(rows.order, np.concatenate([members[n] for n in nodes]))
    np.testing.assert_array_equal(rows.target, table.target[rows.order])


def test_histogram_types():
    assert grown()[1].histogram([0]).dtype == np.int64
    assert grown(True)[1].histogram([0]).dtype == np.float64


def test_absent_rows_are_left_out():
    full = random_table(4, 200, N_BINS)
    present = np.random.default_rng(1).random(200) < 0.6
    padded = encoded(full.bins, full.target, n_bins=N_BINS, present=present)
    alone = encoded(full.bins[present], full.target[present], n_bins=N_BINS)
    candidates = Candidates.from_domain(full.domain)
    np.testing.assert_array_equal(
        Rows(padded, candidates).histogram([0]), Rows(alone, candidates).histogram([0])
    )
    index = np.arange(0, 200, 2, dtype=np.int32)
    assert Rows(padded, candidates, index=index).sizes([0]) == present[::2].sum()


def test_a_row_listed_twice_counts_twice():
    table = random_table(4, 50, N_BINS)
    candidates = Candidates.from_domain(table.domain)
    twice = Rows(table, candidates, index=np.repeat(np.arange(50, dtype=np.int32), 2))
    np.testing.assert_array_equal(twice.histogram([0]), 2 * Rows(table, candidates).histogram([0]))


def test_the_caller_s_arrays_are_left_alone():
    table = random_table(4, 50, N_BINS)
    before = table.target.copy()
    index = np.arange(50, dtype=np.int32)
    rows = Rows(table, Candidates.from_domain(table.domain), index=index)
    rows.split([0], [3])
    np.testing.assert_array_equal(index, np.arange(50))
    np.testing.assert_array_equal(table.target, before)


def test_rows_of_leaves_need_not_move():
    table = random_table(2, 300, N_BINS)
    candidates = Candidates.from_domain(table.domain)
    moved, kept = Rows(table, candidates), Rows(table, candidates)
    split = kept.tally([0], [2])
    before = kept.order.copy()
    assert kept.move(split, np.array([False])) == moved.split([0], [2])
    np.testing.assert_array_equal(kept.order, before)
    np.testing.assert_array_equal(kept.counts([1, 2]), moved.counts([1, 2]))
    np.testing.assert_array_equal(split.counts, moved.counts([1, 2]))


def test_some_nodes_move_and_others_do_not():
    _, rows, nodes = grown()
    split = rows.tally(nodes, [0] * nodes.size)
    keep = np.arange(nodes.size) % 2 == 0
    _, other, _ = grown()
    first = rows.move(split, keep)
    np.testing.assert_array_equal(first, other.split(nodes, [0] * nodes.size))
    kept = np.flatnonzero(keep[split.owner]) + first[0]
    np.testing.assert_array_equal(rows.histogram(kept), other.histogram(kept))


def test_limits_and_skips_mark_with_minus_infinity():
    _, rows, nodes = grown()
    free = rows.scores(nodes, CRITERIA["gini"])
    hist = rows.histogram(nodes)
    assert np.isfinite(free).all()
    limited = rows.scores(nodes, CRITERIA["gini"], min_leaf=20)
    # Once a feature is known to be constant it is not looked at again: the answer is the same.
    np.testing.assert_array_equal(rows.scores(nodes, CRITERIA["gini"], min_leaf=20), limited)
    np.testing.assert_array_equal(rows.scores(nodes, CRITERIA["gini"]), free)
    allowed = np.isfinite(limited)
    np.testing.assert_array_equal(limited[allowed], free[allowed])
    of_threshold = hist[:, : N_BINS[0]].sum(axis=2).cumsum(axis=1)
    smallest = np.minimum(of_threshold, of_threshold[:, -1:] - of_threshold)[:, :-1]
    np.testing.assert_array_equal(allowed[:, : N_BINS[0] - 1], smallest >= 20)
    skip = np.zeros((nodes.size, 5), dtype=bool)
    skip[:, 0] = True
    skipped = rows.scores(nodes, CRITERIA["gini"], skip=skip)
    expected = np.where(rows.candidates.feature == 0, -np.inf, free)
    np.testing.assert_array_equal(skipped, expected)


def test_blocks_keep_the_scores_small(monkeypatch):
    _, rows, nodes = grown()
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 3 * 8 * len(rows.candidates))
    blocks = list(rows.blocks(nodes))
    assert [nodes[b].size for b in blocks] == [3, 1]
    assert np.concatenate([nodes[b] for b in blocks]).tolist() == nodes.tolist()


def test_an_empty_node_can_be_scored_and_split():
    table = encoded([[0, 1], [0, 2]], np.array([0, 1], dtype=np.uint8), n_bins=[4, 3])
    rows = Rows(table, Candidates.from_domain(table.domain))
    first = rows.split([0], [1])
    right = int(first[0]) + 1
    assert rows.sizes([right]) == 0
    assert (rows.scores([right], CRITERIA["gini"]) == 0).all()
    assert (rows.integer_scores([right], CRITERIA["gini"], Public(2), 5) == 0).all()
    below = rows.split([right], [0])
    assert rows.sizes([below[0], below[0] + 1]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda rows: rows.scores([0], CRITERIA["squared_error"]), Code.BAD_TARGET),
        (
            lambda rows: rows.integer_scores([0], CRITERIA["gini"], Public(499), 4),
            Code.CAPACITY_EXCEEDED,
        ),
    ],
)
def test_refusals(call, code):
    _, rows, _ = grown()
    with pytest.raises(HedgerowError) as caught:
        call(rows)
    assert caught.value.code is code


def test_a_table_without_a_target_is_refused():
    table = random_table(4, 50, N_BINS)
    bare = table.select(range(5), target=False)
    with pytest.raises(HedgerowError) as caught:
        Rows(bare, Candidates.from_domain(bare.domain))
    assert caught.value.code is Code.BAD_TARGET
