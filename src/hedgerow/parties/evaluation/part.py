"""Evaluation at one of the three servers: from uploads and shares of a model to half a table.

As a training (`runs.hidden_part`), except that the last stage has the halves that the servers give
away. They stay in ``state/runs/<run>/halves.bin``, in the vault, for the analyst to fetch; all
servers have theirs of the same draw before the first one leaves.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.hidden_part import UploadsPart
from hedgerow.parties.runs.job_tables import UploadsJob
from hedgerow.parties.runs.part import Attempt, as_text
from hedgerow.parties.runs.stages import Arrays
from hedgerow.parties.runs.store import job_of_run
from hedgerow.parties.store import models
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.vault import About, read_arrays, write_arrays
from hedgerow.privacy import Leakage
from hedgerow.protocols.contract import Context
from hedgerow.protocols.hidden.programs import EvaluatedModel, EvaluationTerms, evaluate

_HALF, _DRAW = "half", "draw"


class EvaluatingPart(UploadsPart[EvaluationJob]):
    """What a server does in an evaluation."""

    result: ClassVar[str] = "halves"

    def check(self) -> None:
        """Refuse uploads as for a training, and a model that cannot be evaluated (H407, H501).

        H948 for uploads that the model was trained on.
        """
        manifest = models.read_manifest(self.config.state, self.job.model)
        self.job.check_model(manifest)
        training = job_of_run(self.config.state, manifest.run)
        assert isinstance(training, UploadsJob)
        trained = [upload for upload in self.job.uploads if upload in training.uploads]
        if trained:
            raise Code.ROWS_NOT_HELD_OUT.error(
                expected=f"uploads that model {manifest.name} was not trained on",
                found=f"{', '.join(trained)}, which run {manifest.run} has used",
            )
        super().check()

    def compute(self, attempt: Attempt) -> tuple[Arrays, Leakage]:
        """Count; the stage has this server's half of the table, if it gives one."""
        job, network = self.job, attempt.network
        model = models.open_model(self.config.state, attempt.key, job.model)
        tag = f"{model.manifest.job} {model.manifest.tag}"
        # Shares of two trainings under one name would open to nonsense.
        agreeing.compare_texts(network, f"model {job.model}", tag, Code.MODEL_DAMAGED)
        held = self.held(attempt)
        attempt.say("table", slots=job.slots)
        made = evaluate(
            Context(
                network,
                attempt.members,
                job.make_plan(),
                EvaluationTerms(model.manifest.protocol, model.manifest.read_plan()),
                EvaluatedModel(model.shares, model.read_ledger(), held),
                attempt.ledger,
                attempt.stages,
            )
        )
        half = made.halves.get(network.party)
        return {} if half is None else {_HALF: half}, made.leakage

    def keep(self, attempt: Attempt, made: Arrays) -> None:
        """Put the half where the analyst asks for it."""
        last, state = attempt.stages.last(), self.config.state
        assert last is not None
        assert attempt.key is not None
        drawn = made | {_DRAW: np.frombuffer(last.tag, dtype=np.uint8)}
        path = _path(state, attempt.run)
        write_arrays(path, drawn, attempt.key, about=_about(attempt.run, attempt.network.party))


class KeptHalf(NamedTuple):
    """What a server gives the analyst: its half, if it gives one, and the name of the draw."""

    half: NDArray[Any] | None
    draw: str
    ledger: str


def read_half(state: StateFolder, run: str, server: int, key: bytes) -> KeptHalf:
    """Return what an evaluation that is done has left at a server; H860 to H864."""
    found = read_arrays(_path(state, run), key, about=_about(run, server))
    return KeptHalf(found.get(_HALF), found[_DRAW].tobytes().hex(), as_text(found["ledger"]))


def _path(state: StateFolder, run: str) -> Any:
    return state.path("runs", run, "halves.bin")


def _about(run: str, server: int) -> About:
    return {"kind": "evaluation", "run": run, "server": server}
