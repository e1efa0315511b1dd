"""Laws of variables that are made of coins."""

import math

import numpy as np

from hedgerow.privacy.mechanisms.coins import Geometric


def masses_of(variable: Geometric, t: int | None = None) -> np.ndarray:
    """Probability of each of 2**length values as drawn, with coins of t bits or exact ones."""
    if t is None:
        powers = [math.exp(-float(variable.a * 2**i)) for i in range(variable.length)]
        heads = [power / (1 + power) for power in powers]
    else:
        heads = [constant / 2**t for constant in variable.coins.rounded(t)]
    masses = np.ones(1)
    for head in heads:
        masses = np.concatenate([masses * (1 - head), masses * head])
    return masses
