"""The auditor: attack a privacy claim and report the epsilon that the attack proves.

    (1) Run the target a while on each pair of neighbouring inputs, and keep the best two.
    (2) Run it on these up to half of the runs, and choose pair, event and direction by them.
    (3) Run the target on the chosen pair, on fresh randomness, for the other half of the runs.
    (4) Bound the event's two probabilities by Clopper-Pearson, and epsilon by their ratio.

Since step (3) happens after the choice, the bound of step (4) is that of a single event fixed in
advance: whatever was looked at before costs no confidence. Whoever makes several audits and
reads the largest figure says so with `tests`, and each bound is widened by Bonferroni.

The estimate beside the bound is what the frequencies of another event, chosen in step (2) as well,
say without confidence: rare events have the largest ratios, and a bound has to do without them. It
may exceed the true epsilon, and refutes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from hedgerow.audit.bounds import FAILURE, ceiling, epsilon_estimate, epsilon_lower
from hedgerow.audit.events import Aim, Bet, choose_for
from hedgerow.errors import Code
from hedgerow.privacy.accounting import Relation
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

SCREENED = 4
"""Of the runs that choose, one in so many is spent on each pair to choose between pairs ..."""
SCREENED_LEAST = 500
"""... but at least so many; and the best ..."""
FINALISTS = 2
"""... get all of them."""

ESTIMATED_AT = float(ndtr(3.0))
"""Confidence for which the event of the estimate is chosen: three standard deviations."""


@dataclass(frozen=True, eq=False)
class AuditTarget:
    """A claim to attack; its name is unique among registered targets.

    ``run(input, runs, source)`` returns integers (runs,) or (runs, k): everything that the audience
    of the claim sees of each of `runs` independent releases. `pairs` are (label, input, neighbour)
    under `relation`; both directions are tried.

    `claimed` is the epsilon that is advertised, `proven` that of the ledger, which may be infinite;
    None stands for the claimed one if the claim is `sound`, and for infinity if it is broken on
    purpose. `runs` are per input. `gaussian` takes the loss of the estimate for that of a Gaussian.
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
    gaussian: bool = False

    @property
    def holds(self) -> float:
        """The epsilon that the ledger stands for."""
        if self.proven is not None:
            return self.proven
        return self.claimed if self.sound else math.inf


@dataclass(frozen=True)
class Result:
    """What an audit found.

    `attacked` is a lower bound on every epsilon that holds together with `delta`; `estimate`, at
    least that, is what the frequencies of an event say, and no bound. Half of the `runs` per input
    chose the attack (`pair`, `event`, `direction`), the other half measured it: `hits` are on the
    input and on its neighbour. `ceiling` is the largest epsilon that so many runs can prove;
    `confidence` is of each of the two one-sided bounds; `attacked` exceeds the true epsilon with
    probability `false_alarm` = 2 * (1 - confidence) at most.
    """

    target: str
    kind: Kind
    sound: bool
    claimed: float
    proven: float
    delta: float
    relation: Relation
    attacked: float
    estimate: float
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
    """Make `AuditTarget.run` of a mechanism, each leading index of values being a release."""

    def run(values: ArrayLike, runs: int, source: NoiseSource) -> Ints:
        array = np.asarray(values, dtype=np.int64)
        return mechanism(np.broadcast_to(array, (runs, *array.shape)), source)

    return run


