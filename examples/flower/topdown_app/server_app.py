"""The ServerApp: the coordinator, whom no owner has to trust with its rows."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from itertools import pairwise
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import FOLDER_MODE, Claim, StateFolder, replacing
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.privacy import Ledger
from hedgerow.protocols import contract
from hedgerow.protocols.topdown.programs import GrownTree, coordinator
from topdown_app.grid_network import GridNetwork
from topdown_app.messages import load_job

SEES = (
    "the coordinator sees every answer of every owner, and so does the SuperLink: counts and "
    "choices with noise, at epsilon {epsilon:g} about any one record of an owner; no row, no exact "
    "count, and not how many rows an owner has"
)

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Grow the tree of a job, and write the model and a report.

    Reveals: every answer of every owner, noisy as the job's plan says, to this process and to the
    SuperLink.
    Cost: one message to each owner and one back in every round.
    """
    config = context.run_config
    job, out = load_job(str(config["job"])), Path(str(config["out"]))
    wait, poll = float(config["wait-seconds"]), float(config["poll-seconds"])
    report = grow(grid, job, out, wait=wait, poll=poll)
    log(
        INFO,
        "%s: %d splits in %d rounds, %d bytes sent and %d received; model in %s",
        job.run_id,
        report["splits"],
        report["rounds"],
        report["bytes"]["sent"],
        report["bytes"]["received"],
        out / job.run_id,
    )


def grow(
    grid: Grid, job: TopDownJob, out: Path, *, wait: float, poll: float, clock: Any = time
) -> dict[str, Any]:
    """Grow the tree of the coordinator's own copy of a job; return the report.

    A run that was stopped goes on when the same job is run into the same folder: nobody is charged
    twice. H824 if too few owners answer, H868 if another process has the run.
    """
    out.absolute().parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    state = StateFolder(out)
    folder = state.folder(job.run_id)
    claim = Claim(state.path(job.run_id, "lock"))
    sees = SEES.format(epsilon=max(cost.epsilon for cost in job.costs().values()))
    log(INFO, "%s: %s", job.run_id, sees)
    begun: list[float] = []
    reached: dict[str, int] = {}

    def progress(numbers: Mapping[str, int]) -> None:
        begun.append(clock.monotonic())
        reached.update(numbers)
        log(INFO, "%(splits)d splits after %(round)d rounds, %(owners)d owners", reached)

    try:
        memory = RunMemory(open_store(state), job.run_id, "coordinator")
        grown = _in_attempts(
            grid, job, memory=memory, progress=progress, wait=wait, poll=poll, clock=clock
        )
        ledger = Ledger(domain=job.domain)
        ledger.charge(*job.make_plan().releases(joint=len(job.owners) > 1))
        report = {
            "run": job.run_id,
            "hash": job.hash,
            "method": job.plan.method,
            "rounds": reached["round"],
            "splits": reached["splits"],
            "bytes": {"sent": reached["sent"], "received": reached["received"]},
            "seconds": [round(end - begin, 3) for begin, end in pairwise(begun)],
            "owners": list(job.owners),
            "lost": list(grown.lost),
            "sees": sees,
        }
        _write(folder / "model.json", grown.tree.to_json(privacy=json.loads(ledger.to_json())))
        _write(folder / "report.json", json.dumps(report, indent=1))
    finally:
        claim.release()
    return report


def _in_attempts(
    grid: Grid, job: TopDownJob, *, memory: RunMemory, progress: Any, **timing: Any
) -> GrownTree:
    """Run the coordinator's program; who does not answer is not there in the next attempt."""
    lost: set[str] = set()
    names: dict[int, str] = {}
    while True:
        members = ("coordinator", *(name for name in job.owners if name not in lost))
        network = GridNetwork(grid, members, job.hash, names, **timing)
        try:
            return coordinator(
                contract.Context(
                    network,
                    members,
                    job.make_plan(),
                    job=job.terms,
                    memory=memory,
                    progress=progress,
                )
            )
        except HedgerowError as error:
            if error.code is not Code.PEER_TIMEOUT:
                raise
            log(WARNING, "%s: %s", job.run_id, error)
            lost |= network.late


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
