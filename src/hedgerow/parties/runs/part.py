"""`Part`: what a party does in runs of one protocol; `Attempt`: what an attempt gives it.

`StagedPart`: the same where all members are in lock-step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.runs import agreement as agreeing
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.runs.stages import Arrays, Stages
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.models import ModelManifest, write_model
from hedgerow.privacy import Leakage
from hedgerow.protocols.contract import guarantees

_SLACK = 1 + 1e-9


class Say(Protocol):
    """Told how an attempt gets on, in public words and numbers."""

    def __call__(self, event: str, **fields: Any) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run, at one party, once all have met.

    `members` are the names of those who take part, by their numbers on the network.
    """

    run: str
    session: bytes
    network: TLSNetwork
    members: tuple[str, ...]
    ledger: DurableLedger
    stages: Stages
    memory: RunMemory
    key: bytes | None
    say: Say


_Job = TypeVar("_Job", bound=Job)


class Part(ABC, Generic[_Job]):
    """What one party does in runs of a job.

    `traffic_is_public`: whether rounds and bytes follow from what everybody learns, and may be told
    to whoever looks at a run; where not, who takes no part hears no progress, and of an error its
    code.
    """

    traffic_is_public: ClassVar[bool] = True

    def __init__(self, config: PartyConfig, job: _Job) -> None:
        self.config, self.job = config, job

    @abstractmethod
    def governors(self) -> Collection[str]:
        """Return whose rows the job is about: they may stop and resume its runs."""

    def upload_owners(self) -> Collection[str]:
        """Return the owners of uploads that the job is about: what they allow binds this party."""
        return ()

    @abstractmethod
    def check(self) -> None:
        """Refuse a job for which this party lacks something; a numbered error."""

    @abstractmethod
    def attend(self, attempt: Attempt) -> None:
        """Take part, and keep what comes of it; durable when this returns."""

    def keep_model(
        self,
        attempt: Attempt,
        *,
        tag: str,
        plan: dict[str, Any],
        ledger: str,
        leakage: str,
        shares: Mapping[str, NDArray[Any]] | None = None,
        tree: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep what this party has of the model; the words of `ModelManifest` and `write_model`."""
        job, servers = self.job, tuple(server.name for server in self.config.servers)
        manifest = ModelManifest(
            name=job.model_name,
            protocol=job.protocol,
            server=attempt.network.party,
            plan=plan,
            run=attempt.run,
            job=job.hash,
            tag=tag,
            populations=(job.population,),
            analysts=job.analysts,
            members=() if attempt.members == servers else attempt.members,
        )
        write_model(
            self.config.state,
            attempt.key,
            manifest,
            shares or {},
            ledger=ledger,
            leakage=leakage,
            tree=tree,
        )


class StagedPart(Part[_Job]):
    """What a member does where all compute in lock-step: once, and keep what comes of it.

    1. Agree on the stages that all of them have done, and forget what goes beyond.
    2. Compute. Every stage is kept by all members before the next one begins; every charge is in
       the ledger, on the disk, before anything is drawn.
    3. Compare the ledgers; keep the result as the last stage. From here on all members have it, and
       whoever fails now finds it done in the next attempt.
    4. Take leave, and put the result where it is asked for.
    """

    result: ClassVar[str]
    """The last stage, in which all members have what comes of it."""

    def attend(self, attempt: Attempt) -> None:
        """Compute, or find it done."""
        network, stages, ledger = attempt.network, attempt.stages, attempt.ledger
        common = agreeing.agree_on_stages(network, [kept.tag for kept in stages.kept])
        stages.begin(attempt.session, common, lambda: len(ledger.entries))
        stages.confirm_with(lambda tag: agreeing.confirm(network, tag))
        stages.on_load = lambda kept: ledger.mark_reached(kept.entries)
        made = stages.load(self.result)
        if made is None:
            made, leakage = self.compute(attempt)
            self._check_ledger(attempt)
            made |= {"ledger": as_array(ledger.to_json()), "leakage": as_array(leakage.to_json())}
            stages.save(self.result, made)
        network.farewell(range(network.n))
        self.keep(attempt, made)

    @abstractmethod
    def compute(self, attempt: Attempt) -> tuple[Arrays, Leakage]:
        """Compute with the others; return what is kept, and what was opened."""

    @abstractmethod
    def keep(self, attempt: Attempt, made: Arrays) -> None:
        """Put what all members have, with ``ledger`` and ``leakage``, where it is asked for."""

    def _check_ledger(self, attempt: Attempt) -> None:
        """Refuse a run that cost other than was charged to the account, or other elsewhere."""
        code, spent = Code.BAD_LEDGER_FILE, guarantees(attempt.ledger)
        for audience, cost in self.job.costs().items():
            found = spent[audience]
            if found.epsilon > cost.epsilon * _SLACK or found.delta > cost.delta * _SLACK:
                raise code.error(expected=f"{cost} for {audience}", found=f"{found}")
        agreeing.compare_texts(attempt.network, "ledger", attempt.ledger.to_json(), code)


def as_array(text: str) -> NDArray[np.uint8]:
    """Return a text as a stage keeps it."""
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


def as_text(array: NDArray[np.uint8]) -> str:
    """Return the text that `as_array` wrote."""
    return array.tobytes().decode()
