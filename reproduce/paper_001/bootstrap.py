"""Bootstrap samples: what a tree that is grown on one costs the records it was drawn from.

Papers: breiman2001forests, hoeffding1956distribution.

A bootstrap sample draws as many rows as there are, with replacement, so that a record is in it
any number of times, and every copy counts. The papers that grow private trees on such samples count
a record once.

Privacy: let a tree be (epsilon, delta)-DP in the rows of its sample, add/remove neighbours. A table
of n records is drawn from n times, and the record that its neighbour lacks is drawn k times, k
binomial (n, 1/n); given k, the other n - k draws are uniform on the neighbour, whose own sample has
n - 1 of them. Coupled draw by draw, the samples are g(k) = k + abs(k - 1) rows apart, so that the
tree's laws on them are within (g epsilon, g e^((g - 1) epsilon) delta) of each other. Over k,
P <= E[e^(g epsilon)] P' + delta E[g e^((g - 1) epsilon)], and in the other direction the same holds
(1 / E[e^(-g epsilon)] <= E[e^(g epsilon)], and E[g] E[e^(g epsilon)] <= E[g e^(g epsilon)], as both
rise with g). Both are expectations of convex functions of k, and the binomial law with mean 1 is
below the Poisson law in convex order, for which with x = e^(2 epsilon)::

    E[e^(g epsilon)]         = (e^epsilon + e^-epsilon (e^x - 1)) / e
    E[g e^((g - 1) epsilon)] = (1 + 2 e^x - (e^x - 1) / x) / e

The bound is on everything that a tree releases together, so each tree is one release, and trees
add up.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import NoiseSource, register_mechanism

MECHANISM = "tree on a bootstrap sample"

_UP = 1 + 1e-12

register_mechanism(
    MECHANISM,
    argument="a record is in the sample k times, k Poisson at worst: epsilon counts as the "
    "logarithm of the mean of e^(g epsilon), g = k + |k - 1|",
)


def bootstrapped(epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """Return (epsilon, delta) of a tree on a bootstrap sample, for the records it is drawn from.

    Rounded up; (infinity, 0) where finite precision alone would make delta 1.

    `epsilon`, `delta`: what the tree costs the rows of its sample.
    """
    if epsilon > 300:  # e^(2 epsilon) would overflow
        return math.inf, 0.0
    x = math.exp(2 * epsilon)
    # e^x - 1 and 2 e^x - (e^x - 1)/x + 1, in logarithms.
    log_expm1 = x + math.log(-math.expm1(-x))
    grown = float(np.logaddexp(epsilon, log_expm1 - epsilon)) - 1
    factor = x + math.log(2 + math.exp(-x) + math.expm1(-x) / x) - 1
    log_delta = factor + math.log(delta) if delta > 0 else -math.inf
    if log_delta > -1e-9:
        return math.inf, 0.0
    # The subtraction of 1 leaves an absolute error.
    return grown * _UP + 1e-14, math.exp(log_delta) * _UP


def bootstrap_sample(present: NDArray[np.bool_], source: NoiseSource) -> NDArray[np.int32]:
    """Draw as many present rows as there are, with replacement; ascending, int32.

    The coins are the noise's own: whoever knew them would know who is in the sample.
    """
    rows = np.flatnonzero(present)
    if rows.size == 0:
        return rows.astype(np.int32)
    times = np.bincount(source.integers(rows.size, rows.size), minlength=rows.size)
    return np.repeat(rows, times).astype(np.int32)


def dealt(n_slots: int, n_parts: int, source: NoiseSource) -> list[NDArray[np.int32]]:
    """Deal slots to parts, each by a coin of its own; returns the slots of each part, int32.

    No coin depends on another slot, on their order or on how many hold a record, so that the parts
    are siblings in the ledger.
    """
    part = source.integers(n_parts, n_slots)
    return [np.flatnonzero(part == p).astype(np.int32) for p in range(n_parts)]
