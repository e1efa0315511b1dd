"""`Carrier`: the coordinator of a DP-TopDown run, to whom all participants come.

Nobody calls a participant: each asks what is wanted of it (``topdown-next``, which waits for a
while if there is nothing), brings its answer (``topdown-answer``), and says when it has kept the
model (``topdown-taken``). A request with another hash than that of this copy of the job is refused.

Reveals: to the coordinator, the answers of all participants and when they came; the answers of
owners have the noise that the job's plan says, or are sealed for servers, so it needs no trust. To
every member that takes part, the tree, and who is waited for.

Cost: for each participant and round, one question and one answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

from pydantic import Field

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import Certificate, check_keys, known_callers
from hedgerow.parties.consortium.reach import Health
from hedgerow.parties.store.durable import replacing
from hedgerow.parties.topdown.accounted import ROOM, run_folder
from hedgerow.parties.topdown.job import TopDownJob, check_part
from hedgerow.parties.topdown.log import Record, RunLog, replay
from hedgerow.parties.topdown.relay import Relay, run_number
from hedgerow.parties.topdown.rounds import Rounds
from hedgerow.parties.topdown.turns import RoundsStatus
from hedgerow.parties.wire.handlers import (
    Caller,
    Incoming,
    NoFields,
    RequestFields,
    ServiceLimits,
    declared_verbs,
    verb,
    with_largest,
)
from hedgerow.parties.wire.metrics import Sample
from hedgerow.parties.wire.requests import Fields, Payload
from hedgerow.parties.wire.service import Service
from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.programs import left_out_of

POLL_SECONDS = 20.0
"""For which a request waits when there is nothing to say."""
MAX_ANSWER_BYTES = 1 << 28
_LOOK = 0.25
_PER_MEMBER = 4
_PARTICIPANTS = ("owner", "server")


class ParticipantFields(RequestFields):
    """A run, and the hash of the caller's copy of its job."""

    run: str
    hash: str


class NextFields(ParticipantFields):
    """`wait`: seconds for which the caller would wait."""

    wait: Annotated[float, Field(ge=0)]


class AnswerFields(ParticipantFields):
    """`ask`: the hash of the question. `private`: whether the noise came from the system."""

    ask: str
    private: bool


