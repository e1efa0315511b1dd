"""DiPriMe forests: trees whose splits are private medians.

Paper: consul2021diprime, algorithms 1 and 2.

1. Depth, candidates and the parts of epsilon come from public numbers (`MedianOptions.plan`). All
   releases are charged before the first is drawn.
2. Each record gets its tree by its own secret coin (algorithm 2, line 10); unpartitioned, it is in
   every tree.
3. Level by level, for all nodes of all trees: K attributes by public coins (algorithm 1, line 20),
   a private median of each (lines 21 to 27), and one of them by a private choice over integer
   scores weighted by records (line 30). Every node is split, also an empty one; one whose
   attributes are used up becomes a leaf, which earlier releases decide.
4. The leaves get noisy counts, or counts and sums (line 14); `hedgerow.protocols.median.leaves`.

Deviations, in strict accounting: each median gets its K-th part of the budget, because a record is
in all K histograms; scores are not divided by the private number of records of a node, and neither
is the noise of a leaf; bounds are public; cuts lie on a public grid.

Reveals: the trees with their noisy leaves, to the public; epsilon in total.
Cost: in the clear, no messages; per level and block of nodes, one histogram and one tally of sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import (
    ExponentialMechanism,
    Ledger,
    NoiseSource,
    NoisyMax,
    PermuteAndFlip,
)
from hedgerow.privacy.mechanisms import Choice
from hedgerow.privacy.mechanisms.coin_streams import feed_rows, in_lanes
from hedgerow.privacy.mechanisms.coins import MAX_DIGITS, CoinTable
from hedgerow.protocols.median import kernels
from hedgerow.protocols.median.leaves import ForestNodes, draw_leaves, node_values
from hedgerow.protocols.median.plan import MedianPlan
from hedgerow.protocols.median.ranges import Ranges, draw_attributes, widest_choice
from hedgerow.tables import check_capacity
from hedgerow.trees.counts.coins_of_rows import draw_key
from hedgerow.trees.counts.forest import ForestCounts, ForestSplits
from hedgerow.trees.counts.forest_kernels import score_sides
from hedgerow.trees.forest import Forest
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

# Any epsilon draws uniformly where all scores are equal.
_UNIFORM = ExponentialMechanism(1.0)
# Scores of noisy max that are held at a time.
_MATRIX = 1 << 22


class MedianDraws(NamedTuple):
    """What was released: splits level by level, and what `draw_leaves` gives for the leaves."""

    levels: list[ForestSplits]
    leaves: NDArray[np.float64]


def grow_median_forest(
    counts: ForestCounts, plan: MedianPlan, *, ledger: Ledger, source: NoiseSource
) -> Forest:
    """Charge a plan and grow the forest from batches of `MedianPlan.batch`.

    The ledger is charged before anything is drawn, and marked as not private if the noise is seeded
    or off. H112 for more records than the capacity, H202 for a domain read from the data unless
    the ledger is marked as not private; nothing is charged.
    """
    if not plan.domain.is_public and not ledger.not_private and plan.is_private:
        raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {plan.domain.provenance!r}")
    check_capacity(counts.n_records, plan.capacity)
    if not plan.is_private:
        ledger.mark_not_private("there is no noise")
    elif not source.private:
        ledger.mark_not_private("the noise was seeded")
    ledger.charge(*plan.releases())
    return assemble(plan, draw_forest(counts, plan, source))


def draw_forest(counts: ForestCounts, plan: MedianPlan, source: NoiseSource) -> MedianDraws:
    """Draw the releases of a plan, which must have been charged."""
    counts.begin(plan.shape, draw_key(source))
    ranges = Ranges.roots(plan.attributes, plan.n_trees)
    levels: list[ForestSplits] = []
    for level in range(plan.depth):
        splits = _draw_level(counts, plan, ranges, level, source)
        levels.append(splits)
        counts.advance(splits)
        ranges = ranges.below(splits)
    return MedianDraws(levels, draw_leaves(counts.channels(), plan, source))


def _draw_level(
    counts: ForestCounts, plan: MedianPlan, ranges: Ranges, level: int, source: NoiseSource
) -> ForestSplits:
    """Draw a split for every node of the frontier, in blocks."""
    n_nodes = len(ranges.low)
    nodes, features = draw_attributes(ranges.available, plan.candidates, plan.public_seed, level)
    tables = plan.attributes.bipartitions(plan.public_seed, level)
    feature = np.full(n_nodes, -1, dtype=np.int32)
    kind = np.full(n_nodes, SplitKind.LEAF, dtype=np.uint8)
    cut = np.full(n_nodes, -1, dtype=np.int32)
    kept: list[NDArray[np.bool_]] = []
    n_subsets = 0
    for block in _blocks(nodes, plan.attributes.n_bins[features], counts.most_cells):
        drawn = _candidates(
            counts, plan, ranges, level, source, (nodes[block], features[block], tables)
        )
        chosen = _choose(counts, plan, nodes[block], drawn, level, source)
        here, best = nodes[block][chosen], drawn.take(chosen)
        feature[here], kind[here], cut[here] = best.feature, best.kind, best.cut
        # Of the subsets that were drawn, those of the chosen attributes are kept.
        subset = np.flatnonzero(best.kind == SplitKind.SUBSET)
        kept.append(drawn.subsets[best.cut[subset]])
        cut[here[subset]] = n_subsets + np.arange(subset.size)
        n_subsets += subset.size
    subsets = np.concatenate(kept) if kept else np.zeros((0, 1), dtype=np.bool_)
    return ForestSplits(feature, kind, cut, subsets)


def _candidates(
    counts: ForestCounts,
    plan: MedianPlan,
    ranges: Ranges,
    level: int,
    source: NoiseSource,
    asked: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]],
) -> ForestSplits:
    """Draw the median of every ask, or a random cut."""
    nodes, features, tables = asked
    widest = widest_choice(plan.attributes)
    if plan.variant == "random":
        offsets = np.zeros(len(nodes) + 1, dtype=np.int64)
        blank = np.zeros(int(plan.attributes.n_bins.max()), dtype=np.int64)
        asks = Asks(blank, offsets, nodes, features)
        return draw_medians(asks, ranges, tables, _UNIFORM, source, widest)
    asks = Asks(*counts.histogram(nodes, features), nodes, features)
    mechanism = plan.median_at(level) if plan.is_private else None
    return draw_medians(asks, ranges, tables, mechanism, source, widest)


class Asks(NamedTuple):
    """Attributes of nodes whose median is wanted, and their records by bin.

    Histograms as `ForestCounts.histogram` returns them; nodes number the rows of `Ranges`, (m,).
    """

    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    nodes: NDArray[np.int64]
    features: NDArray[np.int64]


def draw_medians(
    asks: Asks,
    ranges: Ranges,
    tables: NDArray[np.uint64],
    mechanism: Choice | None,
    source: NoiseSource,
    widest: int,
) -> ForestSplits:
    """Draw a cut for each ask, of at most `widest` candidates.

    The score of a cut is the balance of its two sides, of sensitivity 1 and not monotone. `tables`
    are those of `Attributes.bipartitions` for this level. Without a mechanism the best balance is
    taken.
    """
    own, m = ranges.attributes, len(asks.nodes)
    is_subset = own.categorical[asks.features]
    row = np.where(is_subset, np.cumsum(is_subset) - 1, -1).astype(np.int64)
    cuts = np.empty(m, dtype=np.int32)
    subsets = np.zeros((int(is_subset.sum()), own.widest_category), dtype=np.bool_)
    domain = (own.categorical, own.place)
    limits = (ranges.low, ranges.high, ranges.possible, tables)
    if isinstance(mechanism, NoisyMax):
        at_once = max(1, _MATRIX // widest)
        for begin in range(0, m, at_once):
            here = slice(begin, min(m, begin + at_once))
            some = (asks.counts, asks.offsets[here], asks.nodes[here], asks.features[here])
            scores = np.empty((here.stop - begin, widest), dtype=np.int64)
            valid = np.empty(scores.shape, dtype=np.bool_)
            kernels.balance_scores(some, domain, limits, scores, valid)
            picks = mechanism(scores, source, valid=valid)
            kernels.write_picks(
                picks, some, domain, limits, widest, (cuts[here], row[here], subsets)
            )
    elif m:
        if mechanism is None:
            mode, a = kernels.BEST, ExponentialMechanism(1.0).a
        else:
            assert isinstance(mechanism, ExponentialMechanism | PermuteAndFlip)
            mode = kernels.REPLACE if mechanism.replace else kernels.LEAVE_OUT
            a = mechanism.a
        # A gap is at most 2**62.
        coins = CoinTable("power", a, MAX_DIGITS + 2)
        arguments = (
            tuple(asks),
            domain,
            (own.measure, own.measure_first, own.uniform),
            limits,
            mode,
            widest,
            (cuts, row, subsets),
        )

        def work(begin: int, end: int, stream: NoiseSource) -> None:
            kernel = partial(kernels.draw_cuts, *arguments, begin, end)
            feed_rows(stream, coins, end - begin, kernel)

        # A lane's work is reading histograms more than flipping coins.
        in_lanes(m, 64 + asks.counts.size // m, source, work)
    kind = np.where(is_subset, SplitKind.SUBSET, SplitKind.THRESHOLD).astype(np.uint8)
    return ForestSplits(asks.features.astype(np.int32), kind, cuts, subsets)


def _choose(
    counts: ForestCounts,
    plan: MedianPlan,
    nodes: NDArray[np.int64],
    drawn: ForestSplits,
    level: int,
    source: NoiseSource,
) -> NDArray[np.int64]:
    """Choose one ask of each node; returns their numbers, by node."""
    first = np.flatnonzero(np.diff(nodes, prepend=-1))
    if plan.candidates == 1 or not plan.chooses:
        return first
    scores = np.empty(len(nodes), dtype=np.int64)
    sides = counts.sides(nodes, drawn)
    table = plan.score.table(plan.public, plan.shift)
    score_sides(sides, plan.score.kernel, plan.shift, table, scores)
    # Asks of one node lie next to each other: a row of scores each.
    row = np.cumsum(np.diff(nodes, prepend=nodes[0]) != 0)
    column = np.arange(len(nodes)) - first[row]
    matrix = np.zeros((len(first), plan.candidates), dtype=np.int64)
    valid = np.zeros(matrix.shape, dtype=np.bool_)
    matrix[row, column], valid[row, column] = scores, True
    if not plan.is_private:
        lowest = np.iinfo(np.int64).min
        picks = np.argmax(np.where(valid, matrix, lowest), axis=1)
    else:
        picks = plan.choice_at(level)(matrix, source, valid=valid)
    return np.asarray(first + picks, dtype=np.int64)


def _blocks(nodes: NDArray[np.int64], cells: NDArray[np.int32], most: int) -> Iterator[slice]:
    """Cut asks into runs of at most `most` cells that divide no node."""
    if nodes.size == 0:
        return
    first = np.flatnonzero(np.diff(nodes, prepend=-1))
    ends = np.cumsum(np.add.reduceat(cells, first, dtype=np.int64))
    stops = np.append(first[1:], nodes.size)
    begin, before = 0, 0
    while begin < nodes.size:
        at = int(np.searchsorted(ends, before + most, side="right")) - 1
        at = max(at, int(np.searchsorted(first, begin)))
        yield slice(begin, int(stops[at]))
        begin, before = int(stops[at]), int(ends[at])


def assemble(plan: MedianPlan, drawn: MedianDraws) -> Forest:
    """Make trees of what was released; reads nothing else."""
    names = ("tree", "parent", "depth", "kind", "feature", "cut", "first_child")
    levels = [_roots(plan.n_trees)]
    frontier = np.arange(plan.n_trees, dtype=np.int64)
    total = plan.n_trees
    subsets, n_subsets = [], 0
    for level, splits in enumerate(drawn.levels):
        inner = splits.kind != SplitKind.LEAF
        parents = frontier[inner]
        joined = {name: np.concatenate([each[name] for each in levels]) for name in names}
        joined["kind"][parents] = splits.kind[inner]
        joined["feature"][parents] = splits.feature[inner]
        is_subset = splits.kind[inner] == SplitKind.SUBSET
        joined["cut"][parents] = splits.cut[inner] + np.where(is_subset, n_subsets, 0)
        subsets.append(splits.subsets)
        n_subsets += len(splits.subsets)
        children = total + np.arange(2 * parents.size, dtype=np.int64)
        joined["first_child"][parents] = children[::2]
        blank = _roots(2 * parents.size)
        blank["tree"] = np.repeat(joined["tree"][parents], 2)
        blank["parent"] = np.repeat(parents, 2)
        blank["depth"] = np.full(2 * parents.size, level + 1, dtype=np.int64)
        levels = [joined, blank]
        total += 2 * parents.size
        following = np.empty(int(splits.first[-1]), dtype=np.int64)
        following[splits.first[:-1][~inner]] = frontier[~inner]
        following[splits.first[:-1][inner]] = children[::2]
        following[splits.first[:-1][inner] + 1] = children[1::2]
        frontier = following
    nodes = {name: np.concatenate([each[name] for each in levels]) for name in names}
    shape = ForestNodes(nodes["parent"], nodes["depth"], frontier)
    value, weight = node_values(drawn.leaves, shape, plan)
    tables = _tables(subsets)
    return Forest(tuple(_trees(plan, nodes, value, weight, tables)))


def _roots(n: int) -> dict[str, NDArray[np.int64]]:
    """Nodes without a split, each the root of a tree of its own."""
    blank = {name: np.full(n, -1, dtype=np.int64) for name in ("parent", "feature", "cut")}
    blank["first_child"] = np.full(n, -1, dtype=np.int64)
    zero = np.zeros(n, dtype=np.int64)
    return blank | {"tree": np.arange(n, dtype=np.int64), "depth": zero, "kind": zero.copy()}


def _tables(subsets: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    some = [table for table in subsets if len(table)]
    return np.concatenate(some) if some else np.zeros((0, 1), dtype=np.bool_)


def _trees(
    plan: MedianPlan,
    nodes: dict[str, NDArray[np.int64]],
    value: NDArray[np.float64],
    weight: NDArray[np.float64],
    tables: NDArray[np.bool_],
) -> Iterator[Tree]:
    """Take the nodes of each tree, numbered from its root."""
    order = np.argsort(nodes["tree"], kind="stable")
    ends = np.cumsum(np.bincount(nodes["tree"], minlength=plan.n_trees))
    local = np.empty(order.size, dtype=np.int64)
    local[order] = np.arange(order.size) - np.repeat(
        np.append(0, ends[:-1]), np.diff(ends, prepend=0)
    )
    for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
        mine = order[begin:end]
        first, cut = nodes["first_child"][mine], nodes["cut"][mine].copy()
        subset = nodes["kind"][mine] == SplitKind.SUBSET
        own = tables[cut[subset]]
        cut[subset] = np.arange(len(own))
        yield Tree(
            plan.domain,
            kind=nodes["kind"][mine].astype(np.uint8),
            feature=nodes["feature"][mine].astype(np.int32),
            cut=cut.astype(np.int32),
            first_child=np.where(first >= 0, local[first], -1).astype(np.int32),
            value=value[mine],
            weight=weight[mine],
            subsets=own if len(own) else None,
        )
