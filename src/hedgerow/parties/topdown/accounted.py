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
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import Claim, StateFolder, remove_leftovers, replacing
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.vault import open_bytes, seal_bytes
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.privacy import Ledger

ROOM = "topdown"
"""Folder of these runs in the state of a party."""


def run_folder(state: StateFolder, run: str) -> Path:
    """Return the folder of a run, made if need be."""
    return state.folder(ROOM, run)


class RunMemory:
    """The state of a run at one party, replaced as a whole; for one process at a time.

    With the operator's `key` the state, which holds keys and shares at a server, is encrypted
    (`store.vault`) for this run of the named `party`. `data` is the newest one; None if nothing was
    kept. H867 if the store does not fit together, H861 to H864 for another key, run or party.
    """

    def __init__(self, store: Store, run: str, party: str, *, key: bytes | None = None) -> None:
        self._store, self._run, self._key = store, run, key
        self._about = {"kind": "topdown", "run": run, "party": party}
        with store.snapshot() as made:
            data = made.memory(run)
        if data is not None and key is not None:
            data = open_bytes(data, key, about=self._about)
        self.data = data

    def keep(self, data: bytes) -> None:
        """Replace the state; on the disk when this returns, or H869."""
        if data == self.data:
            return
        key = self._key
        kept = data if key is None else seal_bytes(data, key, about=self._about)
        with self._store.transaction("keep a memory") as made:
            made.put_memory(self._run, kept)
        self.data = data


class AccountedRun(ABC):
    """A run at an owner or a server, of this party's own copy of the job.

    `private` says whether its noise is drawn as it must be; `memory` is what this party must not
    forget. H858 if policy or account refuse.
    """

    folder: Path

    def __init__(
        self, name: str, state: StateFolder, policy: Policy, job: TopDownJob, *, private: bool
    ) -> None:
        self.name, self.job, self.private = name, job, private
        self._state = state
        # The policy first: an account is not even looked for where it refuses.
        self._cost = _admitted_cost(job, policy, private)
        self._accounts = Accounts(state, policy)
        self._accounts.check(job.population, job.account_key, *self._cost)

    def _open(self, key: bytes | None = None) -> None:
        """Take up the run, or go on with it; nothing is charged by this.

        H840 if what was answered is lost, H868 if another process of this party is at it.
        """
        job = self.job
        self.folder = run_folder(self._state, job.run_id)
        store = open_store(self._state)
        with ExitStack() as stack:
            claim = Claim(self._state.path(ROOM, job.run_id, "lock"))
            stack.callback(claim.release)
            remove_leftovers(self.folder)
            self.memory = RunMemory(store, job.run_id, self.name, key=key)
            self._ledger = DurableLedger(store, job.run_id, domain=job.domain)
            self._charged = not self._accounts.check(job.population, job.account_key, *self._cost)
            self._begun = self.memory.data is not None
            if self._charged and not self._begun:
                raise Code.ANSWERS_LOST.error(
                    found=f"run {job.run_id} charged to {job.population}, and nothing kept of it "
                    f"in {store.path}"
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
        """Charge ledger and account, once, durably; H858, and no charge, where it cannot pay."""
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
        """Answer durably, after the charge; None if the question is to be asked again."""
        self.charge()
        return self._answer(ask)

    @abstractmethod
    def _answer(self, ask: bytes) -> bytes | None:
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
    def ledger(self) -> Ledger:
        """What this party has charged for the run."""
        return self._ledger


def _admitted_cost(job: TopDownJob, policy: Policy, private: bool) -> tuple[float, float]:
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
