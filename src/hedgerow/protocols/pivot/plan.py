"""`PivotPlan`: what is fixed, and public, about trees among peers before they grow.

Paper: wu2020pivot. What peers see of the tree by `hide`, level by level from the root:

- ``"nothing"``: which nodes are leaves, the attribute and cut of all others, the leaves' labels.
  That is the basic protocol (section 4).
- ``"thresholds"``: which nodes are leaves, and the attribute of all others; cuts and labels stay
  shared. The enhanced protocol (section 5).
- ``"features"``: of the attribute only which peer has it.
- ``"peers"``: which nodes are leaves, nothing else.

None of this has noise: whoever sees the tree, or answers from it, learns exact facts about the
records of all peers, and the ledger says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Opening, Release
from hedgerow.protocols.growers.choices import split_reason
from hedgerow.protocols.growers.layout import counting_ring
from hedgerow.protocols.growers.leaves import LEAF_LABELS
from hedgerow.protocols.growers.means import Quotient
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.growers.units import FINE, Units, units_for
from hedgerow.protocols.hidden.plan import LEAF, split_name
from hedgerow.protocols.hidden.regression_plan import FRACTION
from hedgerow.protocols.hidden.server_plan import LABELS, STRUCTURE, exact_release
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.secure.ring import Z32, Ring
from hedgerow.trees.growing.criteria import Public, criterion_named

Hide = Literal["nothing", "thresholds", "features", "peers"]
Linear = Literal["transfers", "products", "paillier", "paillier unpacked"]
_SCORE_BITS = 58
"""Bits of a score; what the capacity leaves is the grid on which gains are compared."""
_FINEST = 30
MOST_MEANS = (1 << (Z32.bits - 1 - FRACTION)) - 1
"""Trees whose means, up to 2^`FRACTION`, have a sum within 32 bits."""


@dataclass(frozen=True, kw_only=True)
class PivotPlan(PeerPlan):
    """Trees among peers in public numbers; made by `PivotOptions.plan`.

    The numbers are those of `CARTClassifier`, under names of their own: rows that a node needs to
    be split, rows that each child must have, decrease of impurity.

    Of several trees, each has rows of its own, and each node attributes among which it chooses:
    public coins draw them (`pivot.coins`).
    """

    depth: int = 4
    least_split: int = 2
    least_leaf: int = 1
    least_decrease: float = 0.0
    hide: Hide = "nothing"
    linear: Linear = "transfers"
    n_trees: int = 1
    max_features: Literal["sqrt"] | int | None = None
    bootstrap: bool = False
    max_samples: float = 1.0
    public_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.layout.check_depth(self.depth)
        if self.align == "hidden" and self.linear != "transfers":
            raise Code.BAD_PARAMETER.error(
                expected="linear='transfers' where rows are joined",
                found=f"linear={self.linear!r} beside align='hidden'",
            )
        if self.n_trees > 1 and self.encrypts:
            raise Code.BAD_PARAMETER.error(
                expected="linear='transfers' for a forest", found=f"linear={self.linear!r}"
            )
        if not self.classes and self.n_trees > MOST_MEANS:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {MOST_MEANS} trees of a number, whose means are added up",
                found=f"{self.n_trees:,}",
            )
        # Asks for the target and its bounds, and whether every number fits into its ring.
        _ = self.score

    @property
    def encrypts(self) -> bool:
        """Whether histograms are made under Paillier."""
        return self.linear.startswith("paillier")

    @property
    def hides(self) -> bool:
        """Whether some of the trees stays shared."""
        return self.hide != "nothing"

    @property
    def levels(self) -> int:
        """Levels of the trees, which grow side by side."""
        return self.depth

    @cached_property
    def units(self) -> Units:
        """Scale of a target that is a number."""
        return units_for(self.domain, self.capacity, FINE)

    @property
    def ring(self) -> Ring:
        """Of masks and histograms."""
        return counting_ring(self.capacity) if self.classes else Z32

    @property
    def shift(self) -> int:
        """Bits of the grid on which scores are whole numbers."""
        if not self.classes:
            return 0
        return int(min(_FINEST, max(0, _SCORE_BITS - 2 * self.capacity.bit_length())))

    @cached_property
    def score(self) -> Scores:
        """Score of the candidates: Gini, or squared error; H501 where a number would not fit."""
        if self.classes:
            criterion, public = (
                criterion_named("gini", "classes"),
                Public(self.capacity, self.classes),
            )
        else:
            most = self.units.most
            criterion = criterion_named("squared_error", "sums")
            public = Public(self.capacity, bounds=(-most, most))
        return Scores(self.layout.candidates, criterion, public, self.shift)

    @property
    def decrease(self) -> int:
        """Of a score, for each record of the table: what `least_decrease` asks for."""
        scale = Fraction(1 << self.shift)
        if not self.classes:
            scale = Fraction(self.units.most) ** 2 / Fraction(self.units.half) ** 2
        # What no score can bring is asked for as that, so that numbers fit.
        return min(round(Fraction(self.least_decrease) * scale), self._most_decrease)

    @property
    def _most_decrease(self) -> int:
        return self.score.bound // self.capacity + 1

    def fewest(self, rows: int) -> int:
        """Return a number of rows that a node must have; more than there are is none at all."""
        return min(rows, self.capacity + 1)

    def room(self, level: int) -> int:
        """Return how many nodes all trees can have in a level."""
        return self.n_trees * self.layout.n_nodes(level)

    @property
    def n_chosen_from(self) -> int:
        """Attributes among which each node chooses."""
        every = len(self.owners)
        if self.max_features is None:
            return every
        return (
            max(1, isqrt(every)) if self.max_features == "sqrt" else min(every, self.max_features)
        )

    @property
    def quotient(self) -> Quotient:
        """Mean of a leaf, between -1 and 1."""
        return Quotient(self.capacity, self.units.bits, 0, 1, 0, FRACTION)

    @property
    def shown(self) -> NDArray[np.int64] | None:
        """What is opened of each candidate that is chosen: a number, or nothing."""
        feature = self.layout.candidates.feature.astype(np.int64)
        shown: dict[str, NDArray[np.int64] | None] = {
            "nothing": np.arange(feature.size),
            "thresholds": feature,
            "features": np.array(self.owners)[feature],
            "peers": None,
        }
        return shown[self.hide]

    def means(self, opened: NDArray[Any]) -> NDArray[np.float64]:
        """Return targets of opened means, within their bounds."""
        units = self.units
        return np.clip(units.values(opened, FRACTION), units.low, units.high)

    def attributes(self, group: NDArray[np.int64], split: int) -> list[list[int]]:
        """Return among which attributes each of `split` nodes has chosen, of what was opened."""
        every = list(range(len(self.owners)))
        if self.hide == "peers":
            return [every] * split
        if self.hide == "thresholds":
            return [[int(j)] for j in group]
        return [[j for j in every if self.owners[j] == peer] for peer in group]

    def model_releases(self) -> Sequence[Release]:
        """See `PeerPlan.model_releases`: nothing of it has noise."""
        reasons: list[str] = []
        for level in range(self.depth):
            reasons.append(leaf_reason(level))
            if self.hide != "peers":
                reasons.append(split_reason(level))
        reasons += [LEAF_LABELS] if self.hide == "nothing" else [STRUCTURE, LABELS]
        return [exact_release(reason, self.audience) for reason in reasons]

    def model_openings(self, to: str) -> list[Opening]:
        """Return what opens; arrays have room for as many nodes as a level can have."""
        found = []
        for level in range(self.depth):
            room = (self.room(level),)
            found.append(Opening(leaf_name(level), to, room, release=leaf_reason(level)))
            if self.hide != "peers":
                found.append(Opening(split_name(level), to, room, release=split_reason(level)))
        if self.hide == "nothing":
            shape = (self.room(self.depth), self.classes or 1)
            found.append(Opening(LEAF, to, shape, release=LEAF_LABELS))
        return found


def leaf_name(level: int) -> str:
    """Return the name of the opening that says which nodes of a level are leaves."""
    return f"leaves of level {level}"


def leaf_reason(level: int) -> str:
    """Return the reason of the release that says which nodes of a level are leaves."""
    return f"which nodes at level {level} are leaves"
