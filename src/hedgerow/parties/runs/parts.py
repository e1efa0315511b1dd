"""What a party does in a run, by the protocol of its job and its own role."""

from __future__ import annotations

from typing import Any

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.evaluation.part import EvaluatingPart
from hedgerow.parties.runs.hidden_part import ServerPart
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.part import Part as Part
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.part import TopDownPart
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.part import VerticalPart
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.peer_part import PeersPart


def part_of(config: PartyConfig, job: Job) -> Part[Any]:
    """Return what this party does in runs of a job."""
    if isinstance(job, EvaluationJob):
        return EvaluatingPart(config, job)
    if isinstance(job, ServerJob):
        return ServerPart(config, job)
    if isinstance(job, TopDownJob):
        return TopDownPart(config, job)
    if isinstance(job, PivotJob):
        return PeersPart(config, job)
    assert isinstance(job, VerticalJob)
    return VerticalPart(config, job)
