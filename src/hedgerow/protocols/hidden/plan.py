"""`HiddenPlan`: what is fixed, and public, about a hidden tree before a row is shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, Literal

from hedgerow.errors import Code
from hedgerow.privacy import (
    EACH,
    ROOT,
    Ledger,
    NoisyMax,
    Opening,
    Release,
    Scope,
    TwoSidedGeometric,
    part,
)
from hedgerow.protocols.growers.choices import TREES, level_charge, split_reason
from hedgerow.protocols.growers.layout import counting_ring
from hedgerow.protocols.growers.leaves import LEAF_COUNTS, LEAF_LABELS, leaf_charge
from hedgerow.protocols.hidden.sampling import sampled_release
from hedgerow.protocols.hidden.server_plan import LABELS, STRUCTURE, TreePlan, exact_release
from hedgerow.protocols.votes.budget import answers_release, reserve_answers
from hedgerow.secure.noise.paper import EXPONENTIAL, LAPLACE, approximate_release
from hedgerow.secure.noise.releases import NOBODY, Charge, Prepaid
from hedgerow.secure.replicated import EVERYONE
from hedgerow.secure.ring import Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.criteria import Criterion, Public, criterion_named
from hedgerow.trees.growing.private import GRID_BITS

Noise = Literal["none", "leaves", "splits+leaves", "votes"]
Mechanism = Literal["discrete", "laplace", "exponential"]
LeafRelease = Literal["counts", "labels"]
Grower = Literal["auto", "masks", "grouped"]
Sampling = Literal["disjoint", "poisson"]

_SCORE_BITS = 44
"""Bits of an exact score; what the capacity leaves is the grid of trees without noise."""


@dataclass(frozen=True)
class HiddenPlan(TreePlan):
    """A hidden tree or forest in public numbers; made by `TreesOptions.plan`.

    Epsilons are of the choice at each level and of the leaves, 0 where there is no noise;
    `query_epsilon` is of one answer of voting trees, `delta` of all together, where more than
    addition counts them. `queries` are answers to all analysts together, repeats included.

    "laplace" and "exponential" are the paper's leaf updates (algorithms 12 and 13) in place of the
    exact discrete ones. `rate` is of Poisson sampling, in which secret coins pick rows for each
    tree. `public_seed` is of the coins that draw splits (`random_splits`, extra trees) and the
    `max_features` attributes that a node may choose from; 0 for all.
    """

    domain: Domain
    capacity: int
    branching: Branching
    depth: int
    criterion: str
    noise: Noise = "none"
    mechanism: Mechanism = "discrete"
    leaf_release: LeafRelease = "counts"
    split_epsilon: float = 0.0
    leaf_epsilon: float = 0.0
    n_trees: int = 1
    sampling: Sampling = "disjoint"
    rate: float = 1.0
    grower: Literal["masks", "grouped"] = "masks"
    random_splits: bool = False
    public_seed: int = 0
    max_features: int = 0
    queries: int = 0
    query_epsilon: float = 0.0
    delta: float = 0.0

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        assert self.domain.target is not None
        assert self.domain.target.classes is not None
        return len(self.domain.target.classes)

    def nodes(self, done: int) -> int:
        """Return the nodes of all trees at the level that is next."""
        return self.n_trees * super().nodes(done)

    @property
    def n_slots(self) -> int:
        """Slots of the table: the capacity, rounded up to equal numbers for all trees."""
        if self.sampling == "poisson":
            return self.capacity
        return -(-self.capacity // self.n_trees) * self.n_trees

    @property
    def tree_rows(self) -> int:
        """Slots that one tree sees."""
        return self.n_slots if self.sampling == "poisson" else self.n_slots // self.n_trees

    @property
    def ring(self) -> Ring:
        """Of the shared table."""
        if self.prefers_nonempty and self.criterion == "max":
            return counting_ring(self.tree_rows + 2)
        return counting_ring(self.tree_rows)

    @property
    def prefers_nonempty(self) -> bool:
        """Whether of equal splits one that divides the records wins, as in the clear."""
        return self.branching == "binary" and self.noise != "splits+leaves"

    @cached_property
    def score(self) -> Criterion:
        """The criterion."""
        return criterion_named(self.criterion, "classes")

    @property
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""
        return Public(self.tree_rows, self.n_classes)

    @property
    def shift(self) -> int:
        """Bits of the grid on which scores are whole numbers."""
        if self.criterion == "max":
            return 0
        if self.is_noisy_in_splits:
            return GRID_BITS
        return max(0, _SCORE_BITS - 2 * self.tree_rows.bit_length())

    @property
    def is_noisy_in_splits(self) -> bool:
        """Whether every split is a release of its own."""
        return self.noise == "splits+leaves" and not self.random_splits

    @property
    def count_mechanism(self) -> TwoSidedGeometric:
        """Noise of the class counts in a leaf."""
        return TwoSidedGeometric(self.leaf_epsilon)

    @property
    def label_mechanism(self) -> NoisyMax:
        """Noisy max over the classes of a leaf."""
        return NoisyMax(self.leaf_epsilon, 1, monotone=True)

    @property
    def shows_counts(self) -> bool:
        """Whether answers may be distributions: leaves hold noisy counts, or trees vote."""
        if self.noise == "votes":
            return False
        single = self.mechanism == "discrete" and self.leaf_release == "counts"
        return self.n_trees > 1 or (single and self.noise in ("leaves", "splits+leaves"))

    @property
    def scope(self) -> Scope:
        """Of one tree's releases: trees on disjoint slots are parts."""
        alone = self.n_trees == 1 or self.sampling == "poisson"
        return ROOT if alone else ROOT / part(TREES, EACH)

    def releases(self) -> Sequence[Release]:
        """Return what training charges.

        Voting trees: all answers that they will ever give. Trees on sampled rows: each as a whole.
        Else what goes into a tree without noise, and then its noisy splits and leaves.
        """
        if self.noise == "votes":
            return (answers_release(self.query_epsilon, self.n_classes, self.queries),)
        if self.sampling == "poisson":
            return (self._sampled_release(),)
        return (*self._exact_releases(), *self.tree_releases())

    def charge(self, ledger: Ledger) -> Prepaid:
        """Charge `releases`; a ledger of sampled rows is charged for trees, not for their parts."""
        if self.noise == "votes":
            reserve_answers(self.releases()[0], ledger, self.delta)
            return Prepaid(ledger, ())
        paid = super().charge(ledger)
        return Prepaid(ledger, self.tree_releases()) if self.sampling == "poisson" else paid

    def opened(self) -> OpenPlan:
        """Return the plan of the same tree, opened; H501 for what is not one tree by its scores."""
        alone = self.n_trees == 1 and self.sampling == "disjoint" and self.noise != "votes"
        if not alone or self.random_splits:
            raise Code.BAD_PARAMETER.error(
                expected="one tree of all records whose splits are chosen",
                found=f"{self.n_trees} trees, sampling={self.sampling!r}, noise={self.noise!r}, "
                f"random_splits={self.random_splits}",
            )
        return OpenPlan(**{field.name: getattr(self, field.name) for field in fields(self)})

    def tree_releases(self) -> list[Release]:
        """Return what one tree releases with noise, of the records that it sees."""
        where, found = self.scope, []
        if self.is_noisy_in_splits:
            found = [
                self._split_release(level_charge(NOBODY, where, self.audience, level))
                for level in range(self.depth)
            ]
        if self.noise in ("leaves", "splits+leaves"):
            reason = LEAF_LABELS if self.leaves_are_labels else LEAF_COUNTS
            found.append(self._leaf_release(leaf_charge(NOBODY, where, self.audience, reason)))
        return found

    @property
    def leaves_are_labels(self) -> bool:
        """Whether the noise of a leaf gives its label alone, and no counts."""
        if self.mechanism == "discrete":
            return self.leaf_release == "labels"
        return self.mechanism == "exponential"

    def _exact_releases(self) -> list[Release]:
        """Return what answers depend on without noise; a paper's claim for it stands beside it."""
        found = []
        if not self.is_noisy_in_splits and not self.random_splits:
            claimed = 0.0 if self.leaf_epsilon else None
            found.append(exact_release(STRUCTURE, self.audience, claimed))
        if self.noise == "none":
            found.append(exact_release(LABELS, self.audience))
        return found

    def _split_release(self, charge: Charge) -> Release:
        if self.mechanism == "discrete":
            return charge.release(self.split_mechanism, len(self.layout.candidates))
        sensitivity = self.score.integer_sensitivity(self.public, self.shift).add_remove
        return approximate_release(EXPONENTIAL, self.split_epsilon, sensitivity, charge, 1)

    def _leaf_release(self, charge: Charge) -> Release:
        if self.mechanism == "discrete":
            noise = self.label_mechanism if self.leaves_are_labels else self.count_mechanism
            return charge.release(noise, self.n_classes)
        rule = EXPONENTIAL if self.mechanism == "exponential" else LAPLACE
        return approximate_release(rule, self.leaf_epsilon, 1, charge, self.n_classes)

    def _sampled_release(self) -> Release:
        """Return what all trees cost: as many releases in sequence, each amplified as a whole."""
        exact = self.noise == "none" or (self.noise == "leaves" and not self.random_splits)
        epsilon, delta = math.inf, 0.0
        if not exact and self.mechanism == "discrete":
            *splits, leaf = self.tree_releases()
            epsilon = leaf.epsilon + self.depth * self.split_epsilon
            delta = leaf.delta + (self.depth * splits[0].delta if splits else 0.0)
        papers = self.rate * (self.depth * self.split_epsilon + self.leaf_epsilon)
        return sampled_release(epsilon, delta, self.rate, self.n_trees, papers or None)


