"""What one server asks another about a run, and what it makes of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.runs.store import ENDED, OPEN, Run
from hedgerow.parties.wire.client import Reply, call
from hedgerow.parties.wire.requests import Fields, told_error

_LONGEST_ASK = 15.0
_STATES = (*OPEN, *ENDED, "done")


@dataclass(frozen=True)
class Told:
    """What another server says about a run.

    `state`, `attempt`, `generation`, `closed`, `error`: as in `Run`.
    `busy`, `works`, `met`: whether it has a worker for another run, or for this one, and whether
    that one has met the workers of the other servers.
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
    def parse(cls, fields: Fields, run: str, party: str) -> Told:
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
        error = told_error(fields.get("error"), party)
        attempt, generation = (int(n) for n in numbers if n is not None)
        closed, other = fields.get("closed") is True, busy not in (None, run)
        works = busy == run
        met = works and fields.get("met") is True
        return cls(state, attempt, generation, closed, error, other, works, met, tuple(names))


class Peers:
    """The other servers, to be asked."""

    def __init__(self, config: PartyConfig) -> None:
        self._config = config
        self.others = [server for server in config.servers if server != config.me]

    def ready(self, run: Run, servers: Iterable[Member] | None = None) -> dict[str, Any]:
        """Ask how far servers are with a run; by name, a `Told` or the error in its place."""
        fields = {"run": run.id, "hash": run.job.hash}
        replies = self._all("run-ready", fields, servers)
        found: dict[str, Any] = {}
        for name, reply in replies.items():
            try:
                found[name] = (
                    reply
                    if isinstance(reply, HedgerowError)
                    else Told.parse(reply.fields, run.id, name)
                )
            except HedgerowError as error:
                found[name] = error
        return found

    def go(self, run: Run, attempt: int, session: bytes) -> dict[str, HedgerowError]:
        """Let the other servers begin an attempt; return who has not, and why."""
        fields = {
            "run": run.id,
            "hash": run.job.hash,
            "attempt": attempt,
            "session": session.hex(),
        }
        replies = self._all("run-go", fields, None)
        return {name: r for name, r in replies.items() if isinstance(r, HedgerowError)}

    def _all(
        self, verb: str, fields: Fields, servers: Iterable[Member] | None
    ) -> dict[str, Reply | HedgerowError]:
        asked = list(self.others if servers is None else servers)

        def one(server: Member) -> Reply | HedgerowError:
            try:
                return self._call(server, verb, fields)
            except HedgerowError as error:
                return error

        # At once: each of them may take the whole timeout.
        with ThreadPoolExecutor(max_workers=len(asked)) as pool:
            replies = pool.map(one, asked)
            return {server.name: reply for server, reply in zip(asked, replies, strict=True)}

    def _call(self, server: Member, verb: str, fields: Fields) -> Reply:
        timeouts = self._config.timeouts
        return call(
            (server.host, server.port),
            self._config.identity,
            self._config.certificate(server.name),
            verb,
            fields,
            name=server.name,
            timeout=min(timeouts.request, _LONGEST_ASK),
            connect_timeout=min(timeouts.connect, _LONGEST_ASK),
        )
