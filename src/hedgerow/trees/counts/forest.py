"""What a forest's learner may see of the rows: integers that are added up over batches.

A forest grows level by level. Its *frontier* are the nodes that rows stand in now, of all trees
together, numbered from 0: at first the roots in the order of the trees, then, level by level, the
children of each node in its place. A node that is not split stays on the frontier as its own only
child, so that at the end the frontier is the list of all leaves.

Everything here is a function of (batch, secret key, forest so far, question): the same answer
whether a batch is kept in memory, read again from a file or held by another machine. Answers of
batches are added up. Nothing here is private; the learner adds noise to what it asks for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.errors import Code
from hedgerow.trees.counts import forest_kernels as kernels
from hedgerow.trees.counts.coins_of_rows import MOST_TREES, trees_of_rows
from hedgerow.trees.layout import SplitKind

# Work (records times questions) below which a second thread costs more than it brings.
_FEW = 1 << 15
_NO_SUBSETS = np.zeros((0, 1), dtype=np.bool_)
Add = Callable[..., None]
"""Adds what a batch answers to a question: `add_histogram`, `add_sides` or `add_channels`."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of an encoded table.

    `bins`: uint8 or uint16 (n, d); as `hedgerow.tables.encode` makes them; Fortran order is the
    fast one. `target`: shape (n,); class index (unsigned integers), or int64 units of the target's
    public grid. `present`: bool (n,); whether a slot holds a record. `number`: of the batch within
    its table: it addresses the rows' coins, so no two batches of a table have the same.
    """

    bins: NDArray[Any]
    target: NDArray[Any]
    present: NDArray[np.bool_]
    number: int = 0

    def __post_init__(self) -> None:
        n = len(self.bins)
        if self.bins.ndim != 2 or self.target.shape != (n,) or self.present.shape != (n,):
            raise Code.WRONG_SHAPE.error(
                expected="bins (n, d), target (n,) and present (n,)",
                found=f"{self.bins.shape}, {self.target.shape} and {self.present.shape}",
            )
        if self.target.dtype.kind not in "iu":
            raise Code.WRONG_TYPE.error(
                expected="class indices, or whole units of the target's grid",
                found=f"a target of type {self.target.dtype}",
                fix="let the plan make the batch",
            )

    @cached_property
    def columns(self) -> NDArray[Any]:
        """The bins as (d, n), each attribute contiguous."""
        return np.ascontiguousarray(self.bins.T)


@dataclass(frozen=True)
class ForestShape:
    """What is public about a forest that is to be counted.

    `partition`: whether each row is in one tree, by its own coin, or in all of them. `n_classes`:
    None for a target in units, whose channels are (n, sum, sum of squares).
    """

    n_bins: tuple[int, ...]
    n_trees: int
    partition: bool
    n_classes: int | None

    def __post_init__(self) -> None:
        if not 1 <= self.n_trees <= MOST_TREES:
            raise Code.BAD_PARAMETER.error(
                expected=f"from 1 to {MOST_TREES:,} trees", found=f"{self.n_trees} trees"
            )

    @property
    def n_channels(self) -> int:
        """Numbers that describe a node: one per class, or three."""
        return self.n_classes or 3


@dataclass(frozen=True, eq=False)
class ForestSplits:
    """Splits as arrays: one per node of the frontier, or one per candidate.

    `feature`: int32 (m,); -1 where there is no split. `kind`: uint8 (m,); LEAF (no split),
    THRESHOLD (``bin <= cut`` goes left) or SUBSET. `cut`: int32 (m,); the bin of a threshold, or
    the row of `subsets`. `subsets`: bool (tables, widest attribute); true for the bins that go
    left.
    """

    feature: NDArray[np.int32]
    kind: NDArray[np.uint8]
    cut: NDArray[np.int32]
    subsets: NDArray[np.bool_] = field(default_factory=lambda: _NO_SUBSETS)

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First child of each node on the next frontier, and its size; int64 (m + 1,)."""
        arity = np.where(self.kind == SplitKind.LEAF, 1, 2)
        return np.concatenate([[0], np.cumsum(arity)]).astype(np.int64)

    def take(self, which: NDArray[np.int64]) -> ForestSplits:
        """Return some of them, in that order, with the same tables."""
        return ForestSplits(self.feature[which], self.kind[which], self.cut[which], self.subsets)


@dataclass(frozen=True, eq=False)
class PartialForest:
    """A forest so far: its shape and the splits of its levels; public once they are released."""

    shape: ForestShape
    levels: tuple[ForestSplits, ...] = ()

    @property
    def n_nodes(self) -> int:
        """Nodes on the frontier."""
        return int(self.levels[-1].first[-1]) if self.levels else self.shape.n_trees

    def with_level(self, splits: ForestSplits) -> PartialForest:
        """Return the forest with one more level."""
        if len(splits) != self.n_nodes:
            raise Code.WRONG_SHAPE.error(
                expected=f"a split or a leaf for each of {self.n_nodes} nodes",
                found=f"{len(splits)}",
            )
        return PartialForest(self.shape, (*self.levels, splits))


