"""Training of weights that nobody sees, in mini-batches.

Paper: wu2020pivot, section 6.3. What the paper encrypts is shared here; each of its steps for all
rows of a batch, all weights and all classes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.checkpoint import Checkpoints, Stage, kept, restored
from hedgerow.protocols.hidden.id3 import Progress
from hedgerow.protocols.pivot.logistic.features import SCALE
from hedgerow.protocols.pivot.logistic.plan import RESIDUAL, WEIGHTS, Fractions, LogisticPlan
from hedgerow.protocols.pivot.logistic.schedule import Schedule
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.cost import Cost
from hedgerow.secure.fixed.fixed_point import cost_rescale, rescale
from hedgerow.secure.fixed.sigmoid import cost_logistic, logistic
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Secret, concatenate


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Weights (scores, weights) with so many fraction bits: shares, or opened numbers.

    `bits` are those of a score without its sign: of its whole part, and of its fraction, which has
    `SCALE` bits more than the weights.
    """

    fraction: int
    bits: int
    weights: Secret | None = None
    opened: NDArray[np.int64] | None = None

    def to_state(self) -> Stage:
        """Return all of it as arrays; shares are those of the peers that live here."""
        state: Stage = {"bits": np.array([self.fraction, self.bits], dtype=np.int64)}
        if self.weights is not None:
            state["weights"] = self.weights.data
        if self.opened is not None:
            state["opened"] = self.opened
        return state

    @classmethod
    def from_state(cls, engine: AdditiveEngine, state: Stage) -> LinearModel:
        """Read what `to_state` wrote."""
        weights = restored(engine, state["weights"]) if "weights" in state else None
        fraction, bits = map(int, state["bits"])
        return cls(fraction, bits, weights, state.get("opened"))

    @property
    def values(self) -> NDArray[np.float64]:
        """The weights, where they were opened."""
        assert self.opened is not None
        return self.opened / 2.0**self.fraction


def train(
    plan: LogisticPlan,
    labels: Secret,
    seeds: PuncturedBins,
    progress: Progress,
    keep: Checkpoints,
) -> LinearModel:
    """Train on rows in the order of `Schedule.order`, with labels (scores, n) of 0 and 1.

    Every batch: scores of its rows, their logistic function, the gradient. Weights and velocity
    are kept at the end of an epoch, and the weights before they are opened.

    Reveals: the weights, to the peers, unless they are hidden; nothing else.
    Cost: of an epoch `cost_epoch`; its rounds depend on the number of batches alone.
    """
    engine = labels.engine
    assert isinstance(engine, AdditiveEngine)
    schedule, bits = plan.schedule(seeds.n), plan.fractions(seeds.n)
    state = engine.public(np.zeros((2, plan.n_scores, plan.n_weights), np.int64), Z64)
    for epoch in range(plan.epochs):
        work = partial(_epoch, plan, schedule, bits, epoch, state, labels, seeds)
        state = kept(keep, f"epoch {epoch + 1}", engine, "state", work)
        progress(epoch + 1)
    if plan.hides:
        return LinearModel(bits.kept, bits.kept_bits, state[0])
    weights = kept(keep, WEIGHTS, engine, "weights", lambda: state[0])
    opened = engine.open_to_all(weights, WEIGHTS)
    return LinearModel(bits.kept, bits.kept_bits, opened=weights.ring.signed(opened))


def cost_epoch(engine: AdditiveEngine, plan: LogisticPlan, seeds: PuncturedBins) -> Cost:
    """State the cost of one pass over the rows, once seeds are planted."""
    k, total = plan.n_scores, cost_functions(engine, plan, seeds.n)
    widths = {i: k * len(part.weights) for i, part in enumerate(plan.features.known)}
    for batch in plan.schedule(seeds.n).batches(0):
        n = batch.stop - batch.start
        total += seeds.cost_weighted(widths, Z64, n) + seeds.cost_sums(k, Z64, n)
    return total


