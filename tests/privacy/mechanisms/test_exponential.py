"""The exponential mechanism: the law as published."""

import numpy as np
import pytest

from hedgerow.privacy.mechanisms import ExponentialMechanism


def test_law_is_the_published_one() -> None:
    scores = np.array([3, 1, 0, 3, -5])
    weights = np.exp(0.8 * scores / 2 / 3)
    law = ExponentialMechanism(0.8, sensitivity=3).law(scores)
    assert law == pytest.approx(weights / weights.sum(), abs=1e-15)
    monotone = ExponentialMechanism(0.4, sensitivity=3, monotone=True).law(scores)
    assert monotone == pytest.approx(law)
    assert ExponentialMechanism(1e9).law([0, 10**12, 10**12]).tolist() == [0.0, 0.5, 0.5]
