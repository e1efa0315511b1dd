"""`Library`: the models that a server answers for, their ledgers, and what was asked of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.models import ModelManifest, open_model, read_manifest
from hedgerow.parties.store.query_log import Asked, QueryLog
from hedgerow.privacy import Ledger
from hedgerow.privacy.release import Audience
from hedgerow.protocols.hidden.protocol import HiddenProtocol
from hedgerow.protocols.registry import hidden_protocol
from hedgerow.protocols.votes import votes

MOST_ENTRIES = 64
"""Charges of answers to a model in its ledger in memory, before they are written as one."""


@dataclass
class ModelBook:
    """A model that can be asked, and its ledger with all answers; `trained` is without them."""

    manifest: ModelManifest
    plan: Any = field(repr=False)
    ledger: Ledger = field(repr=False)
    log: QueryLog = field(repr=False)
    trained: str = field(default="", repr=False)
    charges: int = field(default=0, repr=False)

    @property
    def protocol(self) -> HiddenProtocol:
        """How it was trained, and how it answers."""
        return hidden_protocol(self.manifest.protocol)

    @property
    def votes(self) -> bool:
        """Whether every answer is a release of its own."""
        return bool(self.plan.noise == "votes")

    def left(self, policy: Policy, analyst: str) -> int:
        """Return how many rows an analyst may still ask."""
        left = [
            policy.queries_per_analyst - self.log.rows_of(analyst),
            policy.queries_per_model - self.log.rows,
        ]
        if self.votes:
            left.append(votes.answers_left(self.ledger))
        return max(0, min(left))

    def check_asker(self, analyst: str, what: str) -> None:
        """Refuse who may not ask this model, and what it does not answer."""
        if analyst not in self.manifest.analysts:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"an analyst that the job of {self.manifest.name} names",
                found=analyst,
                fix="ask the owners for a job that names this analyst",
            )
        # The ledger knows analysts by name; one that it cannot write is not answered.
        Audience.parse(f"analyst {analyst}")
        self.protocol.answer_openings(self.plan, 1, what)

    def admit(self, policy: Policy, asked: Asked, *, before: Mapping[str, int]) -> None:
        """Refuse a query that was not charged before and goes beyond a budget.

        `before` are rows about to be charged, by analyst, besides those in the log. H858 by the
        policy, H207 by the budget of voting trees, H871 and H501 by the model.
        """
        analyst, ahead = asked.key.analyst, sum(before.values())
        self.check_asker(analyst, asked.what)
        if self.votes:
            votes.check_answers(self.ledger, ahead + asked.n)
        policy.check_queries(
            analyst,
            rows=asked.n,
            by_analyst=self.log.rows_of(analyst) + before.get(analyst, 0),
            by_all=self.log.rows + ahead,
        )

    def charge(self, asked: list[Asked]) -> None:
        """Charge queries that were not charged before; durable when it returns."""
        known = self.log.find(one.key for one in asked)
        rows = sum(one.n for one in asked if one.key not in known)
        if not rows:
            return
        if self.votes:
            # Checked here once more; the store is what counts after a restart.
            votes.spend_answers(self.ledger, rows)
        self.log.charge(asked)
        self.charges += 1
        if self.votes and self.trained and self.charges % MOST_ENTRIES == 0:
            self.ledger = _with_answers(Ledger.from_json(self.trained), self.log.rows)


class Library:
    """Models by name, with at most `octets` bytes of shares in memory, or one; for all threads."""

    def __init__(
        self, state: StateFolder, key: bytes, server: int, *, octets: int = 1 << 30
    ) -> None:
        self._state, self._key, self._server, self._octets = state, key, server, octets
        self._lock = threading.Lock()
        self._books: dict[str, ModelBook] = {}
        self._shares: OrderedDict[str, dict[str, NDArray[Any]]] = OrderedDict()

    def manifest(self, name: str) -> ModelManifest:
        """Return the manifest of a model; H851 and H407 if there is none."""
        book = self._books.get(name)
        return book.manifest if book else read_manifest(self._state, name)

    def book(self, name: str) -> ModelBook:
        """Return a model that can be asked; H851, H407 if there is none, H501 if published."""
        with self._lock:
            book = self._books.get(name)
            if book is None:
                book = self._books[name] = self._open(name)
            return book

    def shares(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the shares of a model, shape (1, 2, ...) each."""
        with self._lock:
            if name not in self._shares:
                self._shares[name] = open_model(self._state, self._key, name).shares
            self._shares.move_to_end(name)
            while len(self._shares) > 1 and self._shares_bytes() > self._octets:
                self._shares.popitem(last=False)
            return self._shares[name]

    def close(self) -> None:
        """Let others open what was asked."""
        with self._lock:
            for book in self._books.values():
                book.log.close()
            self._books.clear()
            self._shares.clear()

    def _shares_bytes(self) -> int:
        return sum(a.nbytes for shares in self._shares.values() for a in shares.values())

    def _open(self, name: str) -> ModelBook:
        manifest = read_manifest(self._state, name)
        hidden_protocol(manifest.protocol)
        stored = open_model(self._state, self._key, name)
        plan, ledger = stored.manifest.read_plan(), stored.read_ledger()
        tag = stored.manifest.tag
        log = QueryLog(self._state, self._key, name, tag, self._server)
        if plan.noise == "votes":
            ledger = _with_answers(ledger, log.rows)
        self._shares[name] = stored.shares
        return ModelBook(stored.manifest, plan, ledger, log, stored.ledger)


def _with_answers(ledger: Ledger, rows: int) -> Ledger:
    """Write all answers that were charged as one entry: the sum counts, not how it came about."""
    if rows:
        votes.spend_answers(ledger, rows)
    return ledger
