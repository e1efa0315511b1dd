"""`RunStore`: the runs of a server and how far they are, on the disk before it counts.

A folder ``state/runs/<run>`` with ``job.toml``, ``state.jsonl`` (a journal, one line for every
change), and what the worker keeps: ``ledger.jsonl``, ``stages.jsonl``, ``stages/``, ``meter.json``
and ``worker.log``.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.runs.jobs import MAX_JOB_BYTES, Job
from hedgerow.parties.store.durable import StateFolder, read_small, replacing
from hedgerow.parties.store.journal import Journal
from hedgerow.parties.wire.requests import Fields, error_fields

State = Literal["accepted", "waiting", "running", "done", "failed", "stopped"]
OPEN = ("accepted", "waiting", "running")
ENDED = ("failed", "stopped")
_ROOM = "runs"


@dataclass
class ServerRun:
    """A run at this server, as its journal tells it.

    `generation`: how often it was resumed; who has ended a later one is heard. `error`: why it, or
    its last `attempt`, failed. `closed`: all three servers are known to be done.
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
            "kind": self.job.kind,
            "model": self.job.model,
            "state": self.state,
            "attempt": self.attempt,
            "generation": self.generation,
            "closed": self.closed,
            "created": self.created,
            "changed": self.changed,
            "by": self.by,
            "error": None if self.error is None else error_fields(self.error)["error"],
        }


def read_job(state: StateFolder, run: str) -> Job:
    """Return the job of a run; H890 if there is no such run."""
    path = state.path(_ROOM, check_name(run, "run"), "job.toml")
    if not path.exists():
        raise Code.UNKNOWN_RUN.error(found=f"run {run}")
    job = Job.from_toml(read_small(path, MAX_JOB_BYTES, Code.BAD_JOB))
    if job.run_id != run:
        raise Code.RUN_OF_ANOTHER_JOB.error(
            expected=f"the job of run {run} in {path}", found=f"that of run {job.run_id}"
        )
    return job


def read_error(fields: Any) -> HedgerowError | None:
    """Make an error again of the fields that this server has written about it."""
    if fields is None:
        return None
    texts = {key: str(fields[key]) for key in ("expected", "found", "fix")}
    return Code[fields["code"]].error(**texts)


class RunStore:
    """All runs of a server; for all threads of its daemon."""

    def __init__(self, state: StateFolder, server: int) -> None:
        self.state, self.server = state, server
        self._lock = threading.RLock()
        self._runs: dict[str, ServerRun] = {}
        state.folder(_ROOM)
        for name in state.names(_ROOM):
            # Without a journal it was never accepted: whoever posts the job posts it again.
            if state.path(_ROOM, name, "state.jsonl").exists():
                self._runs[name] = self._read(name)

    def accept(self, job: Job, by: str) -> ServerRun:
        """Keep a job; the same one again is the same run."""
        with self._lock:
            if job.run_id in self._runs:
                return self._runs[job.run_id]
            self.state.folder(_ROOM, job.run_id)
            with replacing(self.state.path(_ROOM, job.run_id, "job.toml")) as file:
                file.write(job.to_toml().encode())
            run = ServerRun(job.run_id, job)
            self._append(run, {"state": "accepted", "by": by})
            self._runs[run.id] = run
            return run

    def get(self, run: object) -> ServerRun:
        """Return a run; H890 if it is not here."""
        with self._lock:
            found = self._runs.get(check_name(run, "run"))
            if found is None:
                raise Code.UNKNOWN_RUN.error(found=f"run {run}")
            return found

    def find(self, run: str) -> ServerRun | None:
        """Return a run, or None if it is not here."""
        with self._lock:
            return self._runs.get(run)

    def all(self) -> list[ServerRun]:
        """Return all runs, the oldest first."""
        with self._lock:
            return sorted(self._runs.values(), key=lambda run: (run.created, run.id))

    def change(
        self,
        run: ServerRun,
        state: State,
        *,
        attempt: int | None = None,
        generation: int | None = None,
        error: HedgerowError | None = None,
        closed: bool = False,
    ) -> None:
        """Change the state of a run; on the disk when this returns."""
        with self._lock:
            entry: dict[str, Any] = {"state": state}
            if attempt is not None:
                entry["attempt"] = attempt
            if generation is not None:
                entry["generation"] = generation
            if error is not None:
                entry["error"] = error_fields(error)["error"]
            if closed:
                entry["closed"] = True
            self._append(run, entry)

    def _append(self, run: ServerRun, entry: dict[str, Any]) -> None:
        entry["time"] = time.time()
        with self._journal(run.id, run.job.hash) as journal:
            journal.append(entry)
        _apply(run, entry)

    def _read(self, name: str) -> ServerRun:
        job = read_job(self.state, name)
        run = ServerRun(name, job)
        with (
            self._journal(name, job.hash) as journal,
            jsonfile.refusing(Code.JOURNAL_DAMAGED),
        ):
            for entry in journal.entries():
                _apply(run, entry)
        return run

    def _journal(self, name: str, job: str) -> Journal:
        path = self.state.path(_ROOM, name, "state.jsonl")
        return Journal(path, about={"run": name, "job": job, "server": self.server})


def _apply(run: ServerRun, entry: dict[str, Any]) -> None:
    run.state = entry["state"]
    run.attempt = entry.get("attempt", run.attempt)
    run.generation = entry.get("generation", run.generation)
    run.closed = entry.get("closed", run.closed)
    run.error = read_error(entry.get("error"))
    run.by = entry.get("by", run.by)
    run.changed = entry["time"]
    run.created = run.created or entry["time"]
