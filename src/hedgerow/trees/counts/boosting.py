"""What private boosting may see of the rows: whole numbers that are added up over batches.

Two questions: the *marginals*, one histogram per attribute, and for each round the sums of clipped
gradients in the leaves of a public *shape*. Nothing here is private; the learner adds noise to
what it asks for. Scores of the rows follow from what was released and stay with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.crypto.prg import Prg
from hedgerow.errors import Code
from hedgerow.trees.counts import boost_kernels as kernels
from hedgerow.trees.counts.forest import Batch
from hedgerow.trees.counts.spill import Spill

Loss = Literal["logistic", "softmax", "squared"]
_CODES = {
    "logistic": kernels.LOGISTIC,
    "softmax": kernels.SOFTMAX,
    "squared": kernels.SQUARED,
}
# Rows below which a second thread costs more than it brings.
_FEW = 1 << 13

Sample = tuple[bytes, int, float]
"""Key of the coins, round, rate."""


@dataclass(frozen=True)
class Gradients:
    """What a gradient is, as whole numbers.

    `n_scores`: numbers per row: one, or one per class. `half`: units of a numeric target that make
    1, half its range. `limit`, `unit`: longest gradient, and 1, both in the units of the sums.
    """

    loss: Loss
    n_scores: int
    half: int
    limit: int
    unit: int


@dataclass(frozen=True, eq=False)
class FunctionShape:
    """The leaves of one round: cells of a grid over one attribute or two; public.

    `features`: int64 (q,). `parts`: for each of them, the part of every bin.
    """

    features: NDArray[np.int64]
    parts: tuple[NDArray[np.int64], ...]
    n_parts: tuple[int, ...]

    @property
    def n_leaves(self) -> int:
        """Number of cells; the first attribute's part varies fastest."""
        return int(np.prod(self.n_parts))

    def tables(self) -> NDArray[np.int64]:
        """Return what each bin adds to the number of the leaf, (q, widest bins)."""
        found = np.zeros((len(self.parts), max(map(len, self.parts))), dtype=np.int64)
        step = 1
        for row, part, n in zip(found, self.parts, self.n_parts, strict=True):
            row[: len(part)] = step * part
            step *= n
        return found


class BoostCounts(Protocol):
    """Where the rows of one boosted model are."""

    @property
    def n_records(self) -> int:
        """How many records there are; not private."""

    def marginals(self, n_bins: Sequence[int], n_classes: int | None) -> list[NDArray[np.int64]]:
        """Histogram of each attribute, (bins, classes), or (bins, 2): records, sum of units."""

    def begin(self, gradients: Gradients, start: NDArray[np.float64]) -> None:
        """Give every row the same scores."""

    def sums(self, shape: FunctionShape, sample: Sample | None) -> NDArray[np.int64]:
        """Gradients of all records, or of a sample, by leaf: (leaves, k)."""

    def add(self, shape: FunctionShape, values: NDArray[np.float64]) -> None:
        """Add the values (leaves, k) to the scores of the rows."""


class LocalBoostCounts:
    """Batches in this process, on all cores; see `BoostCounts`."""

    _gradients: Gradients
    _scores: list[NDArray[np.float64]]

    def __init__(self, batches: Sequence[Batch], spill: Spill | None = None) -> None:
        self._batches = list(batches)
        self._spill = spill or Spill()
        if len({batch.number for batch in self._batches}) < len(self._batches):
            raise Code.BAD_PARAMETER.error(
                expected="batches with different numbers", found="a number twice"
            )

    @property
    def n_records(self) -> int:
        """How many records there are; not private."""
        return sum(int(batch.present.sum()) for batch in self._batches)

    def marginals(self, n_bins: Sequence[int], n_classes: int | None) -> list[NDArray[np.int64]]:
        """See `BoostCounts.marginals`."""
        total = np.zeros((sum(n_bins), n_classes or 2), dtype=np.int64)
        for batch in self._batches:
            total += marginals_of(batch, n_bins, n_classes)
        return split_marginals(total, n_bins)

    def begin(self, gradients: Gradients, start: NDArray[np.float64]) -> None:
        """See `BoostCounts.begin`."""
        self._gradients = gradients
        self._scores = [self._spill.put(start_scores(batch, start)) for batch in self._batches]

    def sums(self, shape: FunctionShape, sample: Sample | None) -> NDArray[np.int64]:
        """See `BoostCounts.sums`."""
        total = np.zeros((shape.n_leaves, self._gradients.n_scores), dtype=np.int64)
        for batch, scores in zip(self._batches, self._scores, strict=True):
            total += sums_of(batch, scores, self._gradients, shape, sample)
        return total

    def add(self, shape: FunctionShape, values: NDArray[np.float64]) -> None:
        """See `BoostCounts.add`."""
        for batch, scores in zip(self._batches, self._scores, strict=True):
            add_step(batch, scores, shape, values)


