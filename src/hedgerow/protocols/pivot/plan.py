"""`PivotPlan`: what is fixed, and public, about a tree among peers before it grows.

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
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening, Release
from hedgerow.protocols.growers.choices import split_reason
from hedgerow.protocols.growers.layout import Layout, counting_ring
from hedgerow.protocols.growers.leaves import LEAF_LABELS
from hedgerow.protocols.growers.means import Quotient
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.growers.units import FINE, Units, units_for
from hedgerow.protocols.hidden.plan import LEAF, split_name
from hedgerow.protocols.hidden.regression_plan import FRACTION
from hedgerow.protocols.hidden.server_plan import LABELS, STRUCTURE, exact_release
from hedgerow.protocols.sharing.join import openings as join_openings
from hedgerow.protocols.vertical_id3.leakage import exact_releases, ring_openings
from hedgerow.secure.additive import EVERYONE
from hedgerow.secure.additive.core import FEWEST, MOST
from hedgerow.secure.additive.punctured import MOST_BINS
from hedgerow.secure.ring import Z32, Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.criteria import Public, criterion_named

Hide = Literal["nothing", "thresholds", "features", "peers"]
Linear = Literal["transfers", "paillier", "paillier unpacked"]
Align = Literal["given", "ring", "hidden"]
_SCORE_BITS = 58
"""Bits of a score; what the capacity leaves is the grid on which gains are compared."""
_FINEST = 30


@dataclass(frozen=True)
class PivotPlan:
    """A tree among peers in public numbers; made by `PivotOptions.plan`.

    Attribute j is at peer `owners[j]`, the target at `target_at`. The other numbers are those of
    `CARTClassifier`, under names of their own: rows that a node needs to be split, rows that each
    child must have, decrease of impurity. Rows are in one order already, or aligned by ids before
    the tree grows: in a ring, or so that nobody learns which are common, nor how many. H501 for
    what cannot be grown.
    """

    domain: Domain
    capacity: int
    owners: tuple[int, ...]
    n_peers: int
    target_at: int
    depth: int = 4
    least_split: int = 2
    least_leaf: int = 1
    least_decrease: float = 0.0
    hide: Hide = "nothing"
    linear: Linear = "transfers"
    align: Align = "given"

    audience: ClassVar[str] = EVERYONE

    def __post_init__(self) -> None:
        if not FEWEST <= self.n_peers <= MOST:
            raise Code.BAD_PARAMETER.error(
                expected=f"{FEWEST} to {MOST} peers", found=f"{self.n_peers}"
            )
        here = range(self.n_peers)
        if self.target_at not in here or not set(self.owners) <= set(here):
            raise Code.BAD_PARAMETER.error(
                expected=f"peers from 0 to {self.n_peers - 1}",
                found=f"attributes at {sorted(set(self.owners))}, the target at {self.target_at}",
            )
        if len(self.owners) != len(self.domain.names):
            raise Code.WRONG_SHAPE.error(
                expected=f"a peer for each of {len(self.domain.names)} attributes",
                found=f"{len(self.owners)}",
            )
        widest = int(self.domain.n_bins.max())
        if widest > MOST_BINS:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {MOST_BINS} bins of an attribute",
                found=f"{widest:,}",
                fix="merge bins, or read the domain with a smaller max_bins",
            )
        self.layout.check_depth(self.depth)
        if self.align == "hidden" and self.linear != "transfers":
            raise Code.BAD_PARAMETER.error(
                expected="linear='transfers' where rows are joined",
                found=f"linear={self.linear!r} beside align='hidden'",
            )
        # Asks for the target and its bounds, and whether every number fits into its ring.
        _ = self.score

    @property
    def classes(self) -> int | None:
        """Number of classes, None for a target that is a number."""
        target = self.domain.target
        if target is None:
            raise Code.BAD_TARGET.error(found="a domain without a target")
        return target.n_classes

    @property
    def n_columns(self) -> int:
        """Columns of a row that are summed up: its classes, or presence and target."""
        return self.classes or 2

    @cached_property
    def layout(self) -> Layout:
        """Columns of histograms and choices."""
        return Layout(self.domain, "binary")

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

    def means(self, opened: NDArray[np.int64]) -> NDArray[np.float64]:
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

    def releases(self) -> Sequence[Release]:
        """Return what a run charges: nothing of it has noise."""
        return [*exact_releases(self.ring_openings()), *self.growth_releases()]

    def growth_releases(self) -> Sequence[Release]:
        """Return what the tree itself costs, and its answers."""
        reasons: list[str] = []
        for level in range(self.depth):
            reasons.append(leaf_reason(level))
            if self.hide != "peers":
                reasons.append(split_reason(level))
        reasons += [LEAF_LABELS] if self.hide == "nothing" else [STRUCTURE, LABELS]
        return [exact_release(reason, self.audience) for reason in reasons]

    def openings(self, to: str = EVERYONE) -> list[Opening]:
        """Return what a run opens; arrays have room for as many nodes as a level can have."""
        found = self.ring_openings()
        if self.align == "hidden":
            found += join_openings([self.capacity] * self.n_peers, to)
        for level in range(self.depth):
            room = (self.layout.n_nodes(level),)
            found.append(Opening(leaf_name(level), to, room, release=leaf_reason(level)))
            if self.hide != "peers":
                found.append(Opening(split_name(level), to, room, release=split_reason(level)))
        if self.hide == "nothing":
            shape = (self.layout.n_nodes(self.depth), self.classes or 1)
            found.append(Opening(LEAF, to, shape, release=LEAF_LABELS))
        return found

    @property
    def starter(self) -> int:
        """The peer at which sets of ids meet: the one that has the target."""
        return self.target_at

    def ring_openings(self) -> list[Opening]:
        """Return what peers learn when they align their rows; `records` are those of a peer."""
        if self.align != "ring":
            return []
        return ring_openings(self.n_peers, self.audience, starter=f"peer {self.starter}")

    def charge(self, ledger: Ledger) -> None:
        """Charge all of `releases`."""
        ledger.charge(*self.releases())

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        names = (field.name for field in fields(self))
        return {name: getattr(self, name) for name in names} | {
            "domain": self.domain.to_dict(),
            "owners": list(self.owners),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        domain = Domain.from_dict(data["domain"], source="the plan")
        return cls(**data | {"domain": domain, "owners": tuple(data["owners"])})


def leaf_name(level: int) -> str:
    """Return the name of the opening that says which nodes of a level are leaves."""
    return f"leaves of level {level}"


def leaf_reason(level: int) -> str:
    """Return the reason of the release that says which nodes of a level are leaves."""
    return f"which nodes at level {level} are leaves"
