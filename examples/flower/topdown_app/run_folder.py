"""The coordinator's folder of a run: its state, the model with its ledger, and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.log import Record, RunLog, replay
from hedgerow.parties.topdown.rounds import Rounds

from hedgerow.parties.store.durable import FOLDER_MODE, StateFolder, replacing
from hedgerow.privacy import Ledger
from hedgerow.protocols.topdown.coordinator import Coordinator

SEES = (
    "the coordinator sees every answer of every owner, and so does the SuperLink: counts and "
    "choices with noise, at epsilon {epsilon:g} about any one record of an owner; no row, no exact "
    "count, and not how many rows an owner has"
)


class RunFolder:
    """A run at its coordinator, begun or gone on with.

    A run that was stopped goes on when the same job is run into the same folder: nobody is charged
    twice.

    Parameters
    ----------
    job : TopDownJob
        The coordinator's own copy.
    out : Path
        Made, with mode 0700, if it does not exist.
    clock : callable
        Seconds.

    Raises
    ------
    HedgerowError
        H867 if the state is damaged, H868 if another process has the run, H885 for a job that needs
        servers.
    """

    def __init__(
        self, job: TopDownJob, out: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.job, self._clock = job, clock
        out.absolute().parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        state = StateFolder(out)
        self.folder = state.folder(job.run_id)
        self._log = RunLog(state, job.run_id)
        try:
            self._begin()
        except BaseException:
            self._log.close()
            raise

    def _begin(self) -> None:
        job = self.job
        self.coordinator = Coordinator(
            job.make_plan(), job.owners, dropouts=job.dropouts, least=job.least_owners
        )
        record = replay(self._log.each(), self.coordinator)
        self.rounds = Rounds(
            job,
            self.coordinator,
            record,
            keep=self._log.append,
            finish=lambda: self._finish(record),
            clock=self._clock,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()

    @property
    def sees(self) -> str:
        """What the coordinator sees, in words."""
        return SEES.format(epsilon=max(cost.epsilon for cost in self.job.costs().values()))

    def _finish(self, record: Record) -> bytes:
        ledger = Ledger(domain=self.job.domain)
        ledger.charge(*self.job.make_plan().releases(joint=len(self.job.owners) > 1))
        for name in sorted(record.insecure):
            ledger.mark_not_private(f"owner {name} drew repeatable noise")
        model = self.coordinator.tree().to_json(privacy=json.loads(ledger.to_json()))
        self._write("model.json", model)
        return model.encode()

    def report(self, seconds: list[float]) -> dict[str, Any]:
        """Write rounds, bytes and seconds, and who was gone on without.

        Parameters
        ----------
        seconds : list of float
            Of every round that was carried now.
        """
        record, status = self.rounds.record, self.rounds.status()
        found = {
            "run": self.job.run_id,
            "hash": self.job.hash,
            "state": "done" if status.done else "stopped",
            "method": self.job.plan.method,
            "rounds": self.coordinator.round,
            "splits": self.coordinator.n_splits,
            "bytes": {
                "sent": sum(one["bytes_out"] for one in record.traffic.values()),
                "received": sum(one["bytes_in"] for one in record.traffic.values()),
            },
            "seconds": [round(each, 3) for each in seconds],
            "owners": list(self.job.owners),
            "dropped": list(status.dropped),
            "events": record.events,
            "not_private": sorted(record.insecure),
            "sees": self.sees,
        }
        self._write("report.json", json.dumps(found, indent=1))
        return found

    def _write(self, name: str, text: str) -> None:
        with replacing(self.folder / name) as file:
            file.write(text.encode())
