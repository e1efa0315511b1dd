"""`QueryLog`: what a server must not forget about the queries to one model.

Three lines of a journal tell the life of a query: ``asked``, its charge, before anything is
computed; ``held``, when this server's half of the answer is on its disk; ``done``, when all three
servers have said that they hold theirs. A half leaves after that and not before, so an answer that
anybody may have seen is never drawn a second time. What is held and not done has not left: it may
be drawn again, at no charge.

Memory does not grow with the queries: what is known of each of them is looked up on the disk.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.store.durable import remove_leftovers
from hedgerow.parties.store.folders import StateFolder
from hedgerow.parties.store.journal import Journal
from hedgerow.parties.store.query_index import Asked, Key, QueryIndex
from hedgerow.parties.store.vault import About, read_arrays, write_arrays

Array = NDArray[Any]
State = Literal["asked", "held", "done"]
_ROOM = "queries"


class QueryLog:
    """Charges and halves of one model at one server.

    `key`: the operator's; halves are encrypted with it.
    `model`, `tag`: name of the model, and what tells it from another of that name.
    Raises H867 if the journal does not fit together or is about another model, H868 if it is open.
    """

    def __init__(self, state: StateFolder, key: bytes, model: str, tag: str, server: int) -> None:
        self._state, self._key, self.model, self._server = state, key, model, server
        self._tag = tag
        self._lock = threading.Lock()
        self._rows: Counter[str] = Counter()
        remove_leftovers(state.folder(_ROOM, model))
        about: About = {"kind": "queries", "model": model, "tag": tag, "server": server}
        self._journal = Journal(state.path(_ROOM, model, "journal.jsonl"), about=about)
        try:
            self._index = QueryIndex(state.path(_ROOM, model, "index.db"))
            with jsonfile.refusing(Code.JOURNAL_DAMAGED):
                for line in self._journal.each():
                    self._take(line)
        except BaseException:
            self._journal.close()
            raise

    @property
    def rows(self) -> int:
        """Rows that all analysts have asked."""
        return self._rows.total()

    def rows_of(self, analyst: str) -> int:
        """Rows that an analyst has asked."""
        return self._rows[analyst]

    def __len__(self) -> int:
        """Return the number of requests that were charged."""
        return len(self._index)

    def find(self, key: Key) -> Asked | None:
        """Return a request that was charged."""
        life = self._index.find(key)
        return None if life is None else life.asked

    def state(self, key: Key) -> tuple[State | None, str]:
        """Return how far a request has come, and the draw that is held; None and "" if unknown."""
        life = self._index.find(key)
        if life is None:
            return None, ""
        if life.draw is None:
            return "asked", ""
        return ("done" if life.done else "held"), life.draw

    def charge(self, asked: Sequence[Asked]) -> None:
        """Record requests that were not charged before; durable when it returns.

        Raises H896 for one request twice, before anything is written: no journal with such a line
        can be opened again.
        """
        if len({one.key for one in asked}) < len(asked):
            raise Code.QUERY_CONFLICT.error(found="one request twice in one charge")
        fresh = [one for one in asked if self._index.find(one.key) is None]
        if fresh:
            lines = [[*one.key, one.what, one.n, one.digest] for one in fresh]
            self._add({"asked": lines})

    def hold(self, draw: str, keys: Iterable[Key], halves: Mapping[Key, Array]) -> None:
        """Keep the halves of one draw, which take the place of earlier ones; durable.

        `draw`: name of the draw, the same at all servers and never used before.
        `keys`: requests that it answers.
        `halves`: of this server; empty at the one that gives none.
        """
        keys = list(keys)
        before = {self.state(key)[1] for key in keys} - {""}
        if halves:
            arrays = {" ".join(key): half for key, half in halves.items()}
            write_arrays(self._path(draw), arrays, self._key, about=self._about(draw))
        self._add({"held": draw, "keys": [list(key) for key in keys]})
        for old in before:
            if not self._index.drawn(old):
                with contextlib.suppress(OSError):
                    self._path(old).unlink()

    def finish(self, keys: Iterable[Key]) -> None:
        """Record that all servers hold the draw: from here on it is the answer; durable."""
        waiting = [list(key) for key in keys if self.state(key)[0] != "done"]
        if waiting:
            self._add({"done": waiting})

    def half(self, key: Key) -> Array | None:
        """Return the half of an answer that is done; None at the server that gives none."""
        state, draw = self.state(key)
        if state != "done":
            raise ValueError("a half that may not leave")
        path = self._path(draw)
        if not path.exists():
            return None
        return read_arrays(path, self._key, about=self._about(draw))[" ".join(key)]

    def close(self) -> None:
        """Let others open it."""
        self._journal.close()
        self._index.close()

    def _add(self, line: dict[str, Any]) -> None:
        self._journal.append(line)
        self._take(line)

    def _take(self, line: dict[str, Any]) -> None:
        with self._lock:
            if "asked" in line:
                fresh = [
                    Asked(Key(analyst, id_), what, n, digest)
                    for analyst, id_, what, n, digest in line["asked"]
                ]
                self._index.add(fresh)
                for one in fresh:
                    self._rows[one.key.analyst] += one.n
            if "held" in line:
                self._index.hold(line["held"], [Key(*key) for key in line["keys"]])
            if "done" in line:
                self._index.finish([Key(*key) for key in line["done"]])

    def _path(self, draw: str) -> Any:
        return self._state.path(_ROOM, self.model, f"halves-{draw}.bin")

    def _about(self, draw: str) -> About:
        return {
            "kind": "halves",
            "model": self.model,
            "tag": self._tag,
            "server": self._server,
            "draw": draw,
        }
