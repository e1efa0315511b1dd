"""The coin that puts a row into a tree: uniform, repeatable, its own for every batch."""

import numpy as np

from hedgerow.privacy import NoiseSource
from hedgerow.trees.counts.coins_of_rows import draw_key, trees_of_rows

KEY = draw_key(NoiseSource.insecure_seeded(1))


def test_a_batch_that_is_read_again_has_the_same_coins() -> None:
    first = trees_of_rows(KEY, 3, 1000, 7)
    np.testing.assert_array_equal(first, trees_of_rows(KEY, 3, 1000, 7))
    # A row's coin does not depend on how many follow it.
    np.testing.assert_array_equal(first[:10], trees_of_rows(KEY, 3, 10, 7))
    assert (first != trees_of_rows(KEY, 4, 1000, 7)).any()
    assert (first != trees_of_rows(draw_key(NoiseSource.system()), 3, 1000, 7)).any()


def test_trees_are_equally_likely() -> None:
    n, trees = 700_000, 7
    counts = np.bincount(trees_of_rows(KEY, 0, n, trees), minlength=trees)
    assert counts.size == trees
    chi2 = ((counts - n / trees) ** 2 / (n / trees)).sum()
    assert chi2 < 22.5  # 0.999 quantile at 6 degrees of freedom
