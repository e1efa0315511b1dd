"""`Symptom`: what one look at the machine or at a folder has found."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from hedgerow.errors import HedgerowError


class Gravity(StrEnum):
    """How bad it is: nothing, something to know, something that will not work."""

    well = "well"
    note = "note"
    ill = "ill"


class Symptom(NamedTuple):
    """What was looked at, what was found, and what to do about it if it is not well."""

    what: str
    gravity: Gravity
    found: str
    fix: str = ""

    @classmethod
    def of(cls, what: str, error: HedgerowError) -> Symptom:
        """Return what a numbered error says."""
        return cls(what, Gravity.ill, f"{error.code.number} {error.found}", error.fix)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-able values."""
        return {**self._asdict(), "gravity": self.gravity.value}


def well(what: str, found: str) -> Symptom:
    """Return what is as it should be."""
    return Symptom(what, Gravity.well, found)


def note(what: str, found: str, fix: str) -> Symptom:
    """Return what works, and could be better."""
    return Symptom(what, Gravity.note, found, fix)


def ill(what: str, found: str, fix: str) -> Symptom:
    """Return what will not work."""
    return Symptom(what, Gravity.ill, found, fix)
