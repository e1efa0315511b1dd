"""Choices drawn by rejection: propose a candidate, keep it with the probability its score earns.

A rejected candidate is put back (the exponential mechanism) or left out (permute-and-flip). The
best one is always kept, so c proposals are enough, on average or at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.mechanisms.choice import Choice
from hedgerow.privacy.mechanisms.coin_streams import draw_by_rejection
from hedgerow.privacy.mechanisms.mechanism import check_count
from hedgerow.privacy.source import NoiseSource


@dataclass(frozen=True)
class ByRejection(Choice):
    """A choice by rejection; with `replace`, a rejected candidate may be proposed again."""

    replace: ClassVar[bool]

    def delta(self, m: int) -> float:
        """0: the coins are exact and nothing is truncated."""
        check_count(m)
        return 0.0

    def _draw(
        self, scores: NDArray[np.int64], valid: NDArray[np.bool_], source: NoiseSource
    ) -> NDArray[np.int64]:
        return draw_by_rejection(scores, valid, self.a, source, replace=self.replace)
