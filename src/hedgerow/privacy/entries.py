"""What a ledger is made of: entries, reservations, marks, a budget, and who sees which of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from hedgerow.errors import Code
from hedgerow.privacy.accounting import Guarantee, Relation
from hedgerow.privacy.release import PUBLIC, Audience, Release, check_number

# Splitting an epsilon and adding the pieces up again may end a rounding error above it.
_SLACK = 1 + 1e-12
PRECISION_DELTA = 2.0**-40


class HasProvenance(Protocol):
    """What the ledger asks of a domain."""

    @property
    def is_public(self) -> bool:
        """False if bounds, categories or classes were read from the data."""


@dataclass(frozen=True)
class Budget:
    """What every single audience may cost at most, under add/remove.

    The default delta leaves room for finite precision and for nothing else. A larger one is there
    to be spent: the releases of one call of `Ledger.charge` then fit if any accountant can show it.
    Several calls, which may follow from each other's outcomes, add up all the same.
    """

    epsilon: float
    delta: float = PRECISION_DELTA

    def __post_init__(self) -> None:
        for name, high in (("epsilon", math.inf), ("delta", 1.0)):
            value = check_number(getattr(self, name), f"budget with {name}", 0, high)
            object.__setattr__(self, name, value)

    @property
    def grants_delta(self) -> bool:
        """Whether delta is more than finite precision needs."""
        return PRECISION_DELTA < self.delta < 1

    def allows(self, total: Guarantee) -> bool:
        """Whether a total fits, up to the rounding of sums."""
        return total.epsilon <= self.epsilon * _SLACK and total.delta <= self.delta * _SLACK


def as_budget(value: Budget | float | Sequence[float] | None) -> Budget | None:
    """Read a budget: epsilon alone, or (epsilon, delta)."""
    if value is None or isinstance(value, Budget):
        return value
    return Budget(value) if isinstance(value, (int, float)) else Budget(*value)


@dataclass(frozen=True)
class Reservation:
    """A worst case that was charged; what is really spent inside it is information."""

    index: int
    release: Release


class Entry(NamedTuple):
    """One line of the ledger; `inside` is the index of the reservation of a realised release."""

    kind: Literal["charge", "reservation", "realised"]
    release: Release
    inside: int | None = None


class Mark(NamedTuple):
    """Why there is no guarantee against a coalition of these audiences; none means everyone.

    With a relation it is about neighbours of that relation alone.
    """

    reason: str
    audiences: tuple[str, ...] = ()
    relation: Relation | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data; without a relation as it always was."""
        about = {} if self.relation is None else {"relation": self.relation.value}
        return {"reason": self.reason, "audiences": list(self.audiences)} | about


@dataclass(frozen=True)
class Provenance:
    """Stands in for the domain of a ledger that was read from a file."""

    is_public: bool


def check_releases(releases: Sequence[object], domain: HasProvenance | None) -> None:
    """Refuse what is no release, and a guarantee with a domain that was read from data."""
    for release in releases:
        if not isinstance(release, Release):
            raise Code.UNKNOWN_MECHANISM.error(expected="a Release", found=repr(release))
        hidden = domain is not None and not domain.is_public
        if hidden and release.bounded:
            figure = "a finite epsilon" if release.rho is None else "a rho"
            raise Code.DOMAIN_READ_FROM_DATA.error(
                found=f"{figure} for {release.reason!r} with a domain read from data"
            )


def viewers_of(audiences: Collection[str]) -> list[Audience]:
    """Return the members of a coalition; an empty one is refused."""
    names = [audiences] if isinstance(audiences, str) else list(audiences)
    if not names:
        raise Code.BAD_RELEASE.error(expected="at least one audience", found="none")
    return [Audience.parse(name) for name in names]


def sees(viewers: list[Audience], audience: str) -> bool:
    """Whether a member of the coalition sees what goes to an audience."""
    return any(viewer.sees(Audience.parse(audience)) for viewer in viewers)


def reasons_against(
    marks: Collection[Mark], audiences: Collection[str], relation: Relation
) -> list[str]:
    """Return why there is no guarantee against a coalition, for neighbours of a relation."""
    viewers = viewers_of(audiences)
    return [
        mark.reason
        for mark in marks
        if mark.relation in (None, relation)
        and all(sees(viewers, audience) for audience in mark.audiences)
    ]


def takes_part(audience: str, named: Collection[str]) -> bool:
    """Whether an audience is the public, one of those named, or a role that one of them holds.

    A role that is named without its members takes in everybody who holds it.
    """
    asked = Audience.parse(audience)
    alike = [one for one in map(Audience.parse, named) if one.role == asked.role]
    members = [one for one in alike if one.name is not None]
    if asked.role == PUBLIC or asked.name is None or not members:
        return asked.role == PUBLIC or bool(alike)
    return asked in members


def seen_by(releases: Collection[Release], audiences: Collection[str]) -> list[Release]:
    """Return the releases that a coalition sees, in order."""
    viewers = viewers_of(audiences)
    seen = {name for name in {release.audience for release in releases} if sees(viewers, name)}
    return [release for release in releases if release.audience in seen]
