"""An owner's folder: its job, its table, its policy, and what it must not forget.

::

    owner.toml      name = "north", table = "table.parquet"
    job.toml        this owner's own copy of the job
    policy.toml     what this owner allows: the largest epsilon of a job, and of all jobs together
    table.parquet   the rows
    state/          database: accounts, and for every run the ledger and the last answer

Every question is answered by a process of its own, which opens the run, answers and ends. In which
order it checks, keeps and charges is in `hedgerow.parties.topdown.accounted`: it may be killed
between any two steps, and the same question again gets the same bytes. An owner whose state is
gone, or older than the copy that Flower keeps for the node, answers no more: drawn again, the noise
would differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from hedgerow.parties.topdown.accounted import AccountedRun
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.owner import OwnerRun, encoded_table, last_round
from pydantic import Field, StrictInt

from hedgerow.errors import Code
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import read_toml
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.durable import StateFolder, check_private


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
        sound, H906 if the job does not name this owner.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        check_private(self.folder)
        self.file = read_toml(OwnerFile, self.folder / "owner.toml")
        self.policy = Policy.load(self.folder)
        self.job = TopDownJob.load(self.folder / "job.toml")
        if self.name not in self.job.owners:
            raise Code.NOT_IN_JOB.error(
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
        with OwnerInFlower(self) as run:
            run.check_newest(witness)
            return run.answer(ask), run.state


class OwnerInFlower(AccountedRun):
    """An owner's run, for as long as one question takes.

    Parameters
    ----------
    owner : OwnerFolder

    Raises
    ------
    HedgerowError
        As `OwnerFolder.answer`.
    """

    def __init__(self, owner: OwnerFolder) -> None:
        state = StateFolder(owner.folder / "state")
        super().__init__(owner.name, state, owner.policy, owner.job, private=owner.private)
        self._seed = owner.file.insecure_seed
        self._encoded = encoded_table(owner.folder / owner.file.table, owner.job.domain)
        self._open()

    @property
    def state(self) -> bytes:
        """What was kept last."""
        assert self.memory.data is not None
        return self.memory.data

    def check_newest(self, witness: bytes | None) -> None:
        """Refuse to go on from nothing where there was something, or from an older state; H840.

        The copy that Flower keeps may be older: it is taken after the answer has left, and a node
        that was started anew has none.
        """
        if witness is None:
            return
        if self.memory.data is None:
            raise Code.ANSWERS_LOST.error(found="a run that has begun, and no state of it")
        here, there = last_round(self.memory.data), last_round(witness)
        if there > here:
            raise Code.ANSWERS_LOST.error(
                found=f"a state of round {here} after one of round {there}"
            )

    def _begin(self) -> None:
        self._owner = OwnerRun(self, self._encoded, self._seed)

    def _answer(self, ask: bytes) -> bytes:
        return self._owner.answer(ask)
