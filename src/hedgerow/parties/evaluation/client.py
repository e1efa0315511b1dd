"""`Evaluator`: evaluate hidden models on shared rows, as an analyst of a consortium."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.evaluation.job import EvaluationJob, propose
from hedgerow.parties.queries.asking import Analyst, join_replies
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.wire.client import Reply, ServerClient
from hedgerow.parties.wire.requests import Fields
from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.evaluation import RANGES, Evaluation, EvaluationOptions
from hedgerow.protocols.sharing.integrate import Partition


class Evaluator(ServerClient):
    """The three servers, to be asked how good a model is.

    ::

        job = evaluator.propose("readmission-1", ["east-1"], epsilon=0.5)
        run = evaluator.post(job)      # the same job is the same run, charged once
        ...                            # until it is done
        evaluator.fetch(job).accuracy
    """

    def __init__(self, config: PartyConfig) -> None:
        config.member(config.name, "analyst")
        super().__init__(config)

    def propose(
        self,
        model: str,
        uploads: Sequence[str],
        epsilon: float | None,
        *,
        ranges: int = RANGES,
        name: str | None = None,
        partition: Partition = "horizontal",
    ) -> EvaluationJob:
        """Return the job that evaluates a model on uploads; nobody is asked to do anything yet.

        `epsilon` is that of a held-out record; None counts exactly, and promises nothing. H407 for
        a model that is not there, H501 for one that is published, of numbers or of votes, H888 for
        an upload that is not there.
        """
        if not uploads:
            raise Code.BAD_PARAMETER.error(expected="at least one upload", found="none")
        known = Analyst(self._config).find(model)
        options = EvaluationOptions.from_parameters(
            {"ranges": ranges, "noise": "none"}
            if epsilon is None
            else {"ranges": ranges, "epsilon": epsilon}
        )
        figures = self._figures()
        missing = [upload for upload in uploads if upload not in figures]
        if missing:
            raise Code.UNKNOWN_UPLOAD.error(
                found=f"upload {missing[0]!r}, which the servers do not have"
            )
        return propose(
            known.manifest,
            [figures[upload] for upload in uploads],
            options,
            analyst=self._config.name,
            name=name,
            partition=partition,
        )

    def post(self, job: EvaluationJob) -> str:
        """Post a job, unless it was before; return its run."""
        client = RunClient(self._config)
        try:
            client.status(job.run_id)
        except HedgerowError as error:
            if error.code is not Code.UNKNOWN_RUN:
                raise
            client.post(job)
        return job.run_id

    def fetch(self, job: EvaluationJob) -> Evaluation:
        """Return what the table of an evaluation that is done says of the model.

        Reveals: the table, to this analyst alone. H893 before it is done, H871 for another analyst,
        H884 for servers that tell different things.
        """
        plan = job.make_plan()
        replies = dict(enumerate(self._replies("evaluation", {"run": job.run_id})))
        begins, *others = [reply.fields.get("ledger") for reply in replies.values()]
        several = Code.BAD_REPLY.error(expected="one ledger at all servers", found="several")
        if type(begins) is not int or any(one != begins for one in others):
            raise several
        ledgers = {reply.payload[:begins] for reply in replies.values()}
        if len(ledgers) > 1:
            raise several
        with jsonfile.refusing(Code.BAD_REPLY):
            ledger = Ledger.from_json(ledgers.pop().decode())
        assert plan.domain.target is not None
        table = join_replies(replies, plan.shape, begins)
        classes = tuple(plan.domain.target.classes or ())
        return Evaluation(table, plan.places.boundary, classes, ledger)

    def _figures(self) -> dict[str, dict[str, Any]]:
        """Return the public figures of the uploads that all servers have alike, by id; H884."""
        listed = []
        for reply in self._replies("uploads", {}):
            with jsonfile.refusing(Code.BAD_REPLY):
                rows = json.loads(reply.payload)["uploads"]
                listed.append({str(row["id"]): dict(row) for row in rows})
        first, *others = listed
        return {id: row for id, row in first.items() if all(o.get(id) == row for o in others)}

    def _replies(self, verb: str, fields: Fields) -> list[Reply]:
        """Return the replies of the three servers, in order, or raise what one of them refuses."""
        replies = []
        for reply in self._ask_all(verb, fields).values():
            if isinstance(reply, HedgerowError):
                raise reply
            replies.append(reply)
        return replies
