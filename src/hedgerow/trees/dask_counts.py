"""Counts of a forest over a Dask collection: rows stay on the workers, sums of them come back.

Partitions are encoded once, on the workers, and kept there. A question is one pure function of
(partition, forest so far, question) per partition, and the answers are added up on the workers by
a tree of sums. A worker that is lost takes its partitions with it; Dask computes them again from
their source, with the same coins, so that the answer is the same. Noise is drawn by whoever asked,
after the sum: never on a worker, and never twice for one release.

The cluster is within the curator's trust: workers see their rows and the key of the coins, and
Dask sends Python objects among its own. Turn on Dask's TLS where the network is not yours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables import Domain
from hedgerow.tables.batches import checksum, encode_piece
from hedgerow.trees.batch_counts import MakeBatch
from hedgerow.trees.forest_counts import (
    Batch,
    ForestShape,
    PartialForest,
    Placed,
    Splits,
    add_channels,
    add_histogram,
    add_sides,
    descend,
    histogram_offsets,
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


@dataclass(frozen=True, eq=False)
class _Stand:
    """Where the rows of a partition stand, and which rows those were.

    A partition may be lost where this is not; then it has to come back as it was.
    """

    placed: Placed
    checksum: int


class DaskCounts:
    """Counts over the partitions of a Dask dataframe or array; a `ForestCounts`.

    Computed by Dask's current scheduler: the cluster of the last ``distributed.Client``, or the
    threads of this process.

    Parameters
    ----------
    X : dask DataFrame or 2-D dask Array
        Columns of an array are those of the domain, in its order.
    y : str, dask Series or 1-D dask Array
        Name of the target's column in `X`, or the target in the partitions of `X`.
    domain : Domain
        Public.
    make : callable
        From encoded rows and a number to a `Batch`; runs on the workers.
    most_cells : int, default=2**22
        Bins of one histogram, 8 bytes each: what a worker holds per partition and sends.

    Raises
    ------
    HedgerowError
        H108 if `X` and `y` are not cut alike, H109 if they are not of these types, H406 without
        Dask.
    """

    def __init__(
        self, X: Any, y: Any, domain: Domain, make: MakeBatch, *, most_cells: int = 1 << 22
    ) -> None:
        self._dask = _import_dask()
        self.most_cells = most_cells
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
            encode(table, target, domain, make, number)
            for number, (table, target) in enumerate(zip(rows, names, strict=True))
        ]
        self._parts: tuple[Any, ...] = self._dask.persist(*tasks)
        self._placed: tuple[Any, ...] = ()
        self._known: list[tuple[int, int]] | None = None
        self._forest: PartialForest | None = None

    @property
    def n_records(self) -> int:
        """Records in all; the first time this waits until every partition is encoded."""
        if self._known is None:
            look = self._dask.delayed(_look, pure=False)
            self._known = list(self._dask.compute(*[look(part) for part in self._parts]))
            if not sum(n for n, _ in self._known):
                raise Code.EMPTY_TABLE.error(found="no rows in any partition")
        return sum(n for n, _ in self._known)

    @property
    def forest(self) -> PartialForest:
        """The forest so far."""
        if self._forest is None:
            raise Code.BAD_PARAMETER.error(expected="begin() first", found="no forest begun")
        return self._forest

    def begin(self, shape: ForestShape, key: bytes) -> None:
        """Put every row into its roots, on the workers."""
        # Checksums of the partitions: what a lost one must be when it is computed again.
        _ = self.n_records
        assert self._known is not None
        self._forest = PartialForest(shape)
        start = self._dask.delayed(_start, pure=False)
        forest = self._send(self._forest)
        self._placed = self._dask.persist(
            *[
                start(part, known, key, forest)
                for part, (_, known) in zip(self._parts, self._known, strict=True)
            ]
        )

    def histogram(
        self, nodes: NDArray[np.int64], features: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count records by bin; see `ForestCounts.histogram`."""
        offsets = histogram_offsets(self.forest.shape, features)
        return self._ask(_histogram, (nodes, features, offsets)), offsets

    def sides(self, nodes: NDArray[np.int64], splits: Splits) -> NDArray[np.int64]:
        """Add up both sides of candidate splits; see `ForestCounts.sides`."""
        return self._ask(_sides, (nodes, splits, self.forest.shape))

    def advance(self, splits: Splits) -> None:
        """Send the rows on, on the workers."""
        self._forest = self.forest.grown(splits)
        down, sent = self._dask.delayed(_descend, pure=False), self._send(splits)
        self._placed = self._dask.persist(
            *[
                down(part, placed, sent)
                for part, placed in zip(self._parts, self._placed, strict=True)
            ]
        )

    def channels(self) -> NDArray[np.int64]:
        """Channels of the frontier; see `ForestCounts.channels`."""
        return self._ask(_channels, (self.forest.shape,))

    def _send(self, value: Any) -> Any:
        """Put a value into the graph once; unlike scattered data it survives its worker."""
        return self._dask.delayed(_Sealed(value), pure=False)

    def _ask(
        self, function: Callable[[_Part, _Stand, _Sealed], Answer], question: tuple[Any, ...]
    ) -> Answer:
        """Ask every partition, add up on the workers, and fetch the sum."""
        ask, add = (self._dask.delayed(f, pure=False) for f in (function, _add))
        sent = self._send(question)
        answers = [
            ask(part, placed, sent) for part, placed in zip(self._parts, self._placed, strict=True)
        ]
        while len(answers) > 1:
            answers = [add(answers[i : i + FAN_IN]) for i in range(0, len(answers), FAN_IN)]
        total: Answer = answers[0].compute()
        return total


