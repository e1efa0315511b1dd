"""PrivateSplit on secret counts: the noise of one curator for any number of owners.

Paper: wang2020topdown, algorithm 1 and section 3; this implementation of PrivateSplit is not in it.
There each of k owners adds noise of its own. Here three servers hold shares of the owners' counts,
add them up and draw the noise inside: what comes out has the law of "single-machine" on the union
of the tables, up to the delta of finite coins (`hedgerow.secure.noise.discrete.precision`).

A node's numbers, all integers, with s the grid of the scores in bits and S(h) the integer score of
a split h (`hedgerow.trees.growing.criteria`), S(0) that of the node as it is:

- choice: argmax over allowed h of S(h) + G_h, one-sided geometric; the lowest index wins ties.
- value: S(choice) - S(0) + X, two-sided geometric.
- weight: n + X, two-sided geometric; n the records of the node.

Sensitivity of the value, for a fixed choice. One more record is in one branch of the split and in
the node. For ``gini`` the score of one cell of records falls by 0 to 2 * 2^s, whatever is in it
(criteria, head of the module), so that S(choice) and S(0) both move within [-2 * 2^s, 0], and their
difference within [-2 * 2^s, 2 * 2^s]. For ``max`` both move within [0, 1], their difference within
[-1, 1]. It is the sensitivity of the score itself: 2 << s and 1. Histograms of two attributes need
not agree for this, as long as every number stays in the range for which the scores are exact.

That range is checked (`within_range`). An owner that shares anything else than counts from 0 to the
capacity could push a sum to where a comparison wraps around: one record of another owner would then
move a score by more than the noise covers. So the servers check every owner's counts before they
are added, and leave out an owner whose counts fail. A hostile owner can still lie within the range:
claim records that it does not have, or histograms that do not agree. That spoils the tree, and
costs the others no privacy, because the sensitivities hold for any such counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code
from hedgerow.privacy import Leakage, Ledger
from hedgerow.privacy.leakage import Mark, leave_unmarked
from hedgerow.protocols.growers.choices import fitting_ring
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.sharing.sealed_parts import Parts, fitting, secret_of
from hedgerow.protocols.topdown.agreement import cost_agreement
from hedgerow.protocols.topdown.growth import TreeShape
from hedgerow.protocols.topdown.plan import (
    LEAF_NUMBERS,
    NODE_NUMBERS,
    OUT_OF_RANGE,
    TopDownPlan,
)
from hedgerow.protocols.topdown.wire import OF_OWNERS, Ask
from hedgerow.secure.argmax import argmax, cost_argmax
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.noise.discrete import Draws, cost_draw_batch, draw_batch, precision
from hedgerow.secure.replicated.core import EVERYONE
from hedgerow.secure.replicated.outside import cost_fit_together
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import GINI, MAX, Public
from hedgerow.trees.layout import SplitKind

_BLOCK: Final = 1 << 21  # numbers that are compared at once, at about 300 bytes in the simulator

NUMBERS = ("choice", "value", "weight")
"""What is released of a node that may be split, in this order."""
USED = 0
LEFT_OUT = (Code.SHARES_DIFFER, Code.CAPACITY_EXCEEDED)
"""Why an owner's counts are left out: parts that do not fit together, or numbers out of range."""


def within_range(counts: Secret, candidates: Candidates, capacity: int) -> NDArray[np.bool_]:
    """Tell whose counts (owners, nodes, classes, total bins) could be those of a table; (owners,).

    1. For every count c, and every attribute with n records in a node: the top bits of c, of
       capacity - c and of capacity - n. The first two say that c is from 0 to the capacity; then
       no n wraps around, and the third says that it is no more than the capacity.
    2. Add them up for every owner, and open the sum.

    The cells of an attribute times the capacity stay below half of the ring.

    Reveals: to the servers, how many numbers of an owner are out of range: 0, where it follows
    the protocol.
    Cost: `cost_within_range`; nodes are compared in blocks, public, that cost their rounds anew.
    """
    owners, nodes = counts.shape[:2]
    each = _numbers_of_node(counts.shape[2:], candidates)
    wrong = stack(
        [
            less_than(_numbers_to_test(counts[:, block], candidates, capacity), 0).sum(axis=1)
            for block in _blocks(nodes, owners * each)
        ]
    ).sum(axis=0)
    found: NDArray[np.bool_] = counts.engine.open_to_all(wrong, OUT_OF_RANGE) == 0
    return found


