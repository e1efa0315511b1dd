"""Which splits a domain offers, and which of them earlier splits have left to a node. All public.

A numeric attribute is cut between two bins of its grid: the cuts inside the node's range are the
candidates, each weighed by the width of the bin below it. A categorical attribute is cut into two
sets of categories: all 2^(k-1) - 1 ways while at most `EXHAUSTIVE` categories are possible in the
node, and above that `SAMPLED` random bipartitions, drawn anew for each level from the public seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.public_choices import public_words
from hedgerow.tables import Attribute, Domain
from hedgerow.trees.counts.forest import ForestSplits
from hedgerow.trees.layout import SplitKind

EXHAUSTIVE = 10
"""Categories up to which every bipartition is a candidate."""
SAMPLED = (1 << (EXHAUSTIVE - 1)) - 1
"""Bipartitions above that: as many as there are of `EXHAUSTIVE` categories."""
_MEASURE = 1 << 20


@dataclass(frozen=True, eq=False)
class Attributes:
    """Candidates of a domain, as the kernels read them; arrays of shape (d,) unless said.

    `place`, (d + 1,), is where the bins of a categorical attribute begin among all categorical
    bins; `measure`, (total bins + d,), are running sums of the integer widths of the bins,
    attribute after attribute; `uniform` tells whether all widths of an attribute are equal.
    """

    n_bins: NDArray[np.int32]
    categorical: NDArray[np.bool_]
    place: NDArray[np.int64]
    measure: NDArray[np.int64]
    measure_first: NDArray[np.int64]
    uniform: NDArray[np.bool_]

    @classmethod
    def of(cls, domain: Domain) -> Attributes:
        """Read them from a domain."""
        categorical = np.array([a.kind == "categorical" for a in domain.attributes])
        sizes = np.where(categorical, domain.n_bins, 0)
        widths = [_widths(a) for a in domain.attributes]
        sums = [np.concatenate([[0], np.cumsum(w)]) for w in widths]
        first = np.cumsum([0, *(s.size for s in sums[:-1])])
        return cls(
            n_bins=domain.n_bins,
            categorical=categorical,
            place=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            measure=np.concatenate(sums).astype(np.int64),
            measure_first=first.astype(np.int64),
            uniform=np.array([bool((w == w[0]).all()) for w in widths]),
        )

    @property
    def widest_category(self) -> int:
        """Bins of the widest categorical attribute, at least 1."""
        return int(np.max(np.where(self.categorical, self.n_bins, 1)))

    @property
    def n_words(self) -> int:
        """64-bit words that hold one bit per bin of any categorical attribute."""
        return -(-self.widest_category // 64)

    def bipartitions(self, public_seed: int, level: int) -> NDArray[np.uint64]:
        """Random bipartitions of the attributes with many categories: bit b, if bin b goes left.

        uint64 (d, SAMPLED, n_words), or (0, SAMPLED, 1) where no attribute needs them.
        """
        if not (self.categorical & (self.n_bins > EXHAUSTIVE)).any():
            return np.zeros((0, SAMPLED, 1), dtype=np.uint64)
        shape = (self.n_bins.size, SAMPLED, self.n_words)
        words: NDArray[np.uint64] = public_words(public_seed, f"bipartitions/{level}", shape)
        return words


def widest_choice(attributes: Attributes) -> int:
    """Return the largest number of candidates that a median may be drawn from."""
    most = np.where(
        attributes.categorical,
        np.where(
            attributes.n_bins <= EXHAUSTIVE,
            (1 << (attributes.n_bins.clip(1, EXHAUSTIVE) - 1)) - 1,
            SAMPLED,
        ),
        attributes.n_bins - 1,
    )
    return max(1, int(most.max()))


@dataclass(frozen=True, eq=False)
class Ranges:
    """What is still possible in the nodes of a frontier.

    First and last bin of a numeric attribute, (nodes, d), and which categorical bins are possible,
    (nodes, categorical bins).
    """

    attributes: Attributes
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    possible: NDArray[np.bool_]

    @classmethod
    def roots(cls, attributes: Attributes, n_trees: int) -> Ranges:
        """Everything is possible in a root."""
        high = np.repeat(attributes.n_bins[None, :] - 1, n_trees, axis=0).astype(np.int32)
        possible = np.ones((n_trees, int(attributes.place[-1])), dtype=np.bool_)
        return cls(attributes, np.zeros_like(high), high, possible)

    @cached_property
    def available(self) -> NDArray[np.bool_]:
        """Whether an attribute can be split in a node; bool (nodes, d)."""
        found = self.high > self.low
        place = self.attributes.place
        for f in np.flatnonzero(self.attributes.categorical):
            found[:, f] = self.possible[:, place[f] : place[f + 1]].sum(axis=1) >= 2
        return found

    def below(self, splits: ForestSplits) -> Ranges:
        """Return what is possible in the next frontier."""
        arity = np.diff(splits.first)
        low, high = np.repeat(self.low, arity, axis=0), np.repeat(self.high, arity, axis=0)
        possible = np.repeat(self.possible, arity, axis=0)
        left = splits.first[:-1]
        cut = np.flatnonzero(splits.kind == SplitKind.THRESHOLD)
        high[left[cut], splits.feature[cut]] = splits.cut[cut]
        low[left[cut] + 1, splits.feature[cut]] = splits.cut[cut] + 1
        place = self.attributes.place
        subset = splits.kind == SplitKind.SUBSET
        for f in np.unique(splits.feature[subset]):
            nodes = np.flatnonzero(subset & (splits.feature == f))
            goes_left = splits.subsets[splits.cut[nodes], : place[f + 1] - place[f]]
            columns = slice(place[f], place[f + 1])
            possible[left[nodes], columns] &= goes_left
            possible[left[nodes] + 1, columns] &= ~goes_left
        return Ranges(self.attributes, low, high, possible)


def draw_attributes(
    available: NDArray[np.bool_], candidates: int, public_seed: int, level: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw up to `candidates` different attributes for each node, by public coins.

    Nodes and attributes, (asks,), by node; a node without an attribute to split has none.
    """
    words = public_words(public_seed, f"attributes/{level}", available.shape)
    # Ties are too rare to matter, and public.
    ranked = np.where(available, words >> np.uint64(1), np.uint64((1 << 64) - 1))
    if candidates < available.shape[1]:
        chosen = np.argpartition(ranked, candidates - 1, axis=1)[:, :candidates]
    else:
        chosen = np.argsort(ranked, axis=1)
    taken = np.take_along_axis(available, chosen, axis=1)
    nodes = np.repeat(np.arange(len(available)), taken.sum(axis=1))
    return nodes.astype(np.int64), chosen[taken].astype(np.int64)


def _widths(attribute: Attribute) -> NDArray[np.int64]:
    """Integer widths of the bins; the bin of missing values closes no cut and has width 1."""
    if attribute.edges is None or attribute.bounds is None:
        return np.ones(attribute.n_bins, dtype=np.int64)
    ends = np.concatenate([[attribute.bounds[0]], attribute.edges, [attribute.bounds[1]]])
    # Halved before they are subtracted: the bounds may be as far apart as floats go.
    widths = np.diff(ends / 2)
    whole = np.maximum(1, np.rint(widths / (ends[-1] / 2 - ends[0] / 2) * _MEASURE)).astype(
        np.int64
    )
    missing = attribute.n_bins - attribute.n_values
    return np.concatenate([whole, np.ones(missing, dtype=np.int64)])
