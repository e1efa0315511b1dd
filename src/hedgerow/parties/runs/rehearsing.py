"""What the parties of a job would send: from the job alone, nobody is asked."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.errors import Code
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.protocols.estimate.traffic import (
    Rehearsed,
    peers_traffic,
    servers_traffic,
    topdown_traffic,
    vertical_traffic,
)


def rehearse_job(
    job: Job, rows: int | None = None, values: Sequence[Sequence[int]] | None = None
) -> Rehearsed:
    """Return what parties would send; `rows` in place of the capacity that the job's domain has.

    A vertical ID3 names neither rows nor columns, so both are needed: of every site, how many
    `values` each of its attributes has. H501 for those that are missing, and for jobs that train
    nothing.
    """
    if isinstance(job, VerticalJob):
        if rows is None or values is None or len(values) != len(job.sites):
            raise Code.BAD_PARAMETER.error(
                expected=f"rows, and the numbers of values at each of {len(job.sites)} sites",
                found="a job that names neither, as sites know their own columns alone",
                fix='say both, such as --rows 1000 --values "3,2;4;2,2": sites in the order of '
                "the job, a number for each of their attributes",
            )
        return vertical_traffic(job.make_plan(), values, rows, job.sites)
    if isinstance(job, ServerJob):
        joined = job.partition == "vertical"
        return servers_traffic(job.make_plan(rows), job.protocol, len(job.uploads), joined=joined)
    if isinstance(job, TopDownJob):
        return topdown_traffic(job.plan.plan(job.domain, rows, len(job.owners)), job.owners)
    if isinstance(job, PivotJob):
        if rows is not None:
            domain = job.domain.model_copy(update={"capacity": rows})
            job = PivotJob.model_validate(job.to_dict() | {"domain": domain.to_dict()})
        return peers_traffic(job.make_plan(), job.peers)
    raise Code.BAD_PARAMETER.error(
        expected="a job that trains a model", found=f"one of protocol {job.protocol!r}"
    )
