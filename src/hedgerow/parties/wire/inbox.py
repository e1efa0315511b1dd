"""Requests to members that take no calls: they fetch them from whoever has something for them.

A member behind a firewall asks a party that it can reach for letters (``inbox``), which waits for a
while if there is none. A letter is a request like any other; its reply goes back with the next
question for letters. So a member without an address answers the same verbs as one with an address.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import HOLDERS, Member, PartyConfig
from hedgerow.parties.wire.client import Lines, Reply, call
from hedgerow.parties.wire.handlers import (
    MAX_WAIT_SECONDS,
    Caller,
    Incoming,
    RequestFields,
    Verb,
    find_verb,
    verb,
)
from hedgerow.parties.wire.requests import Fields, Payload, as_body, error_fields, parse_error

MAX_LETTER_BYTES = 1 << 20
_MOST_LETTERS = 64
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_logger = logging.getLogger(__name__)


class InboxFields(RequestFields):
    """`wait`: seconds; `letter`: the one that is answered, with the fields or the error of it."""

    wait: Annotated[float, Field(ge=0)]
    letter: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    reply: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@dataclass
class _Letter:
    id: str
    verb: str
    fields: Fields
    payload: bytes
    until: float
    done: threading.Event = field(default_factory=threading.Event)
    reply: Reply | None = None
    error: HedgerowError | None = None


class Inbox:
    """Letters for members that fetch them; for all threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[_Letter]] = {}
        self._fetched: dict[str, dict[str, _Letter]] = {}
        self._turns: Counter[str] = Counter()
        self._closing = False

    def ask(
        self, name: str, verb: str, fields: Fields, payload: bytes = b"", *, seconds: float
    ) -> Reply:
        """Leave a letter for a member and wait for its reply; its refusal, or H882."""
        until = time.monotonic() + seconds
        letter = _Letter(secrets.token_hex(16), verb, fields, payload, until)
        with self._changed:
            room = self._waiting.setdefault(name, deque())
            if len(room) >= _MOST_LETTERS:
                raise Code.SERVICE_BUSY.error(found=f"{len(room)} letters for {name}")
            room.append(letter)
            self._changed.notify_all()
        letter.done.wait(seconds)
        with self._changed:
            if letter in room:
                room.remove(letter)
            self._fetched.get(name, {}).pop(letter.id, None)
        if letter.error is not None:
            raise letter.error
        if letter.reply is None:
            raise Code.SERVICE_UNREACHABLE.error(
                expected=f"{name}, which fetches its letters here",
                found=f"no answer to {verb} in {seconds:.0f} s",
                fix=f"have {name} run `hedgerow serve`, and see whether it reaches this party",
            )
        return letter.reply

    @verb(
        "inbox",
        ("owner", "analyst", *HOLDERS),
        twice="a letter that was fetched is not given again, and who left it is told; a reply "
        "counts once.",
        leaves="nothing. Letters are this party's own, in memory: 64 for each member.",
    )
    def fetch(self, caller: Caller, fields: InboxFields) -> tuple[Fields, Payload]:
        """Bring the reply to a letter, and fetch the next one; waits if there is none.

        Reply: ``letter``, ``verb`` and ``fields``, with the payload of the letter; nothing where
        there is no letter.
        """
        end = time.monotonic() + min(fields.wait, MAX_WAIT_SECONDS)
        with self._changed:
            self._take_reply(caller.name, fields)
            turn = self._begin_turn(caller.name)
            room = self._waiting.setdefault(caller.name, deque())
            while not room or turn != self._turns[caller.name]:
                left = end - time.monotonic()
                if left <= 0 or self._closing or turn != self._turns[caller.name]:
                    return {}, None
                self._changed.wait(left)
            letter = room.popleft()
            self._fetched.setdefault(caller.name, {})[letter.id] = letter
        told = {"letter": letter.id, "verb": letter.verb, "fields": letter.fields}
        return told, letter.payload or None

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def _begin_turn(self, name: str) -> int:
        """Let a member fetch anew, which asks for one letter after the other.

        So a request of it that still waits comes from a process that is gone, and would take a
        letter to nobody; and a letter that was fetched and is not answered by now never will be.
        """
        for letter in self._fetched.pop(name, {}).values():
            letter.error = Code.REQUEST_CUT_OFF.error(
                expected=f"an answer of {name} to {letter.verb}",
                found="none: it was cut off, and fetches letters again",
            )
            letter.done.set()
        self._turns[name] += 1
        self._changed.notify_all()
        return self._turns[name]

    def _take_reply(self, name: str, fields: InboxFields) -> None:
        if fields.letter is None:
            return
        letter = self._fetched.get(name, {}).pop(fields.letter, None)
        if letter is None:
            # Who has left it waits no longer.
            return
        letter.error = parse_error(fields.error, name)
        letter.reply = Reply(fields.reply or {}, b"")
        letter.done.set()


class LetterBox:
    """A member that fetches its letters from `others`, and answers them by its own verbs."""

    def __init__(
        self, config: PartyConfig, others: Sequence[Member], verbs: Mapping[str, Verb]
    ) -> None:
        self._config, self._verbs = config, verbs
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._fetch, args=(one,), name=f"letters {one.name}", daemon=True
            )
            for one in others
        ]

    def start(self) -> None:
        """Begin to fetch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Fetch no more; requests under way end by themselves."""
        self._stopping.set()

    def _fetch(self, member: Member) -> None:
        config, pause, answer = self._config, _PAUSE, Fields()
        certificate = config.certificate(member.name)
        lines = Lines(config.identity, certificate)
        seconds = config.timeouts.request
        # Well before this side would give the request up.
        wait = min(MAX_WAIT_SECONDS, seconds / 2)
        while not self._stopping.is_set():
            try:
                found = call(
                    (member.host, member.port),
                    config.identity,
                    certificate,
                    "inbox",
                    {"wait": wait, **answer},
                    name=member.name,
                    timeout=seconds,
                    connect_timeout=config.timeouts.connect,
                    largest_reply=MAX_LETTER_BYTES,
                    lines=lines,
                )
            except HedgerowError as error:
                event = {"what": "letters", "of": member.name, "outcome": error.code.number}
                _logger.info("letters", extra={"event": event})
                self._stopping.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause, answer = _PAUSE, {}
            if "letter" in found.fields:
                answer = self._answer(member, found)
        lines.close()

    def _answer(self, member: Member, letter: Reply) -> Fields:
        known = {"letter": letter.fields["letter"]}
        try:
            told = self._carry_out(member, letter)
        except HedgerowError as error:
            return {**known, **error_fields(error)}
        except Exception:
            _logger.exception("failure", extra={"event": {"what": "letter"}})
            failed = Code.SERVICE_FAILED.error(found=f"a letter of {member.name}")
            return {**known, **error_fields(failed)}
        return {**known, "reply": told}

    def _carry_out(self, member: Member, letter: Reply) -> Fields:
        caller, data = Caller(member.name, member.role), letter.payload
        found = find_verb(self._verbs, str(letter.fields.get("verb")), caller)
        fields = found.fields.model_validate(letter.fields.get("fields"))
        blocks = iter(as_body(data).blocks())
        incoming = Incoming(len(data), lambda: bytes(next(blocks)))
        told, _ = found.function(caller, fields, incoming)
        return told