def marginals_of(batch: Batch, n_bins: Sequence[int], n_classes: int | None) -> NDArray[np.int64]:
    """Return the marginals of a batch, those of all attributes below each other."""
    here = np.flatnonzero(batch.present)
    target = batch.target[here].astype(np.int64)
    return np.concatenate(
        [
            _histogram(column[here], target, bins, n_classes)
            for column, bins in zip(batch.columns, n_bins, strict=True)
        ]
    )


def split_marginals(total: NDArray[np.int64], n_bins: Sequence[int]) -> list[NDArray[np.int64]]:
    """Cut marginals that stand below each other into those of each attribute."""
    return np.split(total, np.cumsum(n_bins)[:-1])


def start_scores(batch: Batch, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same scores for every row of a batch, (n, k)."""
    return np.tile(start, (len(batch.target), 1))


def sums_of(
    batch: Batch,
    scores: NDArray[np.float64],
    gradients: Gradients,
    shape: FunctionShape,
    sample: Sample | None,
) -> NDArray[np.int64]:
    """Return the sums of gradients of a batch by leaf, (leaves, k)."""
    keep = batch.present
    if sample is not None:
        keep = keep & sample_slots(*sample, batch.number, keep.size)
    tables = shape.tables()

    def work(part: slice) -> NDArray[np.int64]:
        out = np.zeros((shape.n_leaves, gradients.n_scores), dtype=np.int64)
        kernels.add_gradients(
            batch.columns,
            keep,
            batch.target,
            scores,
            part.start,
            part.stop,
            shape.features,
            tables,
            _CODES[gradients.loss],
            float(gradients.half),
            gradients.limit,
            float(gradients.unit),
            out,
        )
        return out

    total: NDArray[np.int64] = np.sum(threads.run(work, _parts(keep.size)), axis=0)
    return total


def add_step(
    batch: Batch, scores: NDArray[np.float64], shape: FunctionShape, values: NDArray[np.float64]
) -> None:
    """Add the values (leaves, k) to the scores of a batch, in place."""
    tables = shape.tables()

    def work(part: slice) -> None:
        kernels.add_values(
            batch.columns, part.start, part.stop, shape.features, tables, values, scores
        )

    threads.run(work, _parts(len(scores)))


def sample_slots(
    key: bytes, round_: int, rate: float, number: int, n_slots: int
) -> NDArray[np.bool_]:
    """Draw which slots of a batch are in the sample of a round: each by its own secret coin.

    The rate is rounded down to a multiple of 2^-32, so that no more is sampled than accounted for.
    """
    words = Prg(key).fill(f"sample of round {round_}/batch {number}", n_slots, np.uint32)
    return np.asarray(words.astype(np.uint64) < np.uint64(int(rate * 2**32)))


def _histogram(
    column: NDArray[Any], target: NDArray[np.int64], bins: int, n_classes: int | None
) -> NDArray[np.int64]:
    column = column.astype(np.int64)
    if n_classes is not None:
        cells = np.bincount(column * n_classes + target, minlength=bins * n_classes)
        return cells.reshape(bins, n_classes)
    count = np.bincount(column, minlength=bins)
    # Sums of whole numbers below 2^53 are exact in floats.
    total = np.bincount(column, weights=target, minlength=bins)
    return np.stack([count, total.astype(np.int64)], axis=1)


def _parts(n: int) -> list[slice]:
    cores = threads.available() if n >= _FEW else 1
    edges = np.linspace(0, n, cores + 1).astype(np.int64)
    return [slice(int(low), int(high)) for low, high in pairwise(edges)]