class Carrier:
    """A run at its coordinator; use `carry` to see it through.

    A request may wait for `poll` seconds. H850 for a party or a job whose roles do not fit, H857 if
    a certificate was not added, H867 if what was kept is damaged, H868 if another
    process carries the run, H811 if the port is taken.
    """

    def __init__(
        self,
        config: PartyConfig,
        job: TopDownJob,
        *,
        poll: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_part(config, "coordinator")
        job.check_members(config)
        check_keys(config)
        self.config, self.job, self._poll, self._clock = config, job, poll, clock
        self._secure = job.plan.method == "secure-counts"
        servers = config.servers if self._secure else ()
        self._names = {*job.owners, *(server.name for server in servers)}
        for name in self._names:
            Certificate.of(config, name)
        self.folder = run_folder(config.state, job.run_id)
        self._log = RunLog(config.state, job.run_id, ROOM)
        try:
            self._begin()
        except BaseException:
            self._log.close()
            raise

    def _begin(self) -> None:
        config, job, plan = self.config, self.job, self.job.make_plan()
        _write(self.folder / "job.toml", job.to_toml())
        self._coordinator = Coordinator(
            plan, job.owners, dropouts=job.dropouts, least=job.least_owners
        )
        conductor: Relay | Coordinator = self._coordinator
        if self._secure:
            conductor = Relay(config, job, self._coordinator, run_number(self._log))
        record = replay(self._log.each(), conductor)
        self.rounds = Rounds(
            job,
            conductor,
            record,
            keep=self._log.append,
            finish=lambda: self._finish(record),
            clock=self._clock,
        )
        room = _PER_MEMBER * len(self._names)
        limits = ServiceLimits(
            members=max(ServiceLimits.members, room),
            per_member=_PER_MEMBER,
        )
        self.service = Service(
            config.identity,
            known_callers(config),
            with_largest(declared_verbs(self), topdown_answer=largest_answer(plan)),
            host=config.listen or config.me.host,
            port=config.me.port,
            limits=limits,
            numbers=self._numbers,
        )

    def _numbers(self) -> Iterator[Sample]:
        """Return public numbers of the run, for ``/metrics``."""
        status, of = self.rounds.status(), {"run": self.job.run_id}
        yield Sample("hedgerow_run_rounds", "Rounds so far.", status.round, of)
        yield Sample("hedgerow_run_bytes", "Bytes of questions and answers.", status.octets, of)
        yield Sample("hedgerow_run_done", "Whether the tree is grown.", status.done, of)
        for party in status.waiting_for:
            about = "Who is waited for."
            yield Sample("hedgerow_run_waiting_for", about, 1, {**of, "party": party})

    def __enter__(self) -> Self:
        self.service.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.rounds.close()
        self.service.stop()
        self._log.close()

    def carry(self, tell: Callable[[RoundsStatus], None] = lambda status: None) -> dict[str, Any]:
        """See the run through to its end, and the model to those who take part; return the report.

        H824 if too few owners are left, H894 if a server stays away, or whatever has stopped the
        run. All that was kept stays: the same job goes on where it was.
        """
        before: RoundsStatus | None = None
        while self.rounds.model is None and self.rounds.error is None:
            self.rounds.tick()
            status = self.rounds.status()
            if status != before:
                tell(status)
            before = status
            if not status.done and self.rounds.error is None:
                self.rounds.wait(_LOOK)
        tell(self.rounds.status())
        if self.rounds.error is not None:
            self._report()
            raise self.rounds.error
        # Whoever takes part to the end gets the model; nobody is waited for longer than for an
        # answer, because it is there at the next start, too.
        end = time.monotonic() + self.job.timeouts.answer
        while not self.rounds.all_told() and time.monotonic() < end:
            self.rounds.wait(_LOOK)
        return self._report()

    def _finish(self, record: Record) -> bytes:
        ledger = Ledger(domain=self.job.domain)
        ledger.charge(*self.job.make_plan().releases(joint=len(self.job.owners) > 1))
        if self._secure:
            mark_collusion(ledger)
        for name in sorted(record.insecure):
            ledger.mark_not_private(f"{name} drew repeatable noise")
        text = ledger.to_json()
        _write(self.folder / "ledger.json", text)
        model = self._coordinator.tree().to_json(privacy=json.loads(text))
        _write(self.folder / "model.json", model)
        return model.encode()

    def _report(self) -> dict[str, Any]:
        record, status, error = self.rounds.record, self.rounds.status(), self.rounds.error
        rounds = self._coordinator.round
        meter = {"rounds": rounds, "bytes": record.octets, "participants": record.traffic}
        _write(self.folder / "meter.json", json.dumps(meter, indent=1))
        report: dict[str, Any] = {
            "run": self.job.run_id,
            "hash": self.job.hash,
            "state": "done" if status.done else "stopped",
            "error": None if error is None else str(error),
            "rounds": rounds,
            "bytes": record.octets,
            "owners": list(self.job.owners),
            "events": record.events,
            "out": record.out,
            "not_private": sorted(record.insecure),
        }
        if self._secure:
            report["left_out"] = left_out_of(self._coordinator)
        _write(self.folder / "report.json", json.dumps(report, indent=1))
        return report

    def _participant(self, caller: Caller, fields: ParticipantFields) -> str:
        """Check who asks, and that it asks about the same job; return its name."""
        if caller.name not in self._names:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"a participant of {self.job.run_id}", found=caller.name
            )
        if fields.hash != self.job.hash or fields.run != self.job.run_id:
            error = Code.JOBS_DIFFER.error(
                expected=f"the job of hash {self.job.hash} of {self.config.name}",
                found=f"another job of {caller.name}",
                fix="compare the two job files line by line, with their domains: all parties "
                "need the same",
            )
            self.rounds.refuse(caller.name, error)
            raise error
        return caller.name

    @verb("topdown-next", _PARTICIPANTS, twice="the question stays the same until it is answered.")
    def next(self, caller: Caller, fields: NextFields, payload: Incoming) -> tuple[Fields, Payload]:
        """Ask what is wanted; waits for a while if that is nothing.

        Reply: ``hash``, ``state`` ("ask", "wait" or "done"), ``round``, ``waiting_for`` and
        ``dropped``; the question, or the model, as payload.
        """
        del payload
        name = self._participant(caller, fields)
        turn = self.rounds.next(name, min(fields.wait, self._poll))
        told = {
            "hash": self.job.hash,
            "state": turn.state,
            "round": turn.round,
            "waiting_for": list(turn.waiting_for),
            "dropped": turn.dropped,
        }
        return told, turn.payload

    @verb(
        "topdown-answer",
        _PARTICIPANTS,
        largest=MAX_ANSWER_BYTES,
        twice="an answer to one question counts once, by the hash of the question.",
    )
    def answer(
        self, caller: Caller, fields: AnswerFields, payload: Incoming
    ) -> tuple[Fields, Payload]:
        """Bring the answer to a question.

        Payload: the answer. Reply: ``hash``, and ``counts``, whether it counts.
        """
        name = self._participant(caller, fields)
        data = payload.read()
        counts = self.rounds.answer(name, fields.ask, data, private=fields.private)
        return {"hash": self.job.hash, "counts": counts}, None

    @verb("topdown-taken", _PARTICIPANTS, twice="it is noted once.")
    def confirm_model(
        self, caller: Caller, fields: ParticipantFields, payload: Incoming
    ) -> tuple[Fields, Payload]:
        """Say that the model is on the caller's disk.

        Reply: ``hash``.
        """
        del payload
        self.rounds.confirm_model(self._participant(caller, fields))
        return {"hash": self.job.hash}, None

    @verb("health", (*_PARTICIPANTS, "coordinator"), twice="nothing changes.")
    def health(self, caller: Caller, fields: NoFields, payload: Incoming) -> tuple[Fields, Payload]:
        """Tell that this coordinator is there.

        Reply: ``version``, ``clock`` and ``members`` (a hash of their list).
        """
        del caller, fields, payload
        return Health.of(self.config).to_fields(), None


def largest_answer(plan: TopDownPlan) -> int:
    """Return how many bytes an answer may have: several times what any question asks for."""
    those, k = plan.candidates, plan.n_classes
    cells = 2 + k * (2 * len(those) + those.total_bins + 2 * plan.n_owners)
    nodes = 2 * (plan.n_splits + 1)
    return min(MAX_ANSWER_BYTES, max(1 << 20, 8 * 8 * nodes * cells))


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
