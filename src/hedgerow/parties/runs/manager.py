"""`RunManager`: the runs of a party, from the job that is accepted to the model.

Who has the first seat of a job leads its run. It asks the others (``run-ready``); when all hold the
job, it draws a session and a number for the attempt and lets the others begin (``run-go``). A
worker that fails makes the run wait for the next attempt. A run that has waited for
``timeouts.rejoin`` without getting on fails, or goes on without those that its job can do without;
the others hear of it when they ask the leader, as they do all the time, or fail by themselves when
the leader does not answer for as long.

One run is under way at a time; the others wait in the order in which the leader has accepted them.
Everything that counts is on the disk, so that a daemon that is killed goes on where it was.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs import admission
from hedgerow.parties.runs.child import Child, Forker, Line
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import read_job
from hedgerow.parties.runs.parts import part_of
from hedgerow.parties.runs.peers import Peers, PeerState
from hedgerow.parties.runs.stages import forget_stages
from hedgerow.parties.runs.store import ENDED, OPEN, PartyRun, RunStore
from hedgerow.parties.store import models
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.approvals import decision
from hedgerow.parties.store.database import open_store
from hedgerow.parties.wire.inbox import Inbox
from hedgerow.parties.wire.requests import Fields, error_fields

MOST_FRUITLESS = 20
"""Attempts in a row in which all met and got nothing done, before a run fails."""

POLL = 0.5
_PATIENCE = 10.0
_MOST_RESUMED = 1 << 10
"""Generations by which a party may be behind one that tells it of a stop or a resumption."""
_FINAL = {
    Code.POLICY_REFUSES,
    Code.BAD_JOB,
    Code.UPLOADS_DO_NOT_FIT,
    Code.UNKNOWN_UPLOAD,
    Code.UPLOAD_WITHDRAWN,
    Code.BAD_UPLOAD,
    Code.ACCOUNT_CONFLICT,
    Code.MODEL_EXISTS,
    Code.UNKNOWN_MODEL,
    Code.ROWS_NOT_HELD_OUT,
    Code.UNKNOWN_MEMBER,
    Code.WRONG_ROLE,
    Code.ROLE_MISSING,
    Code.PORT_MISSING,
    Code.NOT_APPROVED,
}
"""Refusals to begin that another attempt does not change."""

_DECISIONS = (
    Code.POLICY_REFUSES,
    Code.NO_TABLE_HERE,
    Code.UNKNOWN_UPLOAD,
    Code.UPLOAD_WITHDRAWN,
)
"""Refusals of a job by the policy, the account, or for want of its rows."""

_LACKING = (Code.NO_TABLE_HERE, Code.MISSING_COLUMN)
"""Refusals by a member that has no rows for a job, or lacks a column of it."""

_MISFITS = (Code.STATE_SET_BACK, Code.JOBS_DIFFER, Code.UNKNOWN_RUN)
_logger = logging.getLogger(__name__)


@dataclass
class Watch:
    """What is known about an open run besides its row in the store; gone with the process.

    `since` it waits, and `left` a worker last, by `time.monotonic`; `fruitless` are attempts in a
    row that got nothing done; `reason` is why members are waited for, `without` whom the last
    attempt has begun without.
    """

    since: float = field(default_factory=time.monotonic)
    left: float = field(default_factory=time.monotonic)
    fruitless: int = 0
    waiting_for: tuple[str, ...] = ()
    reason: str | None = None
    without: tuple[str, ...] = ()
    progress: Line = field(default_factory=dict)

    def restart(self) -> None:
        """Begin to wait from now on."""
        self.since, self.waiting_for, self.reason = time.monotonic(), (), None


class RunManager:
    """The runs of a party, and its one worker; looks at open runs every `poll` seconds.

    `inbox` has letters for members that take no calls, `forker` begins workers.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        port: RunPort | None,
        accounts: Accounts | None = None,
        *,
        inbox: Inbox | None = None,
        forker: Forker | None = None,
        poll: float = POLL,
    ) -> None:
        self.config, self.policy, self.port = config, policy, port
        self.accounts = Accounts(config.state, policy) if accounts is None else accounts
        self.store = RunStore(config.state)
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._forker = forker or Forker()
        self._child: Child | None = None
        self._watches: dict[str, Watch] = {}
        for run in self.store.all():
            if run.state == "running":
                self.store.change(run, "waiting")
        self.poll = poll
        self._peers = Peers(config, inbox or Inbox(), self.store.trails)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="runs", daemon=True)

    def start(self) -> RunManager:
        """Begin to look after the runs."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the worker, if there is one; all is kept for the next start."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._end_child()
        self._forker.close()

    def accept(self, text: str, by: str, signature: bytes = b"", *, check: bool = False) -> Fields:
        """Take a job, or with `check` say whether it would be taken; see `admission.admit`.

        What this party does not allow, or has no rows for, is told in its trail.
        """
        job = read_job(text)
        with self._telling_refusal(job, by):
            admission.admit(job, by, self.config, self.policy, self.accounts)
        with self._lock, self._telling_refusal(job, by):
            known = self.store.find(job.run_id)
            if known is not None and known.by != by:
                raise _run_of_another(known, f"{by}, which posts it as well")
            if known is None:
                open_ = [r for r in self.store.all() if r.by == by and r.state != "done"]
                self.policy.check_runs(by, len(open_))
            self._check_name(job)
            if check:
                return {"run": job.run_id, "hash": job.hash}
            if known is None:
                self.store.owe(self.policy.quota(by), len(text))
            run = self.store.accept(job, by, signature)
            self._watch(run)
        self._wake.set()
        return self.show(run.id)

    def ready(self, run_id: object, hash_: object) -> Fields:
        """Say how far this party is with a run, to another one that asks.

        H938 before it is approved, H937 if it is not.
        """
        run = self._run_with_hash(run_id, hash_)
        self._check_approval(run)
        with self._lock:
            child = self._child
            return {
                **self.show(run.id),
                "busy": None if child is None else child.run,
                "met": child is not None and child.run == run.id and child.met,
                "waiting_for": list(self._watch(run).waiting_for),
            }

    def check_not_begun(self, run_id: object) -> PartyRun:
        """Return a run that is not under way or done here: H893, and H937 if it was refused."""
        run = self.store.get(run_id)
        objection = self.objection(run)
        if objection is not None and objection.code is Code.NOT_APPROVED:
            raise objection
        if run.state in ("running", "done"):
            raise Code.WRONG_RUN_STATE.error(
                expected="a run that waits, for an approval or for others",
                found=f"{run.id}, which is {run.state}",
                fix="prepare runs before they begin",
            )
        return run

    def go(
        self,
        run_id: object,
        hash_: object,
        attempt: int,
        session: bytes,
        members: Sequence[str],
        by: str,
    ) -> None:
        """Begin an attempt of these members, because the leader says so.

        H871 if it is somebody else who says so, H893 for members that the job does not allow, or an
        attempt that is not the next one.
        """
        with self._lock:
            run = self._run_with_hash(run_id, hash_)
            self._check_members(run.job, members, by)
            if run.state in ENDED or attempt <= run.attempt:
                raise Code.WRONG_RUN_STATE.error(
                    expected=f"an open run and an attempt after {run.attempt}",
                    found=f"{run.id} {run.state}, attempt {attempt}",
                )
            if self._child is not None and self._child.run != run.id:
                raise Code.WRONG_RUN_STATE.error(
                    expected="one run at a time", found=f"{self._child.run} under way"
                )
            # Before the job is charged: it would not begin. Who leads does so for all posters.
            self.store.owe(self.policy.quota(run.by))
            self._prepare(run, attempt)
            self._spawn(run, attempt, session, members)

    def show(self, run_id: object) -> Fields:
        """Return all that may be told of a run."""
        run = self.store.get(run_id)
        with self._lock:
            watch = self._watch(run)
            objection = self.objection(run)
            return {
                **run.to_fields(),
                "depth": run.job.levels,
                "party": self.config.name,
                "members": [seat.name for seat in run.job.seats(self.config)],
                "waiting_for": list(watch.waiting_for),
                "reason": watch.reason if objection is None else str(objection),
                "without": list(self._without(run)),
                "progress": watch.progress,
                "worker": None if self._child is None else self._child.run == run.id,
            }

    def shown_to(self, caller: str | None, fields: Fields) -> Fields:
        """Return what somebody may hear of what `show` has of a run.

        Where rounds and bytes follow from rows, so may how far a run is, how long it has taken, and
        numbers in its error: they are for those who take part. Nobody in particular is None.
        """
        run = self.store.get(fields["run"])
        if caller in fields["members"] or part_of(self.config, run.job).traffic_is_public:
            return fields
        error: Fields = {"error": None}
        if run.error is not None:
            error = error_fields(run.error.code.error(found="told to those who take part in it"))
        return {**fields, "progress": {}, **error}

    def job_for(self, run_id: object, name: str) -> Job:
        """Return the job of a run for a member that it concerns; H871 for another one."""
        run = self.store.get(run_id)
        seats = (seat.name for seat in run.job.seats(self.config))
        concerned = {run.by, *seats, *run.job.analysts}
        if name not in concerned | set(part_of(self.config, run.job).governors()):
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"one who takes part in {run.id}, has posted it, owns rows of it or may "
                "ask what it makes",
                found=name,
            )
        return run.job

    def end(self, run_id: object, by: str, generation: int | None = None) -> Fields:
        """Stop a run, if this member may; it can be resumed.

        One that was resumed after this generation is left alone: the stop was for an earlier one.
        """
        with self._lock:
            run = self._run_governed_by(run_id, by)
            stopped = run.generation if generation is None else generation
            if run.generation > stopped:
                return self.show(run.id)
            _check_generation(run, stopped)
            if run.state in OPEN:
                self.store.change(run, "stopped", generation=stopped, ordered_by=by)
                if self._child is not None and self._child.run == run.id:
                    self._end_child()
            elif run.state == "stopped":
                if stopped > run.generation:
                    # A resumption before this stop may come here after it.
                    self.store.owe(self.policy.quota(by))
                    self.store.change(run, "stopped", generation=stopped, ordered_by=by)
            else:
                raise Code.WRONG_RUN_STATE.error(
                    expected="a run that has not ended", found=f"{run.id}, which is {run.state}"
                )
            return self.show(run.id)

    def resume(
        self, run_id: object, by: str, generation: int | None = None, signature: bytes = b""
    ) -> Fields:
        """Take up a run that has failed or was stopped, if this member may.

        By default it is the next generation; one that was there already is left alone. Where it has
        not ended, the stop may still be on its way through the others: it goes on in the later
        generation, and does not hear of the end of an earlier one.
        """
        with self._lock:
            run = self._run_governed_by(run_id, by)
            later = run.generation + 1 if generation is None else generation
            _check_generation(run, later)
            if later > run.generation:
                self.store.owe(self.policy.quota(by))
            if run.state in ENDED and later > run.generation:
                self._check_name(run.job)
                self.store.change(
                    run, "waiting", generation=later, ordered_by=by, signature=signature
                )
                self._watches[run.id] = Watch()
            elif run.state in OPEN and generation is not None and later > run.generation:
                self.store.change(
                    run,
                    run.state,
                    generation=later,
                    error=run.error,
                    ordered_by=by,
                    signature=signature,
                )
        self._wake.set()
        return self.show(run.id)

    @contextlib.contextmanager
    def _telling_refusal(self, job: Job, by: str) -> Iterator[None]:
        try:
            yield
        except HedgerowError as error:
            if error.code in _DECISIONS:
                self.store.refuse(job, by, error, self.policy.runs_per_poster)
            raise

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._refuse_unapproved()
                runs = [run for run in self.store.all() if run.is_open]
                self._lead([run for run in runs if self._leads(run.job)])
                self._follow([run for run in runs if not self._leads(run.job)])
            except Exception:
                _logger.exception("failure", extra={"event": {"what": "runs"}})
            self._wake.wait(self.poll)
            self._wake.clear()

    def objection(self, run: PartyRun) -> HedgerowError | None:
        """Return why a run may not begin here: H937 if it was not approved, H938 if not yet."""
        people, seconds = self.policy.approvers, self.policy.approval_seconds
        if not people or run.state not in OPEN or run.attempt:
            return None
        store, identity = open_store(self.config.state), self.config.identity
        found = decision(store, identity, run.id, run.job.hash)
        where = f"at {self.config.name}"
        if found is not None and found.person in people:
            if found.approved:
                return None
            return Code.NOT_APPROVED.error(found=f"{found.person} {where} has refused {run.id}")
        names = " or ".join(people)
        if time.time() - run.changed > seconds:
            return Code.NOT_APPROVED.error(found=f"no decision by {names} {where} in {seconds:g} s")
        return Code.APPROVAL_AWAITED.error(
            found=f"{run.id}, waiting for approval by {names} {where}",
            fix=f"ask the operator of {self.config.name}: `hedgerow runs approve {run.id}`",
        )

    def _check_approval(self, run: PartyRun) -> None:
        error = self.objection(run)
        if error is not None:
            raise error

    def _refuse_unapproved(self) -> None:
        """End the runs that were not approved; the others hear of it when they ask."""
        for run in self.store.all():
            with self._lock:
                error = self.objection(run)
                if error is not None and error.code is Code.NOT_APPROVED:
                    self._fail(run, error)

    def _leads(self, job: Job) -> bool:
        return job.seats(self.config)[0] == self.config.me

    def _others(self, run: PartyRun) -> list[Member]:
        return [seat for seat in run.job.seats(self.config) if seat != self.config.me]

    def _ask_others(self, run: PartyRun) -> dict[str, Any]:
        def post() -> Fields:
            return {"by": run.by, "signature": self.store.signature(run).hex()}

        return self._peers.ready(run, self._others(run), post, self.store.resumption)

    def _lead(self, runs: list[PartyRun]) -> None:
        """Find the run whose turn it is and begin an attempt if all are ready."""
        self._leave_meeting(runs)
        turn = self._child is None
        # What has begun comes first.
        for run in sorted(runs, key=lambda run: run.attempt == 0):
            if turn and self._consider(run):
                turn = False
            elif not turn:
                with self._lock:
                    if self._child is None or self._child.run != run.id:
                        self._watch(run).restart()
            if run.attempt and run.state in OPEN:
                turn = False

    def _consider(self, run: PartyRun) -> bool:
        """Ask the others about a run; return whether an attempt was begun."""
        told = self._ask_others(run)
        with self._lock:
            if not run.is_open or self._stopping.is_set() or self._ended_elsewhere(run, told):
                return False
            if run.state == "done" and all(
                isinstance(t, PeerState) and t.state == "done" for t in told.values()
            ):
                self._close(run)
                return False
            if self.objection(run) is not None:
                self._watch(run).restart()
                self._watch(run).waiting_for = (self.config.name,)
                return False
            absent = self._absent(run, told)
            if absent is None:
                return False
            there = {name: found for name, found in told.items() if name not in absent}
            if self._under_way(run, there):
                return False
            members = [seat for seat in run.job.seats(self.config) if seat.name not in absent]
            attempt = 1 + max([run.attempt, *(t.attempt for t in there.values())])
            session = secrets.token_bytes(16)
            try:
                self._prepare(run, attempt)
            except HedgerowError as error:
                self._fail(run, error)
                return False
        refusals = self._peers.go(run, members, attempt, session)
        with self._lock:
            if run.state in ENDED or run.attempt != attempt:
                return False
            if not refusals:
                self.store.remember_peers()
                self._spawn(run, attempt, session, [member.name for member in members])
                return True
            final = [error for error in refusals.values() if error.code in _FINAL]
            if final:
                self._fail(run, final[0])
            elif run.state == "running":
                self.store.change(run, "waiting", error=next(iter(refusals.values())))
        return True

    def _leave_meeting(self, runs: list[PartyRun]) -> None:
        """End the worker here if it waits for one that does not come to this attempt any more.

        None gets a second worker for an attempt: a party that knows of it and has none fell over
        before all have met. Those who wait for it would wait for a whole step.
        """
        child = self._child
        run = next((run for run in runs if child is not None and run.id == child.run), None)
        if child is None or run is None or child.met:
            return
        told = self._ask_others(run)
        with self._lock:
            if child is not self._child or child.met or self._stopping.is_set():
                return
            if self._ended_elsewhere(run, told):
                return
            gone = {
                name: found
                for name, found in told.items()
                if isinstance(found, PeerState)
                and found.attempt >= child.attempt
                and not found.works
            }
            if gone:
                self._end_child()
                if run.state == "running":
                    self.store.change(run, "waiting", error=_worker_gone(child.attempt, gone))

    def _under_way(self, run: PartyRun, told: dict[str, PeerState]) -> bool:
        """Whether workers elsewhere go on with the last attempt: they may end well, or say why.

        One that has not met the others is not waited for: the worker that was here is gone.
        """
        workers = tuple(name for name, found in told.items() if found.met)
        watch = self._watch(run)
        watch.waiting_for = workers
        # A worker finds out within the time of a step that its peers are gone.
        patience = self.config.timeouts.step + _PATIENCE
        return bool(workers) and time.monotonic() - watch.left < patience

    def _follow(self, runs: list[PartyRun]) -> None:
        """Hear from their leaders what has become of the runs that are open here."""
        for run in runs:
            first = run.job.seats(self.config)[0]
            if self._child is not None and self._child.run == run.id:
                continue
            told: dict[str, Any] = self._peers.ready(run, [first])
            with self._lock:
                if not run.is_open or (self._child is not None and self._child.run == run.id):
                    continue
                if self._ended_elsewhere(run, told):
                    continue
                found = told[first.name]
                if isinstance(found, PeerState):
                    watch = self._watch(run)
                    watch.restart()
                    watch.waiting_for, watch.reason = found.waiting_for, found.reason
                    if found.closed and run.state == "done":
                        self._close(run)
                elif self._misses(run, told):
                    waited = time.monotonic() - self._watch(run).since
                    if run.state in OPEN and waited > self.config.timeouts.rejoin:
                        self._give_up(run, told)

    def _ended_elsewhere(self, run: PartyRun, told: dict[str, Any]) -> bool:
        for name, found in told.items():
            if (
                isinstance(found, PeerState)
                and found.has_ended
                and found.generation >= run.generation
                and run.state in OPEN
            ):
                state = "stopped" if found.state == "stopped" else "failed"
                self._end(run, state, found.error, ordered_by=name)
                return True
        return False

    def _absent(self, run: PartyRun, told: dict[str, Any]) -> set[str] | None:
        """Return without whom an attempt may begin now; None if somebody is waited for.

        A refusal that no waiting changes ends the run, and so does waiting too long.
        """
        errors = {name: e for name, e in told.items() if isinstance(e, HedgerowError)}
        refusals = [error for error in errors.values() if error.code in _FINAL]
        lacking = {name: error for name, error in errors.items() if error.code in _LACKING}
        if lacking and not run.job.can_do_without(lacking):
            refusals += lacking.values()
        if refusals:
            self._fail(run, refusals[0])
            return None
        missing = self._misses(run, told)
        if not missing:
            return None if run.state in ENDED else set()
        late = time.monotonic() - self._watch(run).since > self.config.timeouts.rejoin
        if not late or run.state not in OPEN:
            return None
        if run.job.can_do_without(missing):
            return missing
        self._give_up(run, told)
        return None

    def _misses(self, run: PartyRun, told: dict[str, Any]) -> set[str]:
        """Note and return who is missing."""
        missing: dict[str, HedgerowError | None] = {}
        for name, found in told.items():
            if isinstance(found, HedgerowError):
                missing[name] = found
            elif found.has_ended or found.busy:
                missing[name] = None
        watch = self._watch(run)
        watch.waiting_for = tuple(missing)
        reasons = [error for error in missing.values() if error is not None]
        watch.reason = str(reasons[0]) if reasons else None
        if any(error.code is Code.APPROVAL_AWAITED for error in reasons):
            # People take longer than machines, and their time has a limit of its own.
            watch.since = time.monotonic()
        waited = time.monotonic() - watch.since
        late = waited > self.config.timeouts.rejoin
        if late and not missing and run.state in OPEN and run.error is not None:
            # All are there, and yet they do not meet: the last attempt says why.
            self._fail(run, run.error)
        return set(missing)

    def _give_up(self, run: PartyRun, told: dict[str, Any]) -> None:
        """Fail because somebody was missing for too long."""
        missing = {
            name: found if isinstance(found, HedgerowError) else None
            for name, found in told.items()
            if isinstance(found, HedgerowError) or found.has_ended or found.busy
        }
        waited = time.monotonic() - self._watch(run).since
        misfits = [e for e in missing.values() if e is not None and e.code in _MISFITS]
        self._fail(run, misfits[0] if misfits else _party_missing(run, missing, waited))

    def _prepare(self, run: PartyRun, attempt: int) -> None:
        """Charge a run, once, and write down the attempt; the account comes before all else."""
        self._check_approval(run)
        self._end_child()
        self._check_name(run.job)
        admission.admit(run.job, run.by, self.config, self.policy, self.accounts)
        admission.charge(run.job, self.config, self.accounts)
        state = "done" if run.state == "done" else "running"
        self.store.change(run, state, attempt=attempt)  # type: ignore[arg-type]

    def _spawn(self, run: PartyRun, attempt: int, session: bytes, members: Sequence[str]) -> None:
        watch = self._watch(run)
        watch.waiting_for, watch.reason, watch.progress = (), None, {}
        watch.without = self._missing(run.job, members)
        log = self.config.state.path("runs", run.id, "worker.log")
        with contextlib.ExitStack() as stack:
            doorway = None
            if self.port is not None:
                doorway = stack.enter_context(self.port.expect(session)).fileno()
            self._child = Child(
                self._forker,
                self.config.folder,
                run.id,
                attempt,
                session,
                doorway,
                members,
                log=log,
                on_line=self._on_line,
                on_end=self._on_end,
            )
        _log(run, attempt=attempt)

    def _on_line(self, child: Child, line: Line) -> None:
        with self._lock:
            if child is not self._child:
                return
            watch = self._watch(self.store.get(child.run))
            if line.get("event") in ("stage", "kept"):
                watch.fruitless = 0
            watch.waiting_for = tuple(line.pop("waiting_for", ()))
            watch.progress = {**watch.progress, **line}

    def _on_end(self, child: Child) -> None:
        with self._lock:
            if child is not self._child:
                return
            self._child = None
            run = self.store.get(child.run)
            watch = self._watch(run)
            watch.left = time.monotonic()
            if child.met:
                # From now on it is waited for whoever fell over.
                watch.restart()
                watch.fruitless = 0 if child.stages else watch.fruitless + 1
            if child.done:
                self.store.change(run, "done")
                watch.restart()
                _log(run, attempt=child.attempt)
            elif run.state == "running" and (not child.again or watch.fruitless > MOST_FRUITLESS):
                assert child.error is not None
                self._fail(run, child.error)
            elif run.state == "running":
                self.store.change(run, "waiting", error=child.error)
                _log(run, attempt=child.attempt)
        self._wake.set()

    def _fail(self, run: PartyRun, error: HedgerowError) -> None:
        self._end(run, "failed", error)

    def _end(
        self,
        run: PartyRun,
        state: Any,
        error: HedgerowError | None,
        ordered_by: str | None = None,
    ) -> None:
        if self._child is not None and self._child.run == run.id:
            self._end_child()
        self.store.change(run, state, error=error, ordered_by=ordered_by)
        _log(run)

    def _close(self, run: PartyRun) -> None:
        """All have the model: what was kept on the way is not needed any more."""
        # Before it is closed: of what is closed nothing more is done after a restart.
        forget_stages(self.config.state, run.id)
        self.store.change(run, "done", closed=True)
        self._watch(run).restart()
        _log(run)

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _run_governed_by(self, run_id: object, by: str) -> PartyRun:
        """Return a run that a member may stop and resume: its poster, or an owner of the rows."""
        run = self.store.get(run_id)
        if by != run.by and by not in part_of(self.config, run.job).governors():
            raise _run_of_another(run, by)
        return run

    def _run_with_hash(self, run_id: object, hash_: object) -> PartyRun:
        """Return a run that must have this hash; H891 if the job of that name has another."""
        try:
            run = self.store.get(run_id)
        except HedgerowError:
            # One that has failed, too: it waited for the others no longer than they for it.
            for other in reversed(self.store.all()):
                alike = str(run_id).rpartition("-")[0] == other.job.name
                if alike and other.state in {*OPEN, "failed"}:
                    raise _jobs_differ(other, hash_) from None
            raise
        if run.job.hash != hash_:
            raise _jobs_differ(run, hash_)
        return run

    def _check_name(self, job: Job) -> None:
        """Refuse a model whose name another model has, or will have."""
        if not job.makes_model:
            return
        name = job.model_name
        models.check_free(self.config.state, name, job.hash)
        for other in self.store.all():
            alike = other.job.makes_model and other.job.model_name == name
            if alike and other.id != job.run_id and other.state in OPEN:
                raise Code.MODEL_EXISTS.error(
                    expected=f"a name other than {name}",
                    found=f"run {other.id}, which makes a model of that name",
                )

    def _check_members(self, job: Job, members: Sequence[str], by: str) -> None:
        seats = [seat.name for seat in job.seats(self.config)]
        if by != seats[0]:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"an attempt at {job.run_id} that {seats[0]} leads", found=by
            )
        absent = [name for name in seats if name not in members]
        there = [name for name in seats if name in members]
        allowed = not absent or job.can_do_without(absent)
        if list(members) != there or self.config.name not in there or not allowed:
            raise Code.WRONG_RUN_STATE.error(
                expected=f"members of {job.run_id}, as many as it needs: {', '.join(seats)}",
                found=", ".join(members),
            )

    def _without(self, run: PartyRun) -> tuple[str, ...]:
        """Return who was missing in the last attempt; once there is a model, it says who."""
        if run.state == "done" and run.job.makes_model:
            with contextlib.suppress(HedgerowError):
                took_part = models.read_manifest(self.config.state, run.job.model_name).members
                return self._missing(run.job, took_part) if took_part else ()
        return self._watch(run).without

    def _missing(self, job: Job, there: Sequence[str]) -> tuple[str, ...]:
        return tuple(seat.name for seat in job.seats(self.config) if seat.name not in there)

    def _watch(self, run: PartyRun) -> Watch:
        return self._watches.setdefault(run.id, Watch())


def _check_generation(run: PartyRun, generation: int) -> None:
    """Refuse, H893, a number after which soon nobody could stop or resume the run any more."""
    if generation > run.generation + _MOST_RESUMED:
        raise Code.WRONG_RUN_STATE.error(
            expected=f"a generation of {run.id} soon after {run.generation}", found=str(generation)
        )


def _run_of_another(run: PartyRun, found: str) -> HedgerowError:
    return Code.RUN_OF_ANOTHER.error(
        expected=f"{run.by}, which has posted run {run.id}, or an owner of one of its uploads",
        found=found,
    )


def _jobs_differ(run: PartyRun, hash_: object) -> HedgerowError:
    return Code.JOBS_DIFFER.error(
        expected=f"job {run.job.name} of hash {str(hash_)[:64]}",
        found=f"hash {run.job.hash}",
    )


def _log(run: PartyRun, **fields: Any) -> None:
    event = {"run": run.id, "state": run.state, **fields}
    if run.error is not None:
        event["error"] = run.error.code.number
    _logger.info("run", extra={"event": event})


def _worker_gone(attempt: int, gone: dict[str, PeerState]) -> HedgerowError:
    why = "; ".join(
        f"{name}: no worker" + ("" if found.error is None else f", {found.error.found}")
        for name, found in gone.items()
    )
    return Code.PEER_GONE.error(
        expected=f"{', '.join(gone)} in attempt {attempt}, in step 'meeting'", found=why
    )


def _party_missing(
    run: PartyRun, missing: dict[str, HedgerowError | None], waited: float
) -> HedgerowError:
    why = "; ".join(
        f"{name}: {'not ready' if error is None else error.found}"
        for name, error in missing.items()
    )
    return Code.SERVER_MISSING.error(
        expected=f"{', '.join(missing)} to take part in run {run.id}",
        found=f"nothing for {waited:.0f} s ({why})",
    )
