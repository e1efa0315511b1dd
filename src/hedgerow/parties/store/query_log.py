"""`QueryLog`: what a server must not forget about the queries to one model.

A row of the party's store tells the life of a query: it is there, and charged, before anything is
computed; ``draw`` is set together with this server's half of the answer; ``done``, when all three
servers have said that they hold theirs. Only then does a half leave, so an answer that
anybody may have seen is never drawn a second time. What is held and not done may be drawn again, at
no charge.

Memory does not grow with the queries: what is known of each of them is looked up on the disk.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.parties.store.database import Row, Transaction, open_store
from hedgerow.parties.store.durable import Claim, StateFolder
from hedgerow.parties.store.vault import About, open_arrays, seal_arrays

Array = NDArray[Any]
State = Literal["asked", "held", "done"]
_ROOM = "queries"


class QueryKey(NamedTuple):
    """Who asks, and the identifier that the analyst has drawn for its request."""

    analyst: str
    id: str


@dataclass(frozen=True)
class Asked:
    """One request of `n` rows, with the digest of the part of it that this server has got."""

    key: QueryKey
    what: str
    n: int
    digest: str


@dataclass(frozen=True)
class LoggedQuery:
    """A request that was charged, how far it has come, and the draw that is held, if any."""

    asked: Asked
    state: State
    draw: str


class QueryLog:
    """Charges and halves of one model, of this tag, at one server; halves are encrypted.

    For all threads of one process: H868 if it is open. H867 if the store does not fit together or
    has the queries to another model of that name.
    """

    def __init__(self, state: StateFolder, key: bytes, model: str, tag: str, server: int) -> None:
        self._state, self._key, self.model, self._server = state, key, model, server
        self._tag = tag
        self._lock = threading.Lock()
        self._rows: Counter[str] = Counter()
        self._questions = 0
        state.folder(_ROOM, model)
        self._claim = Claim(state.path(_ROOM, model, "lock"))
        try:
            self._store = open_store(state)
            self._open()
        except BaseException:
            self._claim.release()
            raise

    @property
    def rows(self) -> int:
        """Rows that all analysts have asked."""
        return self._rows.total()

    def rows_of(self, analyst: str) -> int:
        """Rows that an analyst has asked."""
        return self._rows[analyst]

    def __len__(self) -> int:
        return self._questions

    def find(self, keys: Iterable[QueryKey]) -> dict[QueryKey, LoggedQuery]:
        """Return those of some requests that were charged, all from one moment."""
        with self._store.snapshot() as made:
            rows = [(key, self._row(made, key)) for key in keys]
        return {key: _logged(key, row) for key, row in rows if row is not None}

    def charge(self, asked: Sequence[Asked]) -> None:
        """Record requests that were not charged before; durable when it returns.

        H896 for one request twice, before anything is written.
        """
        if len({one.key for one in asked}) < len(asked):
            raise Code.QUERY_CONFLICT.error(found="one request twice in one charge")
        with self._lock:
            with self._store.transaction("charge questions") as made:
                fresh = [one for one in asked if self._row(made, one.key) is None]
                for one in fresh:
                    made.put("questions", charged_row(self.model, one))
                made.put("query_logs", self._head(self._questions + len(fresh)))
            self._questions += len(fresh)
            for one in fresh:
                self._rows[one.key.analyst] += one.n

    def hold(self, draw: str, keys: Iterable[QueryKey], halves: Mapping[QueryKey, Array]) -> None:
        """Keep the halves of one draw, which take the place of earlier ones; durable.

        The name of the draw is the same at all servers and never used before. Halves are empty at
        the server that gives none.
        """
        named = {" ".join(key): half for key, half in halves.items()}
        with self._store.transaction("hold answers") as made:
            rows = [self._charged(made, key) for key in keys]
            if named:
                sealed = seal_arrays(named, self._key, about=self._about(draw))
                made.put("halves", {"model": self.model, "draw": draw, "sealed": sealed})
            for row in rows:
                made.put("questions", {**row, "draw": draw})
            for old in {row["draw"] for row in rows} - {None, draw}:
                if made.row("questions", model=self.model, draw=old) is None:
                    made.drop("halves", model=self.model, draw=old)

    def finish(self, keys: Iterable[QueryKey]) -> None:
        """Record that all servers hold the draw: from here on it is the answer; durable."""
        with self._store.transaction("finish questions") as made:
            rows = [self._charged(made, key) for key in keys]
            for row in rows:
                if not row["done"]:
                    made.put("questions", {**row, "done": 1})

    def half(self, key: QueryKey) -> Array | None:
        """Return the half of an answer that is done; None at the server that gives none."""
        with self._store.snapshot() as made:
            row = self._row(made, key)
            if row is None or not row["done"]:
                raise ValueError("a half that may not leave")
            held = made.row("halves", model=self.model, draw=row["draw"])
        if held is None:
            return None
        found = open_arrays(held["sealed"], self._key, about=self._about(row["draw"]))
        return found[" ".join(key)]

    def close(self) -> None:
        """Let others open it."""
        self._claim.release()

    def _open(self) -> None:
        with self._store.transaction("open questions") as made:
            for row in made.each("questions", model=self.model):
                self._questions += 1
                self._rows[row["analyst"]] += row["n"]
            found = made.row("query_logs", model=self.model)
            expected = self._head(self._questions)
            if found is None and not self._questions:
                made.put("query_logs", expected)
            elif found != expected:
                raise Code.JOURNAL_DAMAGED.error(
                    expected=f"the questions to {self.model} as {expected}", found=f"{found}"
                )

    def _head(self, questions: int) -> dict[str, str | int]:
        return {
            "model": self.model,
            "tag": self._tag,
            "server": self._server,
            "questions": questions,
        }

    def _row(self, made: Transaction, key: QueryKey) -> Row | None:
        return made.row("questions", model=self.model, analyst=key.analyst, id=key.id)

    def _charged(self, made: Transaction, key: QueryKey) -> Row:
        row = self._row(made, key)
        if row is None:
            raise Code.JOURNAL_DAMAGED.error(
                expected="requests that were charged before they are answered",
                found=f"request {key.id} of {key.analyst}, which was not",
            )
        return row

    def _about(self, draw: str) -> About:
        return {
            "kind": "halves",
            "model": self.model,
            "tag": self._tag,
            "server": self._server,
            "draw": draw,
        }


def charged_row(model: str, asked: Asked) -> Row:
    """Return what is kept of a request to a model that is charged, and not answered yet."""
    known = {"model": model, **asked.key._asdict(), "what": asked.what, "n": asked.n}
    return {**known, "digest": asked.digest, "draw": None, "done": 0}


def _logged(key: QueryKey, row: Row) -> LoggedQuery:
    state: State = "asked" if row["draw"] is None else "done" if row["done"] else "held"
    return LoggedQuery(Asked(key, row["what"], row["n"], row["digest"]), state, row["draw"] or "")
