"""`Schedule`: which rows are in which batch, and by how much each gradient moves the weights.

All of it is public. A step of gradient descent with Nesterov's momentum, of the gradient g of a
batch, and then one towards 0 by the penalty, is linear in weights w and velocity v:

    v <- momentum v + g
    w <- (w - rate (g + momentum v)) / (1 + rate penalty / (1 - momentum))

so that inside an epoch the weights before each batch are a public combination of those at its
beginning and of the gradients since. Nothing is rounded until its end. Where gradients do not
change, w comes to rest at -g / penalty, as it does without momentum.
Papers: sutskever2013importance, parikh2014proximal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.public_choices import public_words

Array = NDArray[np.float64]
LARGEST: Final = 512
_FEWEST, _BATCHES = 16, 64


@dataclass(frozen=True)
class Schedule:
    """Gradient descent over n rows; the rate falls to 0 in equal steps, the penalty is per row."""

    n: int
    epochs: int
    batch_rows: int | None
    rate: float
    momentum: float
    penalty: float
    public_seed: int = 0

    @property
    def n_batches(self) -> int:
        """Batches of an epoch: without a number of rows, 64 of them, of 16 to 512 rows."""
        rows = self.batch_rows or min(LARGEST, max(_FEWEST, self.n // _BATCHES))
        return max(1, -(-self.n // rows))

    def order(self) -> NDArray[np.intp]:
        """Return the order in which rows are dealt to batches."""
        words = public_words(self.public_seed, "rows of batches", (self.n,))
        return np.argsort(words, kind="stable")

    def batches(self, epoch: int) -> list[slice]:
        """Return the rows of the batches of an epoch, in their order."""
        ends = [self.n * i // self.n_batches for i in range(self.n_batches + 1)]
        words = public_words(self.public_seed, f"batches of epoch {epoch}", (self.n_batches,))
        return [slice(ends[i], ends[i + 1]) for i in np.argsort(words, kind="stable")]

    def rates(self, epoch: int) -> list[float]:
        """Return the rates of the batches of an epoch."""
        steps = self.epochs * self.n_batches
        first = epoch * self.n_batches
        return [self.rate * (1 - (first + i) / steps) for i in range(self.n_batches)]

    def steps(self, epoch: int, penalty: float) -> Iterator[tuple[Array, Array]]:
        """Return what weights and velocity are made of, before each batch and at the end.

        Of weights and velocity at the beginning, (2, 2), and of the gradients of all batches,
        (2, batches). Each operation rounds once, so that all machines agree.
        """
        start, moved = np.eye(2), np.zeros((2, self.n_batches))
        yield start, moved
        for i, rate in enumerate(self.rates(epoch)):
            unit = np.zeros(self.n_batches)
            unit[i] = 1.0
            shrunk = 1.0 / (1.0 + rate * penalty / (1.0 - self.momentum))
            start = self._step(start, np.zeros(2), rate, shrunk)
            moved = self._step(moved, unit, rate, shrunk)
            yield start, moved

    def bounds(self, penalty: float) -> tuple[float, float]:
        """Return how large a weight and its velocity can get where gradients are at most 1.

        A velocity stays below 1 / (1 - momentum), so a batch moves a weight by less than its rate
        times that; and no weight passes 1 / penalty, where the penalty undoes as much.
        """
        velocity = 1.0 / (1.0 - self.momentum)
        moved = self.rate * (self.epochs * self.n_batches + 1) / 2 * velocity
        return min(moved, 1.0 / penalty) if penalty else moved, velocity

    def _step(self, state: Array, gradient: Array, rate: float, shrunk: float) -> Array:
        weight, velocity = state
        velocity = self.momentum * velocity + gradient
        weight = (weight - rate * (gradient + self.momentum * velocity)) * shrunk
        return np.stack([weight, velocity])
