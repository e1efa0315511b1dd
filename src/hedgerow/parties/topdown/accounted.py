"""`AccountedRun`: one party's account and memory of a DP-TopDown run, whoever carries the messages.

In this order, so that a process may be killed between any two of them:

1. The job, this party's own copy, passes this party's policy and the account of the population.
2. The coordinator, which has the same job by its hash, asks the first question. Without one, or
   with another job there, nothing is charged.
3. The ledger of the run has every release of the plan, the worst case; the state is kept.
4. The account is charged, once for the hash of the job.
5. For every question: what is drawn for the answer is kept, and then the answer leaves.

Whoever has charged the account and finds no state has forgotten what it answered, and answers no
more: drawn again, the noise would differ.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.accounts import Accounts, worst
from hedgerow.parties.store.durable import StateFolder, replacing
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.kept import Kept, run_folder
from hedgerow.privacy import Ledger


class AccountedRun(ABC):
    """A run at an owner or a server.

    Parameters
    ----------
    name : str
        Of the party.
    state : StateFolder
        Its accounts, and its runs.
    policy : Policy
    job : TopDownJob
        This party's own copy.
    private : bool
        Whether its noise is drawn as it must be.

    Attributes
    ----------
    folder : Path
        Of the run: job, ledger, model.

    Raises
    ------
    HedgerowError
        H858 if policy or account refuse.
    """

    folder: Path

    def __init__(
        self, name: str, state: StateFolder, policy: Policy, job: TopDownJob, *, private: bool
    ) -> None:
        self.name, self.job, self.private = name, job, private
        self._state = state
        # The policy first: an account is not even looked for where it refuses.
        self._cost = _admitted(job, policy, private)
        self._accounts = Accounts(state, policy)
        self._accounts.check(job.population, job.account_key, *self._cost)

    def _open(self, key: bytes | None = None) -> None:
        """Take up the run, or go on with it; nothing is charged by this.

        Parameters
        ----------
        key : bytes of length 32, optional
            With which the state is encrypted.

        Raises
        ------
        HedgerowError
            H840 if what was answered is lost, H868 if another process of this party is at it.
        """
        job, name = self.job, self.name
        self.folder = run_folder(self._state, job.run_id)
        about: dict[str, str | int] = {"run": job.run_id, "job": job.hash, "party": name}
        with ExitStack() as stack:
            self._kept = stack.enter_context(Kept(self.folder, about=about, key=key))
            self._ledger = DurableLedger(
                self.folder / "ledger.jsonl", about=about | {"kind": "ledger"}, domain=job.domain
            )
            stack.callback(self._ledger.close)
            self._charged = not self._accounts.check(job.population, job.account_key, *self._cost)
            self._begun = self._kept.data is not None
            if self._charged and not self._begun:
                raise Code.ANSWERS_LOST.error(
                    found=f"run {job.run_id} charged to {job.population}, and nothing kept of it "
                    f"in {self.folder}"
                )
            with replacing(self.folder / "job.toml") as file:
                file.write(job.to_toml().encode())
            if self._begun:
                self._begin()
            if self._charged:
                self._write_ledger()
            self._files = stack.pop_all()

    @property
    def charged(self) -> bool:
        """Whether the account has been charged with the run, now or by an earlier process."""
        return self._charged

    def charge(self) -> None:
        """Charge ledger and account, once; on the disk when this returns.

        Raises
        ------
        HedgerowError
            H858 if the account cannot pay any more; nothing is charged then.
        """
        if self._charged:
            return
        if not self._begun:
            self._begin()
            self._begun = True
        job = self.job
        what = f"topdown {job.run_id}, as {self.name}"
        self._accounts.charge(job.population, job.account_key, *self._cost, what=what)
        self._charged = True
        self._write_ledger()

    def _write_ledger(self) -> None:
        with replacing(self.folder / "ledger.json") as file:
            file.write(self._ledger.to_json().encode())

    @abstractmethod
    def _begin(self) -> None:
        """Charge the ledger and keep the first state; or go on from what was kept."""

    def answer(self, ask: bytes) -> bytes | None:
        """Answer a question; the charge, and what was drawn, are on the disk when this returns.

        None if there is no answer now: the question is to be asked again.

        Raises
        ------
        HedgerowError
            As `charge`, and for a question that cannot be answered.
        """
        self.charge()
        return self._answered(ask)

    @abstractmethod
    def _answered(self, ask: bytes) -> bytes | None:
        """Answer a question of a run that has been charged."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()

    @property
    def kept(self) -> Kept:
        """What this party must not forget of the run."""
        return self._kept

    @property
    def ledger(self) -> Ledger:
        """What this party has charged for the run."""
        return self._ledger


def _admitted(job: TopDownJob, policy: Policy, private: bool) -> tuple[float, float]:
    """Return epsilon and delta of the worst audience, if the policy of this party admits them."""
    costs = job.costs()
    epsilon = {audience: cost.epsilon if private else math.inf for audience, cost in costs.items()}
    delta = {audience: cost.delta for audience, cost in costs.items()}
    policy.check_job(
        protocol=job.kind,
        epsilon=epsilon,
        delta=delta,
        analysts=(),
        populations=(job.population,),
    )
    found = worst(costs)
    return (found[0] if private else math.inf), found[1]
