"""Jobs on uploads at one of the three servers, and training: to a model of which it has shares.

1. Agree on the stages that all three have done, and forget what goes beyond.
2. Rehearse what will be published. Compare the uploads, make a table of them and train. Every
   stage is kept by all servers before the next one begins; every charge is in the ledger, on the
   disk, before noise is drawn.
3. Compare the ledgers; keep the result as the last stage. From here on all servers have it, and
   whoever fails now finds it done in the next attempt.
4. Take leave, and put the model where questions are answered.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.job_tables import UploadsJob
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.part import Attempt, Part
from hedgerow.parties.runs.stages import Arrays
from hedgerow.parties.store.uploads import held_uploads, is_here, open_upload, read_manifest
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.contract import Context, guarantees
from hedgerow.protocols.hidden import programs
from hedgerow.protocols.registry import is_published, server_protocol
from hedgerow.protocols.run import rehearse
from hedgerow.protocols.sharing.uploaded import HeldUpload

MODEL = "model"
_SLACK = 1 + 1e-9


J = TypeVar("J", bound=UploadsJob)


class UploadsPart(Part[J]):
    """What a server does in a job on uploads: compute once, keep what comes of it."""

    result: ClassVar[str]
    """The last stage, in which all servers have what comes of it."""

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

    def attend(self, attempt: Attempt) -> None:
        """Compute, or find it done."""
        network, stages, ledger = attempt.network, attempt.stages, attempt.ledger
        common = agreeing.agree_on_stages(network, [kept.tag for kept in stages.kept])
        stages.begin(attempt.session, common, lambda: len(ledger.entries))
        stages.confirm_with(lambda tag: agreeing.confirm(network, tag))
        stages.on_load = lambda kept: ledger.mark_reached(kept.entries)
        made = stages.load(self.result)
        if made is None:
            made, leakage = self.compute(attempt)
            self._check_ledger(attempt)
            made |= {"ledger": as_array(ledger.to_json()), "leakage": as_array(leakage.to_json())}
            stages.save(self.result, made)
        network.farewell(range(agreeing.SERVERS))
        self.keep(attempt, made)

    @abstractmethod
    def compute(self, attempt: Attempt) -> tuple[Arrays, Leakage]:
        """Compute with the other servers; return what is kept, and what was opened."""

    @abstractmethod
    def keep(self, attempt: Attempt, made: Arrays) -> None:
        """Put what all servers have, with ``ledger`` and ``leakage``, where it is asked for."""

    def held(self, attempt: Attempt) -> list[HeldUpload]:
        """Return what this server has of the uploads, which all have alike; H895, H910."""
        network, job = attempt.network, self.job
        assert attempt.key is not None
        held = [open_upload(self.config.state, attempt.key, upload) for upload in job.uploads]
        agreeing.compare_uploads(network, {one.id: one.digest for one, _ in held})
        return held_uploads(job, {network.party: held})

    def _check_ledger(self, attempt: Attempt) -> None:
        """Refuse a run that cost other than was charged to the account, or other elsewhere."""
        code, spent = Code.BAD_LEDGER_FILE, guarantees(attempt.ledger)
        for audience, cost in self.job.costs().items():
            found = spent[audience]
            if found.epsilon > cost.epsilon * _SLACK or found.delta > cost.delta * _SLACK:
                raise code.error(expected=f"{cost} for {audience}", found=f"{found}")
        agreeing.compare_texts(attempt.network, "ledger", attempt.ledger.to_json(), code)


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


def as_array(text: str) -> NDArray[np.uint8]:
    """Return a text as a stage keeps it."""
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


def as_text(array: NDArray[np.uint8]) -> str:
    """Return the text that `as_array` wrote."""
    return array.tobytes().decode()
