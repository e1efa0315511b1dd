"""Events: what an attacker bets on, and how the bet is chosen from the first half of the runs.

An outcome is a row of integers (a noisy count, a winner's index, the leaf labels of a tree). A
view, a fixed function that no data enter, maps each row to one integer; events are sets of values
of a view. Candidates are every single value, every half-line, and the sets of values whose
estimated likelihood ratio exceeds each of several thresholds: by the lemma of Neyman and Pearson no
other set of that probability separates the two inputs better. The ratios of all coordinates are
also multiplied, which finds a loss that is spread over many of them.

Ratios are estimated from data, and a set of values seen only under one input looks perfect on the
very runs it was read from. Each fold is therefore scored with the ratios of the other; the set
that is returned uses both folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hedgerow.audit.bounds import CONFIDENCE, mu_lower, ratio_lower

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal[
    "row", "coordinate", "sum", "difference", "together", "largest", "smallest", "winner", "total"
]

PAIRED = 8
"""Coordinates that are looked at in pairs; further ones would make the number of pairs explode."""

FOLDS = 2
THRESHOLDS: Floats = np.array(
    [0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16, 24, 32]
)
"""Logarithms of the likelihood ratios at which sets are cut."""

SHORTLIST = 16
"""Candidates of a family that get the exact bound, after a cheap ranking."""


@dataclass(frozen=True)
class OutcomeView:
    """One integer of an outcome, computed from some `columns`; empty for all of them."""

    kind: Kind
    columns: tuple[int, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether a half-line of values means something: not for hashes."""
        return self.kind not in ("row", "together")

    def __call__(self, outcomes: Ints) -> Ints:
        """Map outcomes (runs, k) int64 to (runs,) int64; sums wrap around, which is harmless."""
        chosen = outcomes[:, self.columns] if self.columns else outcomes
        match self.kind:
            case "row" | "together":
                return _hash_rows(chosen)
            case "coordinate":
                return np.ascontiguousarray(chosen[:, 0])
            case "difference":
                return np.asarray(chosen[:, 0] - chosen[:, 1])
            case "largest":
                return np.asarray(chosen.max(axis=1))
            case "smallest":
                return np.asarray(chosen.min(axis=1))
            case "winner":
                return np.asarray(chosen.argmax(axis=1), np.int64)
            case "sum" | "total":
                return np.asarray(chosen.sum(axis=1))

    def __str__(self) -> str:
        names = [f"outcome[{column}]" for column in self.columns]
        match self.kind:
            case "coordinate":
                return names[0]
            case "sum":
                return " + ".join(names)
            case "difference":
                return " - ".join(names)
            case "together":
                return f"({', '.join(names)})"
            case "row":
                return "the whole outcome"
            case "winner":
                return "the position of the largest coordinate"
            case "total":
                return "the sum of all coordinates"
            case _:
                return f"the {self.kind} coordinate"


def single_views(width: int) -> Iterator[OutcomeView]:
    """List the coordinates of outcomes of `width` coordinates."""
    return (OutcomeView("coordinate", (column,)) for column in range(width))


def joint_views(width: int, leading: Ints) -> Iterator[OutcomeView]:
    """List the views of several coordinates at once; the `leading` ones are looked at in pairs."""
    if width == 1:
        return
    yield OutcomeView("row")
    for kind in ("largest", "smallest", "winner", "total"):
        yield OutcomeView(kind)
    for pair in combinations(sorted(leading.tolist()), 2):
        yield OutcomeView("sum", pair)
        yield OutcomeView("difference", pair)
        if width > 2:
            yield OutcomeView("together", pair)


class Tally(NamedTuple):
    """How often each of the increasing `values` (values,) of a view was seen.

    `counts` are (inputs=2, folds=2, values), run i being in fold i % 2; `codes` (inputs=2, runs)
    are the positions in `values`.
    """

    values: Ints
    counts: Ints
    codes: Ints


def tally(first: Ints, second: Ints) -> Tally:
    """Count the values of one view (runs,) under the two inputs."""
    both = np.stack([first, second])
    low = int(both.min())
    span = int(both.max()) - low + 1
    if span <= 4 * both.size:
        # Most outcomes are small integers: counting them is much faster than sorting them.
        codes = both - low
        seen = np.flatnonzero(np.bincount(codes.ravel(), minlength=span))
        ranks = np.zeros(span, np.int64)
        ranks[seen] = np.arange(seen.size)
        values, codes = seen + low, ranks[codes]
    else:
        values, codes = np.unique(both, return_inverse=True)
        codes = codes.reshape(both.shape).astype(np.int64)
    counts = np.stack(
        [
            [np.bincount(row[fold::FOLDS], minlength=values.size) for fold in range(FOLDS)]
            for row in codes
        ]
    )
    return Tally(values.astype(np.int64), counts.astype(np.int64), codes)


