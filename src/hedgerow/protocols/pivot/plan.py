"""`PivotPlan`: what is fixed, and public, about trees among peers before they grow.

Paper: wu2020pivot. What peers see of the tree by `hide`, level by level from the root:

- ``"nothing"``: which nodes are leaves, the attribute and cut of all others, the leaves' labels.
  That is the basic protocol (section 4).
- ``"thresholds"``: which nodes are leaves, and the attribute of all others; cuts and labels stay
  shared. The enhanced protocol (section 5).
- ``"features"``: of the attribute only which peer has it.
- ``"peers"``: which nodes are leaves, nothing else.

Without noise, whoever sees the tree, or answers from it, learns exact facts about the records of
all peers, and the ledger says so. With noise in splits and leaves (section 8.2) all of this follows
from releases that the ledger has. No node is then a leaf because it is pure, or for want of a split
that is good enough: only if its noisy count is too small, where a share of epsilon pays for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, NoisyMax, Opening, Release, Scope, TwoSidedGeometric
from hedgerow.protocols.growers.choices import Noisy, level_charge, split_reason
from hedgerow.protocols.growers.layout import counting_ring
from hedgerow.protocols.growers.leaves import LEAF_COUNTS, LEAF_LABELS, leaf_charge
from hedgerow.protocols.growers.means import NoisyQuotient, Quotient
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.growers.units import COARSE, FINE, Units, units_for
from hedgerow.protocols.hidden.boosting_plan import tree_scope
from hedgerow.protocols.hidden.plan import LEAF, split_name
from hedgerow.protocols.hidden.regression_plan import FRACTION
from hedgerow.protocols.hidden.server_plan import LABELS, STRUCTURE, exact_release
from hedgerow.protocols.pivot.peer_plan import PeerPlan, chosen_from
from hedgerow.secure.noise.paper import EXPONENTIAL, LAPLACE, approximate_release
from hedgerow.secure.noise.releases import NOBODY, Charge, Payer
from hedgerow.secure.ring import Z16, Z32, Ring
from hedgerow.trees.growing.criteria import Public, criterion_named
from hedgerow.trees.growing.private import GRID_BITS

Hide = Literal["nothing", "thresholds", "features", "peers"]
SHOWN_TO = "public"
"""Audience of what has noise: peers may show it to whom they like, and are part of the public."""
PeerNoise = Literal["none", "splits+leaves", "as published"]
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

    Epsilons are of one tree: of the choice at each level, of the count that decides there which
    nodes are leaves, of the labels of leaves, or of their sums and counts; 0 where there is no
    noise. Trees with noise have all rows, so that their costs add up. "as published" is the
    paper's noise (`pivot.noise`), which has no finite epsilon.
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
    criterion: Literal["gini", "max"] = "gini"
    noise: PeerNoise = "none"
    split_epsilon: float = 0.0
    stop_epsilon: float = 0.0
    leaf_epsilon: float = 0.0
    sum_epsilon: float = 0.0
    count_epsilon: float = 0.0

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
        most = (1 << (self.ring.bits - 1)) - 1
        if self.classes and self.n_trees > most:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {most:,} trees, whose votes are compared in {self.ring.bits} "
                "bits",
                found=f"{self.n_trees:,}",
            )
        # Asks for the target and its bounds, and whether every number fits into its ring.
        _ = self.score
        if self.is_private:
            # The same of noise.
            Noisy(self.split_mechanism, NOBODY).ring(Z16, self.n_candidates, self.score.bound)
        if self.is_noisy:
            self._tree_releases()

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise of any kind."""
        return self.noise != "none"

    @property
    def is_private(self) -> bool:
        """Whether there is noise that has a finite epsilon."""
        return self.noise == "splits+leaves"

    @property
    def opens_leaves(self) -> bool:
        """Whether peers see which nodes are leaves; if not, all trees are complete."""
        return not self.is_noisy or self.stop_epsilon > 0

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
        return units_for(self.domain, self.capacity, COARSE if self.is_private else FINE)

    @property
    def ring(self) -> Ring:
        """Of masks and histograms."""
        return counting_ring(self.capacity) if self.classes else Z32

    @property
    def shift(self) -> int:
        """Bits of the grid on which scores are whole numbers."""
        if not self.classes or self.criterion == "max":
            return 0
        if self.is_private:
            return GRID_BITS
        return int(min(_FINEST, max(0, _SCORE_BITS - 2 * self.capacity.bit_length())))

    @cached_property
    def score(self) -> Scores:
        """Score of the candidates, of numbers squared error; H501 where one would not fit."""
        if self.classes:
            criterion, public = (
                criterion_named(self.criterion, "classes"),
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
        return chosen_from(self.max_features, len(self.owners))

    @property
    def n_candidates(self) -> int:
        """Candidates of a node at most: those of the attributes among which it chooses."""
        each = np.bincount(self.layout.candidates.feature, minlength=len(self.owners))
        return max(1, int(np.sort(each)[::-1][: self.n_chosen_from].sum()))

    @property
    def split_mechanism(self) -> NoisyMax:
        """Noisy max over the candidates."""
        sensitivity = self.score.sensitivity
        return NoisyMax(self.split_epsilon, sensitivity.add_remove, monotone=sensitivity.monotone)

    @property
    def stop_mechanism(self) -> TwoSidedGeometric:
        """Noise of the count that decides whether a node is a leaf."""
        return TwoSidedGeometric(self.stop_epsilon)

    @property
    def label_mechanism(self) -> NoisyMax:
        """Noisy max over the classes of a leaf."""
        return NoisyMax(self.leaf_epsilon, 1, monotone=True)

    def noisy_quotient(self, ledger: Payer) -> NoisyQuotient:
        """Return the noisy means of the leaves of one tree, which a payer is asked for."""
        return NoisyQuotient(self.quotient, self.sum_epsilon, self.count_epsilon, ledger, SHOWN_TO)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Of the trees, which have the same rows: their costs add up."""
        if self.n_trees == 1:
            return (ROOT,)
        return tuple(tree_scope(ROOT, tree) for tree in range(self.n_trees))

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
        """See `PeerPlan.model_releases`: what has no noise, or that of each tree in its scope."""
        if self.is_noisy:
            return placed(self._tree_releases(), self.scopes)
        reasons: list[str] = []
        for level in range(self.depth):
            reasons.append(leaf_reason(level))
            if self.hide != "peers":
                reasons.append(split_reason(level))
        reasons += [LEAF_LABELS] if self.hide == "nothing" else [STRUCTURE, LABELS]
        return [exact_release(reason, self.audience) for reason in reasons]

    def _tree_releases(self) -> list[Release]:
        """Return what one tree with noise releases: in each node of a level, and in each leaf."""
        found = []
        for level in range(self.depth):
            split = level_charge(NOBODY, ROOT, SHOWN_TO, level)
            if self.stop_epsilon:
                found.append(self._stop_release(stop_charge(NOBODY, level)))
            if self.is_private:
                found.append(split.release(self.split_mechanism, self.n_candidates))
            else:
                found.append(approximate_release(EXPONENTIAL, self.split_epsilon, 1, split, 1))
        return [*found, *self._leaf_releases()]

    def _stop_release(self, charge: Charge) -> Release:
        if self.is_private:
            return charge.release(self.stop_mechanism, 1)
        return approximate_release(LAPLACE, self.stop_epsilon, 1, charge, 1)

    def _leaf_releases(self) -> Iterator[Release]:
        if not self.classes:
            for mechanism, charge in self.noisy_quotient(NOBODY).charges():
                yield charge.release(mechanism, 1)
        elif self.is_private:
            labels = leaf_charge(NOBODY, ROOT, SHOWN_TO, LEAF_LABELS)
            yield labels.release(self.label_mechanism, self.classes)
        else:
            counts = leaf_charge(NOBODY, ROOT, SHOWN_TO, LEAF_COUNTS)
            yield approximate_release(LAPLACE, self.leaf_epsilon, 1, counts, self.classes)

    def model_openings(self, to: str) -> list[Opening]:
        """Return what opens; arrays have room for as many nodes as a level can have.

        With noise all of it is computed from what every tree releases.
        """
        found = []
        for level in range(self.depth):
            room = (self.room(level),)
            if self.opens_leaves:
                why = self._why(leaf_reason(level))
                found.append(Opening(leaf_name(level), to, room, **why))
            if self.hide != "peers":
                why = self._why(split_reason(level))
                found.append(Opening(split_name(level), to, room, **why))
        if self.hide == "nothing":
            shape = (self.room(self.depth), self.classes or 1)
            reasons = [LEAF_LABELS]
            if self.is_noisy:
                reasons = [release.reason for release in self._leaf_releases()]
            found.append(Opening(LEAF, to, shape, **self._why(*reasons)))
        return found

    def _why(self, *reasons: str) -> dict[str, Any]:
        """Return why something is opened: a release pays, or it follows from those of all trees."""
        return {"derived": reasons * len(self.scopes)} if self.is_noisy else {"release": reasons[0]}


def placed(releases: Iterable[Release], scopes: Iterable[Scope]) -> list[Release]:
    """Return releases of one tree for each of several, in its own scope."""
    every = tuple(releases)
    return [
        replace(one, scope=Scope((*scope.segments, *one.scope.segments)))
        for scope in scopes
        for one in every
    ]


def stop_charge(ledger: Payer, level: int) -> Charge:
    """Return who pays for the counts of a level: one in each node, as for its splits."""
    return replace(level_charge(ledger, ROOT, SHOWN_TO, level), reason=leaf_reason(level))


def leaf_name(level: int) -> str:
    """Return the name of the opening that says which nodes of a level are leaves."""
    return f"leaves of level {level}"


def leaf_reason(level: int) -> str:
    """Return the reason of the release that says which nodes of a level are leaves."""
    return f"which nodes at level {level} are leaves"
