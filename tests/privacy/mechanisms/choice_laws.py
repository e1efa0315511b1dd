"""The mechanisms that choose, and the largest privacy loss of their laws on small scores."""

import itertools
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.mechanisms import Choice, ExponentialMechanism, NoisyMax, PermuteAndFlip

CHOICES = [NoisyMax, PermuteAndFlip, ExponentialMechanism]


def worst_loss(mechanism: Choice, moves: list[int]) -> float:
    """Largest privacy loss over all small score vectors and the given moves of each score."""

    @cache
    def law(*scores: int) -> NDArray[np.float64]:
        return mechanism.law(scores)

    return max(
        float(
            np.abs(
                np.log(law(*scores) / law(*(q + s for q, s in zip(scores, move, strict=True))))
            ).max()
        )
        for scores in itertools.product(range(4), repeat=3)
        for move in itertools.product(moves, repeat=3)
    )
