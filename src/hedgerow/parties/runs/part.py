"""`Part`: what a party does in runs of one protocol; `Attempt`: what an attempt gives it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.runs.stages import Stages
from hedgerow.parties.store.ledgers import DurableLedger


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


class Part(ABC):
    """What one party does in runs of a job.

    `traffic_is_public`: whether rounds and bytes follow from what everybody learns, and may be told
    to whoever looks at a run.
    """

    traffic_is_public: ClassVar[bool] = True

    def __init__(self, config: PartyConfig) -> None:
        self.config = config

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
