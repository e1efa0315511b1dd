"""`LogisticPlan`: what is public about logistic regression among peers before it is trained.

Paper: wu2020pivot, section 6.3. By `hide`, what peers see in the end: all weights, or nothing.
Weights stay shared while they are trained. Neither weights nor answers have noise.

Numbers are fixed-point in Z_2^64. Weights are within public bounds, which follow from the rates of
all batches and the largest gradient (`Schedule.bounds`), and so are scores, the sums of weighted
features; their fraction takes what these bounds leave. H501 where that is too little, or too little
for the rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Opening, Release
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.hidden.server_plan import exact_release
from hedgerow.protocols.pivot.logistic.features import SCALE, Features
from hedgerow.protocols.pivot.logistic.schedule import Schedule
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.ring import Z64, Ring

HideWeights = Literal["nothing", "weights"]
WEIGHTS: Final = "weights"
"""Name of the opening, and reason of the release, of all weights."""
RESIDUAL: Final = 10
"""Fraction bits of probabilities."""
_ROOM: Final = 61
"""Bits of a score and its fraction, at most."""
_FINEST, _COARSEST = 44, 37
"""Fraction bits of scores."""
_DROPPED: Final = 16
"""Fraction bits of weights that are dropped at the end of an epoch."""
_STEPS: Final = 4
"""Of a gradient's multiplier, the rate over the rows of a batch, in whole numbers, at the first."""
_SLACK: Final = 1.01
"""What rounding adds to the largest numbers."""


@dataclass(frozen=True)
class Fractions:
    """Fraction bits of scores, of weights within an epoch, and of weights that are kept.

    `bits` are those of a score without its sign, its fraction included.
    """

    score: int
    bits: int

    @property
    def weight(self) -> int:
        """Of weights and velocities within an epoch."""
        return self.score - SCALE

    @property
    def kept(self) -> int:
        """Of those at its end."""
        return self.weight - _DROPPED

    @property
    def kept_bits(self) -> int:
        """Bits of a score of weights at the end of an epoch."""
        return self.bits - _DROPPED

    @property
    def gradient(self) -> int:
        """Of what gradients, sums of features times residuals, are multiplied with."""
        return self.weight - SCALE - RESIDUAL


@dataclass(frozen=True, kw_only=True)
class LogisticPlan(PeerPlan):
    """Logistic regression in public numbers; made by `LogisticOptions.plan`.

    Several classes are one against the rest, each. `rate` is that of the first batch, `C` the
    inverse of the penalty as in scikit-learn.
    """

    epochs: int = 10
    batch_rows: int | None = None
    rate: float = 0.1
    momentum: float = 0.95
    C: float = 1.0
    intercept: bool = True
    hide: HideWeights = "nothing"
    public_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes is None or self.classes < 2:
            raise Code.BAD_TARGET.error(
                expected="a target of two classes or more",
                found="a number" if self.classes is None else f"{self.classes} class",
            )
        if self.align == "hidden":
            raise Code.BAD_PARAMETER.error(
                expected="rows in one order that every peer knows (align 'ring')",
                found="align 'hidden'",
                fix="align in a ring, or grow a tree",
            )
        self.fractions(self.capacity)

    @property
    def ring(self) -> Ring:
        """Of all numbers."""
        return Z64

    @property
    def units(self) -> Units:
        """There are none: the target has classes."""
        raise Code.BAD_TARGET.error(expected="a target with classes", found="a number")

    @property
    def hides(self) -> bool:
        """Whether weights stay shared."""
        return self.hide == "weights"

    @property
    def levels(self) -> int:
        """Passes over the rows."""
        return self.epochs

    @cached_property
    def features(self) -> Features:
        """What bins stand for."""
        return Features.of(self.domain)

    @property
    def n_scores(self) -> int:
        """Scores of a row: one for two classes, else one for each."""
        assert self.classes is not None
        return 1 if self.classes == 2 else self.classes

    @property
    def n_weights(self) -> int:
        """Weights of a score; the last is the intercept's, if there is one."""
        return len(self.features) + self.intercept

    def plant(self, provider: Transfers, bins: Mapping[int, NDArray[Any]], n: int) -> PuncturedBins:
        """Puncture what bins stand for, of rows in the order in which batches take them."""
        order = self.schedule(n).order()
        own = {j: np.asarray(column)[order] for j, column in bins.items()}
        return self.features.plant(provider, self.owners, own, n)

    def schedule(self, n: int) -> Schedule:
        """Return the steps of gradient descent over n rows."""
        return Schedule(
            n,
            self.epochs,
            self.batch_rows,
            self.rate,
            self.momentum,
            1.0 / (self.C * n),
            self.public_seed,
        )

    def most(self, n: int) -> float:
        """Return what no score, weight or velocity of training on n rows is larger than."""
        schedule, features = self.schedule(n), self.features
        weight, velocity = schedule.bounds(schedule.penalty)
        free = schedule.bounds(0.0) if self.intercept else (0.0, 0.0)
        score = weight * features.largest + free[0]
        reach = max(1.0, float(features.reach.max(initial=0.0)))
        return _SLACK * max(score, velocity * reach, free[1])

    def fractions(self, n: int) -> Fractions:
        """Return the fraction bits of training on n rows; H501 where too few are left."""
        most = self.most(n)
        whole = math.frexp(most)[1] if math.isfinite(most) else _ROOM
        left = _ROOM - whole
        if left < _COARSEST:
            raise Code.BAD_PARAMETER.error(
                expected=f"scores below 2^{_ROOM - _COARSEST}, whatever the rows",
                found=f"rates and momentum with which they may reach {most:.3g}",
                fix="choose a smaller learning_rate, momentum or max_iter, or larger batches",
            )
        score = min(left, _FINEST)
        found = Fractions(score, score + max(1, whole))
        rows = -(-n // self.schedule(n).n_batches)
        if self.rate / rows * 2.0**found.gradient < _STEPS:
            raise Code.BAD_PARAMETER.error(
                expected="a rate that moves weights by more than what they are rounded to",
                found=f"learning_rate={self.rate:.3g} for batches of {rows:,} rows",
                fix="choose a larger learning_rate, smaller batches or a smaller max_iter",
            )
        return found

    def model_releases(self) -> Sequence[Release]:
        """Return what the weights cost."""
        return [exact_release(WEIGHTS, self.audience)]

    def model_openings(self, to: str) -> list[Opening]:
        """Return what training opens."""
        shape = (self.n_scores, self.n_weights)
        return [] if self.hides else [Opening(WEIGHTS, to, shape, release=WEIGHTS)]
