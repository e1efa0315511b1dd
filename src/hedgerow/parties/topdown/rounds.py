"""`Rounds`: a coordinator's side of a run: who is asked what, who has answered, who is late.

It knows no network. Participants come and ask what is wanted of them (`Rounds.next`), and bring
their answers (`Rounds.answer`); whoever watches the clock calls `Rounds.tick`. What the questions
mean is the business of the conductor, `topdown.coordinator.Coordinator`.

Who can only answer together, as three servers, gets the question when all of them are there
(`Gathering`). Whoever asks again instead of answering has failed, and makes the others fail: they
come back, and the next attempt begins when all are there. Who is missing then is known by name.

All that has happened is appended to a log before anybody hears of it, so that a coordinator that
was killed goes on with the same question to the same participants
(`hedgerow.parties.topdown.log.replay`).

Cost: an answer is written once; what else happens takes a line of some hundred bytes.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.topdown.job import TopDownJob, TopDownTimeouts
from hedgerow.parties.topdown.log import Entry, Record
from hedgerow.parties.topdown.turns import Conductor, RoundsStatus, Turn, digest

_logger = logging.getLogger(__name__)


class Gathering:
    """Who waits for whom; used under the lock of `Rounds`.

    `group` can only answer together; `at_work` has the last attempt's question and is not back.
    """

    def __init__(self) -> None:
        self.group: tuple[str, ...] = ()
        self.at_work: set[str] = set()
        self._here: dict[str, object] = {}
        self._due: set[str] = set()

    def renew(self, group: tuple[str, ...]) -> None:
        """Hear who answers together in the question that is open now."""
        if group != self.group:
            self.group = group
            self.at_work.clear()
            self._due.clear()

    def come(self, name: str) -> object:
        """Note that somebody asks what is wanted; return a ticket."""
        # Of a process that was killed the last request may still be here: the new one counts.
        self._here[name] = ticket = object()
        self.at_work.discard(name)
        return ticket

    def leave(self, name: str, ticket: object) -> None:
        """Note that somebody waits no longer."""
        if self.holds(name, ticket):
            del self._here[name]

    def holds(self, name: str, ticket: object) -> bool:
        """Whether this is the newest request of somebody."""
        return self._here.get(name) is ticket

    def waits(self, name: str) -> bool:
        """Whether somebody of the group is here, and waits for the others."""
        return name in self.group and name in self._here

    def complete(self) -> bool:
        """Whether all are here, and another attempt can begin."""
        return bool(self.group) and not self._due and self._here.keys() >= set(self.group)

    def begin(self) -> None:
        """Let all of them have the question."""
        self._due = set(self.group)

    def take(self, name: str, ticket: object) -> bool:
        """Whether somebody gets the question now."""
        if name not in self._due or not self.holds(name, ticket):
            return False
        self._due.discard(name)
        self.at_work.add(name)
        return True


class Deadlines:
    """Who was asked when, and when each called first; used under the lock of `Rounds`."""

    def __init__(self, timeouts: TopDownTimeouts, gathering: Gathering) -> None:
        self._timeouts, self._gathering = timeouts, gathering
        self.arrived: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._since: dict[str, tuple[str, float]] = {}

    def note_asks(self, asks: Mapping[str, bytes], now: float) -> list[str]:
        """Note what is asked now; return who is asked something new."""
        found = []
        for name, ask in asks.items():
            known = self._since.get(name)
            if known is None or known[0] != digest(ask):
                self._since[name] = (digest(ask), now)
                found.append(name)
        return found

    def note_call(self, name: str, now: float) -> None:
        """Note that somebody is there."""
        self._seen[name] = now
        self.arrived.setdefault(name, now)

    def until(self, name: str) -> float:
        """Return until when an answer of somebody who is asked is waited for."""
        since = self._since[name][1]
        if self._gathering.waits(name):
            # The others are to blame.
            return math.inf
        if name in self._gathering.group and name not in self._gathering.at_work:
            # It was there and has not come back, or has never come.
            return max(since, self._seen.get(name, since)) + self._timeouts.join
        if name not in self.arrived:
            return since + self._timeouts.join
        return max(since, self.arrived[name]) + self._timeouts.answer


class Rounds:
    """A run at its coordinator; for all threads.

    ``keep(entries, answer)`` returns when what has happened is on the disk; `finish` returns the
    model when nobody is asked any more.
    """

    def __init__(
        self,
        job: TopDownJob,
        conductor: Conductor,
        record: Record,
        *,
        keep: Callable[[list[Entry], bytes], None],
        finish: Callable[[], bytes],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job, self.record = job, record
        self.model: bytes | None = None
        self.error: HedgerowError | None = None
        self._conductor, self._keep, self._finish = conductor, keep, finish
        self._clock = clock
        self._changed = threading.Condition()
        self._closing = False
        self._asks: dict[str, bytes] = {}
        self._gathering = Gathering()
        self._deadlines = Deadlines(job.timeouts, self._gathering)
        self._late: set[str] = set()
        self._refused: dict[str, str] = {}
        self._gone = {one["participant"] for one in record.events if one["what"] == "lost"}
        with self._changed:
            self._refresh()

    def next(self, name: str, seconds: float) -> Turn:
        """Return what a participant is asked, after at most so many seconds.

        H841 if the run goes on without it, or why the run has stopped.
        """
        end = time.monotonic() + seconds
        with self._changed:
            self._deadlines.note_call(name, self._clock())
            ticket = self._gathering.come(name)
            try:
                while True:
                    self._check(name)
                    number, dropped = self._conductor.round, name in self._gone
                    if self.model is not None:
                        return Turn("done", number, self.model, dropped=dropped)
                    ask = self._question(name, ticket)
                    if ask is not None:
                        if self._refused.pop(name, None) is not None:
                            self._changed.notify_all()
                        self.record.note_question(name, len(ask))
                        return Turn("ask", number, ask, self._awaited())
                    left = end - time.monotonic()
                    if left <= 0 or self._closing or not self._gathering.holds(name, ticket):
                        return Turn("wait", number, b"", self._awaited(), dropped)
                    self._changed.wait(left)
            finally:
                self._gathering.leave(name, ticket)
                self._deadlines.note_call(name, self._clock())

    def answer(self, name: str, ask: str, data: bytes, *, private: bool = True) -> bool:
        """Take an answer to the question of a SHA-256; return whether it counts.

        Not if the round went on without it. The same answer again counts, and changes nothing. H823
        for another one, what the conductor says of one that it cannot use, H841, or why the run has
        stopped.
        """
        with self._changed:
            self._deadlines.note_call(name, self._clock())
            self._check(name)
            asked = self._asks.get(name)
            if asked is None or digest(asked) != ask:
                return self._again(name, ask, data)
            try:
                self._conductor.hear(name, data)
            except HedgerowError as error:
                if self._conductor.asks().keys() != self._asks.keys():
                    # Answers that do not fit together are forgotten, all of them.
                    self.record.note_attempt()
                self._bad(name, error)
                raise
            self.record.note_answer(name, ask, digest(data), len(data), private)
            self._refused.pop(name, None)
            self._advance(data)
            return True

    def confirm_model(self, name: str) -> None:
        """Hear that a participant has the model on its own disk."""
        with self._changed:
            if self.model is not None and name not in self.record.told:
                self.record.note_model(name)
                self._keep(self.record.take(), b"")
            self._changed.notify_all()

    def tick(self) -> None:
        """Look at the clock: who is late is waited for, or gone on without, as the job says."""
        with self._changed:
            if self.model is not None or self.error is not None:
                return
            for name in list(self._asks):
                if self._deadlines.until(name) > self._clock() or name not in self._asks:
                    continue
                if self.job.dropouts == "wait":
                    if name not in self._late:
                        self._late.add(name)
                        _log("late", participant=name, round=self._conductor.round)
                        self._changed.notify_all()
                elif self.error is None:
                    self._lose(name, "no answer in time")

    def status(self) -> RoundsStatus:
        """Return how far the run is."""
        with self._changed:
            return RoundsStatus(
                round=self._conductor.round,
                waiting_for=self._awaited(),
                late=tuple(name for name in self._asks if name in self._late),
                absent=tuple(name for name in self._asks if name not in self._deadlines.arrived),
                dropped=tuple(sorted(self._gone | set(self.record.out))),
                refused={name: self._refused[name] for name in self._asks if name in self._refused},
                octets=self.record.octets,
                done=self.model is not None,
            )

    def refuse(self, name: str, error: HedgerowError) -> None:
        """Note that a participant called and was sent away, such as for another job."""
        with self._changed:
            self._note(name, error)
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until something has changed, or for some seconds."""
        with self._changed:
            self._changed.wait(seconds)

    def all_told(self) -> bool:
        """Whether everybody who takes part to the end has the model."""
        with self._changed:
            there = {*self._deadlines.arrived, *self.record.answers} - {
                *self.record.out,
                *self._gone,
            }
            return there <= set(self.record.told)

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def stop(self, error: HedgerowError) -> None:
        """End the run for all who ask, with an error; what was kept can be resumed."""
        with self._changed:
            self._stop(error)

    def _question(self, name: str, ticket: object) -> bytes | None:
        if name not in self._gathering.group:
            return self._asks.get(name)
        if self._gathering.complete():
            self._conductor.ask_again()
            self.record.note_attempt()
            self._refresh()
            self._gathering.begin()
        return self._asks[name] if self._gathering.take(name, ticket) else None

    def _awaited(self) -> tuple[str, ...]:
        """Return who is waited for: of those who gather, who has not come."""
        found = tuple(name for name in self._asks if not self._gathering.waits(name))
        return found or tuple(self._asks)

    def _check(self, name: str) -> None:
        if name in self.record.out:
            raise Code.PUT_OUT.error(found=f"{name}: {self.record.out[name]}")
        if self.error is not None:
            raise self.error

    def _again(self, name: str, ask: str, data: bytes) -> bool:
        before = self.record.last(name)
        if before is None or before[0] != ask:
            _log("too late", participant=name, round=self._conductor.round)
            return False
        if before[1] != digest(data):
            # Two answers with different noise: whoever drew them has paid for one of them.
            _log("another answer", participant=name, round=self._conductor.round)
            raise Code.UNEXPECTED_ANSWER.error(
                found=f"another answer of {name} to a question that it has answered"
            )
        return True

    def _bad(self, name: str, error: HedgerowError) -> None:
        """Go on without a participant whose answer cannot be used, where the job says so."""
        why = self._note(name, error)
        if self.job.dropouts == "wait":
            return
        self._lose(name, why, out=True)

    def _note(self, name: str, error: HedgerowError) -> str:
        number, why = self._conductor.round, f"{error.code.number} {error.found}"
        _log("refused", participant=name, round=number, outcome=error.code.number)
        self.record.note_refusal(name, number, why)
        self._refused[name] = why
        return why

    def _lose(self, name: str, why: str, *, out: bool = False) -> None:
        """Go on without a participant; or the run stops instead, and can be resumed."""
        number = self._conductor.round
        try:
            self._conductor.drop(name)
        except HedgerowError as error:
            # The question stands, for when the participant is back.
            found = f"{error.found} without {name} ({why})"
            self._stop(error.code.error(expected=error.expected, found=found, fix=error.fix))
            return
        _log("lost", participant=name, round=number, why=why)
        # Before the next round is looked at, which would ask it again.
        self.record.note_loss(name, number, why, out=out)
        self._gone.add(name)
        self._advance()

    def _advance(self, answer: bytes = b"") -> None:
        """Keep what has happened, then look what is asked now."""
        try:
            self._keep(self.record.take(), answer)
            self._refresh()
        except HedgerowError as error:
            self._stop(error)
            raise

    def _refresh(self) -> None:
        self._asks = dict(self._conductor.asks())
        for name in [name for name in self._asks if name in self.record.out]:
            self._conductor.drop(name)
            self._asks = dict(self._conductor.asks())
        self._gathering.renew(self._conductor.together())
        self._gone -= set(self._asks)
        self._late -= set(self._deadlines.note_asks(self._asks, self._clock()))
        if not self._asks and self.model is None:
            self.model = self._finish()
            _log("done", round=self._conductor.round)
        self._changed.notify_all()

    def _stop(self, error: HedgerowError) -> None:
        if self.error is None:
            self.error = error
            _log("stopped", outcome=error.code.number, found=error.found)
        self._changed.notify_all()


def _log(what: str, **fields: object) -> None:
    _logger.info(what, extra={"event": {"what": f"topdown {what}", **fields}})
