"""One computation of the three servers that answers a batch of queries, at one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.parties.queries.waiting import Pending
from hedgerow.parties.store.library import ModelBook
from hedgerow.parties.store.query_log import QueryKey
from hedgerow.privacy import Ledger
from hedgerow.protocols.checkpoint import NoCheckpoints, Stage
from hedgerow.protocols.contract import Context
from hedgerow.protocols.hidden.programs import AnswerTerms, AskedModel, answer, half_name
from hedgerow.protocols.hidden.questions import DealtQuestion
from hedgerow.protocols.run import MEMBERS

Array = NDArray[Any]


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


class HeldHalves(NoCheckpoints):
    """Holds the halves of a draw in the query log, before the servers take leave."""

    def __init__(self, book: ModelBook, draw: str, keys: Sequence[QueryKey], server: int) -> None:
        self._book, self._draw, self._keys, self._server = book, draw, keys, server
        self.halves: dict[QueryKey, Array] = {}

    def save(self, stage: str, arrays: Stage) -> None:
        """Hold the half of every answer that this server gives; durable when it returns."""
        del stage
        names = {half_name(k, self._server): key for k, key in enumerate(self._keys)}
        self.halves = {names[name]: half for name, half in arrays.items()}
        self._book.log.hold(self._draw, self._keys, self.halves)


def answer_batch(
    network: Network,
    book: ModelBook,
    shares: Mapping[str, Array],
    queries: Sequence[Pending],
    what: str,
    draw: str,
) -> dict[QueryKey, Array]:
    """Answer queries that were charged (`hedgerow.protocols.hidden.programs.answer`).

    The name of the draw was never used before. When it returns, all servers hold their halves.
    Returns those of the server that lives here; none at the one that gives none.
    """
    (me,) = network.local
    questions = []
    for query in queries:
        assert query.part is not None
        audience = f"analyst {query.key.analyst}"
        questions.append(DealtQuestion(query.asked.n, {me: query.part}, audience))
    kept = HeldHalves(book, draw, [query.key for query in queries], me)
    answer(
        Context(
            network,
            MEMBERS,
            book.plan,
            job=AnswerTerms(book.manifest.protocol, what, session=draw),
            table=AskedModel(shares, questions, ChargedQueries(book.ledger, len(questions))),
            ledger=book.ledger,
            stages=kept,
        )
    )
    return kept.halves
