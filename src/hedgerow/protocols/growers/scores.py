"""Scores of all candidate splits from a secret histogram: the integers of `trees.criteria`, hidden.

Paper: hiddentrees, algorithm 2 (MAX) for the criterion ``"max"``.

What comes out are the integers that the learners in the clear compute, floors included, so that
their sensitivities hold here word for word. One figure is left out: ``squared_error`` subtracts
2^shift times the sum of all squared targets of the node, which a histogram of counts and sums does
not have. It is the same number for all candidates of a node. Argmax and noisy max make the same
choice with the same probabilities when one number is added to all scores, and so does any mechanism
that rests on differences of scores alone. A choice from these scores is the choice from the full
ones, private by the sensitivity of the full ones. That does not hold for the score itself: it must
not be released under that sensitivity, and scores of different nodes cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.secure.argmax import cost_max, max_
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.fixed.quotient import cost_floor_divide, floor_divide
from hedgerow.secure.ring import Z64, Ring
from hedgerow.secure.secret import Engine, Secret, concatenate
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import GINI, MAX, SQUARED, Criterion, Public, Sensitivity
from hedgerow.trees.layout import SplitKind

_BRANCHES: Final = 1 << 17  # of two columns, at about 1.6 kB in the simulator
_DIVISION: Final = 8  # elements of a histogram that a division takes as much memory as
_WIDEST: Final = 61  # of a numerator in `floor_divide`


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one criterion on one list of candidates, from public parameters.

    Steps for a histogram, of which all but the second and the fourth are local:

    1. Branches. Binary: THRESHOLD has the bins up to the cut on the left and VALUE one bin, both as
       differences of prefix sums; the rest of the attribute is on the right. Wary: one branch per
       bin; columns of values that do not exist are left out.
    2. ``max``: the largest class count n_c of every branch (algorithm 2, step 2), in the small
       ring. The others are lifted to 64 bits first (``squared_error`` as the sum of y - lo, which
       is not negative), then S = sum of n_c^2, or S = (sum of y)^2: one inner product.
    3. Times 2^shift.
    4. ``floor_divide`` by the number of records of the branch; an empty branch gets 0.
    5. Sum over the branches of a candidate; ``gini`` less 2^shift times the records of the node.

    Nodes are scored in public blocks of 2^17 branches where there are two columns, and fewer where
    there are more: a server then holds about 70 MB of intermediate values at a time beside
    histogram and result. Each block costs its rounds anew.

    `public`: capacity, and integer bounds of the target in its units for ``squared_error``.
    `shift`: scores stand on the grid 2^-shift; not used by ``max``. `prefer_nonempty`: add 2 where
    both branches hold a record, so that a split of the records wins over one that keeps them
    together: it is worth no less, and with one more floor it loses less than 2. For binary trees
    without noise, as grown by learners that never make an empty child. One record can change those
    2 in either direction, which no sensitivity here covers: `sensitivity`, which every choice with
    noise asks for, refuses.

    H208 without a capacity, H116 without bounds where they are needed, H501 for parameters with
    which a number would not fit. Reveals: nothing. Cost: `cost`.
    """

    candidates: Candidates
    criterion: Criterion
    public: Public
    shift: int = 0
    prefer_nonempty: bool = False

    def __post_init__(self) -> None:
        if self.criterion.kernel not in (MAX, GINI, SQUARED):
            raise Code.BAD_PARAMETER.error(
                expected="criterion max, gini or squared_error on secret histograms",
                found=f"criterion={self.criterion.name!r}",
            )
        if self.prefer_nonempty and self._wary:
            raise Code.BAD_PARAMETER.error(
                expected="prefer_nonempty=False for wary trees", found="prefer_nonempty=True"
            )
        if not len(self.candidates):
            raise Code.BAD_PARAMETER.error(
                expected="at least one attribute with two bins", found="no candidate split"
            )
        if not self._wary and np.any(self.candidates.kinds == SplitKind.WARY):
            raise Code.BAD_PARAMETER.error(
                expected="binary or wary candidates", found="both in one list"
            )
        self.criterion.check(self.public, self.shift)
        if self.bound.bit_length() >= Z64.bits or (
            self.criterion.kernel != MAX and self._bits + self._quotient_bits > _WIDEST
        ):
            raise Code.BAD_PARAMETER.error(
                expected=f"numerators 2^shift * S below 2**{_WIDEST}, for divisions in "
                f"Z_2^{Z64.bits}",
                found=f"numbers below 2**{self._bits + self._quotient_bits} by criterion "
                f"{self.criterion.name!r}, capacity {self.public.records():,} and "
                f"shift={self.shift}",
                fix="choose a smaller capacity, a coarser grid (a smaller shift), or coarser units",
            )

    @property
    def bound(self) -> int:
        """Largest magnitude of a score, public."""
        largest = self._largest_quotient if self.criterion.kernel != MAX else self.public.records()
        return largest + 2 * self.prefer_nonempty

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one record moves a score, for choices with noise; H501 with `prefer_nonempty`."""
        if self.prefer_nonempty:
            raise Code.BAD_PARAMETER.error(
                expected="scores without a tie-break where noise is added",
                found="prefer_nonempty=True",
                fix="set prefer_nonempty=False for private trees",
            )
        return self.criterion.integer_sensitivity(self.public, self.shift)

    def ring(self, source: Ring) -> Ring:
        """Return the ring of the scores of a histogram over a ring: the same for ``max``."""
        return source if self.criterion.kernel == MAX else Z64

    def __call__(self, hist: Secret, among: NDArray[np.int64] | None = None) -> Secret:
        """Score every candidate: signed, to be maximised, (..., C) over `ring`.

        The histogram (..., k, B) has class counts; or counts and sums of the target for
        ``squared_error``. Columns are those of `Layout`. `among` (..., c) scores those binary
        candidates of each node alone, in that order.
        """
        self._check(hist.shape, hist.ring)
        *lead, k, width = hist.shape
        nodes, each = hist.reshape(prod(lead), k, width), self._each(among)
        some = None if among is None else among.reshape(prod(lead), each)
        blocks = [
            self._block(nodes[block], None if some is None else some[block])
            for block in self._blocks(prod(lead), k)
        ]
        return concatenate(blocks).reshape(*lead, each)

    def cost(
        self, engine: Engine, shape: tuple[int, ...], ring: Ring, each: int | None = None
    ) -> Cost:
        """State the cost for a histogram of a shape (..., k, B) over a ring.

        `each`: how many candidates of each node are scored, if not all.
        """
        self._check(shape, ring)
        *lead, k, width = shape
        total = NOTHING
        for block in self._blocks(prod(lead), k):
            nodes = block.stop - block.start
            branches = self._n_branches if each is None else 2 * each
            if self.criterion.kernel != MAX:
                lifted = (nodes, k, width if each is None else branches)
                total += engine.cost("extend", shape=lifted, ring=Z64, source=ring)
            for piece in _slices(nodes * branches, self._at_once(k)):
                total += self.cost_values(engine, piece.stop - piece.start, k, ring)
            if self.prefer_nonempty:
                own, shaped = self.ring(ring), (nodes, each or len(self.candidates))
                total += cost_less_than(engine, 2 * prod(shaped), own, self._bits + 1)
                total += engine.cost("mul", shape=shaped, ring=own)
        return total

    def cost_values(self, engine: Engine, n: int, k: int, ring: Ring = Z64) -> Cost:
        """State the cost of `values` of n branches of k columns; of ``max`` over a ring."""
        if self.criterion.kernel == MAX:
            return cost_max(engine, (n, k), ring, self._bits + 1)
        if self.criterion.kernel == GINI:
            total = engine.cost("matmul", shape=(n, 1, 1), ring=Z64, inner=k)
        else:
            total = engine.cost("mul", shape=(n,), ring=Z64)
        return total + cost_floor_divide(
            engine, (n,), bits=self._bits, quotient_bits=self._quotient_bits
        )

    def _block(self, hist: Secret, among: NDArray[np.int64] | None) -> Secret:
        """Score nodes (nodes, k, B) at once."""
        kernel, (nodes, k, _) = self.criterion.kernel, hist.shape
        if among is None:
            branches = self.branches(hist if kernel == MAX else self.lifted(hist))
        else:
            branches = some_branches(self.branches(hist), among)
            branches = branches if kernel == MAX else self.lifted(branches)
        each = branches.shape[2]
        flat = branches.transpose(0, 2, 1).reshape(nodes * each, k)
        pieces = [self.values(flat[piece]) for piece in _slices(len(flat), self._at_once(k))]
        scores = self._joined(concatenate(pieces).reshape(nodes, each))
        sizes = branches[:, 0] if kernel == SQUARED else branches.sum(1)
        if kernel == GINI:
            # The same for all candidates, but for which attribute it is added up from.
            scores = scores - self._joined(sizes) * (1 << self.shift)
        if self.prefer_nonempty:
            filled = 1 - less_than(sizes, 1, bits=self._bits + 1)
            m = each // 2
            scores = scores + filled[:, :m] * filled[:, m:] * 2
        return scores

    def _each(self, among: NDArray[np.int64] | None) -> int:
        """Return how many candidates of a node are scored."""
        if among is None:
            return len(self.candidates)
        if self._wary:
            raise Code.BAD_PARAMETER.error(
                expected="all candidates of wary trees", found="some of them"
            )
        return int(among.shape[-1])

    def lifted(self, hist: Secret) -> Secret:
        """Lift counts, or counts and sums, (..., k, B) to 64 bits."""
        if self.criterion.kernel == GINI:
            return hist.engine.extend(hist, Z64)
        low = np.array([[0], [self._bounds[0]]])
        lifted = hist.engine.extend(hist - hist[:, :1] * low, Z64)
        return lifted + lifted[:, :1] * low

    def branches(self, hist: Secret) -> Secret:
        """Return the columns of all branches, shape (nodes, k, branches)."""
        if self._wary:
            return hist[..., self._columns]
        start, stop, end, first = self._columns
        running = concatenate([hist[..., :0].sum(-1, keepdims=True), hist.cumsum(-1)], axis=-1)
        left = running[..., stop] - running[..., start]
        return concatenate([left, running[..., end] - running[..., first] - left], axis=-1)

    def _joined(self, values: Secret) -> Secret:
        """Add up what belongs to each candidate: (nodes, branches) to (nodes, C)."""
        if not self._wary:
            m = values.shape[1] // 2
            return values[:, :m] + values[:, m:]
        running = concatenate([values[:, :0].sum(-1, keepdims=True), values.cumsum(-1)], axis=-1)
        ends = self.candidates.offset
        return running[:, ends[1:]] - running[:, ends[:-1]]

    def values(self, branches: Secret) -> Secret:
        """Return what branches (n, k) are worth, (n,)."""
        if self.criterion.kernel == MAX:
            return max_(branches, bits=self._bits + 1)
        if self.criterion.kernel == GINI:
            sizes = branches.sum(-1)
            squares = (branches[:, None, :] @ branches[:, :, None]).reshape(len(sizes))
        else:
            sizes, squares = branches[:, 0], branches[:, 1] * branches[:, 1]
        top = squares * (1 << self.shift)
        return floor_divide(top, sizes, bits=self._bits, quotient_bits=self._quotient_bits)

    @property
    def _wary(self) -> bool:
        return bool(np.all(self.candidates.kinds == SplitKind.WARY))

    @cached_property
    def _columns(self) -> NDArray[np.int64]:
        """Public places in a histogram, or in its prefix sums for binary splits."""
        those = self.candidates
        if self._wary:
            return those.owner * int(those.n_bins.max()) + those.value
        first, end = those.offset[those.feature], those.offset[those.feature + 1]
        stop = first + those.cut + 1
        start = np.where(those.kind == SplitKind.THRESHOLD, first, stop - 1)
        return np.stack([start, stop, end, first])

    @property
    def _n_branches(self) -> int:
        return self.candidates.total_bins if self._wary else 2 * len(self.candidates)

    @property
    def _n_columns(self) -> int:
        those = self.candidates
        return those.n_features * int(those.n_bins.max()) if self._wary else those.total_bins

    @property
    def _bits(self) -> int:
        """Width of the number of records."""
        return max(2, self.public.records().bit_length())

    @property
    def _bounds(self) -> tuple[int, int]:
        assert self.public.bounds is not None
        return int(self.public.bounds[0]), int(self.public.bounds[1])

    @property
    def _largest_quotient(self) -> int:
        """Bound on 2^shift S / n, which is at most 2^shift n times the largest square."""
        square = 1
        if self.criterion.kernel == SQUARED:
            square = max(abs(bound) for bound in self._bounds) ** 2
        return self.public.records() * square << self.shift

    @property
    def _quotient_bits(self) -> int:
        return self._largest_quotient.bit_length()

    def _check(self, shape: tuple[int, ...], ring: Ring) -> None:
        columns = 2 if self.criterion.kernel == SQUARED else self.public.n_classes
        if len(shape) < 2 or shape[-1] != self._n_columns or columns not in (None, shape[-2]):
            raise Code.WRONG_SHAPE.error(
                expected=f"histograms (..., {columns or 'classes'}, {self._n_columns})",
                found=f"shape {shape}",
            )
        largest = self.bound
        if self.criterion.kernel != MAX:
            largest = self.public.records()
        if self.criterion.kernel == SQUARED:
            largest *= max(1, self._bounds[1] - self._bounds[0])
        if largest >= 1 << (ring.bits - 1):
            raise Code.BAD_PARAMETER.error(
                expected=f"numbers below 2**{ring.bits - 1} in a ring of {ring.bits} bits",
                found=f"{self.criterion.name!r} with numbers up to {largest:,}",
                fix="use a larger ring",
            )

    def _at_once(self, k: int) -> int:
        return max(1, _BRANCHES * (2 + _DIVISION) // (k + _DIVISION))

    def _blocks(self, nodes: int, k: int) -> Iterator[slice]:
        return _slices(nodes, max(1, self._at_once(k) // self._n_branches))


def some_branches(branches: Secret, among: NDArray[np.int64]) -> Secret:
    """Return both branches of some binary candidates (nodes, c), of all of them (nodes, k, 2C)."""
    nodes, k, m = branches.shape
    both = np.concatenate([among, among + m // 2], axis=1)
    found: Secret = branches[np.arange(nodes)[:, None, None], np.arange(k)[:, None], both[:, None]]
    return found


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(at, min(at + step, n)) for at in range(0, n, step))
