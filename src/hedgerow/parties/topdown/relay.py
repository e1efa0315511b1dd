"""`Relay`: a coordinator's questions where there are servers, under the members' names.

Before anything else every server is asked for its sealing key, signed for this run
(`consortium.sealing_keys`). Whoever carries the messages treats all participants alike
(`hedgerow.parties.topdown.turns.Conductor`). Questions come in a letter, a line of JSON before:

- to a server, first: which number the run has, and that its sealing key is wanted (`KeyLetter`);
- to an owner: the number of the run and the signed keys, then the question (`OwnerLetter`);
- to a server: the session in which the three meet, then the question (`ServerLetter`). Every
  attempt has a session of its own.

Reveals: to the owners, the servers' public keys; to the servers nothing.
Cost: one more round, of three short messages.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any, Self

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.frames import SESSION_BYTES
from hedgerow.parties.consortium.config import SERVERS, PartyConfig
from hedgerow.parties.consortium.sealing_keys import RUN_BYTES, SignedKey, digits, signed_keys
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.log import BEGUN, RunLog
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.wire import SERVER_NAMES

_LONGEST_LINE = 1 << 14


@dataclass(frozen=True)
class KeyLetter:
    """Asks a server for its sealing key, signed for a run of 16 bytes."""

    run: bytes

    def to_bytes(self) -> bytes:
        """Write it."""
        return _write("key", {"run": self.run.hex()}, b"")


@dataclass(frozen=True)
class OwnerLetter:
    """A question to an owner, with the keys of the three servers, in their order."""

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
    """A question to a server, and the session of 16 bytes in which the three meet for it."""

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


class Relay:
    """The conductor of a run with servers; they sign the number of the `run` with their keys."""

    def __init__(
        self, config: PartyConfig, job: TopDownJob, coordinator: Coordinator, run: bytes
    ) -> None:
        self.coordinator = coordinator
        self._config, self._job, self._run = config, job, run
        # By the names of the servers, as far as they are here.
        self._keys: dict[str, SignedKey] = {}
        self._servers = tuple(server.name for server in config.servers)
        self._of_member = dict(zip(self._servers, SERVER_NAMES, strict=True))
        self._session = secrets.token_bytes(SESSION_BYTES)

    @property
    def round(self) -> int:
        """Number of the round."""
        return self.coordinator.round

    def asks(self) -> dict[str, bytes]:
        """Return who has yet to answer, and what: the servers with their keys come first."""
        missing = self._missing()
        if missing:
            return dict.fromkeys(missing, KeyLetter(self._run).to_bytes())
        found: dict[str, bytes] = {}
        keys = tuple(self._keys[name] for name in self._servers)
        for name, ask in self.coordinator.asks().items():
            if name in SERVER_NAMES:
                member = self._servers[SERVER_NAMES.index(name)]
                found[member] = ServerLetter(self._session, ask).to_bytes()
            else:
                found[name] = OwnerLetter(self._run, keys, ask).to_bytes()
        return found

    def hear(self, name: str, answer: bytes) -> None:
        """Take an answer, as `Coordinator.hear`; H760 for a key not signed for this run."""
        missing = self._missing()
        if name in missing:
            key = SignedKey.from_bytes(answer)
            # The owners rely on their own check; here it shows early who has gone wrong.
            key.check(self._config, self._job, self._run, name)
            self._keys[name] = key
            return
        if missing:
            raise Code.UNEXPECTED_ANSWER.error(found=f"an answer of {name!r}, who is not asked")
        self.coordinator.hear(self._of_member.get(name, name), answer)

    def drop(self, name: str) -> None:
        """Go on without an owner, as `Coordinator.drop`; without a server nobody can: H894."""
        if name in self._servers:
            self.coordinator.ask_again()
            raise Code.SERVER_MISSING.error(
                expected=f"an answer of the server {name}, without which nothing can be released",
                found="none",
                fix=f"start {name} again, then the coordinator and the others: they go on where "
                "they were",
            )
        self.coordinator.drop(name)

    def together(self) -> tuple[str, ...]:
        """Return who of those that are asked now can only answer together."""
        return self._servers if not self._missing() and self.coordinator.together() else ()

    def ask_again(self) -> None:
        """Begin another attempt of the servers, in a session of its own."""
        self._session = secrets.token_bytes(SESSION_BYTES)
        self.coordinator.ask_again()

    def _missing(self) -> list[str]:
        return [name for name in self._servers if name not in self._keys]


def run_number(log: RunLog) -> bytes:
    """Return the number of a run: that of its log, or a fresh one; H867 for a log without it."""
    for entry, _ in log.each():
        number = digits(entry.get("run"), RUN_BYTES)
        if entry["what"] != BEGUN or number is None:
            raise Code.JOURNAL_DAMAGED.error(found="a run without a number")
        return number
    number = secrets.token_bytes(RUN_BYTES)
    log.append([{"what": BEGUN, "run": number.hex()}])
    return number