def cost_within_range(
    engine: Engine, shape: tuple[int, int, int, int], candidates: Candidates, ring: Ring
) -> Cost:
    """State the cost of `within_range` for counts of a shape."""
    owners, nodes = shape[:2]
    each = owners * _numbers_of_node(shape[2:], candidates)
    total = engine.cost("open", shape=(owners,), ring=ring, to=EVERYONE)
    for block in _blocks(nodes, each):
        total += cost_less_than(engine, each * (block.stop - block.start), ring)
    return total


def _numbers_to_test(counts: Secret, candidates: Candidates, capacity: int) -> Secret:
    by_bin = counts.sum(axis=2).cumsum(axis=-1)
    ends = by_bin[..., candidates.offset[1:] - 1]
    totals = concatenate([ends[..., :1], ends[..., 1:] - ends[..., :-1]], axis=-1)
    parts = (counts, capacity - counts, capacity - totals)
    return concatenate([part.reshape(len(counts), -1) for part in parts], axis=1)


def _numbers_of_node(shape: tuple[int, ...], candidates: Candidates) -> int:
    classes, bins = shape
    return 2 * classes * bins + candidates.n_features


def _blocks(nodes: int, numbers: int) -> Iterator[slice]:
    step = max(1, _BLOCK // numbers)
    return (slice(at, min(at + step, nodes)) for at in range(0, nodes, step))


@dataclass(frozen=True, eq=False)
class SecureSplits:
    """The numbers of a batch of nodes, from secret histograms.

    H208 without a capacity, H501 for a criterion but "gini" or "max", or numbers that do not fit.
    """

    plan: TopDownPlan

    def __post_init__(self) -> None:
        if self.plan.score.kernel not in (GINI, MAX):
            raise Code.BAD_PARAMETER.error(
                expected="criterion 'gini' or 'max' for counts that are secret",
                found=f"criterion={self.plan.criterion!r}",
                fix="choose criterion='gini'",
            )
        if self.plan.capacity is None:
            raise Code.MISSING_CAPACITY.error(
                found="secret counts without a capacity",
                fix="declare capacity in the domain: it says how wide the numbers are",
            )
        _ = self.scores, self.ring, self.wide  # refuse now what would not fit later

    @property
    def records(self) -> int:
        """Bound on the records of all owners, of whom each may have as many as the capacity."""
        assert self.plan.capacity is not None
        return self.plan.capacity * self.plan.n_owners

    @cached_property
    def scores(self) -> Scores:
        """Scores of all candidates, and behind them that of the node as it is.

        The latter is the candidate of an attribute of two bins, all records in the first: so it is
        computed in the same rounds as the others.
        """
        those = self.plan.candidates
        ordered = [*(those.kinds == SplitKind.THRESHOLD), True]
        every = Candidates.from_bins([*those.n_bins, 2], ordered)
        public = Public(self.records, self.plan.n_classes)
        return Scores(every, self.plan.score, public, self.plan.shift)

    @cached_property
    def ring(self) -> Ring:
        """Ring of the owners' counts.

        It holds the sum of all records; what one owner could claim for an attribute with every
        count within the capacity, which is how that is found out; and the number of counts that
        could be out of range.
        """
        assert self.plan.capacity is not None
        cells = int(self.plan.candidates.n_bins.max()) * self.plan.n_classes
        return fitting_ring(Z32, max(self.records, cells * self.plan.capacity))

    @cached_property
    def wide(self) -> Ring:
        """Ring of what is released of a node that may be split."""
        if self.plan.score.kernel == GINI:
            return Z64
        return fitting_ring(self.ring, 2 * self.scores.bound + (1 << self._longest(NUMBERS)) + 1)

    @cached_property
    def leaf_ring(self) -> Ring:
        """Ring of the owners' counts of leaves, and of what is released of them."""
        noise = self._draws("label", 1, 1).drawn.variable.length if self.plan.is_private else 0
        return fitting_ring(Z16, self.records + (1 << noise))

    def shared_array(self, phase: str, nodes: int) -> tuple[tuple[int, ...], Ring]:
        """Return shape and ring of what an owner shares in a phase of the owners."""
        if phase == "leaves":
            return (nodes, self.plan.n_classes), self.leaf_ring
        return self.histogram_shape(nodes), self.ring

    def histogram_shape(self, nodes: int) -> tuple[int, int, int]:
        """Shape of the counts of some nodes that may be split."""
        return nodes, self.plan.n_classes, self.plan.candidates.total_bins

    def numbers(self, hist: Secret, depths: Sequence[int], valid: NDArray[np.bool_]) -> Secret:
        """Compute `NUMBERS` of nodes, (nodes, 3) over `wide`; to be opened to the public, once.

        1. Counts are lifted; noise of all depths and all three numbers is drawn in one pass.
        2. Scores of all candidates and of the node itself.
        3. z = (score + noise + bound + 1) * allowed; argmax.
        4. The score of the choice is the inner product of scores and choice.

        `hist` (nodes, classes, total bins) is over `ring`, sums over all owners, each within its
        range; `valid` (nodes, candidates) says what may be chosen, and is public.

        Reveals: nothing; every number has its noise.
        Cost: `cost`; rounds do not depend on the number of nodes or depths, as long as the scores
        are computed in one block.
        """
        engine, m, c = hist.engine, len(depths), len(self.plan.candidates)
        self._check(hist, depths, valid)
        counts = engine.extend(hist, self.wide)
        noise = self._noise(engine, depths)
        totals = counts[:, :, : int(self.plan.candidates.n_bins[0])].sum(axis=-1)
        whole = stack([totals, totals * 0], axis=-1)
        scores = self.scores(concatenate([counts, whole], axis=-1))
        z = scores[:, :c] + (self.scores.bound + 1)
        if noise is not None:
            z = z + noise[0].reshape(m, c)
        chosen = argmax(z * valid, bits=self._bits)
        index = (chosen * np.arange(c)).sum(axis=-1)
        worth = (chosen[:, None, :] @ scores[:, :c, None]).reshape(m)
        value, weight = worth - scores[:, c], totals.sum(axis=-1)
        if noise is not None:
            value, weight = value + noise[1], weight + noise[2]
        return stack([index, value, weight], axis=-1)

    def cost(self, engine: Engine, depths: Sequence[int]) -> Cost:
        """State the cost of `numbers`; opening them comes on top."""
        m, c = len(depths), len(self.plan.candidates)
        shape = self.histogram_shape(m)
        scored = (*shape[:2], shape[2] + 2)
        total = engine.cost("extend", shape=shape, ring=self.wide, source=self.ring)
        if self.plan.is_private:
            total += cost_draw_batch(engine, self._batch(depths)[0], self.wide)
        total += self.scores.cost(engine, scored, self.wide)
        total += cost_argmax(engine, (m, c), self.wide, bits=self._bits)
        return total + engine.cost("matmul", shape=(m, 1, 1), ring=self.wide, inner=c)

    def leaf_numbers(self, counts: Secret) -> Secret:
        """Add noise to the class counts of leaves (nodes, classes), over `leaf_ring`.

        A sum that leaves the ring wraps around, which costs no privacy: whatever another owner
        adds, one record still moves one number by 1.

        Reveals: nothing; the sums may be opened to the public, and once only.
        Cost: `cost_leaves`.
        """
        if not self.plan.is_private:
            return counts
        draws = self._draws("label", 1, counts.size)
        return counts + draw_batch(counts.engine, [draws], self.leaf_ring)[0].reshape(*counts.shape)

    def cost_leaves(self, engine: Engine, nodes: int) -> Cost:
        """State the cost of `leaf_numbers`; opening them comes on top."""
        if not self.plan.is_private:
            return Cost()
        draws = self._draws("label", 1, nodes * self.plan.n_classes)
        return cost_draw_batch(engine, [draws], self.leaf_ring)

    def _noise(self, engine: Engine, depths: Sequence[int]) -> list[Secret] | None:
        if not self.plan.is_private:
            return None
        batch, places = self._batch(depths)
        drawn = draw_batch(engine, batch, self.wide)
        groups = len(places)
        # Nodes of one depth stand together in a batch; this puts them back where they were.
        back = np.argsort(np.concatenate(places), kind="stable")
        c = len(self.plan.candidates)
        choice = concatenate(drawn[:groups]).reshape(len(depths), c)[back]
        return [
            choice,
            *(concatenate(drawn[at : at + groups])[back] for at in (groups, 2 * groups)),
        ]

    def _batch(self, depths: Sequence[int]) -> tuple[list[Draws], list[NDArray[np.int64]]]:
        """Return the laws to draw: choices of every depth, then values, then weights."""
        each = np.asarray(depths)
        places = [np.flatnonzero(each == depth) for depth in np.unique(each)]
        batch = [
            self._draws(number, int(each[at[0]]), at.size) for number in NUMBERS for at in places
        ]
        return batch, places

    def _draws(self, number: str, depth: int, n: int) -> Draws:
        """Return the law of one number at a depth, for n nodes; of a leaf, for n counts."""
        plan = self.plan
        if number == "choice":
            c = len(plan.candidates)
            return Draws(precision(plan.choose(depth), c), n * c)
        if number == "label":
            return Draws(precision(plan.label, plan.n_classes), n, two_sided=True)
        mechanism = plan.value(depth) if number == "value" else plan.weigh(depth)
        return Draws(precision(mechanism, 1), n, two_sided=True)

    def _longest(self, numbers: Sequence[str]) -> int:
        """Return L of the largest noise that any depth may ask for; 0 without noise."""
        if not self.plan.is_private:
            return 0
        every = range(1, self.plan.max_depth + 1)
        lengths = (self._draws(number, depth, 1) for number in numbers for depth in every)
        return max(draws.drawn.variable.length for draws in lengths)

    @cached_property
    def _bits(self) -> int:
        """Width of differences of noisy scores, which lie in 0, ..., 2 bound + 2^L + 1."""
        bits = (2 * self.scores.bound + (1 << self._longest(["choice"])) + 1).bit_length() + 1
        if bits > self.wide.bits:
            raise Code.BAD_MECHANISM_INPUT.error(
                expected=f"scores and noise within {self.wide.bits - 1} bits",
                found=f"about {bits} bits",
                fix="choose a larger epsilon, or criterion='max'",
            )
        return bits

    def _check(self, hist: Secret, depths: Sequence[int], valid: NDArray[np.bool_]) -> None:
        shape, mask = self.histogram_shape(len(depths)), (len(depths), len(self.plan.candidates))
        if hist.shape != shape or hist.ring != self.ring or valid.shape != mask:
            raise Code.WRONG_SHAPE.error(
                expected=f"histograms {shape} over {self.ring.bits} bits, candidates {mask}",
                found=f"{hist!r} and {valid.shape}",
            )
        if not valid.any(axis=1).all():
            raise Code.BAD_PARAMETER.error(
                expected="a candidate for every node that may be split", found="a node without one"
            )


@dataclass(frozen=True)
class SecretNumbers:
    """What is to be opened; `used` (owners,) is 0, or the error for which one was left out."""

    numbers: Secret
    used: NDArray[np.int64]


def opening_name(ask: Ask) -> str:
    """Return the name of the opening of a question's numbers."""
    return LEAF_NUMBERS if OF_OWNERS[ask.phase] == "leaves" else NODE_NUMBERS


def declare(
    plan: TopDownPlan,
    ask: Ask,
    shape: TreeShape,
    *,
    ledger: Ledger,
    mark: Mark = leave_unmarked,
) -> Leakage:
    """Declare what the plan lets a question open, its splits being made in `shape`."""
    if OF_OWNERS[ask.phase] == "leaves":
        openings = plan.leaf_openings()
    else:
        openings = plan.node_openings(np.unique(shape.depths(ask.nodes)).tolist())
    return Leakage(openings, ledger=ledger, mark=mark, owners=len(ask.arrays), nodes=len(ask.nodes))


def compute_numbers(
    engine: Engine, splits: SecureSplits, ask: Ask, shape: TreeShape, parts: Parts
) -> SecretNumbers:
    """Check and add up the counts of the owners named in `ask`; H824 if nobody's are left.

    `shape` has the splits of the question made.

    Reveals: to the servers, who was left out and why.
    Cost: part of `cost_answer`.
    """
    phase = OF_OWNERS[ask.phase]
    owners = list(ask.arrays)
    used = np.zeros(len(owners), dtype=np.int64)
    fits = fitting(engine, parts, len(owners))
    used[~fits] = Code.SHARES_DIFFER.value
    size, ring = splits.shared_array(phase, len(ask.nodes))
    counts = [
        secret_of(engine, parts, at, size, ring)
        if fits[at]
        else engine.public(np.zeros(size, dtype=np.uint8), ring)
        for at in range(len(owners))
    ]
    every = stack(counts)
    if phase == "nodes":
        assert splits.plan.capacity is not None
        inside = within_range(every, splits.plan.candidates, splits.plan.capacity)
        used[fits & ~inside] = Code.CAPACITY_EXCEEDED.value
    kept = np.flatnonzero(used == USED)
    if not kept.size:
        raise Code.TOO_FEW_OWNERS.error(
            expected="counts of at least one owner",
            found=f"none that can be used, of {', '.join(owners)}",
        )
    total = every[kept].sum(axis=0)
    if phase == "leaves":
        return SecretNumbers(splits.leaf_numbers(total), used)
    depths = shape.depths(ask.nodes).tolist()
    return SecretNumbers(splits.numbers(total, depths, shape.undecided(ask.nodes)), used)


def answer_arrays(
    ask: Ask, numbers: NDArray[np.int64], used: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Return what a server answers."""
    if OF_OWNERS[ask.phase] == "leaves":
        return {"classes": numbers, "used": used}
    choice, worth, weight = numbers.T
    return {"weight": weight, "choice": choice, "worth": worth, "used": used}


def cost_answer(engine: Engine, splits: SecureSplits, ask: Ask, shape: TreeShape) -> Cost:
    """State what one question costs three servers, opening and farewell included."""
    k, m, phase = len(ask.arrays), len(ask.nodes), OF_OWNERS[ask.phase]
    total = cost_agreement() + cost_fit_together(k) + Cost.equal(3, KEY_BYTES, engine.n_parties)
    if phase == "leaves":
        shown, ring = (m, splits.plan.n_classes), splits.leaf_ring
        total += splits.cost_leaves(engine, m)
    else:
        shown, ring = (m, 3), splits.wide
        whole = (k, *splits.histogram_shape(m))
        total += cost_within_range(engine, whole, splits.plan.candidates, splits.ring)
        total += splits.cost(engine, shape.depths(ask.nodes).tolist())
    return total + engine.cost("open", shape=shown, ring=ring, to=engine.everyone)
