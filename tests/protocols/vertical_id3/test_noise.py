"""Noise for the public: its law, its cost, and for whom it holds."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.vertical_id3.leakage import CountNoise, summary_releases
from hedgerow.protocols.vertical_id3.site import Leaf
from tests.protocols.vertical_id3.ppid3_runs import PAPER, grown, sites_of, weather


def test_tables_of_the_worst_case() -> None:
    # Two levels of splits with four and three attributes left, class counts of three levels.
    assert CountNoise(1.0, 2, 4, 2, 3).tables == 3 + 4 + 3
    # No path is longer than there are attributes.
    assert CountNoise(1.0, 9, 2, 2, 3).tables == 3 + 2 + 1


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_charges_add_up_to_epsilon(depth: int) -> None:
    noise = CountNoise(1.5, depth, 4, 2, 3)
    ledger = Ledger()
    ledger.charge(*noise.releases())
    total = ledger.total("public")
    assert total.epsilon == pytest.approx(1.5, rel=1e-12)
    assert total.epsilon <= 1.5
    assert total.delta < 1e-15
    assert sum(release.times for release in noise.releases()) == noise.tables


def test_noise_has_its_law(chi_square: object) -> None:
    noise = CountNoise(10.0, 1, 4, 2, 3)
    n, base = 20_000, 50
    drawn = noise(np.full(n, base), NoiseSource.insecure_seeded(4)) - base
    values = np.arange(-20, 21)
    counts = np.array([(drawn == value).sum() for value in values])
    law = noise.mechanism.law(values)
    assert counts.sum() == n
    assert chi_square(counts, law / law.sum()) > 1e-3
    assert noise(np.zeros(1000, dtype=np.int64), NoiseSource.insecure_seeded(4)).min() == 0


def private(seed: int, epsilon: float):
    source = NoiseSource.insecure_seeded(seed)
    sites = sites_of(weather(), PAPER, class_at=0, epsilon=epsilon, max_depth=2, source=source)
    _, root = grown(sites)
    return sites, root


def test_much_noise_changes_the_tree_and_little_does_not() -> None:
    exact = sites_of(weather(), PAPER, class_at=0, max_depth=2)
    grown(exact)
    loud = {str(private(seed, 0.1)[0][0].nodes) for seed in range(4)}
    assert len(loud) == 4
    quiet, _ = private(0, 5000.0)
    assert [site.nodes for site in quiet] == [site.nodes for site in exact]


def test_leaves_hold_noisy_counts_only() -> None:
    leaves = [
        node.counts
        for seed in range(6)
        for site in private(seed, 1.0)[0]
        for node in site.nodes.values()
        if isinstance(node, Leaf)
    ]
    assert min(min(counts) for counts in leaves) == 0
    totals = np.array([sum(counts) for counts in leaves])
    # Exact leaves would hold the fourteen days at most; the noise of a table has scale 10.
    assert totals.max() > 14


def test_it_holds_for_the_public_and_for_no_site() -> None:
    sites, _ = private(0, 2.0)
    for site in sites:
        assert site.ledger.formal_total("public").epsilon == pytest.approx(2.0)
        assert site.ledger.formal_total(f"site {site.index}").epsilon == float("inf")
        assert [mark.reason for mark in site.ledger.not_private] == ["the noise was seeded"]
    whole = Ledger()
    whole.charge(*summary_releases(sites[0].job))
    assert whole.total("site 1").epsilon == float("inf")
    assert whole.total("public").epsilon == 0


def test_an_epsilon_too_small_to_divide_is_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        _ = CountNoise(5e-324, 2, 4, 2, 3).mechanism
    assert caught.value.code is Code.BAD_EPSILON
