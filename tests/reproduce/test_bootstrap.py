"""Bootstrap samples: the bound against exact sums, and what a record drawn twice costs."""

import math

import numpy as np
import pytest

from hedgerow.privacy import NoiseSource, TwoSidedGeometric
from reproduce.paper_001.bootstrap import bootstrap_sample, bootstrapped, dealt


def binomial(n: int, most: int = 60) -> np.ndarray:
    """Law of how often one of n records is drawn in n draws."""
    k = np.arange(min(n, most) + 1)
    choose = np.array([math.comb(n, int(i)) for i in k], dtype=float)
    return choose * (1 / n) ** k * (1 - 1 / n) ** (n - k) if n > 1 else np.array([0.0, 1.0])


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7, 400])
def test_the_bound_covers_every_number_of_records(n: int, epsilon: float) -> None:
    law = binomial(n)
    k = np.arange(law.size)
    g = k + abs(k - 1)
    found, delta = bootstrapped(epsilon, 2.0**-70)
    grown = math.log(np.sum(law * np.exp(g * epsilon)))
    factor = np.sum(law * g * np.exp((g - 1) * epsilon))
    assert epsilon - 1e-12 <= grown <= found + 1e-12
    assert factor * 2.0**-70 <= delta
    if n == 400:  # it is the limit
        assert found == pytest.approx(grown, rel=0.08)
        assert delta == pytest.approx(factor * 2.0**-70, rel=0.08)


def test_large_costs_are_infinite_rather_than_wrong() -> None:
    assert bootstrapped(500.0) == (math.inf, 0.0)
    assert bootstrapped(3.0, 2.0**-60) == (math.inf, 0.0)
    assert math.isfinite(bootstrapped(3.0)[0])


def test_a_record_costs_more_than_a_tree_claims_and_less_than_the_bound() -> None:
    # The noisy number of one record's copies in the sample: drawn from n records or from the
    # n - 1 others, who have none.
    epsilon, n = 1.0, 50
    noise = TwoSidedGeometric(epsilon)
    out = np.arange(-40, 41)
    copies = binomial(n)
    with_it = sum(p * noise.law(out - k) for k, p in enumerate(copies))
    loss = np.max(np.log(with_it / noise.law(out)))
    assert loss > 1.6 * epsilon
    assert loss <= bootstrapped(epsilon)[0]


def test_samples_have_as_many_rows_and_leave_absent_ones_out() -> None:
    source = NoiseSource.insecure_seeded(1)
    present = np.ones(3_000, dtype=bool)
    present[::3] = False
    sample = bootstrap_sample(present, source)
    assert sample.size == present.sum()
    assert present[sample].all()
    assert (np.diff(sample) >= 0).all()
    assert np.unique(sample).size / sample.size == pytest.approx(1 - 1 / math.e, abs=0.03)
    assert bootstrap_sample(np.zeros(5, dtype=bool), source).size == 0


def test_dealt_parts_are_disjoint_and_uniform() -> None:
    parts = dealt(20_000, 4, NoiseSource.insecure_seeded(2))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(20_000))
    assert all(abs(p.size - 5_000) < 5 * math.sqrt(20_000 * 3 / 16) for p in parts)
