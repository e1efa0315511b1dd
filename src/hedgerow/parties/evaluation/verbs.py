"""What a server answers to the analyst of an evaluation: its half of the table."""

from __future__ import annotations

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.evaluation.part import read_half
from hedgerow.parties.queries.answering import half_reply
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.runs.verbs import RunFields
from hedgerow.parties.wire.handlers import Caller, verb
from hedgerow.parties.wire.requests import Fields, Payload


class EvaluationVerbs:
    """Give halves of tables away; `store` knows the runs, `key` opens what is kept of them."""

    def __init__(self, config: PartyConfig, policy: Policy, key: bytes, store: RunStore) -> None:
        self._config, self._policy, self._key, self._store = config, policy, key, store

    @verb("evaluation", ("analyst",), twice="nothing changes.")
    def half(self, caller: Caller, fields: RunFields) -> tuple[Fields, Payload]:
        """Give the analyst whom the job of an evaluation names this server's half of the table.

        Reply: ``draw`` and ``ledger``, the bytes of the ledger, with which the payload begins; then
        the half, with ``dtype`` and ``shape``, none from server 2. H871 for anybody else, H893 for
        a run that is not done or evaluates nothing.
        """
        run = self._store.get(fields.run)
        if not isinstance(run.job, EvaluationJob) or run.state != "done":
            raise Code.WRONG_RUN_STATE.error(
                expected="an evaluation that is done",
                found=f"{run.id}, protocol {run.job.protocol}, which is {run.state}",
            )
        if caller.name not in run.job.analysts:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"the analyst that the job of {run.id} names", found=caller.name
            )
        self._policy.check_analysts([caller.name])
        kept = read_half(self._config.state, run.id, self._config.number, self._key)
        told, half = half_reply(kept.half, kept.draw)
        ledger = kept.ledger.encode()
        return {**told, "ledger": len(ledger)}, [ledger, half or b""]
