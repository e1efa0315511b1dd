"""Counts over a Dask collection: rows stay on the workers, sums of them come back.

Partitions are encoded once, on the workers, and kept there. A question is one pure function of
(partition, state of its rows, question) per partition, and the answers are added up on the workers
by a tree of sums. A worker that is lost takes its partitions with it; Dask computes them again from
their source, with the same coins, so that the answer is the same. Noise is drawn by whoever asked,
after the sum: never on a worker, and never twice for one release.

The cluster is within the curator's trust: workers see their rows and the key of the coins, and
Dask sends Python objects among its own. Turn on Dask's TLS where the network is not yours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code, install_of
from hedgerow.tables import Domain
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.batches import checksum, encode_piece
from hedgerow.trees.counts.batches import MakeBatch
from hedgerow.trees.counts.boosting import (
    FunctionShape,
    Gradients,
    Sample,
    add_step,
    marginals_of,
    split_marginals,
    start_scores,
    sums_of,
)
from hedgerow.trees.counts.forest import (
    Add,
    Batch,
    ForestShape,
    ForestSplits,
    PartialForest,
    RowPositions,
    SummedCounts,
    descend,
    place,
)

FAN_IN = 8
"""Answers that one task adds up."""

Answer = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Part:
    """A partition on its worker."""

    batch: Batch
    checksum: int
    absorbed: AbsorbedRows | None = None


@dataclass(frozen=True, eq=False)
class _Stand:
    """What is known of the rows of a partition by now, and which rows those were.

    A partition may be lost where this is not; then it has to come back as it was.
    """

    state: Any
    checksum: int


class _Partitions:
    """The rows of a Dask collection, encoded and kept on the workers, with a state of their own.

    Computed by Dask's current scheduler: the cluster of the last ``distributed.Client``, or the
    threads of this process.

    `X`: columns of an array are those of the domain, in its order. `y`: name of the target's column
    in `X`, or the target in the partitions of `X`. `make`: from encoded rows and a number to a
    `Batch`; runs on the workers. `absorbed`: as for `hedgerow.tables.encode`; the first records up
    to the domain's capacity are kept. Raises H108 if `X` and `y` are not cut alike, H109 if they
    are not of these types, H406 without Dask.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        domain: Domain,
        make: MakeBatch,
        absorbed: AbsorbedRows | None = None,
    ) -> None:
        self._dask = _import_dask()
        rows = _partitions(X)
        names = [y] * len(rows) if isinstance(y, str) else _partitions(y)
        if len(names) != len(rows):
            raise Code.WRONG_SHAPE.error(
                expected=f"a target in {len(rows)} partitions, as the rows are",
                found=f"{len(names)} partitions",
                fix="take both from one Dask collection, or repartition them alike",
            )
        encode = self._dask.delayed(_encode, pure=False)
        tasks = [
            encode(table, target, domain, make, number, absorbed is not None)
            for number, (table, target) in enumerate(zip(rows, names, strict=True))
        ]
        self._parts: tuple[Any, ...] = self._dask.persist(*tasks)
        self._stands: Sequence[Any] = ()
        self._known: list[tuple[int, int]] | None = None
        if absorbed is not None:
            self._absorb(absorbed, domain.capacity)

    def _absorb(self, absorbed: AbsorbedRows, capacity: int | None) -> None:
        """Add up what the workers have absorbed, and clear records beyond the capacity."""
        sizes = []
        for n_records, part in self._each(_absorbed_rows):
            sizes.append(n_records)
            absorbed.add(part)
        if capacity is not None and sum(sizes) > capacity:
            absorbed.count_rows(over=sum(sizes) - capacity)
            before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            cut = self._dask.delayed(_cut, pure=False)
            tasks = [
                cut(part, max(0, capacity - int(n)))
                for part, n in zip(self._parts, before, strict=True)
            ]
            self._parts = self._dask.persist(*tasks)
        self._known = self._each(_look)

    @property
    def n_records(self) -> int:
        """Records in all; the first time this waits until every partition is encoded."""
        return sum(n for n, _ in self._look())

    def _look(self) -> list[tuple[int, int]]:
        if self._known is None:
            self._known = self._each(_look)
            if not sum(n for n, _ in self._known):
                raise Code.EMPTY_TABLE.error(found="no rows in any partition")
        return self._known

    def _each(self, function: Callable[[_Part], Any]) -> list[Any]:
        """Return what a function says of every partition."""
        look = self._dask.delayed(function, pure=False)
        return list(self._dask.compute(*[look(part) for part in self._parts]))

    def _reset(self) -> None:
        """Forget the states; from now on a partition must be what it is now."""
        self._stands = tuple(_Stand(None, known) for _, known in self._look())

    def _move(self, function: Callable[..., Any], *question: Any) -> None:
        """Give every partition the state ``function(batch, state, *question)``, when next asked."""
        self._stands = tuple(self._tasks(_move_rows, function, question))

    def _ask(self, function: Callable[..., Answer], *question: Any) -> Answer:
        """Add up ``function(batch, state, *question)`` on the workers, and fetch the sum."""
        add = self._dask.delayed(_add, pure=False)
        answers = self._tasks(_answer, function, question)
        while len(answers) > 1:
            answers = [add(answers[i : i + FAN_IN]) for i in range(0, len(answers), FAN_IN)]
        # Together: a trip to the scheduler costs more than most questions.
        *self._stands, total = self._dask.persist(*self._stands, answers[0])
        answer: Answer = total.compute()
        return answer

    def _tasks(
        self, task: Callable[..., Any], function: Callable[..., Any], question: tuple[Any, ...]
    ) -> list[Any]:
        # In the graph once; unlike scattered data it survives its worker.
        sent = self._dask.delayed(_Opaque((function, question)), pure=False)
        run = self._dask.delayed(task, pure=False)
        return [
            run(part, stand, sent) for part, stand in zip(self._parts, self._stands, strict=True)
        ]


