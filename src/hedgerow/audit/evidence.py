"""What an attacker who knows the mechanism reads from releases: their log likelihood ratio.

Of all that can be computed from what was seen, the ratio of its probabilities on the two inputs
tells most about which one it was (the lemma of Neyman and Pearson). Releases drawn one after the
other have the product of their ratios, each given those before it: a single number to search.

An attacker who is wrong about the mechanism computes a number that tells less, and never one that
proves too much: what is attacked is the frequency of an event, whatever the event is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.privacy.mechanisms import Choice, TwoSidedGeometric

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNITS = 64
"""Outcomes are integers: so many of them make a log ratio of 1."""


def of_counts(
    mechanism: TwoSidedGeometric, seen: ArrayLike, first: ArrayLike, second: ArrayLike
) -> Floats:
    """Log ratio of noisy integers for each element, the second input over the first."""
    a = mechanism.epsilon / mechanism.sensitivity
    value = np.asarray(seen, np.float64)
    return np.asarray(a * (np.abs(value - np.asarray(first)) - np.abs(value - np.asarray(second))))


def of_choice(
    mechanism: Choice,
    seen: Ints,
    first: Ints,
    second: Ints,
    valid: NDArray[np.bool_] | None = None,
) -> Floats:
    """Log ratio of choices by scores (c,) among the `valid` ones, second input over first."""
    allowed = np.ones(len(first), dtype=np.bool_) if valid is None else valid
    scores = (tuple(side.tolist()) for side in (first, second, allowed))
    return _ratios(mechanism, *scores)[seen]


@lru_cache(maxsize=4096)
def _ratios(
    mechanism: Choice,
    first: tuple[int, ...],
    second: tuple[int, ...],
    valid: tuple[bool, ...],
) -> Floats:
    laws = [mechanism.law(scores, valid=valid) for scores in (first, second)]
    before, after = (np.log(np.maximum(law, np.finfo(np.float64).tiny)) for law in laws)
    return np.asarray(after - before)


def outcome(log_ratio: Floats) -> Ints:
    """Round to an integer, which the auditor can search."""
    return np.rint(UNITS * log_ratio).astype(np.int64)
