"""Sorted runs become one, whatever is in them and at whatever cost was declared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.secure.merge import cost_merge, cost_undo, merge, network
from hedgerow.secure.secret import Engine, turned
from tests.secure.engines import metered, reveal, share_bits

BITS = 9


def as_bits(keys: np.ndarray) -> np.ndarray:
    return (keys[:, None] >> np.arange(BITS)) & 1 != 0


@pytest.mark.parametrize("first", range(1, 10))
@pytest.mark.parametrize("second", range(1, 10))
def test_the_network_sorts_all_runs_of_zeros_and_ones(first: int, second: int) -> None:
    """By the principle of zeros and ones it merges anything, then."""
    for zeros in range(first + 1):
        for others in range(second + 1):
            rows = np.r_[np.arange(first) >= zeros, np.arange(second) >= others].astype(int)
            for lower, upper in network([first, second]):
                assert len(np.unique(np.r_[lower, upper])) == 2 * len(lower)
                least, most = (
                    np.minimum(rows[lower], rows[upper]),
                    np.maximum(*rows[[lower, upper]]),
                )
                rows[lower], rows[upper] = least, most
            assert np.all(np.diff(rows) >= 0)


@pytest.mark.parametrize(("runs", "stages"), [([1], 0), ([8, 8], 4), ([9, 8], 5), ([8, 8, 1], 9)])
def test_stages_grow_with_the_logarithm(runs: list[int], stages: int) -> None:
    assert len(network(runs)) == stages


@settings(max_examples=20, deadline=None)
@given(runs=st.lists(st.integers(1, 40), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_runs_are_merged_and_anything_goes_back(engine: Engine, runs: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = np.concatenate([np.sort(rng.integers(0, 1 << BITS, n)) for n in runs])
    rows, found = share_bits(engine, as_bits(keys)), []
    spent = metered(engine, lambda: found.append(merge(rows, runs)))
    assert spent == cost_merge(engine, runs, BITS)
    merged = found[0]
    np.testing.assert_array_equal(reveal(merged.rows), as_bits(np.sort(keys)))
    np.testing.assert_array_equal(reveal(merged.undo(merged.rows)), as_bits(keys))
    assert metered(engine, lambda: merged.undo(merged.rows)) == cost_undo(engine, runs, BITS)


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (200, 3), (64, 64), (130, 65), (1, 129)])
def test_bits_are_turned(engine: Engine, shape: tuple[int, int]) -> None:
    bits = np.random.default_rng(0).random(shape) < 0.5
    shared = share_bits(engine, bits)
    np.testing.assert_array_equal(reveal(turned(shared)), bits.T)
    np.testing.assert_array_equal(reveal(turned(turned(shared))), bits)
