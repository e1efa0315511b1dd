"""An owner's folder: its job, its table, its policy, and what it must not forget.

::

    owner.toml      name = "north", table = "table.parquet"
    job.toml        this owner's own copy of the job
    policy.toml     what this owner allows: the largest epsilon of a job, and of all jobs together
    table.parquet   the rows
    state/          database: accounts, and for every run the ledger and the last answer

Every question is answered by a process of its own, which may be killed between any two steps: the
same question again gets the same bytes. An owner whose state is gone, or older than what Flower has
seen of it, answers no more: drawn again, the noise would differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import read_toml
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.admission import check_policy
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import Claim, StateFolder, check_private, replacing
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.own_tables import OWNER_ONLY_FILE
from hedgerow.parties.topdown.part import encoded_table, pin_table
from hedgerow.protocols.contract import Context
from hedgerow.protocols.topdown.programs import ASK, TREE, owner
from hedgerow.tables.absorbing import AbsorbedRows
from topdown_app.messages import MailNetwork, load_job

NOTHING_SEEN = -1


class OwnerFile(Numbered):
    """The file ``owner.toml``: the name as in the job, and a file: CSV, Parquet or Arrow."""

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    name: Name
    table: Annotated[str, Field(min_length=1)]


class OneQuestion(MailNetwork):
    """An owner's network for one question: then comes the end, and no tree."""

    def __init__(self, n: int, party: int, ask: bytes) -> None:
        super().__init__(n, [party])
        self.answer = b""
        self._mail = {ASK: [b"", ask], TREE: [b""]}

    def _post(self, step: str, source: int, destination: int, data: bytes) -> None:
        self.answer = data
        self.meter.record(step, source, rounds=0, payload=len(data), wire=len(data))

    def _receive(
        self, step: str, at: int, senders: tuple[int, ...], timeout: float | None
    ) -> tuple[int, bytes]:
        return senders[0], self._mail[step].pop()


class OwnerFolder:
    """An owner's side of a run.

    H854 if others can look into the folder, H852, H853 or H885 for a file in it that is not sound,
    H906 if the job does not name this owner.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        check_private(self.folder)
        self.file = read_toml(OwnerFile, self.folder / "owner.toml")
        self.policy = Policy.load(self.folder)
        self.job = load_job(self.folder / "job.toml")
        if self.name not in self.job.owners:
            raise Code.NOT_IN_JOB.error(
                expected=f"an owner that the job names: {', '.join(self.job.owners)}",
                found=self.name,
            )

    @property
    def name(self) -> str:
        """Of the owner."""
        return self.file.name

    def answer(self, ask: bytes, job: str, seen: int = NOTHING_SEEN) -> tuple[bytes, int]:
        """Answer a question of a coordinator with the same job, by its hash; return the round too.

        Everything about it is on the disk then. `seen` is the last round that somebody else knows
        this owner has answered.

        H891 for another job, H858 if the policy or the account refuses, H840 if what was answered
        is lost, H868 if another process answers, H119 if the table has changed since, H820 or H821
        for a question that the plan does not allow, and whatever is wrong with the table.

        Reveals: the answer, to the coordinator and so to everybody; the ledger lists it.
        """
        if job != self.job.hash:
            raise Code.JOBS_DIFFER.error(
                expected=f"the job of hash {self.job.hash}",
                found="another job at the coordinator",
                fix="compare the two job files line by line, with their domains",
            )
        # The policy first: an account is not even looked for where it refuses.
        cost = check_policy(self.job, self.policy)
        state = StateFolder(self.folder / "state")
        state.folder("runs", self.job.run_id)
        claim = Claim(state.path("runs", self.job.run_id, "lock"))
        try:
            return self._answer(ask, state, cost, seen)
        finally:
            claim.release()

    def _answer(
        self, ask: bytes, state: StateFolder, cost: tuple[float, float], seen: int
    ) -> tuple[bytes, int]:
        job, run, plan, store = self.job, self.job.run_id, self.job.make_plan(), open_store(state)
        accounts = Accounts(state, self.policy)
        is_new = accounts.check(job.population, job.account_key, *cost)
        memory = RunMemory(store, run, self.name)
        if (here := last_round(memory)) < seen:
            raise Code.ANSWERS_LOST.error(found=f"a state of round {here} after one of {seen}")
        absorbed = AbsorbedRows()
        table = encoded_table(self.folder / self.file.table, job.domain, absorbed)
        # In this order: who has charged and finds no memory has forgotten what it answered.
        memory.begin(charged=not is_new)
        accounts.charge(job.population, job.account_key, *cost, what=f"run {run}")
        ledger = DurableLedger(store, run, domain=job.domain)
        ledger.charge(*plan.releases())
        pin_table(state, run, table)
        told = {OWNER_ONLY_FILE: absorbed.to_json(), "ledger.json": ledger.to_json()}
        for name, text in told.items():
            with replacing(state.path("runs", run, name)) as file:
                file.write(text.encode())
        members = ("coordinator", *job.owners)
        network = OneQuestion(len(members), members.index(self.name, 1), ask)
        owner(
            Context(
                network, members, plan, job=job.terms, table=table, ledger=ledger, memory=memory
            )
        )
        return network.answer, last_round(memory)


def last_round(memory: RunMemory) -> int:
    """Return the last round that was answered; `NOTHING_SEEN` before the first, or H840."""
    state = memory.load()
    if state is None:
        return NOTHING_SEEN
    with jsonfile.refusing(Code.ANSWERS_LOST):
        return int(json.loads(state)["round"])