class OpenPlan(HiddenPlan):
    """One tree that is opened to everybody as it grows."""

    audience: ClassVar[str] = "public"

    def openings(self, to: str = EVERYONE) -> list[Opening]:
        """Return what training opens: splits level by level, then the leaves; to all parties.

        Arrays have room for as many nodes as a level can have, whatever was chosen before.
        """
        sizes = [self.layout.n_nodes(level) for level in range(self.depth + 1)]
        splits = [
            Opening(split_name(level), to, (sizes[level],), release=split_reason(level))
            for level in range(self.depth)
        ]
        shape = (sizes[-1], self.n_classes)
        return [*splits, Opening(LEAF, to, shape, release=self.leaf_reason)]

    @property
    def leaf_reason(self) -> str:
        """Reason of the release of the leaves: noisy counts, or labels alone."""
        labels = self.noise == "none" or self.leaves_are_labels
        return LEAF_LABELS if labels else LEAF_COUNTS

    def _exact_releases(self) -> list[Release]:
        splits = [] if self.is_noisy_in_splits else map(split_reason, range(self.depth))
        reasons = [*splits, *([LEAF_LABELS] if self.noise == "none" else [])]
        return [exact_release(reason, self.audience) for reason in reasons]


LEAF = "leaves"
"""Name of the opening of an opened tree's leaves."""


def split_name(level: int) -> str:
    """Return the name of the opening of a level's splits."""
    return f"splits of level {level}"
