"""`RunManager`: the runs of a server, from the job that is accepted to the model.

Server 0 coordinates. It asks the others about every open run (``run-ready``); when all three hold
the job, it draws a session and a number for the attempt and lets the others begin (``run-go``). A
worker that fails makes the run wait for the next attempt. A run that has waited for
``timeouts.rejoin`` without getting on fails; the others hear of it when they ask server 0, as they
do all the time, or fail by themselves when server 0 does not answer for as long.

One run is under way at a time; the others wait in the order in which server 0 has accepted them.

Everything that counts is on the disk, so that a daemon that is killed goes on where it was: what
was under way waits for its next attempt.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.keeper import RunKeeper
from hedgerow.parties.runs.peers import Peers, Told
from hedgerow.parties.runs.store import ENDED, OPEN, Run
from hedgerow.parties.store.accounts import Accounts

POLL = 0.5
_PATIENCE = 10.0
_FINAL = {
    Code.POLICY_REFUSES,
    Code.BAD_JOB,
    Code.UPLOADS_DO_NOT_FIT,
    Code.UNKNOWN_UPLOAD,
    Code.BAD_UPLOAD,
    Code.ACCOUNT_CONFLICT,
    Code.MODEL_EXISTS,
    Code.UNKNOWN_MEMBER,
    Code.WRONG_ROLE,
    Code.ROLE_MISSING,
    Code.PORT_MISSING,
}
"""Refusals to begin that another attempt does not change."""

_MISFITS = (Code.JOBS_DIFFER, Code.UNKNOWN_RUN)
_logger = logging.getLogger(__name__)


class RunManager(RunKeeper):
    """All runs of a server, together with the other servers.

    `poll`: seconds between two looks at the open runs.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        accounts: Accounts | None = None,
        *,
        poll: float = POLL,
    ) -> None:
        super().__init__(config, policy, accounts)
        self.poll = poll
        self._peers = Peers(config)
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

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                runs = [run for run in self.store.all() if run.is_open]
                if self.config.number == 0:
                    self._coordinate(runs)
                else:
                    self._follow(runs)
            except Exception:
                _logger.exception("failure", extra={"event": {"what": "runs"}})
            self._wake.wait(self.poll)
            self._wake.clear()

    def _coordinate(self, runs: list[Run]) -> None:
        """Find the run whose turn it is and begin an attempt if all servers are ready."""
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

    def _consider(self, run: Run) -> bool:
        """Ask the others about a run; return whether an attempt was begun."""
        told = self._peers.ready(run)
        with self._lock:
            if not run.is_open or self._stopping.is_set() or self._ended_elsewhere(run, told):
                return False
            if run.state == "done" and all(
                isinstance(t, Told) and t.state == "done" for t in told.values()
            ):
                self._close(run)
                return False
            if self._misses(run, told) or self._under_way(run, told):
                return False
            attempt = 1 + max([run.attempt, *(t.attempt for t in told.values())])
            session = secrets.token_bytes(16)
            try:
                self._prepare(run, attempt)
            except HedgerowError as error:
                self._fail(run, error)
                return False
        refusals = self._peers.go(run, attempt, session)
        with self._lock:
            if run.state in ENDED or run.attempt != attempt:
                return False
            if not refusals:
                self._spawn(run, attempt, session)
                return True
            final = [error for error in refusals.values() if error.code in _FINAL]
            if final:
                self._fail(run, final[0])
            elif run.state == "running":
                self.store.change(run, "waiting", error=next(iter(refusals.values())))
        return True

    def _leave_meeting(self, runs: list[Run]) -> None:
        """End the worker here if it waits for one that does not come to this attempt any more.

        An attempt begins with a worker at every server, and none gets a second one: a server that
        knows of the attempt and has no worker for it fell over before the three have met. Those who
        wait for it would wait for a whole step.
        """
        child = self._child
        run = next((run for run in runs if child is not None and run.id == child.run), None)
        if child is None or run is None or child.met:
            return
        told = self._peers.ready(run)
        with self._lock:
            if child is not self._child or child.met or self._stopping.is_set():
                return
            if self._ended_elsewhere(run, told):
                return
            gone = {
                name: found
                for name, found in told.items()
                if isinstance(found, Told) and found.attempt >= child.attempt and not found.works
            }
            if gone:
                self._end_child()
                if run.state == "running":
                    self.store.change(run, "waiting", error=_absent(child.attempt, gone))

    def _under_way(self, run: Run, told: dict[str, Told]) -> bool:
        """Whether workers elsewhere go on with the last attempt: they may end well, or say why.

        One that has not met the others is not waited for: the worker that was here is gone.
        """
        workers = tuple(name for name, found in told.items() if found.met)
        watch = self._watch(run)
        watch.waiting_for = workers
        # A worker finds out within the time of a step that its peers are gone.
        patience = self.config.timeouts.step + _PATIENCE
        return bool(workers) and time.monotonic() - watch.left < patience

    def _follow(self, runs: list[Run]) -> None:
        """Hear from server 0 what has become of the runs that are open here."""
        first = self.config.servers[0]
        for run in runs:
            if self._child is not None and self._child.run == run.id:
                continue
            told = self._peers.ready(run, [first])
            with self._lock:
                if not run.is_open or (self._child is not None and self._child.run == run.id):
                    continue
                if self._ended_elsewhere(run, told):
                    continue
                found = told[first.name]
                if isinstance(found, Told):
                    watch = self._watch(run)
                    watch.restart()
                    watch.waiting_for = found.waiting_for
                    if found.closed and run.state == "done":
                        self._close(run)
                else:
                    self._misses(run, told)

    def _ended_elsewhere(self, run: Run, told: dict[str, Any]) -> bool:
        """End a run that has ended at another server."""
        for found in told.values():
            if (
                isinstance(found, Told)
                and found.has_ended
                and found.generation >= run.generation
                and run.state in OPEN
            ):
                state = "stopped" if found.state == "stopped" else "failed"
                self._end(run, state, found.error)
                return True
        return False

    def _misses(self, run: Run, told: dict[str, Any]) -> bool:
        """Note who is missing, and fail when that has lasted too long."""
        missing: dict[str, HedgerowError | None] = {}
        for name, found in told.items():
            if isinstance(found, HedgerowError):
                missing[name] = found
            elif found.has_ended or found.busy:
                missing[name] = None
        watch = self._watch(run)
        watch.waiting_for = tuple(missing)
        reasons = [error for error in missing.values() if error is not None]
        watch.reason = reasons[0] if reasons else None
        waited = time.monotonic() - watch.since
        if missing and run.state in OPEN and waited > self.config.timeouts.rejoin:
            misfits = [error for error in reasons if error.code in _MISFITS]
            self._fail(run, misfits[0] if misfits else _missing(run, missing, waited))
        elif run.state in OPEN and run.error is not None and waited > self.config.timeouts.rejoin:
            # All are there, and yet they do not meet: the last attempt says why.
            self._fail(run, run.error)
            return True
        return bool(missing)


def _absent(attempt: int, gone: dict[str, Told]) -> HedgerowError:
    why = "; ".join(
        f"{name}: no worker" + ("" if found.error is None else f", {found.error.found}")
        for name, found in gone.items()
    )
    return Code.PEER_GONE.error(
        expected=f"{', '.join(gone)} in attempt {attempt}, in step 'meeting'", found=why
    )


def _missing(run: Run, missing: dict[str, HedgerowError | None], waited: float) -> HedgerowError:
    why = "; ".join(
        f"{name}: {'not ready' if error is None else error.found}"
        for name, error in missing.items()
    )
    return Code.SERVER_MISSING.error(
        expected=f"{', '.join(missing)} to take part in run {run.id}",
        found=f"nothing for {waited:.0f} s ({why})",
    )
