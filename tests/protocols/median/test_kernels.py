"""The drawn medians follow the exact law of their mechanism, on every kind of attribute."""

import numpy as np
import pytest
from scipy.stats import chi2

from hedgerow.privacy import ExponentialMechanism, NoiseSource, NoisyMax, PermuteAndFlip
from hedgerow.protocols.median.forest import Asks, draw_medians
from hedgerow.protocols.median.ranges import Attributes, Ranges, widest_choice
from hedgerow.tables import Attribute, Domain, Target
from hedgerow.trees.layout import SplitKind

DRAWS = 60_000
DOMAIN = Domain(
    attributes=(
        Attribute(name="even", kind="numeric", bounds=(0, 8), bins=8),
        Attribute(name="uneven", kind="numeric", bounds=(0, 10), edges=(1, 2, 6, 6.5)),
        Attribute(name="few", kind="categorical", categories=("a", "b", "c", "d")),
        Attribute(name="many", kind="categorical", categories=tuple(range(70))),
    ),
    target=Target(classes=(0, 1)),
)
OWN = Attributes.of(DOMAIN)
TABLES = OWN.bipartitions(7, 0)
WIDEST = {0: 7, 1: 4, 2: 7, 3: 511}
MECHANISMS = [ExponentialMechanism, PermuteAndFlip, NoisyMax]


def drawn(feature: int, counts: list[int], mechanism, low=0, high=None, possible=None, draws=DRAWS):
    """Draw the median of one node many times."""
    ranges = Ranges.roots(OWN, 1)
    ranges.low[0, feature] = low
    ranges.high[0, feature] = OWN.n_bins[feature] - 1 if high is None else high
    if possible is not None:
        ranges.possible[0, OWN.place[feature] : OWN.place[feature + 1]] = possible
    nodes = np.zeros(draws, dtype=np.int64)
    offsets = np.zeros(draws + 1, dtype=np.int64)
    asks = Asks(np.array(counts, dtype=np.int64), offsets, nodes, nodes + feature)
    source = NoiseSource.insecure_seeded(11)
    return draw_medians(asks, ranges, TABLES, mechanism, source, WIDEST[feature])


def test_the_widest_choice_is_that_of_the_domain() -> None:
    assert widest_choice(OWN) == max(WIDEST.values())


def check_law(found: np.ndarray, law: np.ndarray) -> None:
    """Compare how often each candidate was drawn with its probability."""
    seen = np.bincount(found, minlength=law.size)
    rare = law * found.size < 8
    expected = np.append(law[~rare], law[rare].sum()) * found.size
    seen = np.append(seen[~rare], seen[rare].sum())
    if expected[-1] < 8:
        assert seen[-1] < 30
        expected, seen = expected[:-1], seen[:-1]
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(0.9999, max(1, expected.size - 1))


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
@pytest.mark.parametrize(
    "counts", [[0] * 8, [1, 0, 0, 3, 0, 2, 0, 0], [90, 2, 0, 3, 0, 40, 7, 1]], ids=str
)
def test_a_numeric_median_has_the_law_of_its_mechanism(counts, mechanism, epsilon) -> None:
    splits = drawn(0, counts, mechanism(epsilon))
    assert (splits.kind == SplitKind.THRESHOLD).all()
    left = np.cumsum(counts)[:-1]
    check_law(splits.cut, mechanism(epsilon).law(-abs(2 * left - sum(counts))))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_only_cuts_inside_the_range_are_drawn(mechanism) -> None:
    counts = [0, 0, 5, 1, 1, 4, 0, 0]
    splits = drawn(0, counts, mechanism(0.5), low=2, high=5)
    left = np.cumsum(counts)[2:5]
    law = np.zeros(7)
    law[2:5] = mechanism(0.5).law(-abs(2 * left - 11))
    check_law(splits.cut, law)


