"""`AnswerRun`: one computation of the three servers that answers a batch of queries, in halves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.parties.queries.waiting import Pending
from hedgerow.parties.store.library import ModelBook
from hedgerow.parties.store.query_log import QueryKey
from hedgerow.privacy import Leakage, Ledger, Opening
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.sharing.queries import expand_queries, planes_shape
from hedgerow.protocols.votes import votes
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import bits_of_parts, open_halves
from hedgerow.secure.secret import WORD, Secret, SecretBits, concatenate, pack, unpack

Array = NDArray[Any]
BLOCK = 1 << 22
"""Numbers in the widest step of a block of rows: what bounds the memory of a run."""
MOST_ROWS = 1 << 14


class ChargedQueries:
    """Charges of queries that the query log holds: each pays for one answer, however often drawn.

    `ledger`: of the model, for what answers are computed from.
    `queries`: charged in the log.
    """

    def __init__(self, ledger: Ledger, queries: int) -> None:
        self._ledger, self._left = ledger, queries

    def take(self, reason: str, audience: str, *, own: bool, overall: bool) -> None:
        """Use up the charge of one query; H306 if none is left."""
        del own, overall
        if not self._left or not self._ledger.charged(reason, audience):
            raise Code.NOT_CHARGED.error(
                expected=f"a query of {audience} that was charged for {reason!r}", found="none"
            )
        self._left -= 1

    def taken(self, reason: str, audience: str) -> int:
        """Return 0: an earlier draw of the same query has not left."""
        del reason, audience
        return 0

    def charged(self, reason: str, audience: str | None = None) -> int:
        """Return how many releases were charged to an audience."""
        return self._ledger.charged(reason, audience)


class AnswerRun:
    """One run, of a name never used before; its engine stays in the thread that makes it."""

    def __init__(
        self, network: Network, book: ModelBook, shares: Mapping[str, Array], draw: str
    ) -> None:
        self._network, self._book, self._shares, self._draw = network, book, shares, draw
        self._engine: ReplicatedEngine | None = None

    def answer(self, queries: Sequence[Pending], what: str) -> dict[QueryKey, Array]:
        """Answer queries that were charged.

        1. Shared bits of all queries, side by side, become one-hot rows.
        2. The trees are walked, in blocks of rows (`Kind.answers`, or `votes.answered`).
        3. The rows of each query become halves, opened to its analyst and to nobody else.

        Reveals: the answers, to their analysts, once both halves are given to them.
        Cost: that of `expand_queries` and of the answers, per block; no round for the halves.

        Returns the halves of the server that lives here; none at the one that gives none.
        """
        book, plan = self._book, self._book.plan
        openings = [self._opening(k, query, what) for k, query in enumerate(queries)]
        leakage = Leakage(openings, ledger=ChargedQueries(book.ledger, len(queries)))
        engine = self._engine = ReplicatedEngine(self._network, leakage, session=self._draw)
        model = book.kind.model(engine, plan, self._shares)
        shared = self._join_bits(engine, queries)
        step = block_rows(model)
        parts = [self._answer_block(model, block, what) for block in _blocks(shared, step)]
        result = parts[0] if len(parts) == 1 else concatenate(parts)
        found: dict[QueryKey, Array] = {}
        at = 0
        for opening, query in zip(openings, queries, strict=True):
            rows = result[at : at + query.asked.n]
            at += query.asked.n
            for half in open_halves(engine, rows, opening.name, opening.audience).values():
                found[query.key] = half
        return found

    def finish(self) -> None:
        """Return once all servers have come as far as this."""
        assert self._engine is not None
        self._engine.finish()

    def _opening(self, k: int, query: Pending, what: str) -> Opening:
        book = self._book
        (opening,) = book.kind.answer_openings(book.plan, query.asked.n, what)
        audience = f"analyst {query.key.analyst}"
        return replace(opening, name=f"{opening.name} ({k})", audience=audience)

    def _join_bits(self, engine: ReplicatedEngine, queries: Sequence[Pending]) -> SecretBits:
        """Put the bits of all queries side by side, without the padding of each."""
        (me,) = self._network.local
        parts = []
        for query in queries:
            assert query.part is not None
            shape = planes_shape(self._book.plan.layout, query.asked.n)
            bits = bits_of_parts(engine, {me: query.part}, shape)
            parts.append(unpack(bits.data, bits.n))
        every = np.concatenate(parts, axis=-1)
        return SecretBits(engine, every.shape[-1], pack(every))

    def _answer_block(self, model: SecretForest, block: SecretBits, what: str) -> Secret:
        book = self._book
        asked = expand_queries(book.plan.layout, model.ring, block)
        if book.votes:
            paid = votes.price_of(book.ledger, block.n)
            return votes.answered(model, book.plan, asked, book.ledger, paid)[0]
        return book.kind.answers(model, book.plan, asked, what)


def block_rows(model: SecretForest) -> int:
    """Return how many rows are answered at once: whole words, by public numbers."""
    layout, values = model.layout, model.values.shape
    inner = model.splits.shape[0] * model.splits.shape[1]
    size = 1 << max(1, (layout.width - 1).bit_length())
    widest = max(
        values[0] * values[1] * values[2],
        layout.n_features * size,
        inner * (layout.width if layout.branching == "wary" else 1),
    )
    return max(WORD, min(MOST_ROWS, BLOCK // widest // WORD * WORD))


def _blocks(bits: SecretBits, step: int) -> list[SecretBits]:
    """Cut bits (..., n) into blocks of whole words."""
    found = []
    for start in range(0, bits.n, step):
        stop = min(start + step, bits.n)
        data = np.ascontiguousarray(bits.data[..., start // WORD : -(-stop // WORD)])
        found.append(SecretBits(bits.engine, stop - start, data))
    return found
