"""`RunStore`: the runs of a party and how far they are, on the disk before it counts.

Runs are rows of the party's store, and every change of one is told in its trail. A folder
``state/runs/<run>`` has what the worker keeps beside: ``stages/`` and ``worker.log``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import read_kept_job
from hedgerow.parties.runs.reports import State
from hedgerow.parties.store.database import Quota, Row, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.peer_trails import PeerTrails
from hedgerow.parties.wire.requests import Fields, error_fields

OPEN = ("accepted", "waiting", "running")
ENDED = ("failed", "stopped")
_ROOM = "runs"


@dataclass
class PartyRun:
    """A run at this party, as its store has it.

    `generation`: how often it was resumed; who has ended a later one is heard. `error`: why it, or
    its last `attempt`, failed. `closed`: all who took part are known to be done.
    """

    id: str
    job: Job = field(repr=False)
    state: State = "accepted"
    attempt: int = 0
    generation: int = 0
    error: HedgerowError | None = None
    closed: bool = False
    created: float = 0.0
    changed: float = 0.0
    by: str = ""

    @property
    def is_open(self) -> bool:
        """Whether something is still to be done for it."""
        return self.state in OPEN or (self.state == "done" and not self.closed)

    def to_fields(self) -> Fields:
        """Return what may be told of it."""
        return {
            "run": self.id,
            "job": self.job.name,
            "hash": self.job.hash,
            "protocol": self.job.protocol,
            "model": self.job.model_name,
            "state": self.state,
            "attempt": self.attempt,
            "generation": self.generation,
            "closed": self.closed,
            "created": self.created,
            "by": self.by,
            "error": None if self.error is None else error_fields(self.error)["error"],
        }


def job_of_run(state: StateFolder, run: str) -> Job:
    """Return the job of a run; H890 if there is no such run."""
    with open_store(state).snapshot() as made:
        row = made.row("runs", id=check_name(run, "run"))
    if row is None:
        raise Code.UNKNOWN_RUN.error(found=f"run {run}")
    return _job_of(row)


def _job_of(row: Row) -> Job:
    job = read_kept_job(row["job"])
    if job.run_id != row["id"]:
        raise Code.RUN_OF_ANOTHER_JOB.error(
            expected=f"the job of run {row['id']}", found=f"that of run {job.run_id}"
        )
    return job


def read_error(fields: Any) -> HedgerowError | None:
    """Make an error again of the fields that this server has written about it."""
    if fields is None:
        return None
    texts = {key: str(fields[key]) for key in ("expected", "found", "fix")}
    return Code[fields["code"]].error(**texts)


class RunStore:
    """All runs of a party; for all threads of its daemon."""

    def __init__(self, state: StateFolder) -> None:
        self.state = state
        self._lock = threading.RLock()
        state.folder(_ROOM)
        self._store = open_store(state)
        self.trails = PeerTrails(self._store)
        with self._store.snapshot() as made:
            self._runs = {row["id"]: _read(row) for row in made.rows("runs")}

    def accept(self, job: Job, by: str, signature: bytes = b"") -> PartyRun:
        """Keep a job, with the signature of who posts it; the same one again is the same run."""
        with self._lock:
            if job.run_id in self._runs:
                return self._runs[job.run_id]
            self.state.folder(_ROOM, job.run_id)
            now = time.time()
            run = PartyRun(job.run_id, job, created=now, changed=now, by=by)
            self._write(run, signature)
            self._runs[run.id] = run
            return run

    def owe(self, by: Quota, octets: int = 0) -> None:
        """Count what a member is about to make this party keep; H858 if that is too much."""
        with self._store.transaction("count a request") as made:
            made.owe(by, octets)

    def refuse(self, job: Job, by: str, error: HedgerowError, most: int) -> None:
        """Tell in the trail that a job was refused, once for every reason.

        Of a member only `most` refusals are told: it can propose as many jobs as it likes.
        """
        reason = f"{error.code.number} {error.expected}"
        with self._store.snapshot() as made:
            known = {(row["job"], row["reason"]) for row in made.rows("refusals", by=by)}
        if (job.hash, reason) in known or len(known) >= most:
            return
        with self._store.transaction("refuse a job") as made:
            made.put("refusals", {"job": job.hash, "reason": reason, "by": by})
            told = {"run": job.run_id, "hash": job.hash, "by": by, "error": error.code.number}
            made.tell("refused", {**told, "expected": error.expected, "found": error.found})

    def signature(self, run: PartyRun) -> bytes:
        """Return with which signature a job was posted; nothing if it was not signed."""
        with self._store.snapshot() as made:
            row = made.row("posts", run=run.id)
        return b"" if row is None else bytes(row["signature"])

    def resumption(self, run: PartyRun) -> Fields | None:
        """Return the fields that pass on who has resumed a run; None if nobody has signed that."""
        with self._store.snapshot() as made:
            row = made.row("resumptions", run=run.id)
        if row is None or row["generation"] != run.generation:
            return None
        return {**row, "signature": bytes(row["signature"]).hex()}

    def remember_peers(self) -> None:
        """Keep how long the trails of others are, now that they have begun an attempt."""
        with self._store.transaction("peers") as made:
            self.trails.write(made)

    def get(self, run: object) -> PartyRun:
        """Return a run; H890 if it is not here."""
        with self._lock:
            found = self._runs.get(check_name(run, "run"))
            if found is None:
                raise Code.UNKNOWN_RUN.error(found=f"run {run}")
            return found

    def find(self, run: str) -> PartyRun | None:
        """Return a run, or None if it is not here."""
        with self._lock:
            return self._runs.get(run)

    def all(self) -> list[PartyRun]:
        """Return all runs, the oldest first."""
        with self._lock:
            return sorted(self._runs.values(), key=lambda run: (run.created, run.id))

    @contextmanager
    def at_rest(self) -> Iterator[list[PartyRun]]:
        """Yield all runs; none is added or changed meanwhile."""
        with self._lock:
            yield self.all()

    def change(
        self,
        run: PartyRun,
        state: State,
        *,
        attempt: int | None = None,
        generation: int | None = None,
        error: HedgerowError | None = None,
        closed: bool = False,
        ordered_by: str | None = None,
        signature: bytes = b"",
    ) -> None:
        """Change the state of a run, for the member that has ordered it; on the disk when done.

        `signature`: of the member that resumes it, so that others can be told (`resumption`).
        """
        with self._lock:
            changed = replace(
                run,
                state=state,
                attempt=run.attempt if attempt is None else attempt,
                generation=run.generation if generation is None else generation,
                error=error,
                closed=run.closed or closed,
                changed=time.time(),
            )
            self._write(changed, ordered_by=ordered_by, resumed=signature)
            # Others hold the run: it becomes what was written, and not before.
            vars(run).update(vars(changed))

    def _write(
        self,
        run: PartyRun,
        signature: bytes = b"",
        ordered_by: str | None = None,
        resumed: bytes = b"",
    ) -> None:
        told = run.to_fields()
        error = None if run.error is None else json.dumps(told["error"])
        with self._store.transaction(f"run {run.state}") as made:
            made.put(
                "runs",
                {
                    "id": run.id,
                    "job": run.job.to_toml(),
                    "state": run.state,
                    "attempt": run.attempt,
                    "generation": run.generation,
                    "error": error,
                    "closed": int(run.closed),
                    "created": run.created,
                    "changed": run.changed,
                    "by": run.by,
                },
            )
            if run.closed:
                # What had to be remembered while it went on: nobody comes back to it.
                made.drop("memories", run=run.id)
                made.drop("heard", run=run.id)
            self.trails.write(made)
            if signature:
                made.put("posts", {"run": run.id, "signature": signature})
            if resumed and ordered_by is not None:
                made.put(
                    "resumptions",
                    {
                        "run": run.id,
                        "generation": run.generation,
                        "by": ordered_by,
                        "signature": resumed,
                    },
                )
            names = ("run", "hash", "model", "state", "attempt", "generation", "closed", "by")
            number = None if run.error is None else run.error.code.number
            by = {} if ordered_by is None else {"ordered_by": ordered_by}
            made.tell("run", {name: told[name] for name in names} | {"error": number} | by)


def _read(row: Row) -> PartyRun:
    error = read_error(None if row["error"] is None else json.loads(row["error"]))
    known = {**row, "job": _job_of(row), "error": error, "closed": bool(row["closed"])}
    return PartyRun(**known)
