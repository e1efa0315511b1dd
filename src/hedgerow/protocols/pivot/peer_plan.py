"""`PeerPlan`: what is public about any model among peers before it is trained.

Paper: wu2020pivot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import isinf, isqrt
from typing import Any, ClassVar, Final, Literal, Self

from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening, Release
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.sharing.join import openings as join_openings
from hedgerow.protocols.vertical_id3.leakage import (
    PUBLISHED,
    exact,
    exact_releases,
    ring_openings,
)
from hedgerow.secure.additive import EVERYONE
from hedgerow.secure.additive.core import FEWEST, MOST
from hedgerow.secure.additive.punctured import MOST_BINS, PuncturedBins
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.ring import Ring
from hedgerow.tables import Domain

Align = Literal["given", "ring", "hidden"]
INSTANCES: Final = "exact attributes of the instances that are asked about"
"""Reason of the release that every answer is: which way they lead, at all peers."""


def chosen_from(max_features: Literal["sqrt"] | int | None, every: int) -> int:
    """Return among how many of all attributes each node chooses."""
    if max_features is None:
        return every
    return isqrt(every) if max_features == "sqrt" else min(every, max_features)


@dataclass(frozen=True, kw_only=True)
class PeerPlan(ABC):
    """Who has what, in public numbers; made by `PeerOptions.plan`.

    Attribute j is at peer `owners[j]`, the target at `target_at`. Rows are in one order already, or
    aligned by ids before training: in a ring, or so that nobody learns which are common, nor how
    many. H501 for what cannot be trained.
    """

    domain: Domain
    capacity: int
    owners: tuple[int, ...]
    n_peers: int
    target_at: int
    align: Align = "given"

    audience: ClassVar[str] = EVERYONE

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise of any kind; the capacity is then no number of rows."""
        return False

    @property
    def is_private(self) -> bool:
        """Whether noise has a finite epsilon: nothing else may then follow from rows."""
        return False

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

    @property
    @abstractmethod
    def ring(self) -> Ring:
        """Of the columns that are shared."""

    @property
    @abstractmethod
    def units(self) -> Units:
        """Scale of a target that is a number."""

    @property
    @abstractmethod
    def hides(self) -> bool:
        """Whether some of the model stays shared, so that peers do not see all of it."""

    @property
    @abstractmethod
    def levels(self) -> int:
        """Steps of training that progress counts."""

    @cached_property
    def layout(self) -> Layout:
        """Columns of histograms and choices."""
        return Layout(self.domain, "binary")

    def plant(self, provider: Transfers, bins: Mapping[int, NDArray[Any]], n: int) -> PuncturedBins:
        """Puncture the bins of n rows, those of attributes whose owner lives here.

        Cost: `PuncturedBins.cost_plant`.
        """
        return PuncturedBins(provider, self.owners, self.domain.n_bins.tolist(), bins, n)

    @abstractmethod
    def model_releases(self) -> Sequence[Release]:
        """Return what the model itself costs."""

    @abstractmethod
    def model_openings(self, to: str) -> list[Opening]:
        """Return what training opens, once rows are aligned."""

    def releases(self) -> Sequence[Release]:
        """Return what a run charges; of an exact model also for whom peers may show it to."""
        model = self.model_releases()
        shown = [exact("public", PUBLISHED)] if any(isinf(one.epsilon) for one in model) else []
        return [*exact_releases(self.ring_openings()), *model, *shown]

    def answer_releases(self, asker: int) -> list[Release]:
        """Return what the first answer costs beyond the model, to who asks: no finite epsilon.

        Noise in the model covers its rows, and not the attributes of an instance.
        """
        return [exact(f"peer {asker}", INSTANCES)]

    def openings(self, to: str = EVERYONE) -> list[Opening]:
        """Return what a run opens."""
        found = self.ring_openings()
        if self.align == "hidden":
            found += join_openings([self.capacity] * self.n_peers, to)
        return found + self.model_openings(to)

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
