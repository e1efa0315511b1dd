import numpy as np

from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.chooser import Best, Chooser, RandomCuts

NONE = -np.inf


def test_best_takes_the_lowest_index_of_equal_scores():
    scores = np.array([[1.0, 5.0, 5.0], [NONE, NONE, NONE], [NONE, -3.0, NONE], [2.0, 2.0, 2.0]])
    assert Best().choose(scores).tolist() == [1, -1, 1, 0]


def test_best_of_nothing():
    assert Best().choose(np.empty((2, 0))).tolist() == [-1, -1]


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
    choosers: list[Chooser] = [Best(), RandomCuts(candidates, np.random.default_rng(0))]
    for chooser in choosers:
        choice = chooser.choose(np.array([[1.0, NONE]]))
        assert choice.tolist() == [0]
        assert choice.dtype == np.int64