@dataclass(frozen=True, eq=False)
class _Sealed:
    """Something that Dask shall not look into for tasks."""

    value: Any


def _encode(table: Any, y: Any, domain: Domain, make: MakeBatch, number: int) -> _Part:
    encoded = encode_piece(table, domain, y, origin=f"partition {number}")
    return _Part(make(encoded, number), checksum(encoded))


def _look(part: _Part) -> tuple[int, int]:
    return len(part.batch.present), part.checksum


def _start(part: _Part, known: int, key: bytes, forest: _Sealed) -> _Stand:
    empty = Placed(np.zeros((0, 0), dtype=np.int32), 0)
    _check(part, _Stand(empty, known))
    return _Stand(place(part.batch, key, forest.value), known)


def _check(part: _Part, stand: _Stand) -> tuple[Batch, Placed]:
    """Return rows and places, of which the rows must be those that were placed."""
    if part.checksum != stand.checksum:
        raise Code.TABLE_CHANGED.error(
            found=f"other rows in partition {part.batch.number}, which had to be computed again",
            fix="let the collection's source give the same rows in the same order each time, or "
            "write it to Parquet first; what the ledger was charged stays charged",
        )
    return part.batch, stand.placed


def _descend(part: _Part, stand: _Stand, splits: _Sealed) -> _Stand:
    return _Stand(descend(*_check(part, stand), splits.value), stand.checksum)


def _histogram(part: _Part, stand: _Stand, question: _Sealed) -> Answer:
    nodes, features, offsets = question.value
    out = np.zeros(int(offsets[-1]), dtype=np.int64)
    add_histogram(*_check(part, stand), nodes, features, offsets, out)
    return out


def _sides(part: _Part, stand: _Stand, question: _Sealed) -> Answer:
    nodes, splits, shape = question.value
    out = np.zeros((len(splits), 2, shape.n_channels), dtype=np.int64)
    add_sides(*_check(part, stand), nodes, splits, shape, out)
    return out


def _channels(part: _Part, stand: _Stand, question: _Sealed) -> Answer:
    (shape,) = question.value
    out = np.zeros((stand.placed.n_nodes, shape.n_channels), dtype=np.int64)
    add_channels(*_check(part, stand), shape, out)
    return out


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
        raise Code.MISSING_EXTRA.error(
            found="no module 'dask'", fix='pip install "hedgerow[dask]"'
        ) from error
