"""`Part`: what a party does in runs of one protocol; `Attempt`: what an attempt gives it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.runs.stages import Stages
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.models import ModelManifest, write_model


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
    to whoever looks at a run.
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
