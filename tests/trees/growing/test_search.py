import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.counts import rows as rows_module
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import CRITERIA
from hedgerow.trees.growing.search import Chooser, HighestScore, RandomCuts, Search, n_drawn
from tests.trees.small_tables import encoded, random_table

N_BINS = [5, 8, 3, 6, 4]
GINI = CRITERIA["gini"]


@pytest.fixture
def rows():
    table = random_table(3, 400, N_BINS)
    rows = Rows(table, Candidates.from_domain(table.domain))
    rows.split([0], [1])
    rows.split([1, 2], [6, 9])
    return rows


NODES = np.array([3, 4, 5, 6])


def test_the_best_candidate_and_its_score(rows):
    choice, score = Search(GINI, HighestScore(), min_leaf=7)(rows, NODES)
    scores = rows.scores(NODES, GINI, min_leaf=7)
    np.testing.assert_array_equal(choice, scores.argmax(axis=1))
    np.testing.assert_array_equal(score, scores.max(axis=1))


def test_blocks_do_not_matter(rows, monkeypatch):
    whole = Search(GINI, HighestScore())(rows, NODES)
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", 1)
    for a, b in zip(whole, Search(GINI, HighestScore())(rows, NODES), strict=True):
        np.testing.assert_array_equal(a, b)


def test_attributes_to_skip_are_not_chosen(rows):
    skip = np.zeros((4, 5), dtype=bool)
    skip[0, :] = True
    skip[1, 1:] = True
    choice, score = Search(GINI, HighestScore())(rows, NODES, skip)
    assert choice[0] == -1
    assert score[0] == -np.inf
    assert rows.candidates.feature[choice[1]] == 0
    rng = np.random.default_rng(0)
    for _ in range(20):
        choice, _ = Search(GINI, HighestScore(), n_drawn=2, rng=rng)(rows, NODES, skip)
        assert choice[0] == -1
        assert rows.candidates.feature[choice[1]] == 0


def test_drawn_attributes_are_uniform_and_the_best_of_them_wins(rows):
    rng = np.random.default_rng(5)
    search = Search(GINI, HighestScore(), n_drawn=2, rng=rng)
    scores = rows.scores([3], GINI, min_leaf=1)[0]
    first = rows.candidates.first
    best = np.array([scores[first[f] : first[f + 1]].max() for f in range(5)])
    rank = np.argsort(np.argsort(-best))
    features = rows.candidates.feature[search(rows, np.full(5000, 3))[0]]
    share = np.bincount(rank[features], minlength=5) / 5000
    # The attribute of rank r wins if it is drawn with a worse one: (4 - r) of the 10 pairs.
    np.testing.assert_allclose(share, [0.4, 0.3, 0.2, 0.1, 0.0], atol=0.03)


def test_a_node_goes_on_until_an_attribute_can_be_split():
    """Only the last of five attributes varies, and one is drawn."""
    bins = np.zeros((40, 5), dtype=int)
    bins[:, 4] = np.arange(40) % 3
    bins[:, 2] = np.arange(40) % 2
    table = encoded(bins, np.arange(40) % 2, n_bins=[3] * 5)
    rows = Rows(table, Candidates.from_domain(table.domain))
    search = Search(GINI, HighestScore(), n_drawn=1, rng=np.random.default_rng(2))
    choice, score = search(rows, np.zeros(4000, dtype=np.int64))
    features = rows.candidates.feature[choice]
    assert set(features.tolist()) == {2, 4}
    assert np.isfinite(score).all()
    # In random order the two come first equally often, though attribute 2 is far better.
    assert abs((features == 2).mean() - 0.5) < 0.03


@pytest.mark.parametrize(
    ("given", "d", "expected"),
    [
        (None, 9, None),
        ("sqrt", 14, 3),
        ("sqrt", 1, None),
        ("log2", 41, 5),
        ("log2", 1, 1),
        (0.5, 9, 4),
        (0.01, 9, 1),
        (1.0, 9, None),
        (1, 9, 1),
        (8, 9, 8),
        (9, 9, None),
    ],
)
def test_n_drawn(given, d, expected):
    # With one attribute there is nothing to draw.
    assert n_drawn(given, d) == (None if d == 1 else expected)


@pytest.mark.parametrize("given", [0, -1, 10, 0.0, 1.5, float("nan"), "all", True])
def test_n_drawn_refuses(given):
    with pytest.raises(HedgerowError) as caught:
        n_drawn(given, 9)
    assert caught.value.code is Code.BAD_PARAMETER


NONE = -np.inf


def test_best_takes_the_lowest_index_of_equal_scores():
    scores = np.array([[1.0, 5.0, 5.0], [NONE, NONE, NONE], [NONE, -3.0, NONE], [2.0, 2.0, 2.0]])
    assert HighestScore().choose(scores).tolist() == [1, -1, 1, 0]


def test_best_of_nothing():
    assert HighestScore().choose(np.empty((2, 0))).tolist() == [-1, -1]


def drawn(candidates, scores, times=6000):
    chooser = RandomCuts(candidates, np.random.default_rng(11))
    return chooser.choose(np.tile(scores, (times, 1)))


def test_random_cuts_are_uniform_within_an_attribute():
    candidates = Candidates.from_bins([6], [True])
    choice = drawn(candidates, [NONE, -1.0, -9.0, -4.0, NONE])
    counts = np.bincount(choice, minlength=5)
    assert counts[[0, 4]].tolist() == [0, 0]
    # Three equally likely cuts: a chi-square with two degrees of freedom, 99.9 % below 13.8.
    assert ((counts[1:4] - 2000) ** 2 / 2000).sum() < 13.8


def test_the_best_of_one_cut_per_attribute_wins():
    """Attribute 1 has one cut of middling score: it loses to exactly half of attribute 0's."""
    candidates = Candidates.from_bins([3, 2, 2], [True, True, False])
    choice = drawn(candidates, [-1.0, -9.0, -5.0, NONE])
    assert set(choice.tolist()) == {0, 2}
    assert abs((choice == 0).mean() - 0.5) < 0.03


def test_random_cuts_stop_where_nothing_is_allowed():
    candidates = Candidates.from_bins([3], [True])
    assert set(drawn(candidates, [NONE, 1.0], 50).tolist()) == {1}
    assert set(drawn(candidates, [NONE, NONE], 50).tolist()) == {-1}


def test_both_follow_the_protocol():
    candidates = Candidates.from_bins([3], [True])
    choosers: list[Chooser] = [HighestScore(), RandomCuts(candidates, np.random.default_rng(0))]
    for chooser in choosers:
        choice = chooser.choose(np.array([[1.0, NONE]]))
        assert choice.tolist() == [0]
        assert choice.dtype == np.int64
