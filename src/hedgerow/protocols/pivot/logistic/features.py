"""`Features`: what the bins of attributes stand for in a linear model; public numbers.

A category has a weight of its own, and stands for 1. A number stands for the middle of its bin,
less the mean of the middles of all bins and divided by their deviation, as if every bin held
equally many records: whole steps of 2^-`SCALE`, cut at 4 deviations. A missing number stands for
the mean, and has a weight of its own besides.

A record's bin is punctured (`secure.additive.punctured`), which costs a peer as much work as there
are bins. Where these are many, the owner punctures two digits of what the bin stands for instead:
they add up to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.ring import Ring
from hedgerow.tables import Domain
from hedgerow.tables.attribute import Attribute

Array = NDArray[Any]
SCALE: Final = 5
"""Fraction bits of what a bin stands for."""
DIGIT: Final = 4
"""Bits of a digit; two of them hold any number from -128 to 127."""
_LOWEST, _HIGHEST = -(1 << 2 * DIGIT - 1), (1 << 2 * DIGIT - 1) - 1
_ONE = 1 << SCALE


@dataclass(frozen=True, eq=False)
class BinCode:
    """What the owner of an attribute knows of each record: one of few, by its bin.

    `code` (bins,) has which one, `weights` (q, few) what that stands for in features `first`,
    ..., `first` + q - 1, with `SCALE` bits.
    """

    attribute: int
    code: NDArray[np.int64]
    weights: NDArray[np.int64]
    first: int

    @property
    def features(self) -> slice:
        """Which features it tells about."""
        return slice(self.first, self.first + len(self.weights))


@dataclass(frozen=True, eq=False)
class Features:
    """The features of a domain, by name, and what tells about them."""

    names: tuple[str, ...]
    known: tuple[BinCode, ...]

    @classmethod
    def of(cls, domain: Domain) -> Features:
        """Return the features of all attributes, in order."""
        names: list[str] = []
        known: list[BinCode] = []
        for j, attribute in enumerate(domain.attributes):
            known += _known(j, attribute, len(names))
            names += _names(attribute)
        return cls(tuple(names), tuple(known))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def reach(self) -> NDArray[np.float64]:
        """Return the largest magnitude of each feature."""
        most = [np.abs(own).max(axis=1) for own in self._by_attribute()]
        return np.concatenate(most) / _ONE

    @property
    def largest(self) -> float:
        """Return how large a record's score can be, of weights as large as `reach`."""
        at, most = 0, []
        for own in self._by_attribute():
            weights = self.reach[at : at + len(own)]
            at += len(own)
            most.append(float((np.abs(own.T) * weights).sum(axis=1).max()) / _ONE)
        return math.fsum(most)

    def rows(self, bins: Array) -> NDArray[np.float64]:
        """Return the features (n, features) of records, whose bins (n, attributes) are known."""
        found = np.zeros((len(bins), len(self)))
        for part in self.known:
            found[:, part.features] += part.weights.T[part.code[bins[:, part.attribute]]] / _ONE
        return found

    def steps(self, weights: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """Yield what each attribute adds to the scores by weights (scores, features), by its bins.

        Arrays are (bins, scores), in the order of the domain.
        """
        at = 0
        for own in self._by_attribute():
            yield own.T @ weights[:, at : at + len(own)].T / _ONE
            at += len(own)

    def matrix(self, dtype: Any) -> Array:
        """Return what everything that may be known stands for, (all codes, features)."""
        sizes = [part.weights.shape[1] for part in self.known]
        found = np.zeros((sum(sizes), len(self)), dtype=np.int64)
        ends = np.cumsum([0, *sizes])
        for part, (start, stop) in zip(self.known, pairwise(ends), strict=True):
            found[start:stop, part.features] = part.weights.T
        return found.astype(dtype)

    def plant(
        self, provider: Transfers, owners: Sequence[int], bins: Mapping[int, Array], n: int
    ) -> PuncturedBins:
        """Puncture what is known of n records, by the bins of attributes whose owner lives here."""
        codes = {
            i: part.code[np.asarray(bins[part.attribute])]
            for i, part in enumerate(self.known)
            if part.attribute in bins
        }
        whose = [owners[part.attribute] for part in self.known]
        sizes = [part.weights.shape[1] for part in self.known]
        return PuncturedBins(provider, whose, sizes, codes, n)

    def weights(self, ring: Ring) -> dict[int, Array]:
        """Return what is known as `PuncturedBins.weighted` takes it."""
        return {i: ring.encode(part.weights) for i, part in enumerate(self.known)}

    def _by_attribute(self) -> Iterator[NDArray[np.int64]]:
        """Return what each attribute stands for, by its bins, (features of it, bins)."""
        attributes = sorted({part.attribute for part in self.known})
        for j in attributes:
            parts = [part for part in self.known if part.attribute == j]
            first = min(part.first for part in parts)
            last = max(part.features.stop for part in parts)
            found = np.zeros((last - first, parts[0].code.size), dtype=np.int64)
            for part in parts:
                where = slice(part.first - first, part.features.stop - first)
                found[where] += part.weights[:, part.code]
            yield found


def _known(j: int, attribute: Attribute, first: int) -> list[BinCode]:
    bins = np.arange(attribute.n_bins)
    if attribute.kind == "categorical":
        return [BinCode(j, bins, _ONE * np.eye(bins.size, dtype=np.int64), first)]
    middle = _middles(attribute)
    missing = bins == attribute.n_values
    stands = np.append(middle, 0)[: bins.size]
    if bins.size <= 2 << DIGIT:
        weights = [stands, _ONE * missing] if missing.any() else [stands]
        return [BinCode(j, bins, np.array(weights), first)]
    digits, each = stands - _LOWEST, np.arange(1 << DIGIT)
    found = [
        BinCode(j, digits >> DIGIT, ((each << DIGIT) + _LOWEST)[None], first),
        BinCode(j, digits & each[-1], each[None], first),
    ]
    if missing.any():
        found.append(BinCode(j, missing.astype(np.int64), np.array([[0, _ONE]]), first + 1))
    return found


def _middles(attribute: Attribute) -> NDArray[np.int64]:
    """Return what the bins of a number stand for.

    Sums are rounded once, so that they are the same on every machine.
    """
    assert attribute.bounds is not None
    low, high = attribute.bounds
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    edges = [(edge - centre) / half for edge in (low, *attribute.cuts.tolist(), high)]
    middle = [(a + b) / 2 for a, b in pairwise(edges)]
    mean = math.fsum(middle) / len(middle)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in middle) / len(middle)) or 1.0
    stands = [round((x - mean) / deviation * _ONE) for x in middle]
    return np.array([min(max(x, _LOWEST), _HIGHEST) for x in stands], dtype=np.int64)


def _names(attribute: Attribute) -> list[str]:
    if attribute.kind == "categorical":
        return [f"{attribute.name}={label}" for label in attribute.labels()]
    missing = [f"{attribute.name}=missing"] if attribute.missing == "own bin" else []
    return [attribute.name, *missing]