def audit(
    target: AuditTarget,
    runs: int | None = None,
    source: NoiseSource | None = None,
    *,
    tests: int = 1,
) -> Result:
    """Attack one target; a seeded source makes the audit reproducible.

    Runs are per input, at least 100. This is one of `tests` audits of which the largest figure is
    going to be read: each bound then holds with 1 - 0.0005 / tests. `Code.BAD_AUDIT` for too few
    runs, no pair, or outcomes that are not integers.
    """
    started = time.perf_counter()
    runs = target.runs if runs is None else runs
    _check(target, runs, tests)
    source = NoiseSource.system() if source is None else source
    confidence = 1.0 - FAILURE / tests
    half = runs // 2

    pair, (bound, guess) = _attack(target, half, confidence, source)
    left = runs - half
    outcomes = _outcomes(target, pair, left, source)
    here, there = _hits(bound, outcomes)
    attacked = float(epsilon_lower(here, left, there, left, target.delta, confidence))
    estimate = epsilon_estimate(
        *_hits(guess, outcomes), left, target.delta, gaussian=target.gaussian
    )
    return Result(
        target=target.name,
        kind=target.kind,
        sound=target.sound,
        claimed=target.claimed,
        proven=target.holds,
        delta=target.delta,
        relation=target.relation,
        attacked=attacked,
        estimate=max(attacked, estimate),
        runs=runs,
        pair=pair[0],
        event=str(bound.event),
        direction=("likelier on the input", "likelier on the neighbour")[bound.likelier],
        hits=(here, there) if bound.likelier == 0 else (there, here),
        ceiling=ceiling(left, target.delta, confidence),
        confidence=confidence,
        false_alarm=2.0 * FAILURE / tests,
        seconds=time.perf_counter() - started,
    )


def audit_all(
    targets: Sequence[AuditTarget],
    runs: int | None = None,
    source: NoiseSource | None = None,
    *,
    track: Callable[[Sequence[AuditTarget]], Iterable[AuditTarget]] = iter,
) -> list[Result]:
    """Attack several targets; the probability that any figure is too high stays at 0.001.

    A target that asks for fewer `runs` per input gets fewer. Each draws from a child of the source,
    keyed in the order given. `track` goes through the targets, and may show how far it is.
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


def _attack(
    target: AuditTarget, runs: int, confidence: float, source: NoiseSource
) -> tuple[Pair, list[Bet]]:
    """Choose the pair, the event of the bound and the event of the estimate."""
    screened = runs
    if len(target.pairs) > FINALISTS:
        screened = min(runs, max(SCREENED_LEAST, runs // SCREENED))
    seen = [(each, _outcomes(target, each, screened, source)) for each in target.pairs]
    if screened < runs:
        # So few runs at a lower confidence give bounds as wide as all of them will.
        lower = float(ndtr(ndtri(confidence) * math.sqrt(screened / runs)))
        rough = [choose_for([Aim(lower, target.delta)], *each)[0].promise for _, each in seen]
        seen = [seen[i] for i in np.argsort(-np.array(rough), kind="stable")[:FINALISTS]]
    aims = [
        Aim(confidence, target.delta),
        Aim(ESTIMATED_AT, target.delta, gaussian=target.gaussian),
    ]
    best: tuple[Pair, list[Bet]] | None = None
    for pair, outcomes in seen:
        if screened < runs:
            more = _outcomes(target, pair, runs - screened, source)
            first, second = (np.concatenate(side) for side in zip(outcomes, more, strict=True))
        else:
            first, second = outcomes
        chosen = choose_for(aims, first, second)
        if best is None or chosen[0].promise > best[1][0].promise:
            best = pair, chosen
    assert best is not None
    return best


def _hits(choice: Bet, outcomes: tuple[Ints, Ints]) -> tuple[int, int]:
    """Count the event, first on the input where it was found likelier."""
    first, second = (int(np.count_nonzero(choice.event.contains(side))) for side in outcomes)
    return (first, second) if choice.likelier == 0 else (second, first)


def _check(target: AuditTarget, runs: int, tests: int) -> None:
    if runs < FEWEST_RUNS:
        raise Code.BAD_AUDIT.error(found=f"{runs} runs of {target.name}")
    if tests < 1:
        raise Code.BAD_AUDIT.error(found=f"tests={tests}", expected="tests >= 1")
    if not target.pairs:
        raise Code.BAD_AUDIT.error(found=f"{target.name} without a pair of inputs")


def _outcomes(target: AuditTarget, pair: Pair, runs: int, source: NoiseSource) -> tuple[Ints, Ints]:
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


def _as_rows(target: AuditTarget, outcomes: NDArray[Any], runs: int) -> Ints:
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
