"""PrivateSplit on secret counts: the noise of one curator for any number of owners.

Paper: wang2020topdown, algorithm 1 and section 3; this implementation of PrivateSplit is not in it.
There each of k owners adds noise of its own. Here three servers hold shares of the owners' counts,
add them up and draw the noise inside: what comes out has the law of "single-machine" on the union
of the tables, up to the delta of finite coins (`hedgerow.secure.noise.discrete.precision`).

A node's numbers, all integers, with s the grid of the scores in bits and S(h) the integer score of
a split h (`hedgerow.trees.growing.criteria`), S(0) that of the node as it is:

choice
    argmax over allowed h of S(h) + G_h, one-sided geometric noise; the lowest index wins ties.
value
    S(choice) - S(0) + X, two-sided geometric noise.
weight
    n + X, two-sided geometric noise; n the records of the node.

Sensitivity of the value, for a fixed choice. One more record is in one branch of the split and in
the node. For ``gini`` the score of one cell of records falls by 0 to 2 * 2^s, whatever is in it
(criteria, head of the module), so that S(choice) and S(0) both move within [-2 * 2^s, 0], and their
difference within [-2 * 2^s, 2 * 2^s]. For ``max`` both move within [0, 1], their difference within
[-1, 1]. It is the sensitivity of the score itself: 2 << s and 1. Nothing here needs that the
histograms of two attributes agree, so it also holds where another owner's do not, as long as every
number stays in the range for which the scores are exact (`hedgerow.protocols.topdown.checks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.growers.choices import fitting_ring
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.secure.argmax import argmax, cost_argmax
from hedgerow.secure.cost import Cost
from hedgerow.secure.noise.batch import Draws, cost_draw_batch, draw_batch
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import GINI, MAX, Public
from hedgerow.trees.layout import SplitKind

NUMBERS = ("choice", "value", "weight")
"""What is released of a node that may be split, in this order."""


@dataclass(frozen=True, eq=False)
class SecureSplits:
    """The numbers of a batch of nodes, from secret histograms.

    Parameters
    ----------
    plan : TopDownPlan
        With a capacity, and criterion "gini" or "max".

    Raises
    ------
    HedgerowError
        H208 without a capacity, H501 for another criterion, or for numbers that do not fit.
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

        That last one is the candidate of an attribute of two bins, all records being in the first:
        so it is computed in the same rounds as the others.
        """
        those = self.plan.candidates
        ordered = [*(those.kinds == SplitKind.THRESHOLD), True]
        every = Candidates.from_bins([*those.n_bins, 2], ordered)
        public = Public(self.records, self.plan.n_classes)
        return Scores(every, self.plan.score, public, self.plan.shift)

    @cached_property
    def ring(self) -> Ring:
        """Ring of the owners' counts.

        Besides the sum of all records it holds what one owner could claim for an attribute with
        every count within the capacity, which is how that is found out, and the number of counts
        that could be out of range.
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

    def histogram_shape(self, nodes: int) -> tuple[int, int, int]:
        """Shape of the counts of some nodes that may be split."""
        return nodes, self.plan.n_classes, self.plan.candidates.total_bins

    def numbers(self, hist: Secret, depths: Sequence[int], valid: NDArray[np.bool_]) -> Secret:
        """Compute the numbers of nodes; they may be opened to the public, and once only.

        1. Counts are lifted; noise of all depths and all three numbers is drawn in one pass.
        2. Scores of all candidates and of the node itself.
        3. z = (score + noise + bound + 1) * allowed; argmax.
        4. The score of the choice is the inner product of scores and choice.

        Reveals: nothing; every number has its noise.
        Cost: `cost`; rounds do not depend on the number of nodes or depths, as long as the scores
        are computed in one block.

        Parameters
        ----------
        hist : Secret, shape (nodes, classes, total bins)
            Over `ring`; sums over all owners, each within its range.
        depths : sequence of int
            Of each node; the root has depth 1.
        valid : bool array, shape (nodes, candidates)
            What may be chosen; public.

        Returns
        -------
        Secret over `wide`, shape (nodes, 3)
            `NUMBERS`; the choice is the index of a candidate.
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
        return total + engine.cost("matmul", shape=(m, 1, 1), ring=self.wide)

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
        """Draw the noise of choices, values and weights, each in the order of the nodes."""
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
