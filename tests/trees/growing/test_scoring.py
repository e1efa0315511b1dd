import numpy as np
import pytest

from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import CRITERIA, Public
from hedgerow.trees.growing.scoring import (
    integer_scores_from_histogram,
    unsplit_scores,
)
from hedgerow.trees.layout import SplitKind
from tests.trees.small_tables import scores_from_histogram, split_score

N_BINS = [5, 4, 2, 3]


def branches(hist, candidates, candidate):
    """Channels of the branches of one candidate, from one node's histogram."""
    f = candidates.feature[candidate]
    part = hist[candidates.offset[f] : candidates.offset[f + 1]]
    kind, cut = candidates.kind[candidate], candidates.cut[candidate]
    if kind == SplitKind.WARY:
        return part
    left = part[: cut + 1].sum(axis=0) if kind == SplitKind.THRESHOLD else part[cut]
    return np.stack([left, part.sum(axis=0) - left])


def histogram(name, seed=0, nodes=4):
    """Random histograms in which every attribute sees the same records."""
    rng = np.random.default_rng(seed)
    parts = []
    for n_bins in N_BINS:
        if name == "squared_error":
            y = np.round(np.random.default_rng(1).normal(3, 2, (nodes, 60)), 1)
            rows = np.stack([np.ones_like(y), y, y * y], axis=2)
        else:
            rows = np.eye(3, dtype=np.int64)[np.random.default_rng(1).integers(0, 3, (nodes, 60))]
        bins = rng.integers(0, n_bins, (nodes, 60))
        bins[0] = 0  # one occupied bin
        bins[1] = np.minimum(bins[1], 1) * (n_bins - 1)  # a gap in the middle
        part = np.zeros((nodes, n_bins, 3), dtype=rows.dtype)
        for node in range(nodes):
            np.add.at(part[node], bins[node], rows[node])
        parts.append(part)
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("name", list(CRITERIA))
def test_every_candidate_follows_the_definition(name, branching):
    hist = histogram(name)
    candidates = Candidates.from_bins(N_BINS, [True, False, False, True], branching)
    scores = scores_from_histogram(hist, candidates, CRITERIA[name])
    expected = [
        [split_score(name, branches(node, candidates, c)) for c in range(len(candidates))]
        for node in hist
    ]
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["max", "gini", "entropy", "gain"])
def test_integer_scores_of_every_candidate(name):
    hist = histogram(name)
    candidates = Candidates.from_bins(N_BINS, [True, False, False, True])
    scores = integer_scores_from_histogram(hist, candidates, CRITERIA[name], Public(60), 20)
    scale = 1.0 if name == "max" else 2.0**20
    assert scores.dtype == np.int64
    expected = scores_from_histogram(hist, candidates, CRITERIA[name])
    np.testing.assert_allclose(scores / scale, expected, atol=130 / 2**20)


def test_the_missing_bin_is_the_largest():
    """The last threshold parts the missing bin from all others."""
    hist = np.array([[[4, 0], [3, 0], [0, 5]]])
    candidates = Candidates.from_bins([3], [True])
    scores = scores_from_histogram(hist, candidates, CRITERIA["gini"])
    assert scores[0, 1] == 0.0
    assert scores[0].argmax() == 1


@pytest.mark.parametrize("name", list(CRITERIA))
def test_unsplit_is_one_branch(name):
    hist = histogram(name)
    counts = hist[:, : N_BINS[0]].sum(axis=1)
    which = "entropy" if name == "gain" else name
    expected = [split_score(which, [node]) for node in counts]
    np.testing.assert_allclose(unsplit_scores(counts, CRITERIA[name]), expected, rtol=1e-9)


def test_large_counts_use_the_logarithm_itself():
    hist = np.array([[[70_000, 5], [12, 90_000]]])
    candidates = Candidates.from_bins([2], [True])
    score = scores_from_histogram(hist, candidates, CRITERIA["entropy"])[0, 0]
    assert score == pytest.approx(split_score("entropy", hist[0]), rel=1e-9)
