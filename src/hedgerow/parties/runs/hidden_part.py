"""Jobs on uploads at one of the three servers, and training: to a model of which it has shares.

How servers go on from stage to stage is in `runs.part.StagedPart`. A training rehearses first what
will be published, compares the uploads, makes a table of them and trains; the last stage has the
model, which is then put where questions are answered.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TypeVar

import numpy as np

from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.job_tables import UploadsJob
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.part import Attempt, StagedPart, as_array, as_text
from hedgerow.parties.runs.stages import Arrays
from hedgerow.parties.store.uploads import held_uploads, is_here, open_upload, read_manifest
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.contract import Context
from hedgerow.protocols.hidden import programs
from hedgerow.protocols.registry import is_published, server_protocol
from hedgerow.protocols.run import rehearse
from hedgerow.protocols.sharing.uploaded import HeldUpload

MODEL = "model"


J = TypeVar("J", bound=UploadsJob)


class UploadsPart(StagedPart[J]):
    """What a server does in a job on uploads: compute once, keep what comes of it."""

    def governors(self) -> Collection[str]:
        """Return the owners of those uploads that are here."""
        state = self.config.state
        here = [upload for upload in self.job.uploads if is_here(state, upload)]
        return {read_manifest(state, upload).owner for upload in here}

    def upload_owners(self) -> Collection[str]:
        """Return the owners of those uploads that are here."""
        return self.governors()

    def check(self) -> None:
        """Refuse uploads that are not here (H888, H946), or do not make up the table (H910)."""
        state, job = self.config.state, self.job
        job.uploads_for([read_manifest(state, upload) for upload in job.uploads])

    def held(self, attempt: Attempt) -> list[HeldUpload]:
        """Return what this server has of the uploads, which all have alike; H895, H910."""
        network, job = attempt.network, self.job
        assert attempt.key is not None
        held = [open_upload(self.config.state, attempt.key, upload) for upload in job.uploads]
        agreeing.compare_uploads(network, {one.id: one.digest for one, _ in held})
        return held_uploads(job, {network.party: held})


class ServerPart(UploadsPart[ServerJob]):
    """What a server does in a training."""

    result = MODEL

    def compute(self, attempt: Attempt) -> tuple[Arrays, Leakage]:
        """Train."""
        job, plan, protocol = self.job, self.job.make_plan(), server_protocol(self.job.protocol)
        network, ledger = attempt.network, attempt.ledger
        if is_published(job.protocol):
            rehearse(job.protocol, job.make_plan(capacity=1))
        held = self.held(attempt)
        attempt.say("table", slots=plan.n_slots, columns=plan.layout.n_columns)
        made = programs.server(
            Context(
                network,
                attempt.members,
                plan,
                job,
                held,
                ledger,
                attempt.stages,
                progress=lambda numbers: attempt.say("level", **numbers),
            )
        )
        arrays: Arrays = {f"share {name}": data for name, data in made.shares.items()}
        if made.public is not None:
            privacy = json.loads(ledger.to_json())
            arrays["public"] = as_array(protocol.document(made.public, privacy))
        return arrays, made.leakage

    def keep(self, attempt: Attempt, made: Arrays) -> None:
        """Put the model where questions are answered."""
        last, public = attempt.stages.last(), made.get("public")
        assert last is not None
        ledger = as_text(made["ledger"])
        # What is kept is read once more, every check replayed, before it is relied on.
        Ledger.from_json(ledger)
        shares = {
            name.removeprefix("share "): np.asarray(array)
            for name, array in made.items()
            if name.startswith("share ")
        }
        self.keep_model(
            attempt,
            tag=last.tag.hex(),
            plan=self.job.make_plan().to_dict(),
            ledger=ledger,
            leakage=as_text(made["leakage"]),
            shares=shares,
            tree=None if public is None else json.loads(as_text(public)),
        )