class DaskCounts(_Partitions, SummedCounts):
    """Counts of a forest over the partitions of a Dask dataframe or array; a `ForestCounts`."""

    most_cells = 1 << 22
    """Bins of one histogram, 8 bytes each: what a worker holds per partition and sends."""

    def begin(self, shape: ForestShape, key: bytes) -> None:
        """Put every row into its roots."""
        self._forest = PartialForest(shape)
        self._reset()
        self._move(_place, key, self._forest)

    def advance(self, splits: ForestSplits) -> None:
        """Send the rows on; they go when they are next counted."""
        self._forest = self.forest.with_level(splits)
        self._move(descend, splits)

    def _sum(self, add: Add, shape: tuple[int, ...], *question: Any) -> Answer:
        return self._ask(_sum_of, add, shape, question)


class DaskBoostCounts(_Partitions):
    """Sums of boosting over the partitions of a Dask dataframe or array; a `BoostCounts`."""

    _gradients: Gradients

    def marginals(self, n_bins: Sequence[int], n_classes: int | None) -> list[NDArray[np.int64]]:
        """See `BoostCounts.marginals`."""
        self._reset()
        return split_marginals(self._ask(_marginals, n_bins, n_classes), n_bins)

    def begin(self, gradients: Gradients, start: NDArray[np.float64]) -> None:
        """Give every row the same scores."""
        self._gradients = gradients
        self._reset()
        self._move(_start_scores, start)

    def sums(self, shape: FunctionShape, sample: Sample | None) -> NDArray[np.int64]:
        """See `BoostCounts.sums`."""
        return self._ask(sums_of, self._gradients, shape, sample)

    def add(self, shape: FunctionShape, values: NDArray[np.float64]) -> None:
        """Add the values to the scores of the rows, when these are next needed."""
        self._move(_add_step, shape, values)


@dataclass(frozen=True, eq=False)
class _Opaque:
    """Something that Dask shall not look into for tasks."""

    value: Any


def _encode(
    table: Any, y: Any, domain: Domain, make: MakeBatch, number: int, absorb: bool
) -> _Part:
    absorbed = AbsorbedRows() if absorb else None
    encoded = encode_piece(table, domain, y, origin=f"partition {number}", absorbed=absorbed)
    return _Part(make(encoded, number), checksum(encoded), absorbed)


def _absorbed_rows(part: _Part) -> tuple[int, AbsorbedRows]:
    assert part.absorbed is not None
    return int(part.batch.present.sum()), part.absorbed


def _cut(part: _Part, room: int) -> _Part:
    present = part.batch.present.copy()
    present[np.flatnonzero(present)[room:]] = False
    return replace(part, batch=replace(part.batch, present=present))


def _look(part: _Part) -> tuple[int, int]:
    return int(part.batch.present.sum()), part.checksum


def _move_rows(part: _Part, stand: _Stand, sent: _Opaque) -> _Stand:
    return _Stand(_answer(part, stand, sent), stand.checksum)


def _answer(part: _Part, stand: _Stand, sent: _Opaque) -> Any:
    """Call a function with the rows, which must be those that the state is of."""
    if part.checksum != stand.checksum:
        raise Code.TABLE_CHANGED.error(
            found=f"other rows in partition {part.batch.number}, which had to be computed again",
            fix="let the collection's source give the same rows in the same order each time, or "
            "write it to Parquet first; what the ledger was charged stays charged",
        )
    function, question = sent.value
    return function(part.batch, stand.state, *question)


def _place(batch: Batch, _: None, key: bytes, forest: PartialForest) -> RowPositions:
    return place(batch, key, forest)


def _sum_of(
    batch: Batch, placed: RowPositions, add: Add, shape: tuple[int, ...], question: tuple[Any, ...]
) -> Answer:
    out = np.zeros(shape, dtype=np.int64)
    add(batch, placed, *question, out)
    return out


def _marginals(batch: Batch, _: None, n_bins: Sequence[int], n_classes: int | None) -> Answer:
    return marginals_of(batch, n_bins, n_classes)


def _start_scores(batch: Batch, _: None, start: NDArray[np.float64]) -> NDArray[np.float64]:
    return start_scores(batch, start)


def _add_step(
    batch: Batch, scores: NDArray[np.float64], shape: FunctionShape, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    # Not in place: Dask may ask for the scores of an earlier round again.
    later = scores.copy()
    add_step(batch, later, shape, values)
    return later


def _add(answers: list[Answer]) -> Answer:
    total: Answer = np.sum(answers, axis=0, dtype=np.int64)
    return total


def _partitions(collection: Any) -> list[Any]:
    """Return the partitions of a Dask collection as delayed values, in order."""
    if hasattr(collection, "to_delayed") and hasattr(collection, "npartitions"):
        if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "rechunk"):
            # A row of an array lies within one partition.
            collection = collection.rechunk({1: -1})
        return list(np.ravel(np.asarray(collection.to_delayed(), dtype=object)))
    raise Code.WRONG_TYPE.error(
        expected="a Dask dataframe, series or array, or the name of the target's column",
        found=f"{type(collection).__module__}.{type(collection).__qualname__}",
        fix="pass y as a column name, or as a Dask series or array cut like X",
    )


def _import_dask() -> Any:
    try:
        return import_module("dask")
    except ImportError as error:
        raise Code.MISSING_EXTRA.error(found="no module 'dask'", fix=install_of("dask")) from error
