"""`ServerPlan`: what is fixed, and public, before a row is shared with three servers.

What a plan releases is written down once, here and in its subclasses. Training charges it before
anything is computed (`ServerPlan.charge`) and can draw nothing else; admission, accounts and
``hedgerow plan`` read the same list.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

from hedgerow.privacy import ROOT, Ledger, NoisyMax, Opening, Release, step
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.contract import guarantees
from hedgerow.protocols.growers import grouped
from hedgerow.protocols.growers.choices import level_charge
from hedgerow.protocols.growers.layout import Layout, counting_ring
from hedgerow.protocols.growers.means import NoisyQuotient
from hedgerow.protocols.growers.units import Units
from hedgerow.secure.noise.releases import NOBODY, Prepaid
from hedgerow.secure.replicated import EVERYONE
from hedgerow.secure.ring import Ring
from hedgerow.tables import Domain
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.criteria import Criterion, Public

STRUCTURE = "splits without noise"
LABELS = "leaves without noise"


class ChargedPlan(ABC):
    """Public numbers of what servers are to do, and its charges; subclasses are frozen dataclasses.

    `audience` sees what the result gives away.
    """

    domain: Domain

    audience: ClassVar[str] = "public"

    @abstractmethod
    def releases(self) -> Sequence[Release]:
        """Return exactly what is charged, in order."""

    def charge(self, ledger: Ledger) -> Prepaid:
        """Charge all of `releases` and return them for whatever draws; nothing else can be."""
        for release in self.releases():
            ledger.charge(release)
        return Prepaid(ledger, self.releases())

    def ledger(self) -> Ledger:
        """Return the ledger of what has not happened.

        H202 for a finite epsilon and a domain that was read from data.
        """
        ledger = Ledger(domain=self.domain)
        self.charge(ledger)
        return ledger

    def costs(self) -> dict[str, Guarantee]:
        """Return what every audience learns, the public among them; infinite without a promise."""
        return guarantees(self.ledger())

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names} | {"domain": self.domain.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**data | {"domain": Domain.from_dict(data["domain"], source="the plan")})


class ServerPlan(ChargedPlan):
    """Of a result of three servers. Where no target is needed, its domain has none."""

    capacity: int

    @property
    def ring(self) -> Ring:
        """Of the shared table."""
        return counting_ring(self.capacity)

    @property
    def n_slots(self) -> int:
        """Slots of the shared table."""
        return self.capacity

    @cached_property
    def layout(self) -> Layout:
        """Columns of tables, queries and histograms."""
        return Layout(self.domain, "binary")

    @property
    def target_units(self) -> Units | None:
        """Scale of a target that is a number."""
        return None

    @property
    def levels(self) -> int:
        """What progress is counted in: levels of all trees that grow one after the other."""
        return 1

    def nodes(self, done: int) -> int:
        """Return the nodes that are worked on once so many levels are done."""
        del done
        return 1

    @abstractmethod
    def openings(self, to: str = EVERYONE) -> list[Opening]:
        """Return exactly what training may open."""


class TreePlan(ServerPlan):
    """What all models of trees fix, hidden or opened."""

    depth: int
    branching: Branching
    grower: str
    split_epsilon: float

    audience: ClassVar[str] = "analyst"

    @property
    @abstractmethod
    def score(self) -> Criterion:
        """The criterion."""

    @property
    @abstractmethod
    def public(self) -> Public:
        """Public numbers that sensitivities rest on."""

    @property
    def shift(self) -> int:
        """Bits of the grid on which scores are whole numbers."""
        return 0

    @property
    def split_mechanism(self) -> NoisyMax:
        """Noisy max over the candidates."""
        sensitivity = self.score.integer_sensitivity(self.public, self.shift)
        return NoisyMax(self.split_epsilon, sensitivity.add_remove, monotone=sensitivity.monotone)

    @cached_property
    def layout(self) -> Layout:
        """Columns of tables, queries and histograms."""
        return Layout(self.domain, self.branching)

    @property
    def levels(self) -> int:
        """Levels of all trees that grow one after the other."""
        return self.depth

    def nodes(self, done: int) -> int:
        """Return the nodes of one tree at the level that is next."""
        return self.layout.n_nodes(min(done, self.depth))

    def openings(self, to: str = EVERYONE) -> list[Opening]:
        """Return what training opens: permutations of the grouped grower alone."""
        if self.grower != "grouped":
            return []
        return grouped.openings(self.layout, self.n_slots, self.depth, to)

    def answers_derive_from(self) -> tuple[str, ...]:
        """Return the reasons of all releases that an answer is computed from."""
        return tuple(release.reason for release in self.releases())


def exact_release(reason: str, audience: str, claimed: float | None = None) -> Release:
    """Return what goes into a model without noise: no finite epsilon."""
    return Release(
        mechanism="exact",
        epsilon=math.inf,
        delta=0.0,
        sensitivity=1.0,
        scope=ROOT / step(reason),
        audience=audience,
        reason=reason,
        claimed=claimed,
    )


def number_releases(
    split: NoisyMax | None,
    leaves: Sequence[NoisyQuotient],
    candidates: int,
    depth: int,
) -> Iterator[Release]:
    """Yield noisy splits of trees that grow side by side, level by level, then their leaves."""
    if split is not None:
        for level, tree in product(range(depth), leaves):
            charge = level_charge(NOBODY, tree.scope, tree.audience, level)
            yield charge.release(split, candidates)
    for tree in leaves:
        for mechanism, charge in tree.charges():
            yield charge.release(mechanism, 1)
