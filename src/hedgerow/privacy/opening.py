"""`Opening`: one value that a protocol declares it may open, and why that is in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.release import Audience

Public = Mapping[str, Any]
Shape = tuple[int | str, ...] | Callable[[Public], tuple[int, ...]]
Count = int | str | Callable[[Public], int]


@dataclass(frozen=True)
class Opening:
    """A value that a protocol may open.

    An audience that is a role without a name allows each party of that role. Sizes, `times` (over
    all recipients) and `per_release`, how many openings one charged release pays for, are numbers,
    public parameters or functions of these.

    Exactly one of three says why it may be opened: `release`, reason of the release in the ledger
    that pays for it; `independent`, why it does not depend on the data, such as ``"a random
    permutation of the candidates"``; `derived`, reasons of releases that it is computed from, and
    from nothing else of the data: answers of a hidden model whose every part was released with
    noise. These have to be charged to its audience, as often as they stand here, and are not used
    up, because what is computed from them costs nothing more.
    """

    name: str
    audience: str
    shape: Shape
    release: str | None = None
    independent: str | None = None
    times: Count = 1
    per_release: Count = 1
    derived: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.derived is not None:
            object.__setattr__(self, "derived", _reasons(self.derived, self.name))
        if not isinstance(self.name, str) or not self.name.strip():
            raise Code.BAD_DECLARATION.error(expected="a name", found=repr(self.name))
        try:
            Audience.parse(self.audience)
        except HedgerowError as error:
            raise self._bad(error.expected, error.found) from None
        why = (self.release, self.independent, self.derived)
        given = [text for text in why if text is not None]
        if len(given) != 1 or (
            self.derived is None and not (isinstance(given[0], str) and given[0].strip())
        ):
            raise self._bad(
                None,
                f"release={self.release!r}, independent={self.independent!r}, "
                f"derived={self.derived!r}",
            )

    def resolve(self, public: Public) -> Declared:
        """Return the declaration with its shape and counts as numbers."""
        shape = self.shape(public) if callable(self.shape) else self.shape
        if not isinstance(shape, (tuple, list)):
            raise self._bad("a tuple as the shape", repr(shape))
        return Declared(
            name=self.name,
            audience=self.audience,
            shape=tuple(self._number(size, public, "shape", 0) for size in shape),
            release=self.release,
            independent=self.independent,
            times=self._number(self.times, public, "times", 0),
            per_release=self._number(self.per_release, public, "per_release", 1),
            derived=self.derived,
        )

    def _number(self, value: Count, public: Public, what: str, least: int) -> int:
        if isinstance(value, str):
            if value not in public:
                found = f"{what} needs {value!r}, given are {sorted(public)}"
                raise self._bad("every public parameter that the declaration names", found)
            value = public[value]
        elif callable(value):
            value = value(public)
        if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
            return int(value)
        raise self._bad(f"whole numbers >= {least} as {what}", repr(value))

    def _bad(self, expected: str | None, found: str) -> HedgerowError:
        return Code.BAD_DECLARATION.error(
            expected=expected, found=f"opening {self.name!r}: {found}"
        )


@dataclass(frozen=True)
class Declared:
    """An opening of one run: shape and counts are numbers."""

    name: str
    audience: str
    shape: tuple[int, ...]
    release: str | None
    independent: str | None
    times: int
    per_release: int
    derived: tuple[str, ...] | None = None

    @property
    def why(self) -> str:
        """What pays for it, or why it is harmless."""
        if self.derived:
            return f"computed from: {'; '.join(dict.fromkeys(self.derived))}"
        return f"release: {self.release}" if self.release else f"independent: {self.independent}"


def _reasons(given: object, name: str) -> tuple[str, ...]:
    if isinstance(given, (tuple, list)) and given:
        reasons = tuple(given)
        if all(isinstance(reason, str) and reason.strip() for reason in reasons):
            return reasons
    raise Code.BAD_DECLARATION.error(
        expected="the reasons of releases", found=f"opening {name!r}: derived={given!r}"
    )
