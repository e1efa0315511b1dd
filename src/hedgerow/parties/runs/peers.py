"""What a party asks the others about a run, and what it makes of the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.runs.store import ENDED, OPEN, PartyRun
from hedgerow.parties.store.peer_trails import PeerTrails, TrailClaim
from hedgerow.parties.wire.client import Reply, call_member
from hedgerow.parties.wire.inbox import Inbox
from hedgerow.parties.wire.requests import Fields, parse_error, printable

_LONGEST_ASK = 15.0
_AT_ONCE = 32
_STATES = (*OPEN, *ENDED, "done")


@dataclass(frozen=True)
class PeerState:
    """What another party says about a run, as in `PartyRun`.

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
    reason: str | None

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
        why = fields.get("reason")
        reason = printable(why) if isinstance(why, str) else None
        names = tuple(names)
        return cls(state, attempt, generation, closed, error, other, works, met, names, reason)


class Peers:
    """The others who take part in runs; those who take no calls get letters.

    Whose trail is not the one that `trails` remembers is refused, H936.
    """

    def __init__(self, config: PartyConfig, inbox: Inbox, trails: PeerTrails) -> None:
        self._config, self._inbox, self._trails = config, inbox, trails

    def ready(
        self,
        run: PartyRun,
        members: Sequence[Member],
        post: Callable[[], Fields] = Fields,
        resumption: Callable[[PartyRun], Fields | None] = lambda run: None,
    ) -> dict[str, PeerState | HedgerowError]:
        """Ask how far members are with a run; by name, what they say or why they say nothing.

        One that fetches letters and does not know the job yet is sent it: `post` returns the fields
        with which it is posted. One that has ended it, and has not heard that it was resumed since,
        is told: `resumption` returns the fields for that, if there are some.
        """
        fields = {"run": run.id, "hash": run.job.hash}

        def one(member: Member) -> PeerState:
            try:
                reply = self._meet(member, "run-ready", fields)
            except HedgerowError as error:
                if error.code is not Code.UNKNOWN_RUN or member.takes_calls:
                    raise
                self._ask(member, "job", post(), run.job.to_toml().encode())
                reply = self._meet(member, "run-ready", fields)
            state = PeerState.parse(reply.fields, run.id, member.name)
            if state.has_ended and state.generation < run.generation:
                resumed = resumption(run)
                if resumed is not None:
                    self._ask(member, "run-resume", resumed)
                    reply = self._meet(member, "run-ready", fields)
                    state = PeerState.parse(reply.fields, run.id, member.name)
            return state

        return self._each(members, one)

    def go(
        self, run: PartyRun, members: Sequence[Member], attempt: int, session: bytes
    ) -> dict[str, HedgerowError]:
        """Let the others begin an attempt of these members; return who has not, and why."""
        fields = {
            "run": run.id,
            "hash": run.job.hash,
            "attempt": attempt,
            "session": session.hex(),
            "members": [member.name for member in members],
        }
        others = [member for member in members if member != self._config.me]
        replies = self._each(others, lambda member: self._meet(member, "run-go", fields, 1))
        return {name: r for name, r in replies.items() if isinstance(r, HedgerowError)}

    def _meet(self, member: Member, verb: str, fields: Fields, times: int = 2) -> Reply:
        """Ask with what this party says of its trail, and hear what the other says of its own.

        Asks a second time to show the hash at a height that the other has only now named.
        """
        for _ in range(times):
            question = self._trails.question(member.name)
            claim = question.claim.model_dump()
            reply = self._ask(member, verb, {**fields, "trail": claim})
            told = TrailClaim.model_validate(reply.fields.get("trail"))
            if self._trails.hear(member.name, question, told):
                break
        return reply

    def _ask(self, member: Member, verb: str, fields: Fields, payload: bytes = b"") -> Reply:
        seconds = min(self._config.timeouts.request, _LONGEST_ASK)
        if member.takes_calls:
            return call_member(self._config, member, verb, fields, payload or None, seconds=seconds)
        return self._inbox.ask(member.name, verb, fields, payload, seconds=seconds)

    def _each(self, members: Sequence[Member], ask: Callable[[Member], Any]) -> dict[str, Any]:
        def one(member: Member) -> Any:
            try:
                return ask(member)
            except HedgerowError as error:
                return error

        # At once: each of them may take the whole timeout.
        with ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(members)))) as pool:
            replies = pool.map(one, members)
            return {member.name: reply for member, reply in zip(members, replies, strict=True)}
