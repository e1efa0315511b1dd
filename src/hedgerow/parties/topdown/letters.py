"""What the coordinator's questions are wrapped in where there are servers: a line of JSON before.

- to a server, first: which number the run has, and that its sealing key is wanted (`KeyLetter`);
- to an owner: the number of the run and the signed keys, then the question (`OwnerLetter`);
- to a server: the session in which the three meet, then the question (`ServerLetter`). Every
  attempt has a session of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.frames import SESSION_BYTES
from hedgerow.parties.consortium.config import SERVERS
from hedgerow.parties.consortium.sealing_keys import RUN_BYTES, SignedKey, digits, signed_keys

_LONGEST_LINE = 1 << 14


@dataclass(frozen=True)
class KeyLetter:
    """Asks a server for its sealing key.

    Attributes
    ----------
    run : bytes of length 16
    """

    run: bytes

    def to_bytes(self) -> bytes:
        """Write it."""
        return _write("key", {"run": self.run.hex()}, b"")


@dataclass(frozen=True)
class OwnerLetter:
    """A question to an owner.

    Attributes
    ----------
    run : bytes of length 16
    keys : tuple of SignedKey
        Of the three servers, in their order.
    ask : bytes
        The question.
    """

    run: bytes
    keys: tuple[SignedKey, ...]
    ask: bytes

    def to_bytes(self) -> bytes:
        """Write it."""
        head = {"run": self.run.hex(), "keys": [key.to_dict() for key in self.keys]}
        return _write("owner", head, self.ask)

    @classmethod
    def from_bytes(cls, message: bytes) -> Self:
        """Read one, from a coordinator who may be hostile; H820 or H760 if it is none."""
        head, ask = _read(message)
        run, keys = digits(head.get("run"), RUN_BYTES), head.get("keys")
        if head.get("to") != "owner" or run is None:
            raise _bad()
        if not isinstance(keys, list) or len(keys) != SERVERS:
            raise _bad()
        return cls(run, signed_keys(keys), ask)


@dataclass(frozen=True)
class ServerLetter:
    """A question to a server.

    Attributes
    ----------
    session : bytes of length 16
        In which the three meet for it.
    ask : bytes
    """

    session: bytes
    ask: bytes

    def to_bytes(self) -> bytes:
        """Write it."""
        return _write("server", {"session": self.session.hex()}, self.ask)


def read_at_server(message: bytes) -> KeyLetter | ServerLetter:
    """Read what a server is asked; H820 if it is nothing that a server answers."""
    head, ask = _read(message)
    if head.get("to") == "key":
        run = digits(head.get("run"), RUN_BYTES)
        if run is not None and not ask:
            return KeyLetter(run)
    session = digits(head.get("session"), SESSION_BYTES)
    if head.get("to") != "server" or session is None:
        raise _bad()
    return ServerLetter(session, ask)


def _write(to: str, head: dict[str, Any], ask: bytes) -> bytes:
    return json.dumps({"to": to, **head}, separators=(",", ":")).encode() + b"\n" + ask


def _read(message: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, ask = message.partition(b"\n")
    if len(line) > _LONGEST_LINE:
        raise _bad()
    return jsonfile.loads(line, Code.BAD_ASK), ask


def _bad() -> HedgerowError:
    return Code.BAD_ASK.error(
        expected="a question of a run with servers, with its keys or its session",
        found="another message",
    )
