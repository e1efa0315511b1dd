"""`Consortium`: a party's folder in Python, to upload, train, wait and ask from a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from sklearn.base import BaseEstimator

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.evaluation.client import Evaluator
from hedgerow.parties.queries.asking import Analyst, KnownModel, Reader, answer_with_tree
from hedgerow.parties.roles.own_uploads import OwnUpload, UploadClient, Withdrawal
from hedgerow.parties.roles.server_reports import ModelClient, Shelf
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.client import RunClient, RunStatus
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import load_job
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.manifests import UploadManifest
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.store.trail import TrailEntry, verify
from hedgerow.protocols.hidden.evaluation import Evaluation
from hedgerow.tables import Domain, SqlQuery, encode


class Consortium:
    """A party of a consortium, by its folder, as ``hedgerow`` commands see it.

    ::

        wards = Consortium("wards/north")
        wards.upload("people.csv", population="patients", id="north-1", domain="domain.toml")
        run = wards.train("job.toml")
        wards.wait(run)
        model = Consortium("wards/zoe").model("readmission-1")
        model.predict(rows)

    H852, H854 for the folder; whatever the other parties refuse.
    """

    def __init__(self, folder: str | Path) -> None:
        self.config = PartyConfig.load(folder)

    def __repr__(self) -> str:
        return f"Consortium({str(self.config.folder)!r})"

    def upload(
        self,
        table: str | Path | SqlQuery,
        *,
        population: str,
        id: str | None = None,
        domain: str | Path | Domain | None = None,
        here: bool = False,
        **options: Any,
    ) -> UploadManifest | OwnTable:
        """Share a table with the servers or, `here`, name one that stays with this party.

        Options are those of `hedgerow.parties.roles.uploading.share_upload`.
        """
        if here:
            place = Path(domain).resolve() if isinstance(domain, str | Path) else None
            ids = str(options.get("ids") or "")
            path = table if isinstance(table, SqlQuery) else Path(table)
            return keep_own_table(self.config.state, OwnTable(population, path, ids, place))
        if id is None or domain is None:
            raise Code.BAD_PARAMETER.error(
                expected="id and domain of an upload, or here=True",
                found=f"id={id!r}, domain={domain!r}",
            )
        public = domain if isinstance(domain, Domain) else Domain.from_toml(domain)
        return share_upload(
            self.config, table, public, id=id, population=population, **options
        ).manifest

    def uploads(self) -> list[OwnUpload]:
        """Return what each server keeps of this owner's uploads."""
        return UploadClient(self.config).list()[0]

    def withdraw(self, id: str) -> Withdrawal:
        """Have every server remove its part of an upload, for ever; see `UploadClient.withdraw`."""
        return UploadClient(self.config).withdraw(id)

    def plan(self, job: str | Path | Job) -> Any:
        """Return what a job would do, charge and open; nobody is asked."""
        return _job(job).make_plan()

    def train(self, job: str | Path | Job) -> str:
        """Post a job to those who take part; return its run."""
        return RunClient(self.config).post(_job(job))

    def watch(self, run: str) -> Iterator[RunStatus]:
        """Yield the status of a run whenever it has changed, until it has ended."""
        yield from RunClient(self.config).watch(run)

    def wait(self, run: str, *, progress: bool = True) -> RunStatus:
        """Wait until a run has ended, with a line of progress; raise why it failed."""
        status: RunStatus | None = None
        # In a notebook it is shown below the cell.
        with Console(quiet=not progress).status(run) as line:
            for status in self.watch(run):
                line.update(escape(f"{run}: {status.describe()}"))
        assert status is not None
        if status.state != "done":
            raise status.error or Code.WRONG_RUN_STATE.error(
                expected=f"run {run} to be done", found=f"it is {status.state}"
            )
        return status

    def models(self) -> list[Shelf]:
        """Return the models that this party may know."""
        return ModelClient(self.config).list()[0]

    def model(self, name: str) -> RemoteModel:
        """Return a trained model as a scikit-learn estimator."""
        return RemoteModel(self.config, name)

    def query(self, name: str, rows: Any) -> NDArray[Any]:
        """Ask a model for the class, or the value, of every row."""
        return self.model(name).predict(rows)

    def evaluate(
        self,
        model: str,
        uploads: str | Sequence[str],
        epsilon: float | None,
        *,
        progress: bool = True,
        **options: Any,
    ) -> Evaluation:
        """Count, on the servers, how well a hidden model answers for held-out uploads.

        `epsilon` is the budget of a held-out record, which pays for all figures together; None
        counts exactly, and promises nothing. Options and refusals are those of
        `hedgerow.parties.evaluation.client.Evaluator.propose`. The same question is the same run:
        it is answered from the same table, and charged once.
        """
        evaluator = Evaluator(self.config)
        names = [uploads] if isinstance(uploads, str) else uploads
        job = evaluator.propose(model, names, epsilon, **options)
        self.wait(evaluator.post(job), progress=progress)
        return evaluator.fetch(job)

    def trail(self) -> list[TrailEntry]:
        """Return this party's own trail, verified; H933 if it was changed."""
        with open_store(self.config.state).snapshot() as made:
            entries = made.trail()
            verify(entries, made.charges(), self.config.identity.pem)
        return entries


class RemoteModel(BaseEstimator):  # type: ignore[misc]
    """A model that others keep, as a fitted estimator of scikit-learn.

    Of a hidden model the servers are asked, and rows count as those of ``hedgerow query``. What is
    published answers here.
    """

    def __init__(self, config: PartyConfig, name: str) -> None:
        self.config, self.name = config, name
        known = Reader(config).find_published(name)
        self._analyst = None
        if known is None:
            self._analyst = Analyst(config)
            known = self._analyst.find(name)
        self._known: KnownModel = known
        if self._known.plan.domain.target.classes is not None:
            self.classes_ = np.asarray(self._known.classes)

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the class, or the value, of every row."""
        return np.asarray(self._ask(rows, proba=False).labels)

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Return class probabilities (n, classes), in the order of ``classes_``."""
        shares = self._ask(rows, proba=True).shares
        assert shares is not None
        return np.asarray(shares, dtype=np.float64)

    def _ask(self, rows: Any, *, proba: bool) -> Any:
        if self._analyst is not None:
            return self._analyst.ask(self._known, rows, proba=proba)
        return answer_with_tree(self._known, encode(rows, self._known.plan.domain), proba=proba)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _job(job: str | Path | Job) -> Job:
    return job if isinstance(job, Job) else load_job(job)
