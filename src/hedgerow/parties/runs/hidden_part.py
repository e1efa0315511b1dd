"""Training on the three servers, at one of them: from uploads to a model of which it has shares.

1. Agree on the stages that all three have done, and forget what goes beyond.
2. Rehearse what will be published. Compare the uploads, make a table of them and train. Every
   stage is kept by all servers before the next one begins; every charge is in the ledger, on the
   disk, before noise is drawn.
3. Compare the ledgers; keep the model as the last stage. From here on all servers have it, and
   whoever fails now finds it done in the next attempt.
4. Take leave, and put the model where questions are answered.
"""

from __future__ import annotations

import json
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.part import Attempt, Part
from hedgerow.parties.runs.stages import Arrays
from hedgerow.parties.store.uploads import held_uploads, is_here, open_upload, read_manifest
from hedgerow.privacy import Ledger
from hedgerow.protocols.contract import Context, guarantees
from hedgerow.protocols.hidden import programs
from hedgerow.protocols.registry import is_published, server_protocol
from hedgerow.protocols.run import rehearse

MODEL = "model"
_SLACK = 1 + 1e-9


class ServerPart(Part[ServerJob]):
    """What a server does in a training."""

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
        state = self.config.state
        self.job.uploads_for([read_manifest(state, upload) for upload in self.job.uploads])

    def attend(self, attempt: Attempt) -> None:
        """Train, or find the model done."""
        network, stages, ledger = attempt.network, attempt.stages, attempt.ledger
        common = agreeing.agree_on_stages(network, [kept.tag for kept in stages.kept])
        stages.begin(attempt.session, common, lambda: len(ledger.entries))
        stages.confirm_with(lambda tag: agreeing.confirm(network, tag))
        stages.on_load = lambda kept: ledger.mark_reached(kept.entries)
        made = stages.load(MODEL)
        if made is None:
            made = self._train(attempt)
            stages.save(MODEL, made)
        network.farewell(range(agreeing.SERVERS))
        self._write_model(attempt, made)

    def _train(self, attempt: Attempt) -> Arrays:
        job, plan, protocol = self.job, self.job.make_plan(), server_protocol(self.job.protocol)
        network, ledger = attempt.network, attempt.ledger
        if is_published(job.protocol):
            rehearse(job.protocol, job.make_plan(capacity=1))
        assert attempt.key is not None
        state = self.config.state
        held = [open_upload(state, attempt.key, upload) for upload in job.uploads]
        manifests = [manifest for manifest, _ in held]
        agreeing.compare_uploads(network, {one.id: one.digest for one in manifests})
        attempt.say("table", slots=plan.n_slots, columns=plan.layout.n_columns)
        made = programs.server(
            Context(
                network,
                attempt.members,
                plan,
                job,
                held_uploads(job, {network.party: held}),
                ledger,
                attempt.stages,
                progress=lambda numbers: attempt.say("level", **numbers),
            )
        )
        arrays: Arrays = {f"share {name}": data for name, data in made.shares.items()}
        if made.public is not None:
            privacy = json.loads(ledger.to_json())
            arrays["public"] = _as_array(protocol.document(made.public, privacy))
        self._check_ledger(attempt)
        arrays["ledger"] = _as_array(ledger.to_json())
        arrays["leakage"] = _as_array(made.leakage.to_json())
        return arrays

    def _check_ledger(self, attempt: Attempt) -> None:
        """Refuse a training that cost other than was charged to the account, or other elsewhere."""
        code, spent = Code.BAD_LEDGER_FILE, guarantees(attempt.ledger)
        for audience, cost in self.job.costs().items():
            found = spent[audience]
            if found.epsilon > cost.epsilon * _SLACK or found.delta > cost.delta * _SLACK:
                raise code.error(expected=f"{cost} for {audience}", found=f"{found}")
        agreeing.compare_texts(attempt.network, "ledger", attempt.ledger.to_json(), code)

    def _write_model(self, attempt: Attempt, made: Arrays) -> None:
        last, public = attempt.stages.last(), made.get("public")
        assert last is not None
        ledger = _as_text(made["ledger"])
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
            leakage=_as_text(made["leakage"]),
            shares=shares,
            tree=None if public is None else json.loads(_as_text(public)),
        )


def _as_array(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


def _as_text(array: NDArray[np.uint8]) -> str:
    return array.tobytes().decode()
