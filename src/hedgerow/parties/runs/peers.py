"""What one server asks another about a run, and what it makes of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import Member
from hedgerow.parties.runs.store import ENDED, OPEN, ServerRun
from hedgerow.parties.wire.client import Reply, ServerClient
from hedgerow.parties.wire.requests import Fields, parse_error

_LONGEST_ASK = 15.0
_STATES = (*OPEN, *ENDED, "done")


@dataclass(frozen=True)
class PeerState:
    """What another server says about a run, as in `ServerRun`.

    It may be `busy` with another run, or `works` on this one and has `met` the other workers.
    """

    state: str
    attempt: int
    generation: int
    closed: bool
    error: HedgerowError | None
    busy: bool
    works: bool
    met: bool
    waiting_for: tuple[str, ...]

    @property
    def has_ended(self) -> bool:
        """Whether it has given up."""
        return self.state in ENDED

    @classmethod
    def parse(cls, fields: Fields, run: str, party: str) -> PeerState:
        """Read a reply, also of somebody hostile; H884 if it is none."""
        state, busy, names = fields.get("state"), fields.get("busy"), fields.get("waiting_for")
        numbers = [fields.get(key) for key in ("attempt", "generation")]
        if (
            state not in _STATES
            or not all(type(n) is int and 0 <= n < 1 << 31 for n in numbers)
            or not (busy is None or isinstance(busy, str))
            or not (isinstance(names, list) and all(isinstance(n, str) for n in names))
        ):
            raise Code.BAD_REPLY.error(found=f"what {party} says about run {run}")
        error = parse_error(fields.get("error"), party)
        attempt, generation = (int(n) for n in numbers if n is not None)
        closed, other = fields.get("closed") is True, busy not in (None, run)
        works = busy == run
        met = works and fields.get("met") is True
        return cls(state, attempt, generation, closed, error, other, works, met, tuple(names))


class Peers(ServerClient):
    """The other servers, to be asked."""

    def ready(self, run: ServerRun, servers: Sequence[Member] | None = None) -> dict[str, Any]:
        """Ask how far servers are with a run; by name, a `PeerState` or the error in its place."""
        fields = {"run": run.id, "hash": run.job.hash}
        found: dict[str, Any] = self._ask_peers("run-ready", fields, servers)
        for name, reply in found.items():
            if isinstance(reply, Reply):
                try:
                    found[name] = PeerState.parse(reply.fields, run.id, name)
                except HedgerowError as error:
                    found[name] = error
        return found

    def go(self, run: ServerRun, attempt: int, session: bytes) -> dict[str, HedgerowError]:
        """Let the other servers begin an attempt; return who has not, and why."""
        fields = {
            "run": run.id,
            "hash": run.job.hash,
            "attempt": attempt,
            "session": session.hex(),
        }
        replies = self._ask_peers("run-go", fields)
        return {name: r for name, r in replies.items() if isinstance(r, HedgerowError)}

    def _ask_peers(
        self, verb: str, fields: Fields, servers: Sequence[Member] | None = None
    ) -> dict[str, Reply | HedgerowError]:
        seconds = min(self._config.timeouts.request, _LONGEST_ASK)
        return self._ask_all(verb, fields, servers, seconds=seconds)