def test_an_uneven_grid_is_weighed_by_the_width_below_each_cut() -> None:
    counts, epsilon = [3, 4, 2, 2, 9], 0.7
    scores = -abs(2 * np.cumsum(counts)[:-1] - sum(counts))
    weights = np.array([1, 1, 4, 0.5]) * np.exp(epsilon / 2 * scores)
    splits = drawn(1, counts, ExponentialMechanism(epsilon))
    check_law(splits.cut, weights / weights.sum())
    # Permute-and-flip has no base measure.
    splits = drawn(1, counts, PermuteAndFlip(epsilon))
    check_law(splits.cut, PermuteAndFlip(epsilon).law(scores))


def sets_of(splits) -> np.ndarray:
    """The subset of each draw as a number, and that every draw has a row of its own."""
    assert (splits.kind == SplitKind.SUBSET).all()
    np.testing.assert_array_equal(splits.cut, np.arange(len(splits)))
    return splits.subsets


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_all_bipartitions_of_few_categories_are_candidates(mechanism) -> None:
    counts, epsilon = [5, 1, 0, 9], 0.4
    subsets = sets_of(drawn(2, counts, mechanism(epsilon)))[:, :4]
    assert not subsets[:, 0].any()  # the first category stays right: each bipartition once
    number = subsets[:, 1:] @ [1, 2, 4]
    lefts = np.array([[s >> i & 1 for i in range(3)] for s in range(1, 8)]) @ counts[1:]
    check_law(number - 1, mechanism(epsilon).law(-abs(2 * lefts - 15)))


@pytest.mark.parametrize("mechanism", [ExponentialMechanism, PermuteAndFlip, NoisyMax])
def test_of_what_is_possible_alone(mechanism) -> None:
    subsets = sets_of(
        drawn(2, [0, 4, 3, 0], mechanism(1.0), possible=[False, True, True, False], draws=1000)
    )
    # One way to divide two categories.
    assert (subsets[:, :4] == [False, False, True, False]).all()


@pytest.mark.parametrize("mechanism", [ExponentialMechanism, PermuteAndFlip])
@pytest.mark.parametrize("n_possible", [70, 12])
def test_random_bipartitions_of_many_categories(mechanism, n_possible) -> None:
    rng = np.random.default_rng(3)
    possible = np.zeros(70, dtype=np.bool_)
    possible[rng.permutation(70)[:n_possible]] = True
    counts = np.where(possible, rng.integers(0, 5, 70), 0)
    bits = (TABLES[3][:, np.arange(70) // 64] >> (np.arange(70, dtype=np.uint64) % 64)) & 1
    bits = bits.astype(np.bool_)[:, possible]
    bits = bits[bits.any(axis=1) & ~bits.all(axis=1)]
    scores = -abs(2 * (bits @ counts[possible]) - counts.sum())
    drawn_sets = sets_of(drawn(3, counts.tolist(), mechanism(0.3), possible=possible, draws=15_000))
    assert not drawn_sets[:, ~possible].any()
    unique, inverse = np.unique(bits, axis=0, return_inverse=True)
    law = np.bincount(inverse.ravel(), weights=mechanism(0.3).law(scores))
    keys = {row.tobytes(): i for i, row in enumerate(unique)}
    found = np.array([keys[row.tobytes()] for row in drawn_sets[:, possible]])
    check_law(found, law)


def test_without_noise_the_best_balance_wins() -> None:
    splits = drawn(0, [4, 0, 3, 1, 0, 9, 0, 1], None, draws=3)
    assert splits.cut.tolist() == [3, 3, 3]
    assert (drawn(2, [7, 1, 2, 3], None, draws=2).subsets[:, :4] == [0, 1, 1, 1]).all()


def test_bytes_and_digits_that_run_short_do_not_change_a_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = [90, 2, 0, 3, 0, 40, 7, 1]
    plenty = drawn(0, counts, PermuteAndFlip(0.3), draws=500).cut
    monkeypatch.setattr("hedgerow.privacy.mechanisms.coin_streams._FIRST_BYTES", 7)
    monkeypatch.setattr("hedgerow.privacy.mechanisms.coins.PREFIX_BYTES", 1)
    np.testing.assert_array_equal(drawn(0, counts, PermuteAndFlip(0.3), draws=500).cut, plenty)