@dataclass(frozen=True, eq=False)
class RowPositions:
    """Where the rows of a batch stand.

    `where`: int32 (copies, n); node on the frontier, -1 for an empty slot; one row for a
    partitioned forest, one per tree for an unpartitioned one.
    """

    where: NDArray[np.int32]
    n_nodes: int

    @cached_property
    def _rows_by_node(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        order = np.empty(int(np.count_nonzero(self.where >= 0)), dtype=np.int32)
        start = np.zeros(self.n_nodes + 1, dtype=np.int64)
        kernels.rows_by_node(self.where, order, start)
        return order, start

    @property
    def order(self) -> NDArray[np.int32]:
        """Row numbers, node by node."""
        return self._rows_by_node[0]

    @property
    def start(self) -> NDArray[np.int64]:
        """Where the rows of each node begin in `order`; int64 (n_nodes + 1,)."""
        return self._rows_by_node[1]


def place(batch: Batch, key: bytes, forest: PartialForest) -> RowPositions:
    """Find the node of every row from the roots on; what a batch that is read again needs."""
    shape, n = forest.shape, len(batch.present)
    if shape.partition:
        roots = trees_of_rows(key, batch.number, n, shape.n_trees)[None, :]
    else:
        roots = np.repeat(np.arange(shape.n_trees, dtype=np.int32)[:, None], n, axis=1)
    placed = RowPositions(np.where(batch.present, roots, np.int32(-1)), shape.n_trees)
    for splits in forest.levels:
        placed = descend(batch, placed, splits)
    return placed


def descend(batch: Batch, placed: RowPositions, splits: ForestSplits) -> RowPositions:
    """Send the rows one level down."""
    where = np.empty_like(placed.where)
    kernels.move_down(
        batch.columns,
        placed.where,
        splits.feature,
        splits.kind,
        splits.cut,
        splits.subsets,
        splits.first,
        where,
    )
    return RowPositions(where, int(splits.first[-1]))


def histogram_offsets(shape: ForestShape, features: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the bins of each ask begin in a flat histogram; int64 (m + 1,)."""
    widths = np.asarray(shape.n_bins, dtype=np.int64)[features]
    return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)


def add_histogram(
    batch: Batch,
    placed: RowPositions,
    nodes: NDArray[np.int64],
    features: NDArray[np.int64],
    offsets: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Add a batch's records by bin, for asks (node, attribute), to `out`, int64 (offsets[-1],)."""

    def work(part: slice) -> None:
        kernels.histogram_asks(
            batch.columns,
            placed.order,
            placed.start,
            nodes,
            features,
            offsets,
            part.start,
            part.stop,
            out,
        )

    _in_parts(placed, nodes, work)


def add_sides(
    batch: Batch,
    placed: RowPositions,
    nodes: NDArray[np.int64],
    splits: ForestSplits,
    shape: ForestShape,
    out: NDArray[np.int64],
) -> None:
    """Add a batch's channels left and right of candidate splits to `out`, int64 (m, 2, k)."""

    def work(part: slice) -> None:
        kernels.sides_asks(
            batch.columns,
            batch.target,
            shape.n_classes is not None,
            placed.order,
            placed.start,
            nodes,
            splits.feature,
            splits.kind,
            splits.cut,
            splits.subsets,
            part.start,
            part.stop,
            out,
        )

    _in_parts(placed, nodes, work)


def add_channels(
    batch: Batch, placed: RowPositions, shape: ForestShape, out: NDArray[np.int64]
) -> None:
    """Add a batch's channels of every node on the frontier to `out`, int64 (n_nodes, k)."""

    def work(part: slice) -> None:
        kernels.channels_nodes(
            batch.target,
            shape.n_classes is not None,
            placed.order,
            placed.start,
            part.start,
            part.stop,
            out,
        )

    _in_parts(placed, np.arange(placed.n_nodes, dtype=np.int64), work)


def _in_parts(
    placed: RowPositions, nodes: NDArray[np.int64], work: Callable[[slice], None]
) -> None:
    """Answer the asks in parts of about equal work, each on a core; they write apart."""
    start = placed.start
    sizes = start[nodes + 1] - start[nodes]
    cores = threads.available() if int(sizes.sum()) + 8 * nodes.size > _FEW else 1
    # An ask of an empty node is not free.
    threads.run(work, threads.balanced(sizes + 8, cores))


@runtime_checkable
class ForestCounts(Protocol):
    """Where the rows are, as a forest's learner sees it."""

    @property
    def n_records(self) -> int:
        """Records in all; for the owner's check against the capacity."""

    @property
    def most_cells(self) -> int:
        """Bins that one `histogram` may hold; each call is a pass over the rows."""

    def begin(self, shape: ForestShape, key: bytes) -> None:
        """Put every row into its roots; forgets any forest before.

        `key` (16 bytes, `counts.coins_of_rows.draw_key`) is secret from whoever sees the
        forest.
        """

    def histogram(
        self, nodes: NDArray[np.int64], features: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count records by bin for asks (node on the frontier, attribute).

        Returns `counts` int64 (offsets[-1],); `offsets` int64 (m + 1,): bins of ask i are
        counts[offsets[i]:offsets[i + 1]].
        """

    def sides(self, nodes: NDArray[np.int64], splits: ForestSplits) -> NDArray[np.int64]:
        """Add up channels left and right of candidate splits, any number per node; (m, 2, k)."""

    def advance(self, splits: ForestSplits) -> None:
        """Send the rows on, by one split (or leaf) per node of the frontier."""

    def channels(self) -> NDArray[np.int64]:
        """Channels of every node on the frontier; int64 (frontier, k)."""


class SummedCounts(ABC):
    """What of `ForestCounts` is added up over batches of rows that stand in nodes."""

    _forest: PartialForest | None = None

    @abstractmethod
    def _sum(self, add: Add, shape: tuple[int, ...], *question: Any) -> NDArray[np.int64]:
        """Return zeros of a shape with what ``add(batch, placed, *question, out)`` adds to them."""

    @property
    def forest(self) -> PartialForest:
        """The forest so far."""
        if self._forest is None:
            raise Code.BAD_PARAMETER.error(expected="begin() first", found="no forest begun")
        return self._forest

    def histogram(
        self, nodes: NDArray[np.int64], features: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count records by bin; see `ForestCounts.histogram`."""
        offsets = histogram_offsets(self.forest.shape, features)
        shape = (int(offsets[-1]),)
        return self._sum(add_histogram, shape, nodes, features, offsets), offsets

    def sides(self, nodes: NDArray[np.int64], splits: ForestSplits) -> NDArray[np.int64]:
        """Add up both sides of candidate splits; see `ForestCounts.sides`."""
        forest = self.forest.shape
        return self._sum(add_sides, (len(splits), 2, forest.n_channels), nodes, splits, forest)

    def channels(self) -> NDArray[np.int64]:
        """Channels of the frontier; see `ForestCounts.channels`."""
        forest = self.forest
        return self._sum(add_channels, (forest.n_nodes, forest.shape.n_channels), forest.shape)


class PassedCounts(SummedCounts):
    """Counts that are one pass over batches in this process."""

    @abstractmethod
    def _pass(self) -> Iterable[tuple[Batch, RowPositions]]:
        """Give all batches and where their rows stand."""

    def _sum(self, add: Add, shape: tuple[int, ...], *question: Any) -> NDArray[np.int64]:
        out = np.zeros(shape, dtype=np.int64)
        for batch, placed in self._pass():
            add(batch, placed, *question, out)
        return out


class LocalCounts(PassedCounts):
    """Counts over batches in this process, on all its cores; a `ForestCounts`.

    `batches`: at least one; their numbers differ.
    """

    most_cells = 1 << 18
    """Small enough to stay in the processor's cache; a call passes over its own nodes' rows."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        numbers = [batch.number for batch in batches]
        if not batches or len(set(numbers)) < len(numbers):
            raise Code.BAD_PARAMETER.error(
                expected="at least one batch, each with a number of its own",
                found=f"batches numbered {numbers[:8]}",
            )
        self.batches = tuple(batches)
        self._placed: list[RowPositions] = []

    @property
    def n_records(self) -> int:
        """Records in all batches."""
        return sum(int(np.count_nonzero(batch.present)) for batch in self.batches)

    def begin(self, shape: ForestShape, key: bytes) -> None:
        """Put every row into its roots."""
        for batch in self.batches:
            check_batch(batch, shape)
        self._forest = PartialForest(shape)
        self._placed = [place(batch, key, self._forest) for batch in self.batches]

    def advance(self, splits: ForestSplits) -> None:
        """Send the rows on."""
        self._forest = self.forest.with_level(splits)
        self._placed = [descend(batch, placed, splits) for batch, placed in self._pass()]

    def _pass(self) -> Iterable[tuple[Batch, RowPositions]]:
        return zip(self.batches, self._placed, strict=True)


def check_batch(batch: Batch, shape: ForestShape) -> None:
    """Refuse a batch of another table: kernels index by bin and class without a look."""
    d = len(shape.n_bins)
    if batch.bins.shape[1] != d:
        raise Code.WRONG_SHAPE.error(
            expected=f"bins of {d} attributes", found=f"{batch.bins.shape[1]}"
        )
    if len(batch.bins) == 0:
        return
    if (batch.bins.max(axis=0) >= np.asarray(shape.n_bins)).any():
        raise Code.OUTSIDE_BOUNDS.error(
            expected="bins below the number of bins of their attribute",
            found=f"a bin of {int(batch.bins.max())}",
            fix="encode the batch with the forest's domain",
        )
    low, high = int(batch.target.min()), int(batch.target.max())
    if shape.n_classes is not None and (low < 0 or high >= shape.n_classes):
        raise Code.UNKNOWN_CLASS.error(
            expected=f"class indices below {shape.n_classes}", found=f"from {low} to {high}"
        )
