"""What a coordinator needs of a protocol, and what it tells participants and its operator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, Protocol


class Conductor(Protocol):
    """Decides about questions and reads answers; its questions follow from what it has heard."""

    @property
    def round(self) -> int:
        """Number of the round."""

    def asks(self) -> dict[str, bytes]:
        """Who still has to answer, and what each is asked; nobody when the tree is grown."""

    def hear(self, name: str, answer: bytes) -> None:
        """Take an answer; a numbered error, and no change, if it cannot be used."""

    def drop(self, name: str) -> None:
        """Go on without a participant; a numbered error, and no change, if that cannot be."""

    def together(self) -> tuple[str, ...]:
        """Who of those that are asked now can only answer together; often nobody."""

    def ask_again(self) -> None:
        """Ask all of these again, also who has answered: another attempt begins."""


@dataclass(frozen=True)
class Turn:
    """What a participant is told when it asks; `dropped`: the run goes on without it."""

    state: Literal["ask", "wait", "done"]
    round: int
    payload: bytes = b""
    waiting_for: tuple[str, ...] = ()
    dropped: bool = False


@dataclass(frozen=True)
class RoundsStatus:
    """How far a run is: who has not answered, who of them should have or has never called.

    `refused` says who was refused last, and why; `octets` are of questions and answers so far.
    """

    round: int
    waiting_for: tuple[str, ...]
    late: tuple[str, ...]
    absent: tuple[str, ...]
    dropped: tuple[str, ...]
    refused: dict[str, str]
    octets: int
    done: bool


def digest(data: bytes) -> str:
    """Return the SHA-256 of a message, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
