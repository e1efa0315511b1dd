"""`Rows`: the rows of a table in memory, arranged by node, seen by a learner as counts only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow import threads
from hedgerow.compiled import A
from hedgerow.errors import Code
from hedgerow.tables import Encoded
from hedgerow.trees.counts import kernels
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import FLOAT_TABLE, Criterion, Public
from hedgerow.trees.growing.nodes import Nodes, NodeSplits
from hedgerow.trees.layout import SplitKind

BLOCK_BYTES: Final = 1 << 22
"""Scores of so many bytes are held at a time."""

_WORTH_A_THREAD: Final = 1 << 17  # additions that take about as long as waking a thread


class Rows:
    """The present rows of a table, arranged by the nodes of one growing tree.

    Nodes are numbered as in `Tree`: the root is 0, the children of a split are contiguous and come
    after all nodes that exist. A learner asks for scores, chooses, and splits; it never sees a row.

    Memory: a row number and a target per row, the same again while rows move, and what the caller
    asks for; scores should be asked for in `blocks`.

    `encoded`: encoded table; absent rows are left out. `index`: rows to use, repeats allowed (a
    bootstrap sample); all by default. Ascending is fastest. `target`: used in place of
    ``encoded.target``: unsigned integers are class indices, float64 or int64 are numbers. int64
    makes integer scores possible for ``squared_error``.
    """

    order: NDArray[np.int32]
    target: NDArray[Any]

    def __init__(
        self,
        encoded: Encoded,
        candidates: Candidates,
        *,
        index: NDArray[np.int32] | None = None,
        target: NDArray[Any] | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.candidates = candidates
        self.n_threads = n_threads or threads.available()
        # Columns are contiguous in an encoded table, so this is a view.
        self._columns: NDArray[Any] = np.ascontiguousarray(encoded.bins.T)
        labels = encoded.target if target is None else target
        if labels is None or encoded.domain.target is None:
            raise Code.BAD_TARGET.error(found="a table without a target")
        if index is None:
            self.order = np.arange(labels.size, dtype=np.int32)
        else:
            self.order = np.array(index, dtype=np.int32)
        if not encoded.present.all():
            self.order = self.order[encoded.present[self.order]]
        self.target = labels[self.order]
        classes = encoded.domain.target.classes
        self.has_classes = self.target.dtype.kind == "u"
        self._k = len(classes or ()) if self.has_classes else 3
        self._buffer_type = np.int32 if self.has_classes else self.target.dtype
        self._nodes = Nodes(self.order.size, self._root_counts(), candidates.n_features)

    def roots(self, copies: int) -> NDArray[np.int64]:
        """Copy the root, with rows for each copy, for trees that grow side by side.

        Returns int64 (copies,): nodes of the copies, the root among them; ask before any other node
        is made.
        """
        size = self.order.size
        self.order, self.target = np.tile(self.order, copies), np.tile(self.target, copies)
        start = np.arange(1, copies, dtype=np.int64) * size
        counts, constant = self._nodes.counts[:1], self._nodes.constant[:1]
        more = np.zeros(copies - 1, dtype=np.int64)
        self._nodes.append(start, start + size, counts[more], constant[more])
        return np.arange(copies, dtype=np.int64)

    @property
    def n_nodes(self) -> int:
        """Number of nodes so far."""
        return self._nodes.size

    def counts(self, nodes: ArrayLike) -> NDArray[Any]:
        """Return the channels of some nodes, int64 (float64 for real targets), (nodes, k)."""
        counts: NDArray[Any] = self._nodes.counts[np.asarray(nodes)]
        return counts

    def sizes(self, nodes: ArrayLike) -> NDArray[np.int64]:
        """Return the number of records in some nodes, int64 (nodes,)."""
        counts = self.counts(nodes)
        sizes = counts.sum(axis=1) if self.has_classes else counts[:, 0]
        return sizes.astype(np.int64)

    def blocks(self, nodes: NDArray[np.int64]) -> Iterator[slice]:
        """Cut a list of nodes so that the scores of each part stay within `BLOCK_BYTES`."""
        step = max(1, BLOCK_BYTES // (8 * max(1, len(self.candidates))))
        for at in range(0, nodes.size, step):
            yield slice(at, min(at + step, nodes.size))

    def scores(
        self,
        nodes: ArrayLike,
        criterion: Criterion,
        *,
        min_leaf: int = 0,
        skip: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Score every candidate in some nodes.

        `nodes`: int64 (m,). `min_leaf`: a binary split with fewer records on one side scores -inf.
        `skip`: bool (m, d); attributes that are left out of a node; their candidates score -inf.
        Returns float64 (m, candidates).
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        out = np.empty((nodes.size, len(self.candidates)), dtype=np.float64)
        omit = np.zeros((nodes.size, self.candidates.n_features), dtype=np.bool_)
        if skip is not None:
            omit |= skip
        if min_leaf > 0:
            # A feature with one occupied bin stays so further down, and has no allowed split.
            # Without the limit it has, and how long scoring takes should not tell.
            splittable = self.candidates.kinds != SplitKind.WARY
            omit |= self._nodes.constant[nodes] & splittable
        self._score(nodes, criterion, min_leaf, 0, FLOAT_TABLE, -np.inf, omit, out)
        return out

    def integer_scores(
        self, nodes: ArrayLike, criterion: Criterion, public: Public, shift: int
    ) -> NDArray[np.int64]:
        """Score every candidate in some nodes exactly, on the public grid ``2**-shift``.

        ``criterion.integer_sensitivity(public, shift)`` tells how far one record moves them.

        Returns int64 (nodes, candidates).
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        if public.capacity is not None and int(self.sizes([0])[0]) > public.capacity:
            raise Code.CAPACITY_EXCEEDED.error(
                found=f"more than {public.capacity} rows", expected=f"at most {public.capacity}"
            )
        table = criterion.table(public, shift)
        out = np.empty((nodes.size, len(self.candidates)), dtype=np.int64)
        omit = np.zeros((nodes.size, self.candidates.n_features), dtype=np.bool_)
        self._score(nodes, criterion, 0, shift, table, np.int64(0), omit, out)
        return out

    def histogram(self, nodes: ArrayLike) -> NDArray[Any]:
        """Return the histograms of some nodes.

        Returns int64 (float64 for real targets) (nodes, total bins, k).
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        shape = (nodes.size, self.candidates.total_bins, self._k)
        out = np.empty(shape, dtype=self._nodes.counts.dtype)

        def task(part: tuple[slice, NDArray[np.int64]]) -> None:
            some, features = nodes[part[0]], part[1]
            kernels.histogram_nodes(
                *self._ranges(some),
                features,
                self.candidates.n_bins,
                self.candidates.offset,
                self._buffer(),
                out[part[0]],
            )

        threads.run(task, self._parts(nodes))
        return out

    def tally(self, nodes: ArrayLike, choices: ArrayLike) -> NodeSplits:
        """Count what the children of chosen splits would hold; no row moves.

        `nodes`, `choices`: int64 (m,); nodes and the candidate chosen for each, none of them -1.
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        choices = np.asarray(choices, dtype=np.int64)
        those = self.candidates
        first = np.concatenate([[0], np.cumsum(those.n_children[choices], dtype=np.int64)])
        split = NodeSplits(
            nodes,
            those.feature[choices],
            those.kind[choices],
            those.cut[choices],
            first,
            np.zeros((int(first[-1]), self._k), dtype=self._nodes.counts.dtype),
            np.empty((nodes.size, 2), dtype=np.int64),
        )

        def task(part: slice) -> None:
            some = nodes[part]
            kernels.tally_children(
                *self._ranges(some),
                split.feature[part],
                split.kind[part],
                split.cut[part],
                those.n_bins,
                first[:-1][part],
                self._buffer(),
                split.counts,
                split.gap[part],
            )

        threads.run(task, self._runs(nodes))
        return split

    def move(self, split: NodeSplits, keep: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Make the children of a split, and arrange the rows by child.

        `split`: from `tally`. `keep`: bool (m,); where False the children are known to be leaves:
        their rows are not needed any more and stay where they are. Asking for their scores later is
        a mistake. Returns int64 (m,): first child of each node.
        """
        nodes, first = split.nodes, split.first
        sizes = split.counts.sum(axis=1) if self.has_classes else split.counts[:, 0]
        sizes = sizes.astype(np.int64)
        ends = np.cumsum(sizes)
        # Children fill the range of their parent, in order.
        shift = (self._nodes.start[nodes] - np.concatenate([[0], ends])[first[:-1]])[split.owner]
        begin, end = ends - sizes + shift, ends + shift
        chosen = np.arange(nodes.size) if keep is None else np.flatnonzero(keep)

        def task(part: slice) -> None:
            which = chosen[part]
            some = nodes[which]
            longest = int(self._nodes.lengths(some).max())
            kernels.move_rows(
                *self._ranges(some),
                split.feature[which],
                split.kind[which],
                split.cut[which],
                first[which],
                begin.copy(),
                np.empty(longest, dtype=self.order.dtype),
                np.empty(longest, dtype=self.target.dtype),
            )

        threads.run(task, self._runs(nodes[chosen]))
        made = self._nodes.size + first[:-1]
        if keep is not None:
            end = np.where(keep[split.owner], end, begin)
        self._nodes.append(begin, end, split.counts, self._nodes.constant[nodes[split.owner]])
        return made

    def split(self, nodes: ArrayLike, choices: ArrayLike) -> NDArray[np.int64]:
        """Split some nodes by the candidates chosen; return the first child of each, (m,)."""
        return self.move(self.tally(nodes, choices))

    def _score(
        self,
        nodes: NDArray[np.int64],
        criterion: Criterion,
        min_leaf: int,
        shift: int,
        table: NDArray[Any],
        lowest: Any,
        omit: NDArray[np.bool_],
        out: NDArray[Any],
    ) -> None:
        if (criterion.channels == "classes") != self.has_classes:
            raise Code.BAD_TARGET.error(
                found=f"criterion {criterion.name!r} for the other kind of target"
            )
        constant = self._nodes.constant[nodes]

        def task(part: tuple[slice, NDArray[np.int64]]) -> None:
            where, features = part
            kernels.score_nodes(
                *self._ranges(nodes[where]),
                features,
                omit[where],
                self.candidates.n_bins,
                self.candidates.kinds,
                self.candidates.first,
                criterion.kernel,
                min_leaf,
                shift,
                table,
                lowest,
                self._buffer(),
                out[where],
                constant[where],
            )

        threads.run(task, self._parts(nodes))
        self._nodes.constant[nodes] = constant

    def _ranges(self, nodes: NDArray[np.int64]) -> tuple[A, A, A, A, A]:
        """Return what every kernel begins with."""
        start, stop = self._nodes.start[nodes], self._nodes.stop[nodes]
        return self._columns, self.order, self.target, start, stop

    def _parts(self, nodes: NDArray[np.int64]) -> list[tuple[slice, NDArray[np.int64]]]:
        """Divide nodes x features among the threads."""
        d = self.candidates.n_features
        everything = slice(0, nodes.size)
        rows = int(self._nodes.lengths(nodes).sum())
        work = rows * d + nodes.size * self.candidates.total_bins * self._k
        if work < _WORTH_A_THREAD:
            return [(everything, np.arange(d, dtype=np.int64))]
        if d > kernels.GROUP:
            return [(everything, features) for features in threads.dealt(d, self.n_threads)]
        # Fewer features than are counted in one pass: the nodes are divided instead.
        return [(run, np.arange(d, dtype=np.int64)) for run in self._runs(nodes)]

    def _runs(self, nodes: NDArray[np.int64]) -> list[slice]:
        """Divide nodes among the threads."""
        sizes = self._nodes.lengths(nodes)
        parts = self.n_threads if int(sizes.sum()) * 8 >= _WORTH_A_THREAD else 1
        return threads.balanced(sizes + 1, parts)

    def _buffer(self) -> NDArray[Any]:
        shape = (kernels.GROUP, int(self.candidates.n_bins.max()), self._k)
        return np.empty(shape, dtype=self._buffer_type)

    def _root_counts(self) -> NDArray[Any]:
        if self.has_classes:
            return np.bincount(self.target, minlength=self._k).astype(np.int64)[None]
        y = self.target
        return np.array([[y.size, y.sum(), np.dot(y, y)]], dtype=y.dtype)
