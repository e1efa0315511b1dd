"""What the mechanisms that choose one of several candidates have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy.mechanisms.coin_kernels import rejecting_choice
from hedgerow.privacy.mechanisms.coin_streams import feed_rows, in_lanes
from hedgerow.privacy.mechanisms.coins import MAX_DIGITS, CoinTable
from hedgerow.privacy.mechanisms.mechanism import (
    LIMIT,
    check_count,
    check_epsilon,
    check_integers,
    check_sensitivity,
)
from hedgerow.privacy.source import NoiseSource

_NO_MASK = np.zeros((0, 0), dtype=np.bool_)


@dataclass(frozen=True)
class Choice(ABC):
    """Choose, per row of scores, a candidate with a large score.

    One record moves any single score by at most `sensitivity`. Scores are monotone if adding a
    record moves no two of them in opposite directions; it halves the noise. It never holds when a
    record is replaced.
    """

    epsilon: float
    sensitivity: int = 1
    monotone: bool = False
    name: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "sensitivity", check_sensitivity(self.sensitivity))

    @cached_property
    def a(self) -> Fraction:
        """Rate of the noise: epsilon over how far the winner's threshold can move."""
        return Fraction(self.epsilon) / (self.sensitivity * (1 if self.monotone else 2))

    @abstractmethod
    def delta(self, m: int) -> float:
        """Price of finite precision for one choice among m candidates."""

    @abstractmethod
    def _draw(
        self, scores: NDArray[np.int64], valid: NDArray[np.bool_], source: NoiseSource
    ) -> NDArray[np.int64]:
        """Choose per row; scores (n, c), valid (n, c) or (0, 0) if all are; n, c >= 1."""

    @abstractmethod
    def _law(self, gaps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Probabilities for scores given as distances below the largest."""

    def __call__(
        self, values: ArrayLike, source: NoiseSource, *, valid: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Choose one candidate per row.

        Scores (..., c) are maximised, and clamped to magnitude 2**61. `valid` (..., c) is public:
        it must not depend on the data except through earlier releases.
        """
        scores, mask = _check(values, valid)
        lead, c = scores.shape[:-1], scores.shape[-1]
        rows = np.ascontiguousarray(scores).reshape(-1, c)
        mask = mask if mask is _NO_MASK else np.ascontiguousarray(mask).reshape(-1, c)
        if rows.shape[0] == 0:
            return np.empty(lead, dtype=np.int64)
        return self._draw(rows, mask, source).reshape(lead)

    def law(self, values: ArrayLike, *, valid: ArrayLike | None = None) -> NDArray[np.float64]:
        """Exact probability of each candidate (c,), for the ideal (untruncated) law."""
        scores, mask = _check(values, valid)
        if scores.ndim != 1:
            raise Code.BAD_MECHANISM_INPUT.error(
                expected="scores of one choice, shape (c,)", found=f"shape {scores.shape}"
            )
        allowed = np.arange(scores.size) if mask is _NO_MASK else np.flatnonzero(mask)
        kept = np.clip(scores[allowed], -LIMIT, LIMIT)
        out = np.zeros(scores.size)
        out[allowed] = self._law(kept.max() - kept)
        return out


@dataclass(frozen=True)
class ByRejection(Choice):
    """Propose a candidate, keep it with the probability its score earns.

    A rejected candidate is put back (`replace`: the exponential mechanism) or left out
    (permute-and-flip). The best one is always kept, so c proposals are enough, on average or at
    most. The coins are exact and nothing is truncated.
    """

    replace: ClassVar[bool]

    def delta(self, m: int) -> float:
        """Return 0."""
        check_count(m)
        return 0.0

    def _draw(
        self, scores: NDArray[np.int64], valid: NDArray[np.bool_], source: NoiseSource
    ) -> NDArray[np.int64]:
        n, c = scores.shape
        # A gap is at most 2**62.
        table = CoinTable("power", self.a, MAX_DIGITS + 2)
        out = np.empty(n, dtype=np.int64)

        def work(start: int, stop: int, stream: NoiseSource) -> None:
            part = slice(start, stop)
            mask = valid[part] if valid.size else valid
            kernel = partial(rejecting_choice, scores[part], mask, self.replace, out[part])
            feed_rows(stream, table, stop - start, kernel)

        in_lanes(n, c, source, work)
        return out


def _check(
    values: ArrayLike, valid: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    scores = check_integers(values, "scores")
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected="scores of shape (..., candidates) with at least one candidate",
            found=f"shape {scores.shape}",
            fix="pass the scores of at least one candidate",
        )
    if valid is None:
        return scores, _NO_MASK
    mask = np.asarray(valid)
    if mask.dtype != np.bool_ or mask.shape != scores.shape:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected=f"valid of type bool and shape {scores.shape}",
            found=f"type {mask.dtype} and shape {mask.shape}",
            fix="pass one boolean per score",
        )
    empty = ~mask.any(axis=-1)
    if empty.any():
        raise Code.BAD_MECHANISM_INPUT.error(
            expected="at least one valid candidate in every row",
            found=f"{int(empty.sum())} rows without one",
            fix="leave out the rows that have nothing to choose from",
        )
    return scores, mask
