"""`QueryLog`: what a server must not forget about the queries to one model.

Three lines of a journal tell the life of a query: ``asked``, its charge, before anything is
computed; ``held``, when this server's half of the answer is on its disk; ``done``, when all three
servers have said that they hold theirs. Only then does a half leave, so an answer that anybody may
have seen is never drawn a second time. What is held and not done may be drawn again, at no charge.

Memory does not grow with the queries: what is known of each of them is looked up on the disk.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.store.durable import FILE_MODE, StateFolder, remove_leftovers
from hedgerow.parties.store.journal import Journal
from hedgerow.parties.store.vault import About, read_arrays, write_arrays

_CACHE_KIB = 2048
_SETUP = f"""
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -{_CACHE_KIB};
    CREATE TABLE lives (
        analyst TEXT, id TEXT, what TEXT, n INTEGER, digest TEXT, draw TEXT, done INTEGER,
        PRIMARY KEY (analyst, id)
    ) WITHOUT ROWID;
    CREATE INDEX draws ON lives (draw) WHERE draw IS NOT NULL;
"""
_FIND = "SELECT what, n, digest, draw, done FROM lives WHERE analyst = ? AND id = ?"
_ADD = "INSERT INTO lives VALUES (?, ?, ?, ?, ?, NULL, 0)"
_HOLD = "UPDATE lives SET draw = ? WHERE analyst = ? AND id = ?"
_FINISH = "UPDATE lives SET done = 1 WHERE analyst = ? AND id = ?"


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
class Life:
    """How far a request has come: charged, then a draw that is held, then done."""

    asked: Asked
    draw: str | None = None
    done: bool = False


class QueryIndex:
    """The requests to one model by their identifiers, on the disk and not in memory.

    It is made anew from the journal of the requests at every start; so it need not survive a crash.
    H869 if the disk does not take it, also in every call after that: what is not known to be
    charged would be charged again. For all threads.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._base: sqlite3.Connection | None = None
        path.unlink(missing_ok=True)
        with self._working(fresh=True):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._base.executescript(_SETUP)

    def find(self, key: QueryKey) -> Life | None:
        """Return what is known of a request."""
        with self._working() as base:
            found = base.execute(_FIND, key).fetchone()
        if found is None:
            return None
        what, n, digest, draw, done = found
        return Life(Asked(key, what, n, digest), draw, bool(done))

    def count_drawn(self, draw: str) -> int:
        """Return how many requests a draw answers."""
        with self._working() as base:
            (count,) = base.execute("SELECT count(*) FROM lives WHERE draw = ?", (draw,)).fetchone()
        return int(count)

    def __len__(self) -> int:
        with self._working() as base:
            return int(base.execute("SELECT count(*) FROM lives").fetchone()[0])

    def add(self, asked: Iterable[Asked]) -> None:
        """Take requests in."""
        rows = [(*one.key, one.what, one.n, one.digest) for one in asked]
        self._many(_ADD, rows)

    def hold(self, draw: str, keys: Iterable[QueryKey]) -> None:
        """Note the draw that answers requests."""
        self._many(_HOLD, [(draw, *key) for key in keys])

    def finish(self, keys: Iterable[QueryKey]) -> None:
        """Note that requests are done."""
        self._many(_FINISH, keys)

    def close(self) -> None:
        """Remove it; a second call does nothing."""
        with self._lock:
            if self._base is not None:
                self._base.close()
                self._path.unlink(missing_ok=True)
            self._base = None

    def _many(self, statement: str, rows: Iterable[Any]) -> None:
        with self._working() as base:
            base.execute("BEGIN")
            changed = base.executemany(statement, rows := list(rows)).rowcount
            base.execute("COMMIT")
        if rows and changed != len(rows):
            raise Code.JOURNAL_DAMAGED.error(
                expected="requests that were charged before they are answered",
                found=f"{len(rows) - changed} that were not",
            )

    @contextmanager
    def _working(self, *, fresh: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._base is None and not fresh:
                raise Code.STATE_NOT_WRITTEN.error(found=f"{self._path}, which is closed")
            try:
                yield self._base  # type: ignore[misc]
            except (sqlite3.Error, OSError) as error:
                if isinstance(error, sqlite3.IntegrityError):
                    found = Code.JOURNAL_DAMAGED.error(found="a request that was charged twice")
                else:
                    found = Code.STATE_NOT_WRITTEN.error(found=f"{self._path}: {error}")
                # What it holds from here on is not known.
                if self._base is not None:
                    self._base.close()
                self._base = None
                raise found from None


Array = NDArray[Any]
State = Literal["asked", "held", "done"]
_ROOM = "queries"


class QueryLog:
    """Charges and halves of one model, of this tag, at one server; halves are encrypted.

    H867 if the journal does not fit together or is about another model, H868 if it is open.
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
        return len(self._index)

    def find(self, key: QueryKey) -> Asked | None:
        """Return a request that was charged."""
        life = self._index.find(key)
        return None if life is None else life.asked

    def state(self, key: QueryKey) -> tuple[State | None, str]:
        """Return how far a request has come, and the draw that is held; None and "" if unknown."""
        life = self._index.find(key)
        if life is None:
            return None, ""
        if life.draw is None:
            return "asked", ""
        return ("done" if life.done else "held"), life.draw

    def charge(self, asked: Sequence[Asked]) -> None:
        """Record requests that were not charged before; durable when it returns.

        H896 for one request twice, before anything is written: no journal with such a line can be
        opened again.
        """
        if len({one.key for one in asked}) < len(asked):
            raise Code.QUERY_CONFLICT.error(found="one request twice in one charge")
        fresh = [one for one in asked if self._index.find(one.key) is None]
        if fresh:
            lines = [[*one.key, one.what, one.n, one.digest] for one in fresh]
            self._add({"asked": lines})

    def hold(self, draw: str, keys: Iterable[QueryKey], halves: Mapping[QueryKey, Array]) -> None:
        """Keep the halves of one draw, which take the place of earlier ones; durable.

        The name of the draw is the same at all servers and never used before. Halves are empty at
        the server that gives none.
        """
        keys = list(keys)
        before = {self.state(key)[1] for key in keys} - {""}
        if halves:
            arrays = {" ".join(key): half for key, half in halves.items()}
            write_arrays(self._path(draw), arrays, self._key, about=self._about(draw))
        self._add({"held": draw, "keys": [list(key) for key in keys]})
        for old in before:
            if not self._index.count_drawn(old):
                with contextlib.suppress(OSError):
                    self._path(old).unlink()

    def finish(self, keys: Iterable[QueryKey]) -> None:
        """Record that all servers hold the draw: from here on it is the answer; durable."""
        waiting = [list(key) for key in keys if self.state(key)[0] != "done"]
        if waiting:
            self._add({"done": waiting})

    def half(self, key: QueryKey) -> Array | None:
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
                    Asked(QueryKey(analyst, id_), what, n, digest)
                    for analyst, id_, what, n, digest in line["asked"]
                ]
                self._index.add(fresh)
                for one in fresh:
                    self._rows[one.key.analyst] += one.n
            if "held" in line:
                self._index.hold(line["held"], [QueryKey(*key) for key in line["keys"]])
            if "done" in line:
                self._index.finish([QueryKey(*key) for key in line["done"]])

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
