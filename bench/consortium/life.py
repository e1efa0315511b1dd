"""One run of `bench.consortium.chaos`: an upload, a training on it and queries to the model.

Clients do what their people would when something goes wrong: they are started again, an upload
under another id.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.consortium.faults import Fault, Phase
from bench.consortium.parties import OWNER, PEOPLE, POPULATION, Consortium, people
from hedgerow.parties.runs.jobs import ServerJob

ROWS, REQUESTS = 100, 10
TRIES = 4
"""Times that a client is started for one phase before its people give up."""
KINDS: dict[str, dict[str, Any]] = {
    "exact": {"noise": "none"},
    "noisy": {"noise": "splits+leaves", "epsilon": 1.0},
}
Line = dict[str, Any]
_PATIENCE = 150.0


class NumberedError(Exception):
    """A run that has ended with a numbered error."""


@dataclass
class Outcome:
    """How a run went.

    `kind`: of the plan, see `KINDS`. `fault`: what was done to whom, and when. `job`: None if there
    was no upload. `error`: number of the error with which it has ended, or nothing. `told`: numbers
    of errors that clients got on the way, after which they were started again. `broken`: clients
    that were killed, or got an error, while they asked. `spans`: seconds of each phase, from the
    first word of the last client in it. `recovery`: seconds from the end of a fault in training to
    the end of the training. `late`: whether the fault came when the run had ended. `wrong`: what
    should not have happened.
    """

    kind: str
    fault: str = ""
    job: ServerJob | None = field(default=None, repr=False)
    labels: dict[int, list[Any]] = field(default_factory=dict, repr=False)
    error: str = ""
    told: list[str] = field(default_factory=list)
    broken: int = 0
    attempts: int = 0
    spans: dict[Phase, float] = field(default_factory=dict)
    seconds: float = 0.0
    recovery: float | None = None
    late: bool = False
    wrong: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """How many requests are made when nothing goes wrong; those with noise twice."""
        return REQUESTS if self.kind == "exact" else 2 * REQUESTS


class Life:
    """One run, from the upload to the last answer."""

    def __init__(self, town: Consortium, name: str, kind: str, fault: Fault | None) -> None:
        self.town, self.name, self.fault = town, name, fault
        self.outcome = Outcome(kind, fault="" if fault is None else str(fault))
        self.tables = {"all": town.root / "people.parquet", "rows": town.root / "rows.parquet"}
        if not self.tables["all"].exists():
            pq.write_table(people(ROWS), self.tables["all"])
            pq.write_table(people(ROWS).drop_columns(["ill"]), self.tables["rows"])

    def live(self) -> Outcome:
        """Do all of it; numbered errors are an outcome."""
        found, begun = self.outcome, time.monotonic()
        try:
            upload = self._upload()
            found.job = self.town.job(self.name, **KINDS[found.kind])
            found.job = found.job.model_copy(update={"uploads": (upload,)})
            self._train(found.job)
            self._ask(found.job.model)
        except NumberedError as error:
            found.error = str(error)
        except RuntimeError as error:
            found.wrong.append(str(error))
        ended = time.monotonic()
        found.seconds = ended - begun
        if self.fault is not None:
            found.late = self.fault.begun and self.fault.struck > ended
            self.fault.wait()
            if self.fault.failed:
                found.wrong.append(self.fault.failed)
            if not self.fault.begun:
                found.wrong.append("a fault whose phase did not come")
        return found

    def _upload(self) -> str:
        for number in range(TRIES):
            options = {
                "table": str(self.tables["all"]),
                "domain": PEOPLE.to_dict(),
                "id": f"{self.name}-{number}",
                "population": POPULATION,
            }
            for line in self._client("upload", "upload", OWNER, options, last=number == TRIES - 1):
                if line["event"] == "uploaded":
                    return str(line["id"])
        raise RuntimeError("no upload")

    def _train(self, job: ServerJob) -> None:
        state = None
        for number in range(TRIES):
            options, last = {"job": job.to_toml()}, number == TRIES - 1
            for line in self._client("training", "train", OWNER, options, last=last):
                if line["event"] == "status":
                    self.outcome.attempts, state = line["attempt"], line["state"]
                    if state == "failed":
                        raise NumberedError(line["error"] or "nothing")
            if state == "done":
                break
        if state != "done":
            raise RuntimeError(f"a run that is {state}")
        fault = self.fault
        if fault is not None and fault.phase == "training" and fault.over:
            self.outcome.recovery = max(0.0, time.monotonic() - fault.over)

    def _ask(self, model: str) -> None:
        labels, step = self.outcome.labels, ROWS // REQUESTS
        for number in range(TRIES):
            rows = {
                k: [(k * step + j) % ROWS for j in range(step)]
                for k in range(self.outcome.requests)
                if k not in labels
            }
            if not rows:
                return
            table = str(self.tables["rows"])
            options = {"model": model, "rows": rows, "table": table, "timeout": 60.0}
            last, analyst = number == TRIES - 1, self.town.analysts[0]
            for line in self._client("queries", "ask", analyst, options, last=last):
                if line["event"] == "answer":
                    labels[int(line["number"])] = line["labels"]
            self.outcome.broken += len(labels) < self.outcome.requests
        raise RuntimeError("queries without an answer")

    def _client(
        self, phase: Phase, verb: str, party: str, options: Line, *, last: bool
    ) -> list[Line]:
        """Start a client and return what it has said; start it again is for the caller."""
        folder = self.town.parties[party].folder
        command = [sys.executable, "-m", "bench.consortium.client", verb, str(folder)]
        process = subprocess.Popen(
            [*command, json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        lines: list[Line] = []
        begun = time.monotonic()
        assert process.stdout is not None
        for text in process.stdout:
            try:
                lines.append(json.loads(text))
            except ValueError:
                # Killed in the middle of a line.
                continue
            if lines[-1]["event"] == "begin":
                begun = time.monotonic()
                if self.fault is not None:
                    self.fault.begin_in(phase, process)
            if time.monotonic() - begun > _PATIENCE:
                process.kill()
                raise RuntimeError(f"{verb} has not ended after {_PATIENCE} s: {lines[-1]}")
        _, trouble = process.communicate()
        self.outcome.spans[phase] = time.monotonic() - begun
        if process.returncode and self.fault is not None and self.fault.begun:
            error = next((line["error"] for line in lines if line["event"] == "error"), None)
            if error is None and process.returncode > 0:
                raise RuntimeError(f"{verb}: no numbered error but {trouble[-1000:]}")
            if error is not None:
                self.outcome.told.append(error)
                if last:
                    raise NumberedError(error)
            # Its people look after what has happened before they start it again.
            self.fault.wait()
        elif process.returncode:
            raise RuntimeError(f"{verb}: {lines[-1:]} {trouble[-1000:]}")
        return lines


def undisturbed(town: Consortium, kind: str) -> Outcome:
    """Live without a fault; the measure of all others."""
    found = Life(town, f"{kind}-undisturbed", kind, None).live()
    if found.wrong or found.error:
        raise RuntimeError(f"an undisturbed run: {found}")
    return found
