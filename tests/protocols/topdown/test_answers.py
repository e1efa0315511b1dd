"""What owners draw follows the laws that were charged."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.answers import (
    count_candidates,
    groups_of,
    label,
    recount,
    weigh_and_split,
)
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.scores import exact_scores, node_scores
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.counts.leaves import LeafCounts
from tests.protocols.topdown.topdown_cases import plan, rows, table

RUNS = 4000


def _many(made, seed: int = 0):
    """The root, many times in one question; the owner would refuse it, the mechanism does not."""
    counts = LeafCounts(table(80), made.candidates)
    nodes = np.zeros(RUNS, dtype=np.int64)
    valid = np.ones((RUNS, len(made.candidates)), dtype=np.bool_)
    source = NoiseSource.insecure_seeded(seed)
    depths = np.ones(RUNS, dtype=np.int64)
    return counts, nodes, depths, valid, source


def _fits(found: np.ndarray, probabilities: np.ndarray) -> None:
    expected = probabilities * found.sum()
    keep = expected >= 5
    observed = np.append(found[keep], found[~keep].sum())
    wanted = np.append(expected[keep], max(expected[~keep].sum(), 1e-9))
    if wanted[-1] < 1:
        observed, wanted = observed[:-1], wanted[:-1] * observed[:-1].sum() / wanted[:-1].sum()
    assert stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 1e-4


@pytest.mark.parametrize("method", ["single-machine", "local-rnm"])
@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_choices_have_the_law_of_noisy_max(method: str, criterion: str) -> None:
    epsilon = {"gini": 0.5, "entropy": 4.0}[criterion]
    made = plan(method, criterion=criterion, epsilon=epsilon, max_depth=1)
    counts, nodes, depths, valid, source = _many(made)
    drawn = weigh_and_split(counts, made, nodes, depths, valid, source)
    scores = exact_scores(made, counts.histogram([0]))[0]
    law = made.choose(1).law(scores)
    _fits(np.bincount(drawn["choice"], minlength=len(law)), law)


def test_weights_and_worth_have_the_law_of_the_geometric() -> None:
    made = plan("single-machine", epsilon=2.0, max_depth=1)
    counts, nodes, depths, valid, source = _many(made)
    drawn = weigh_and_split(counts, made, nodes, depths, valid, source)
    noise = drawn["weight"] - 80
    around = np.arange(-60, 61)
    inside = noise[np.abs(noise) <= 60]
    law = made.weigh(1).law(around)
    _fits(np.bincount(inside + 60, minlength=121), law / law.sum())
    scores = exact_scores(made, counts.histogram([0]))[0]
    before = node_scores(made, counts.class_counts([0]))[0]
    noise = drawn["worth"] - (scores[drawn["choice"]] - before)
    assert noise.var() == pytest.approx(made.value(1).variance, rel=0.15)
    assert abs(noise.mean()) < 5 * np.sqrt(made.value(1).variance / RUNS)


@pytest.mark.parametrize("histograms", ["feature", "split"])
def test_counts_have_the_noise_of_all_histograms(histograms: str) -> None:
    made = plan("noisy-counts", histograms=histograms, epsilon=4.0, max_depth=1)
    counts, nodes, depths, valid, source = _many(made)
    drawn = weigh_and_split(counts, made, nodes[:500], depths[:500], valid[:500], source)
    assert made.counts(1).sensitivity == made.n_histograms
    noise = drawn["cells"] - np.rint(drawn["cells"].mean(axis=0))
    assert noise.var() == pytest.approx(made.counts(1).variance, rel=0.1)


def _l1(made, sent) -> int:
    """Return how far one record moves what is sent of a node at most, without noise."""
    quiet = replace(made, epsilon=None)
    whole = table(40)
    counts = [LeafCounts(each, quiet.candidates) for each in (whole, rows(whole, np.arange(39)))]
    more, less = (sent(quiet, each) for each in counts)
    return int(np.abs(more - less).sum())


@pytest.mark.parametrize("histograms", ["feature", "split"])
def test_one_record_moves_counts_by_their_sensitivity(histograms: str) -> None:
    made = plan("noisy-counts", histograms=histograms)

    def sent(quiet, counts):
        valid = np.ones((1, len(quiet.candidates)), dtype=np.bool_)
        one, source = np.ones(1, dtype=np.int64), NoiseSource.insecure_seeded(0)
        return weigh_and_split(counts, quiet, [0], one, valid, source)["cells"]

    assert _l1(made, sent) == made.counts(1).sensitivity == made.n_histograms


def test_attributes_of_one_bin_have_no_histogram() -> None:
    constant = tuple(
        Attribute(name=f"c{i}", kind="categorical", categories=("only",)) for i in range(9)
    )
    described = Domain(
        attributes=(Attribute(name="b", kind="numeric", bounds=(0, 2), bins=2), *constant),
        target=Target(name="y", classes=(0, 1)),
        capacity=50,
    )
    made = TopDownOptions(method="noisy-counts", max_depth=1).plan(described)
    sent = []
    for n in (10, 9):
        bins = np.zeros((n, 10), dtype=np.uint8, order="F")
        whole = Encoded(described, bins, np.zeros(n, np.uint8), np.ones(n, np.bool_))
        counts = LeafCounts(whole, made.candidates)
        valid = np.ones((1, 1), dtype=np.bool_)
        one, source = np.ones(1, dtype=np.int64), NoiseSource.insecure_seeded(0)
        sent.append(weigh_and_split(counts, made, [0], one, valid, source)["cells"])
    assert np.abs(sent[0] - sent[1]).sum() == made.n_histograms == 1


@pytest.mark.parametrize("histograms", ["feature", "split"])
@pytest.mark.parametrize("some", [(1,), (1, 9), (1, 4, 22), (0, 6, 7, 13, 21, 23)])
def test_one_record_moves_recounts_by_their_number(histograms: str, some) -> None:
    made = plan("local-rnm", histograms=histograms, owners=6)

    def sent(quiet, counts):
        return count_candidates(quiet, counts.histogram([0])[0], some)

    groups = len(groups_of(made, some))
    assert _l1(made, sent) == groups == made.recounts(1, groups).sensitivity


def test_leaves_have_the_noise_of_their_budget() -> None:
    made = plan("noisy-counts", epsilon=4.0)
    counts, nodes, _, _, source = _many(made)
    drawn = label(counts, made, nodes, source)["classes"]
    assert (drawn - counts.class_counts([0])).var() == pytest.approx(made.label.variance, rel=0.1)


@pytest.mark.parametrize("histograms", ["feature", "split"])
def test_counts_of_candidates_are_exact_without_noise(histograms: str) -> None:
    made = plan("local-rnm", histograms=histograms, epsilon=None)
    counts = LeafCounts(table(), made.candidates)
    some = (1, 4, 9, 22, 23)  # two thresholds of x0, one of x1, two colours
    cells = count_candidates(made, counts.histogram([0])[0], some).reshape(-1, 2)
    groups = groups_of(made, some)
    sizes = [len(group) + 1 for group in groups]
    assert len(cells) == sum(sizes)
    for part in np.split(cells, np.cumsum(sizes)[:-1]):
        assert np.array_equal(part.sum(axis=0), counts.class_counts([0])[0])
    assert len(groups) == (3 if histograms == "feature" else 5)
    source = NoiseSource.insecure_seeded(0)
    drawn = recount(counts, made, [0], np.ones(1, dtype=np.int64), [some], source)
    assert np.array_equal(drawn["cells"], cells.reshape(-1))


def test_counts_of_candidates_have_the_noise_of_their_number() -> None:
    made = plan("local-rnm", epsilon=4.0, max_depth=1)
    counts, nodes, depths, _, source = _many(made)
    among = [(1, 9)] * RUNS
    drawn = recount(counts, made, nodes, depths, among, source)["cells"].reshape(RUNS, -1)
    truth = count_candidates(made, counts.histogram([0])[0], (1, 9))
    assert (drawn - truth).var() == pytest.approx(made.recounts(1, 2).variance, rel=0.1)


def test_noise_as_published_falls_with_the_records_of_the_node() -> None:
    made = plan("single-machine", accounting="paper", epsilon=8.0, max_depth=1, criterion="entropy")
    spread = []
    for n in (100, 1000):
        counts = LeafCounts(table(n), made.candidates)
        nodes, depths = np.zeros(2000, dtype=np.int64), np.ones(2000, dtype=np.int64)
        valid = np.zeros((2000, len(made.candidates)), dtype=np.bool_)
        valid[:, 3] = True
        source = NoiseSource.insecure_seeded(n)
        drawn = weigh_and_split(counts, made, nodes, depths, valid, source)
        assert (drawn["choice"] == 3).all()
        spread.append(drawn["worth"].std() / 2**20)
        scale = 20 * np.log2(n) / n / made.at(1).choice
        assert spread[-1] == pytest.approx(np.sqrt(2) * scale, rel=0.1)
    assert spread[0] > 5 * spread[1]