def cost_functions(engine: AdditiveEngine, plan: LogisticPlan, n: int) -> Cost:
    """State what of the cost of a pass over n rows needs no seeds: logistic function, rescaling."""
    bits, k = plan.fractions(n), plan.n_scores
    total = cost_rescale(engine, (2, k, plan.n_weights), bits.weight - bits.kept)
    for batch in plan.schedule(n).batches(0):
        shape = (k, batch.stop - batch.start)
        total += cost_logistic(
            engine, shape, Z64, bits=bits.bits, fraction=bits.score, out=RESIDUAL
        )
    return total


def _epoch(
    plan: LogisticPlan,
    schedule: Schedule,
    bits: Fractions,
    epoch: int,
    state: Secret,
    labels: Secret,
    seeds: PuncturedBins,
) -> Secret:
    """Return weights and velocity, (2, scores, weights), after one pass over the rows."""
    engine = state.engine
    assert isinstance(engine, AdditiveEngine)
    engine.prepare(cost_functions(engine, plan, seeds.n))
    steps, batches = _whole_steps(plan, schedule, bits, epoch), schedule.batches(epoch)
    gradients = np.zeros((len(state.data), len(batches), *state.shape[1:]), Z64.dtype)
    for i, rows in enumerate(batches):
        weights = _combined(next(steps), state, state.like(gradients[:, :i]))[0]
        score = scores(plan, weights, seeds, rows)
        chance = logistic(score, bits=bits.bits, fraction=bits.score, out=RESIDUAL)
        residual = chance - labels[:, rows] * (1 << RESIDUAL)
        gradients[:, i] = _gradient(plan, residual, seeds, rows).data
    moved = _combined(next(steps), state, state.like(gradients))
    return rescale(moved, bits.weight - bits.kept)


def scores(
    plan: LogisticPlan, weights: Secret, seeds: PuncturedBins, rows: slice | None = None
) -> Secret:
    """Return the sums of weighted features of consecutive rows, (scores, rows).

    Their fraction is that of the weights (scores, weights), and `SCALE` more.

    Reveals: nothing. Cost: `PuncturedBins.cost_weighted`.
    """
    x = {
        i: np.ascontiguousarray(np.swapaxes(weights[:, part.features].data, 1, 2))
        for i, part in enumerate(plan.features.known)
    }
    found = weights.like(seeds.weighted(x, plan.features.weights(Z64), Z64, rows))
    return found + weights[:, -1:] * (1 << SCALE) if plan.intercept else found


def _gradient(plan: LogisticPlan, residual: Secret, seeds: PuncturedBins, rows: slice) -> Secret:
    """Return the sums of features times residuals (scores, rows): (scores, weights)."""
    sums = residual.like(seeds.sums(np.ascontiguousarray(residual.data), Z64, rows))
    found = sums @ plan.features.matrix(np.int64)
    if not plan.intercept:
        return found
    return concatenate([found, residual.sum(axis=1, keepdims=True) * (1 << SCALE)], axis=1)


def _whole_steps(
    plan: LogisticPlan, schedule: Schedule, bits: Fractions, epoch: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return the combinations of `Schedule.steps` in whole numbers, for each weight.

    Of weights and velocity (2, 2, weights), and of the gradients of batches (2, batches, weights),
    which are sums over their rows.
    """
    penalties = [schedule.penalty, 0.0][: 1 + plan.intercept]
    whose = np.repeat(np.arange(len(penalties)), [len(plan.features), 1][: len(penalties)])
    rows = np.array([batch.stop - batch.start for batch in schedule.batches(epoch)])
    before, each = 2.0 ** (bits.weight - bits.kept), 2.0**bits.gradient / rows
    for every in zip(*(schedule.steps(epoch, penalty) for penalty in penalties), strict=True):
        start = np.stack([np.rint(one * before) for one, _ in every], axis=-1)
        moved = np.stack([np.rint(one * each) for _, one in every], axis=-1)
        yield start.astype(np.int64)[..., whose], moved.astype(np.int64)[..., whose]


def _combined(
    step: tuple[NDArray[np.int64], NDArray[np.int64]], state: Secret, gradients: Secret
) -> Secret:
    """Return weights and velocity, (2, scores, weights), of those before and of some gradients."""
    start, moved = step
    found = (state[None] * start[:, :, None]).sum(axis=1)
    n = gradients.shape[0]
    return found + (gradients[None] * moved[:, :n, None]).sum(axis=1) if n else found
