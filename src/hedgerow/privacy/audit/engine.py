"""The auditor: attack a privacy claim and report the epsilon that the attack proves.

    (1) On each pair of neighbouring inputs run the target runs // 2 times per input.
    (2) Choose pair, event and direction by those runs alone.
    (3) Run the target on the chosen pair, on fresh randomness, for the other half of the runs.
    (4) Bound the event's two probabilities by Clopper-Pearson, and epsilon by their ratio.

Since step (3) happens after the choice, the bound of step (4) is that of a single event fixed in
advance: whatever was looked at in step (2) costs no confidence. Whoever makes several audits and
reads the largest figure says so with `tests`, and each bound is widened by Bonferroni.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy.accounting import Relation
from hedgerow.privacy.audit.bounds import FAILURE, ceiling, epsilon_lower
from hedgerow.privacy.audit.events import Choice, choose
from hedgerow.privacy.source import NoiseSource

Ints = NDArray[np.int64]
Kind = Literal["mechanism", "estimator", "protocol"]
Pair = tuple[str, Any, Any]
"""A label, an input, and its neighbour."""
Run = Callable[[Any, int, NoiseSource], NDArray[Any]]
"""``run(input, runs, source)`` gives integers of shape (runs,) or (runs, k), one row per run."""

RUNS = 200_000
"""Per input. A vectorised mechanism draws them in a fraction of a second."""

FEWEST_RUNS = 100


@dataclass(frozen=True, eq=False)
class Target:
    """A claim to attack.

    Attributes
    ----------
    name : str
        Unique among registered targets.
    run : callable
        ``run(input, runs, source)`` returns integers of shape (runs,) or (runs, k): everything
        that the audience of the claim sees of each of `runs` independent releases.
    pairs : sequence of (label, input, neighbour)
        Neighbours under `relation`; both directions are tried.
    claimed : float
        The epsilon that is advertised.
    proven : float or None
        The epsilon of the ledger, which may be infinite. None stands for the claimed one if the
        claim is sound, and for infinity if it is not: nothing is proven then.
    delta : float
        Of the claim.
    sound : bool
        Whether the claim is expected to hold. False for what is broken on purpose.
    kind : {"mechanism", "estimator", "protocol"}
    relation : Relation
        Of the claim and of the pairs.
    runs : int
        Per input, unless the caller of `audit` says otherwise.
    """

    name: str
    run: Run
    pairs: Sequence[Pair]
    claimed: float
    proven: float | None = None
    delta: float = 0.0
    sound: bool = True
    kind: Kind = "mechanism"
    relation: Relation = Relation.ADD_REMOVE
    runs: int = RUNS

    @property
    def holds(self) -> float:
        """The epsilon that the ledger stands for."""
        if self.proven is not None:
            return self.proven
        return self.claimed if self.sound else math.inf


@dataclass(frozen=True)
class Result:
    """What an audit found.

    Attributes
    ----------
    target, kind, sound, claimed, proven, delta, relation
        As in `Target`.
    attacked : float
        Lower bound on every epsilon that holds together with `delta`.
    runs : int
        Per input: half chose the attack, the other half measured it.
    pair, event, direction : str
        The attack.
    hits : tuple of int
        Times the event happened in the measuring half, on the input and on its neighbour.
    ceiling : float
        The largest epsilon that so many runs can prove.
    confidence : float
        Of each of the two one-sided bounds behind `attacked`.
    false_alarm : float
        Probability, at most, that `attacked` exceeds the true epsilon: 2 * (1 - confidence).
    seconds : float
        Wall time.
    """

    target: str
    kind: Kind
    sound: bool
    claimed: float
    proven: float
    delta: float
    relation: Relation
    attacked: float
    runs: int
    pair: str
    event: str
    direction: str
    hits: tuple[int, int]
    ceiling: float
    confidence: float
    false_alarm: float
    seconds: float

    @property
    def refuted(self) -> bool:
        """Whether the figure of the ledger is disproved."""
        return self.attacked > self.proven

    @property
    def caught(self) -> bool:
        """Whether the advertised figure is disproved."""
        return self.attacked > self.claimed


def repeated(mechanism: Callable[[Ints, NoiseSource], Ints]) -> Run:
    """Make `Target.run` of a mechanism called as ``mechanism(values, source)``.

    Parameters
    ----------
    mechanism : callable
        Vectorised: takes int64 values (runs, ...) and treats each leading index as a release of
        its own.
    """

    def run(values: ArrayLike, runs: int, source: NoiseSource) -> Ints:
        array = np.asarray(values, dtype=np.int64)
        return mechanism(np.broadcast_to(array, (runs, *array.shape)), source)

    return run


def audit(
    target: Target,
    runs: int | None = None,
    source: NoiseSource | None = None,
    *,
    tests: int = 1,
) -> Result:
    """Attack one target.

    Parameters
    ----------
    target : Target
        The claim.
    runs : int or None
        Runs per input, at least 100; None for the target's own number.
    source : NoiseSource or None
        Given to the target; None for a fresh one keyed by the operating system. A seeded source
        makes the audit reproducible.
    tests : int
        Number of audits of which this is one, if their largest figure is going to be read: each
        bound then holds with 1 - 0.0005 / tests.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        `Code.BAD_AUDIT` for too few runs, no pair, or outcomes that are not integers.
    """
    started = time.perf_counter()
    runs = target.runs if runs is None else runs
    _check(target, runs, tests)
    source = NoiseSource.system() if source is None else source
    confidence = 1.0 - FAILURE / tests
    half = runs // 2

    best: tuple[Pair, Choice] | None = None
    for pair in target.pairs:
        first, second = _outcomes(target, pair, half, source)
        choice = choose(first, second, target.delta, confidence)
        if best is None or choice.promise > best[1].promise:
            best = pair, choice
    assert best is not None
    pair, choice = best

    left = runs - half
    hits = [
        int(np.count_nonzero(choice.event.contains(outcomes)))
        for outcomes in _outcomes(target, pair, left, source)
    ]
    here, there = hits if choice.likelier == 0 else hits[::-1]
    return Result(
        target=target.name,
        kind=target.kind,
        sound=target.sound,
        claimed=target.claimed,
        proven=target.holds,
        delta=target.delta,
        relation=target.relation,
        attacked=float(epsilon_lower(here, left, there, left, target.delta, confidence)),
        runs=runs,
        pair=pair[0],
        event=str(choice.event),
        direction=("likelier on the input", "likelier on the neighbour")[choice.likelier],
        hits=(hits[0], hits[1]),
        ceiling=ceiling(left, target.delta, confidence),
        confidence=confidence,
        false_alarm=2.0 * FAILURE / tests,
        seconds=time.perf_counter() - started,
    )


def audit_all(
    targets: Sequence[Target],
    runs: int | None = None,
    source: NoiseSource | None = None,
    *,
    track: Callable[[Sequence[Target]], Iterable[Target]] = iter,
) -> list[Result]:
    """Attack several targets; the probability that any figure is too high stays at 0.001.

    Parameters
    ----------
    targets : sequence of Target
    runs : int or None
        Upper limit on the runs per input; a target that asks for fewer gets fewer.
    source : NoiseSource or None
        As in `audit`. Each target draws from a child of its own, keyed in the order given.
    track : callable
        Goes through the targets in order, and may show how far it is.
    """
    source = NoiseSource.system() if source is None else source
    return [
        audit(
            target,
            target.runs if runs is None else min(runs, target.runs),
            source.spawn(),
            tests=len(targets),
        )
        for target in track(targets)
    ]


def _check(target: Target, runs: int, tests: int) -> None:
    if runs < FEWEST_RUNS:
        raise Code.BAD_AUDIT.error(found=f"{runs} runs of {target.name}")
    if tests < 1:
        raise Code.BAD_AUDIT.error(found=f"tests={tests}", expected="tests >= 1")
    if not target.pairs:
        raise Code.BAD_AUDIT.error(found=f"{target.name} without a pair of inputs")


def _outcomes(target: Target, pair: Pair, runs: int, source: NoiseSource) -> tuple[Ints, Ints]:
    """Run the target on both inputs of a pair: two arrays (runs, k) int64."""
    first, second = (
        _as_rows(target, np.asarray(target.run(side, runs, source)), runs) for side in pair[1:]
    )
    if first.shape != second.shape:
        raise Code.BAD_AUDIT.error(
            found=f"{target.name}: {first.shape[1]} and {second.shape[1]} numbers per run",
            expected="outcomes of the same length on both inputs",
            fix="pad the outcome to a length that depends on public parameters only",
        )
    return first, second


def _as_rows(target: Target, outcomes: NDArray[Any], runs: int) -> Ints:
    if outcomes.dtype.kind not in "biu":
        raise Code.BAD_AUDIT.error(
            found=f"{target.name}: outcomes of type {outcomes.dtype}",
            expected="integer outcomes",
            fix="return codes or counts; for real numbers, `outcomes.view(np.int64)`",
        )
    if outcomes.ndim not in (1, 2) or outcomes.shape[0] != runs or outcomes.size == 0:
        raise Code.BAD_AUDIT.error(
            found=f"{target.name}: outcomes of shape {outcomes.shape} for {runs} runs",
            expected="an array of shape (runs,) or (runs, k) with k >= 1",
            fix="return one row for each run",
        )
    return outcomes.reshape(runs, -1).astype(np.int64)