def _hash_rows(rows: Ints) -> Ints:
    """Mix each row into 64 bits; a collision only merges two values of the view."""
    state = np.zeros(rows.shape[0], np.uint64)
    for column in rows.astype(np.uint64).T:
        # The finaliser of SplitMix64: every input bit reaches every output bit.
        state = (state + column + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        state ^= state >> np.uint64(27)
        state *= np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state.view(np.int64)


class Event(Protocol):
    """A set of outcomes."""

    def contains(self, outcomes: Ints) -> NDArray[np.bool_]:
        """Tell for outcomes (runs, k) int64 which are in the set: (runs,) bool."""
        ...


@dataclass(frozen=True)
class Single:
    """The view has one value."""

    view: OutcomeView
    value: int

    def contains(self, outcomes: Ints) -> NDArray[np.bool_]:
        """See `Event.contains`."""
        return np.equal(self.view(outcomes), self.value)

    def __str__(self) -> str:
        # The value of a hash tells a reader nothing.
        return f"{self.view} is " + (str(self.value) if self.view.ordered else "one given value")


@dataclass(frozen=True)
class HalfLine:
    """The view is at least, or at most, a value."""

    view: OutcomeView
    value: int
    at_least: bool

    def contains(self, outcomes: Ints) -> NDArray[np.bool_]:
        """See `Event.contains`."""
        seen = self.view(outcomes)
        return seen >= self.value if self.at_least else seen <= self.value

    def __str__(self) -> str:
        return f"{self.view} {'>=' if self.at_least else '<='} {self.value}"


class Ratios(NamedTuple):
    """Estimated log likelihood ratios of the values of one view; 0 for every other value."""

    view: OutcomeView
    values: Ints
    logs: Floats

    def of(self, outcomes: Ints) -> Floats:
        """Log ratios of outcomes (runs, k): (runs,) float64."""
        seen = self.view(outcomes)
        at = np.minimum(np.searchsorted(self.values, seen), self.values.size - 1)
        return np.where(self.values[at] == seen, self.logs[at], 0.0)


@dataclass(frozen=True, eq=False)
class LikelyHere:
    """The likelihood ratios of one or several views multiply to more than exp(threshold)."""

    ratios: tuple[Ratios, ...]
    threshold: float

    def contains(self, outcomes: Ints) -> NDArray[np.bool_]:
        """See `Event.contains`."""
        total = np.zeros(outcomes.shape[0])
        for part in self.ratios:
            total += part.of(outcomes)
        return total > self.threshold

    def __str__(self) -> str:
        if len(self.ratios) > 1:
            return (
                f"likelihood ratios of {len(self.ratios)} coordinates multiply to more than "
                f"exp({self.threshold:g})"
            )
        view, _, logs = self.ratios[0]
        return (
            f"{view} is one of {np.count_nonzero(logs > self.threshold)} values with likelihood "
            f"ratio above exp({self.threshold:g})"
        )


class Bet(NamedTuple):
    """The bet: which event, and under which input (0 or 1) it is likelier.

    `promise` is what the `Aim` says of the choosing runs; it is biased upwards, because the best
    of many was taken, and is never reported as a result.
    """

    event: Event
    likelier: int
    promise: float


class Aim(NamedTuple):
    """What an event is chosen for.

    `confidence` is of the two one-sided bounds, `delta` of the claim; `gaussian` compares events by
    the separation of two Gaussians (`hedgerow.audit.bounds.mu_lower`), not by their ratio.
    """

    confidence: float = CONFIDENCE
    delta: float = 0.0
    gaussian: bool = False

    def promise(self, hits: Ints, runs: int) -> Floats:
        """Score candidates by their hits (2, candidates) under the likelier and other input."""
        if self.gaussian:
            return mu_lower(hits[0], runs, hits[1], runs, self.confidence)
        return ratio_lower(hits[0], runs, hits[1], runs, self.delta, self.confidence)

    def rough(self, hits: Ints, runs: int) -> Floats:
        """Score them with Wilson's bounds: close to the exact ones in order, and a closed form."""
        z = float(ndtri(self.confidence))
        k = hits.astype(np.float64)
        centre = (k + z**2 / 2) / (runs + z**2)
        width = z * np.sqrt(k * (runs - k) / runs + z**2 / 4) / (runs + z**2)
        low, high = centre[0] - width[0], centre[1] + width[1]
        if self.gaussian:
            return np.asarray(ndtri(np.maximum(low, 0.0)) - ndtri(np.minimum(high, 1.0)))
        return np.asarray((low - self.delta) / high)


class _Family(NamedTuple):
    """Candidates with their hits under the (likelier, other) input: (2, candidates) int64."""

    likelier: int
    hits: Ints
    build: Callable[[int], Event]


def choose(first: Ints, second: Ints, delta: float = 0.0, confidence: float = CONFIDENCE) -> Bet:
    """Choose the event and direction with the largest lower bound on epsilon.

    Outcomes are (runs, k). Runs that were used here must not be used to measure the event that is
    returned.
    """
    return choose_for([Aim(confidence, delta)], first, second)[0]


def choose_for(aims: Sequence[Aim], first: Ints, second: Ints) -> list[Bet]:
    """Choose one event and direction for each aim; see `choose`."""
    runs = first.shape[0]
    best: list[Bet | None] = [None] * len(aims)
    for family in _families(first, second):
        for i, aim in enumerate(aims):
            position, promise = _best(aim, family.hits, runs)
            before = best[i]
            if before is None or promise > before.promise:
                best[i] = Bet(family.build(position), family.likelier, promise)
    found = [choice for choice in best if choice is not None]
    assert len(found) == len(aims)
    return found


def _families(first: Ints, second: Ints) -> Iterator[_Family]:
    width = first.shape[1]
    evidence = np.zeros((2, first.shape[0]))
    tables: list[Ratios] = []
    distances = np.zeros(width)
    for column, view in enumerate(single_views(width)):
        seen = tally(view(first), view(second))
        yield from _of_view(view, seen)
        distances[column] = np.abs(np.subtract(*seen.counts.sum(axis=1))).sum()
        crossed = _log_ratios(seen.counts)[::-1]
        for fold in range(FOLDS):
            evidence[:, fold::FOLDS] += crossed[fold, seen.codes[:, fold::FOLDS]]
        tables.append(Ratios(view, seen.values, _log_ratios(seen.counts.sum(axis=1))))
    if width > 1:
        yield from _of_evidence(evidence, tuple(tables))
    leading = np.argsort(-distances, kind="stable")[:PAIRED]
    for view in joint_views(width, leading):
        yield from _of_view(view, tally(view(first), view(second)))


def _of_view(view: OutcomeView, seen: Tally) -> Iterator[_Family]:
    counts = seen.counts.sum(axis=1)
    values = seen.values
    fixed: list[tuple[Ints, Callable[[int], Event]]] = [
        (counts, lambda at: Single(view, int(values[at])))
    ]
    if view.ordered:
        rising = counts.cumsum(axis=1)
        falling = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        fixed.append((rising, lambda at: HalfLine(view, int(values[at]), at_least=False)))
        fixed.append((falling, lambda at: HalfLine(view, int(values[at]), at_least=True)))
    for hits, build in fixed:
        yield _Family(0, hits, build)
        yield _Family(1, hits[::-1], build)
    crossed = _log_ratios(seen.counts)[::-1]
    pooled = _log_ratios(counts)
    for likelier, sign in ((0, 1.0), (1, -1.0)):
        hits = np.zeros((2, THRESHOLDS.size), np.int64)
        for fold in range(FOLDS):
            levels = _levels(sign * crossed[fold])
            for side in range(2):
                hits[side] += _above(levels, seen.counts[side, fold])
        table = Ratios(view, values, sign * pooled)
        yield _Family(likelier, _from(likelier, hits), partial(_likely_here, (table,)))


def _of_evidence(evidence: Floats, tables: tuple[Ratios, ...]) -> Iterator[_Family]:
    """Cut sets by the sum of the coordinates' log ratios; `evidence` is (2, runs), crossed."""
    for likelier, sign in ((0, 1.0), (1, -1.0)):
        hits = np.stack([_above(_levels(sign * row)) for row in evidence])
        signed = tuple(Ratios(view, values, sign * logs) for view, values, logs in tables)
        yield _Family(likelier, _from(likelier, hits), partial(_likely_here, signed))


def _likely_here(ratios: tuple[Ratios, ...], at: int) -> Event:
    return LikelyHere(ratios, float(THRESHOLDS[at]))


def _log_ratios(counts: Ints) -> Floats:
    """Smoothed log ratios over the leading axis of (2, ...): half a hit is added to each side."""
    smoothed = np.log(counts + 0.5)
    return np.asarray(smoothed[0] - smoothed[1])


def _levels(logs: Floats) -> Ints:
    """Count the thresholds that each log ratio exceeds."""
    return np.searchsorted(THRESHOLDS, logs, side="left").astype(np.int64)


def _above(levels: Ints, counts: Ints | None = None) -> Ints:
    """Hits of the set cut at each threshold: (thresholds,) int64."""
    per_level = np.bincount(levels, weights=counts, minlength=THRESHOLDS.size + 1)
    return per_level[::-1].cumsum()[::-1][1:].astype(np.int64)


def _from(likelier: int, hits: Ints) -> Ints:
    return hits if likelier == 0 else hits[::-1]


def _best(aim: Aim, hits: Ints, runs: int) -> tuple[int, float]:
    """Candidate with the largest promise, and that promise."""
    shortlist = np.arange(hits.shape[1])
    if shortlist.size > SHORTLIST:
        shortlist = np.argpartition(-aim.rough(hits, runs), SHORTLIST)[:SHORTLIST]
        shortlist.sort()
    exact = aim.promise(hits[:, shortlist], runs)
    at = int(np.argmax(exact))
    return int(shortlist[at]), float(exact[at])
