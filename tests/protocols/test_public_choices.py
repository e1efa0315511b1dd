"""Public choices: the same for everybody, and of the law that they are said to have."""

import numpy as np

from hedgerow.protocols.public_choices import public_sample, public_uniform, public_words


def test_a_seed_and_an_address_say_it_all() -> None:
    assert np.array_equal(public_words(3, "a", (5,)), public_words(3, "a", (5,)))
    assert not np.array_equal(public_words(3, "a", (5,)), public_words(4, "a", (5,)))
    assert not np.array_equal(public_words(3, "a", (5,)), public_words(3, "b", (5,)))


def test_numbers_lie_between_0_and_1_evenly() -> None:
    found = public_uniform(0, "even", 100_000)
    assert found.min() > 0
    assert found.max() < 1
    counts = np.bincount((found * 10).astype(np.int64), minlength=10)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9  # chi-square, 9 degrees, 0.001


def test_samples_are_drawn_one_after_the_other_in_proportion() -> None:
    weight, runs = np.array([1.0, 2.0, 0.0, 3.0]), 30_000
    pairs = [tuple(public_sample(1, f"run {i}", weight, 2).tolist()) for i in range(runs)]
    share = weight / weight.sum()
    for a, b in ((0, 1), (0, 3), (1, 3)):
        expected = share[a] * share[b] * (1 / (1 - share[a]) + 1 / (1 - share[b]))
        sd = np.sqrt(expected * (1 - expected) / runs)
        assert abs(pairs.count((a, b)) / runs - expected) < 4 * sd


def test_more_than_there_are_is_all_of_them() -> None:
    assert public_sample(0, "all", np.ones(3), 7).tolist() == [0, 1, 2]
