"""An owner's folder: its job, its table, its policy, and what it must not forget.

::

    owner.toml      name = "north", table = "table.parquet"
    job.toml        this owner's own copy of the job
    policy.toml     what this owner allows: the largest epsilon of a job, and of all jobs together
    table.parquet   the rows
    state/          accounts, and for every run: ledger, last answer, journal

In this order, so that the process may be killed between any two steps:

1. The job passes the policy and the account of its population.
2. The ledger of the run has every release of the plan, the worst case; the state is kept.
3. The account is charged, once for the hash of the job.
4. The answer is drawn, the state with it is on the disk, and then it leaves.

The same question again gets the same bytes. An owner whose state is gone, or older than the copy
that Flower keeps for the node, answers no more: drawn again, the noise would differ.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictInt

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.numbered import Numbered
from hedgerow.parties.accounts import Accounts, worst
from hedgerow.parties.config import read_toml
from hedgerow.parties.durable import replacing
from hedgerow.parties.folders import StateFolder, check_private
from hedgerow.parties.ledgers import DurableLedger
from hedgerow.parties.names import Name
from hedgerow.parties.policy import Policy
from hedgerow.parties.topdown_job import TopDownJob
from hedgerow.parties.topdown_joining import RepeatableSource
from hedgerow.parties.topdown_kept import Kept, run_folder
from hedgerow.parties.topdown_table import check_same, encoded_table
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown_owner import Owner


class OwnerFile(Numbered):
    """The file ``owner.toml``.

    Parameters
    ----------
    name : str
        As the job calls this owner.
    table : str
        File in the folder: CSV, Parquet or Arrow.
    insecure_seed : int, optional
        Repeatable noise, for tests: nothing is private then, and the policy must allow it.
    """

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    name: Name
    table: Annotated[str, Field(min_length=1)]
    insecure_seed: StrictInt | None = None


class OwnerFolder:
    """An owner's side of a run.

    Parameters
    ----------
    folder : Path
        Of mode 0700.

    Raises
    ------
    HedgerowError
        H854 if others can look into the folder, H852, H853 or H885 for a file in it that is not
        sound, H850 if the job does not name this owner.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        check_private(self.folder)
        self.file = read_toml(OwnerFile, self.folder / "owner.toml")
        self.policy = Policy.load(self.folder)
        self.job = TopDownJob.load(self.folder / "job.toml")
        if self.name not in self.job.owners:
            raise Code.UNKNOWN_MEMBER.error(
                expected=f"an owner that the job names: {', '.join(self.job.owners)}",
                found=self.name,
            )
        if self.job.plan.method == "secure-counts":
            raise Code.BAD_JOB.error(
                expected="method 'noisy-counts' or 'local-rnm', whose answers need no servers",
                found="method = 'secure-counts'",
            )

    @property
    def name(self) -> str:
        """Of the owner."""
        return self.file.name

    @property
    def private(self) -> bool:
        """Whether noise is drawn as it must be."""
        return self.file.insecure_seed is None

    def answer(self, ask: bytes, job: str, witness: bytes | None) -> tuple[bytes, bytes]:
        """Answer a question; everything about it is on the disk when this returns.

        Reveals: the answer, to the coordinator and so to everybody; the ledger lists it.

        Parameters
        ----------
        ask : bytes
        job : str
            Hash of the coordinator's copy of the job.
        witness : bytes or None
            The state after the last answer, as somebody else has kept it; None if nobody has.

        Returns
        -------
        answer, state : bytes
            The state is to be kept by that somebody.

        Raises
        ------
        HedgerowError
            H891 for another job, H858 if the policy or the account refuses, H840 if what was
            answered is lost, H119 if the table has changed since, H820 or H821 for a question that
            the plan does not allow, and whatever is wrong with the table.
        """
        if job != self.job.hash:
            raise Code.JOBS_DIFFER.error(
                expected=f"the job of hash {self.job.hash}",
                found="another job at the coordinator",
                fix="compare the two job files line by line, with their domains",
            )
        cost = self._admitted()
        state = StateFolder(self.folder / "state")
        accounts = Accounts(state, self.policy)
        population, key = self.job.population, self.job.hash
        new = accounts.check(population, key, *cost)
        run = run_folder(state, self.job.run_id)
        about: dict[str, str | int] = {"run": self.job.run_id, "job": key, "party": self.name}
        with Kept(run, about=about) as kept:
            _check_newest(kept.data, witness, charged=not new)
            owner = self._owner(run, kept, about)
            what = f"topdown {self.job.run_id}, as {self.name}"
            accounts.charge(population, key, *cost, what=what)
            said = owner.answer(ask)
            self._keep(kept, owner)
            assert kept.data is not None
            return said, kept.data

    def _owner(self, run: Path, kept: Kept, about: dict[str, str | int]) -> Owner:
        """Return the owner as it stands, with a ledger that is on the disk."""
        plan, name = self.job.make_plan(), self.name
        table = encoded_table(self.folder / self.file.table, self.job.domain)
        check_same(run, table)
        if kept.data is not None:
            drawn, state = _parts(kept.data)
            return Owner.resume(table, plan, state, name=name, source=self._source(drawn))
        ledger = DurableLedger(run / "ledger.jsonl", about=about, domain=self.job.domain)
        try:
            owner = Owner(table, plan, name=name, source=self._source(0), ledger=ledger)
            with replacing(run / "ledger.json") as file:
                file.write(ledger.to_json().encode())
        finally:
            ledger.close()
        self._keep(kept, owner)
        return owner

    def _source(self, drawn: int) -> NoiseSource:
        if self.file.insecure_seed is None:
            return NoiseSource.system()
        source = RepeatableSource.insecure_seeded(self.file.insecure_seed)
        source.bytes(drawn)
        return source

    def _keep(self, kept: Kept, owner: Owner) -> None:
        drawn = owner.source.drawn if isinstance(owner.source, RepeatableSource) else 0
        kept.keep(f"{drawn}\n".encode() + owner.state())

    def _admitted(self) -> tuple[float, float]:
        """Return epsilon and delta of the worst audience, if the policy admits them."""
        costs = self.job.costs()
        exact = {} if self.private else dict.fromkeys(costs, math.inf)
        self.policy.check_job(
            protocol=self.job.kind,
            epsilon={audience: cost.epsilon for audience, cost in costs.items()} | exact,
            delta={audience: cost.delta for audience, cost in costs.items()},
            analysts=(),
            populations=(self.job.population,),
        )
        epsilon, delta = worst(costs)
        return (epsilon if self.private else math.inf), delta


def _parts(state: bytes) -> tuple[int, bytes]:
    """Take a kept state apart: bytes drawn from a repeatable source, state of the protocol."""
    drawn, _, rest = state.partition(b"\n")
    with jsonfile.refusing(Code.ANSWERS_LOST):
        return int(drawn), rest


def _round(state: bytes) -> int:
    """Return the last round that a kept state has answered."""
    with jsonfile.refusing(Code.ANSWERS_LOST):
        data: dict[str, Any] = json.loads(_parts(state)[1])
        return int(data["round"])


def _check_newest(kept: bytes | None, witness: bytes | None, *, charged: bool) -> None:
    """Refuse to go on from nothing where there was something, or from an older state.

    The copy that Flower keeps may be older: it is taken after the answer has left, and a node that
    was started anew has none.
    """
    if kept is None:
        if charged or witness is not None:
            raise Code.ANSWERS_LOST.error(found="a run that has begun, and no state of it")
    elif witness is not None and _round(witness) > _round(kept):
        raise Code.ANSWERS_LOST.error(
            found=f"a state of round {_round(kept)} after one of round {_round(witness)}"
        )
