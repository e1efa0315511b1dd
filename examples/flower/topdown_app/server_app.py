"""The ServerApp: the coordinator, whom no owner has to trust with its rows."""

from __future__ import annotations

from logging import INFO
from pathlib import Path

from flwr.app import Context
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp
from hedgerow.parties.topdown.job import TopDownJob

from topdown_app.carrying import Carrying
from topdown_app.run_folder import RunFolder

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Grow the tree of a job, and write the model and a report.

    Reveals: every answer of every owner, noisy as the job's plan says, to this process and to the
    SuperLink.
    Cost: one message to each owner and one back in every round.
    """
    config = context.run_config
    job = TopDownJob.load(str(config["job"]))
    with RunFolder(job, Path(str(config["out"]))) as run:
        log(INFO, "%s: %s", job.run_id, run.sees)
        carrying = Carrying(grid, run.rounds, job, poll=float(config["poll-seconds"]))
        try:
            carrying.carry()
        finally:
            report = run.report(carrying.seconds)
        log(
            INFO,
            "%s: %d splits in %d rounds, %d bytes sent and %d received; model in %s",
            job.run_id,
            report["splits"],
            report["rounds"],
            report["bytes"]["sent"],
            report["bytes"]["received"],
            run.folder,
        )
