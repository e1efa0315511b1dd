"""`RunKeeper`: what a server does about a run by itself: take the job, start workers, end."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs import admission
from hedgerow.parties.runs.child import Child, Line
from hedgerow.parties.runs.jobs import Job
from hedgerow.parties.runs.stages import forget_stages
from hedgerow.parties.runs.store import ENDED, OPEN, Run, RunStore
from hedgerow.parties.store import models
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.wire.requests import Fields

MOST_FRUITLESS = 20
"""Attempts in a row in which the servers met and got nothing done, before a run fails."""

_logger = logging.getLogger(__name__)


@dataclass
class Watch:
    """What is known about an open run besides its journal; gone with the process.

    `since`, `left`: when it began to wait, and when a worker left last; on the clock of
    `time.monotonic`.
    `fruitless`: attempts in a row that got nothing done.
    `reason`: why they are waited for.
    `progress`: what the worker has said.
    """

    since: float = field(default_factory=time.monotonic)
    left: float = field(default_factory=time.monotonic)
    fruitless: int = 0
    waiting_for: tuple[str, ...] = ()
    reason: HedgerowError | None = None
    progress: Line = field(default_factory=dict)

    def restart(self) -> None:
        """Begin to wait from now on."""
        self.since, self.waiting_for, self.reason = time.monotonic(), (), None


class RunKeeper:
    """The runs of a server, and its one worker."""

    def __init__(
        self, config: PartyConfig, policy: Policy, accounts: Accounts | None = None
    ) -> None:
        self.config, self.policy = config, policy
        self.accounts = Accounts(config.state, policy) if accounts is None else accounts
        self.store = RunStore(config.state, config.number)
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._child: Child | None = None
        self._watches: dict[str, Watch] = {}
        for run in self.store.all():
            if run.state == "running":
                self.store.change(run, "waiting")

    def accept(self, text: str, by: str, *, check: bool = False) -> Fields:
        """Take a job, or with `check` say whether it would be taken; see `admission.admit`."""
        job = Job.from_toml(text)
        admission.admit(job, by, self.config, self.policy, self.accounts)
        with self._lock:
            known = self.store.find(job.run_id)
            if known is not None and known.by != by:
                raise _of_another(known, f"{by}, which posts it as well")
            if known is None:
                open_ = [r for r in self.store.all() if r.by == by and r.state != "done"]
                self.policy.check_runs(by, len(open_))
            self._check_name(job)
            if check:
                return {"run": job.run_id, "hash": job.hash}
            run = self.store.accept(job, by)
            self._watch(run)
        self._wake.set()
        return self.show(run.id)

    def ready(self, run_id: object, hash_: object) -> Fields:
        """Say how far this server is with a run, to another server that asks."""
        run = self._known(run_id, hash_)
        with self._lock:
            child = self._child
            return {
                **self.show(run.id),
                "busy": None if child is None else child.run,
                "met": child is not None and child.run == run.id and child.met,
                "waiting_for": list(self._watch(run).waiting_for),
            }

    def go(self, run_id: object, hash_: object, attempt: int, session: bytes) -> None:
        """Begin an attempt, because server 0 says so."""
        with self._lock:
            run = self._known(run_id, hash_)
            if run.state in ENDED or attempt <= run.attempt:
                raise Code.WRONG_RUN_STATE.error(
                    expected=f"an open run and an attempt after {run.attempt}",
                    found=f"{run.id} {run.state}, attempt {attempt}",
                )
            if self._child is not None and self._child.run != run.id:
                raise Code.WRONG_RUN_STATE.error(
                    expected="one run at a time", found=f"{self._child.run} under way"
                )
            self._prepare(run, attempt)
            self._spawn(run, attempt, session)

    def show(self, run_id: object) -> Fields:
        """Return all that may be told of a run."""
        run = self.store.get(run_id)
        with self._lock:
            watch = self._watch(run)
            reason = None if watch.reason is None else str(watch.reason)
            return {
                **run.to_fields(),
                "depth": run.job.levels,
                "server": self.config.name,
                "waiting_for": list(watch.waiting_for),
                "reason": reason,
                "progress": watch.progress,
                "worker": None if self._child is None else self._child.run == run.id,
            }

    def end(self, run_id: object, by: str) -> Fields:
        """Stop a run, if this member may; it can be resumed."""
        with self._lock:
            run = self._governed(run_id, by)
            if run.state in OPEN:
                self.store.change(run, "stopped")
                if self._child is not None and self._child.run == run.id:
                    self._end_child()
            elif run.state != "stopped":
                raise Code.WRONG_RUN_STATE.error(
                    expected="a run that has not ended", found=f"{run.id}, which is {run.state}"
                )
            return self.show(run.id)

    def resume(self, run_id: object, by: str, generation: int = 0) -> Fields:
        """Take up a run that has failed or was stopped, if this member may."""
        with self._lock:
            run = self._governed(run_id, by)
            if run.state in ENDED:
                self._check_name(run.job)
                later = max(run.generation + 1, generation)
                self.store.change(run, "waiting", generation=later)
                self._watches[run.id] = Watch()
        self._wake.set()
        return self.show(run.id)

    def _prepare(self, run: Run, attempt: int) -> None:
        """Charge a run, once, and write down the attempt; the account comes before all else."""
        self._end_child()
        self._check_name(run.job)
        admission.admit(run.job, run.by, self.config, self.policy, self.accounts)
        admission.charge(run.job, self.accounts)
        state = "done" if run.state == "done" else "running"
        self.store.change(run, state, attempt=attempt)  # type: ignore[arg-type]

    def _spawn(self, run: Run, attempt: int, session: bytes) -> None:
        watch = self._watch(run)
        watch.waiting_for, watch.reason, watch.progress = (), None, {}
        log = self.config.state.path("runs", run.id, "worker.log")
        self._child = Child(
            self.config.folder,
            run.id,
            attempt,
            session,
            log=log,
            on_line=self._heard,
            on_end=self._left,
        )
        _log(run, attempt=attempt, worker=self._child.pid)

    def _heard(self, child: Child, line: Line) -> None:
        with self._lock:
            if child is not self._child:
                return
            watch = self._watch(self.store.get(child.run))
            if line.get("event") == "stage":
                watch.fruitless = 0
            watch.waiting_for = tuple(line.pop("waiting_for", ()))
            watch.progress = {**watch.progress, **line}

    def _left(self, child: Child) -> None:
        """Draw the conclusions from the end of a worker."""
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

    def _fail(self, run: Run, error: HedgerowError) -> None:
        self._end(run, "failed", error)

    def _end(self, run: Run, state: Any, error: HedgerowError | None) -> None:
        if self._child is not None and self._child.run == run.id:
            self._end_child()
        self.store.change(run, state, error=error)
        _log(run)

    def _close(self, run: Run) -> None:
        """All servers have the model: what was kept on the way is not needed any more."""
        self.store.change(run, "done", closed=True)
        forget_stages(self.config.state, run.id)
        self._watch(run).restart()
        _log(run)

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _governed(self, run_id: object, by: str) -> Run:
        """Return a run that a member may stop and resume: its poster, or an owner of an upload."""
        run = self.store.get(run_id)
        if by != run.by and by not in admission.owners_of(run.job, self.config.state):
            raise _of_another(run, by)
        return run

    def _known(self, run_id: object, hash_: object) -> Run:
        """Return a run that must have this hash; H891 if the job of that name has another."""
        try:
            run = self.store.get(run_id)
        except HedgerowError:
            # One that has failed, too: it waited for the others no longer than they for it.
            for other in reversed(self.store.all()):
                alike = str(run_id).rpartition("-")[0] == other.job.name
                if alike and other.state in {*OPEN, "failed"}:
                    raise _differ(other, hash_) from None
            raise
        if run.job.hash != hash_:
            raise _differ(run, hash_)
        return run

    def _check_name(self, job: Job) -> None:
        """Refuse a model whose name another model has, or will have."""
        models.check_free(self.config.state, job.model, job.hash)
        for other in self.store.all():
            if other.job.model == job.model and other.id != job.run_id and other.state in OPEN:
                raise Code.MODEL_EXISTS.error(
                    expected=f"a name other than {job.model}",
                    found=f"run {other.id}, which makes a model of that name",
                )

    def _watch(self, run: Run) -> Watch:
        return self._watches.setdefault(run.id, Watch())


def _of_another(run: Run, found: str) -> HedgerowError:
    return Code.RUN_OF_ANOTHER.error(
        expected=f"{run.by}, which has posted run {run.id}, or an owner of one of its uploads",
        found=found,
    )


def _differ(run: Run, hash_: object) -> HedgerowError:
    return Code.JOBS_DIFFER.error(
        expected=f"job {run.job.name} of hash {str(hash_)[:64]}",
        found=f"hash {run.job.hash}",
    )


def _log(run: Run, **fields: Any) -> None:
    event = {"run": run.id, "state": run.state, **fields}
    if run.error is not None:
        event["error"] = run.error.code.number
    _logger.info("run", extra={"event": event})
