"""Private medians of many nodes and attributes at once.

Paper: consul2021diprime, algorithm 1, lines 21 to 27. The score of a cut is the balance of its two
sides; the exponential mechanism, permute-and-flip or noisy max draws one, among the candidates of
`hedgerow.protocols.median.ranges`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import ExponentialMechanism, NoiseSource, NoisyMax, PermuteAndFlip
from hedgerow.privacy.mechanisms import Choice
from hedgerow.privacy.mechanisms.coin_streams import feed_rows, in_lanes
from hedgerow.privacy.mechanisms.coins import MAX_DIGITS, CoinTable
from hedgerow.protocols.median import kernels as kernels
from hedgerow.protocols.median.ranges import Ranges
from hedgerow.trees.counts.forest import Splits
from hedgerow.trees.layout import SplitKind

# Scores of noisy max that are held at a time.
_MATRIX = 1 << 22


class Asks(NamedTuple):
    """Attributes of nodes whose median is wanted, and their records by bin.

    Attributes
    ----------
    nodes, features : int64, shape (m,)
        Nodes number the rows of `Ranges`.
    counts, offsets
        As `ForestCounts.histogram` returns them.
    """

    nodes: NDArray[np.int64]
    features: NDArray[np.int64]
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]


def draw_medians(
    asks: Asks,
    ranges: Ranges,
    tables: NDArray[np.uint64],
    mechanism: Choice | None,
    source: NoiseSource,
    widest: int,
) -> Splits:
    """Draw a cut for each ask.

    Parameters
    ----------
    asks : Asks
    ranges : Ranges
        What is possible in each node.
    tables : uint64
        From `Attributes.bipartitions`, of this level.
    mechanism : Choice or None
        For scores of sensitivity 1 that are not monotone; None takes the best balance.
    source : NoiseSource
    widest : int
        Candidates of an ask at most.

    Returns
    -------
    Splits
        One per ask.
    """
    own, m = ranges.attributes, len(asks.nodes)
    is_subset = own.categorical[asks.features]
    row = np.where(is_subset, np.cumsum(is_subset) - 1, -1).astype(np.int64)
    cuts = np.empty(m, dtype=np.int32)
    subsets = np.zeros((int(is_subset.sum()), own.widest_category), dtype=np.bool_)
    limits = (own.categorical, own.place)
    possible = (ranges.low, ranges.high, ranges.possible, tables)
    if isinstance(mechanism, NoisyMax):
        at_once = max(1, _MATRIX // widest)
        for begin in range(0, m, at_once):
            here = slice(begin, min(m, begin + at_once))
            some = (asks.counts, asks.offsets[here], asks.nodes[here], asks.features[here])
            scores = np.empty((here.stop - begin, widest), dtype=np.int64)
            valid = np.empty(scores.shape, dtype=np.bool_)
            kernels.balance_scores(*some, *limits, *possible, scores, valid)
            picks = mechanism(scores, source, valid=valid)
            written = (cuts[here], row[here], subsets)
            kernels.write_picks(picks, *some, *limits, *possible, widest, *written)
    else:
        _by_rejection(asks, ranges, tables, mechanism, source, widest, (cuts, row, subsets))
    kind = np.where(is_subset, SplitKind.SUBSET, SplitKind.THRESHOLD).astype(np.uint8)
    return Splits(asks.features.astype(np.int32), kind, cuts, subsets)


def _by_rejection(
    asks: Asks,
    ranges: Ranges,
    tables: NDArray[np.uint64],
    mechanism: Choice | None,
    source: NoiseSource,
    widest: int,
    written: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]],
) -> None:
    own, m = ranges.attributes, len(asks.nodes)
    if mechanism is None:
        mode, a = kernels.BEST, ExponentialMechanism(1.0).a
    else:
        assert isinstance(mechanism, ExponentialMechanism | PermuteAndFlip)
        mode = kernels.REPLACE if mechanism.replace else kernels.LEAVE_OUT
        a = mechanism.a
    # A gap is at most 2**62.
    coins = CoinTable("power", a, MAX_DIGITS + 2)

    def work(begin: int, end: int, stream: NoiseSource) -> None:
        kernel = partial(
            kernels.draw_cuts,
            asks.counts,
            asks.offsets,
            asks.nodes,
            asks.features,
            own.categorical,
            own.place,
            own.measure,
            own.measure_first,
            own.uniform,
            ranges.low,
            ranges.high,
            ranges.possible,
            tables,
            mode,
            widest,
            *written,
            begin,
            end,
        )
        feed_rows(stream, coins, end - begin, kernel)

    if m:
        # A lane's work is reading histograms more than flipping coins.
        in_lanes(m, 64 + asks.counts.size // m, source, work)
