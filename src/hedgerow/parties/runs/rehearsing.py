"""What the parties of a job would send: from the job alone, nobody is asked.

Where all are in lock-step, the daemons' own small rounds are among it: those of `runs.part`, on
both sides of the program, and one for every stage that they keep. A first attempt that comes to its
end is counted; each further one begins with some of them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.prepared import NO_SESSION
from hedgerow.protocols.checkpoint import Checkpoints, NoCheckpoints, Stage
from hedgerow.protocols.estimate.traffic import (
    Rehearsed,
    peers_traffic,
    servers_traffic,
    topdown_traffic,
    vertical_traffic,
)
from hedgerow.protocols.pivot.programs import VERSION

_MOST_ROWS = 1 << 31


def rehearse_job(
    job: Job, rows: int | None = None, values: Sequence[Sequence[int]] | None = None
) -> Rehearsed:
    """Return what parties would send; `rows` in place of the capacity that the job's domain has.

    A vertical ID3 names neither rows nor columns, so both are needed: of every site, how many
    `values` each of its attributes has. H501 for those that are missing, and for jobs that train
    nothing, and for more rows than a job can have.
    """
    if rows is not None and not 0 < rows < _MOST_ROWS:
        raise Code.BAD_PARAMETER.error(
            expected=f"rows from 1 on and below {_MOST_ROWS:,}", found=jsonfile.shown(rows)
        )
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
        return servers_traffic(
            job.make_plan(rows),
            job.protocol,
            len(job.uploads),
            joined=joined,
            around=partial(_in_daemons, job=job),
        )
    if isinstance(job, TopDownJob):
        return topdown_traffic(job.plan.plan(job.domain, rows, len(job.owners)), job.owners)
    if isinstance(job, PivotJob):
        if rows is not None:
            domain = job.domain.model_copy(update={"capacity": rows})
            job = PivotJob.model_validate(job.to_dict() | {"domain": domain.to_dict()})
        return peers_traffic(job.make_plan(), job.peers, partial(_in_daemons, job=job))
    raise Code.BAD_PARAMETER.error(
        expected="a job that trains a model", found=f"one of protocol {job.protocol!r}"
    )


class _Kept(NoCheckpoints):
    """Keeps nothing; the members tell each other that they have."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def save(self, stage: str, arrays: Stage) -> None:
        """Send what is sent once a stage is kept."""
        del stage, arrays
        agreeing.confirm(self._network, bytes(agreeing.DIGEST_BYTES))


@contextmanager
def _in_daemons(network: Network, job: ServerJob | PivotJob) -> Iterator[Checkpoints]:
    """Do what `StagedPart` does around a program; the last stage is the model."""
    stages = _Kept(network)
    agreeing.agree_on_stages(network, [])
    if isinstance(job, ServerJob):
        nothing = bytes(agreeing.DIGEST_BYTES).hex()
        agreeing.compare_uploads(network, dict.fromkeys(job.uploads, nothing))
    else:
        agreeing.compare_numbers(network, "version of Pivot", VERSION, Code.WRONG_VERSION)
        agreeing.exchange_all(network, "prepared", np.frombuffer(NO_SESSION, np.uint8))
    yield stages
    agreeing.compare_texts(network, "ledger", "", Code.BAD_LEDGER_FILE)
    stages.save("model", {})
    network.farewell(range(network.n))
