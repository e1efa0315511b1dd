"""Section 8.2's choice of a split, as printed: probabilities exp(gain - zeta) / sum.

`zeta` is the only place where epsilon enters, and it cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.tables import Encoded
from hedgerow.trees.growing.candidates import Candidates
from reproduce.paper_003.attacks import patients

EPSILONS = (0.01, 0.1, 1.0, 10.0)
ZETAS = (0.0, *EPSILONS, 100.0)
"""The paper says that zeta "relates to epsilon" and not how: what it is does not matter."""

Gains = NDArray[np.float64]


def gains(rows: Encoded) -> Gains:
    """Return the decrease of Gini impurity by each split of all rows."""
    those, target = Candidates.from_domain(rows.domain), np.asarray(rows.target)
    left = rows.bins[:, those.feature] <= those.cut
    hot = (target[:, None] == np.arange(target.max() + 1)).astype(np.float64)
    return _gains(left.T.astype(np.float64) @ hot, hot.sum(axis=0))


def _gains(left: Gains, every: Gains) -> Gains:
    right = every - left
    n = every.sum()

    def rest(counts: Gains) -> Gains:
        sizes = np.maximum(counts.sum(axis=-1), 1)
        found: Gains = (counts**2).sum(axis=-1) / sizes / n
        return found

    return rest(left) + rest(right) - (every**2).sum() / n**2


def printed(gain: Gains, zeta: float) -> Gains:
    """Return the probabilities of section 8.2."""
    weights = np.exp(gain - zeta)
    return weights / weights.sum()


def exponential(gain: Gains, epsilon: float, sensitivity: float) -> Gains:
    """Return those of the exponential mechanism (mcsherry2007mechanism)."""
    weights = np.exp(epsilon * (gain - gain.max()) / (2 * sensitivity))
    return weights / weights.sum()


def loss_of_a_record() -> float:
    """Return the privacy loss of what is printed, where one record of two is taken away.

    The attribute of one candidate tells their classes apart, the other has nothing to tell.
    """
    both, alone = np.array([1.0, 1.0]), np.array([1.0, 0.0])
    left = np.array([[1.0, 0.0], [0.0, 0.0]])
    laws = [printed(_gains(left, every), 0.0) for every in (both, alone)]
    return float(np.abs(np.log(laws[0] / laws[1])).max())


def choice_of_a_split() -> dict[str, Any]:
    """Compare what is printed over zeta, and with the exponential mechanism over epsilon.

    The mechanism is given the number of rows times the gain, of which the sensitivity is at most 2,
    as scores of that kind usually are.
    """
    rows = patients()
    gain = gains(rows)
    law = printed(gain, 0.0)
    apart = max(float(np.abs(printed(gain, zeta) - law).max()) for zeta in ZETAS)
    best, n = int(gain.argmax()), rows.n_slots
    return {
        "splits": len(gain),
        "zetas": list(ZETAS),
        "apart": apart,
        "loss": loss_of_a_record(),
        "best": float(law[best]),
        "uniform": 1 / len(gain),
        "largest_over_smallest": float(law.max() / law.min()),
        "mechanism": {
            str(epsilon): float(exponential(n * gain, epsilon, 2.0)[best]) for epsilon in EPSILONS
        },
    }
