"""`QueryIndex`: the requests to one model by their identifiers, on the disk and not in memory.

It holds nothing that the journal of the requests does not hold, and is made anew from it at every
start; so it need not survive a crash, and nothing waits for the disk on its account.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.errors import Code
from hedgerow.parties.store.durable import FILE_MODE

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


class Key(NamedTuple):
    """Who asks, and the identifier that the analyst has drawn for its request."""

    analyst: str
    id: str


@dataclass(frozen=True)
class Asked:
    """One request to a model, as far as it may be written down.

    `digest`: of the part of the query that this server has got.
    """

    key: Key
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
    """Requests by identifier; for all threads.

    `path`: of the file, which is made anew, with mode 0600.
    Raises H869 if the disk does not take it, also in every call after that: what is not known to be
    charged would be charged again.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._base: sqlite3.Connection | None = None
        path.unlink(missing_ok=True)
        with self._working(fresh=True):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._base.executescript(_SETUP)

    def find(self, key: Key) -> Life | None:
        """Return what is known of a request."""
        with self._working() as base:
            found = base.execute(_FIND, key).fetchone()
        if found is None:
            return None
        what, n, digest, draw, done = found
        return Life(Asked(key, what, n, digest), draw, bool(done))

    def drawn(self, draw: str) -> int:
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

    def hold(self, draw: str, keys: Iterable[Key]) -> None:
        """Note the draw that answers requests."""
        self._many(_HOLD, [(draw, *key) for key in keys])

    def finish(self, keys: Iterable[Key]) -> None:
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
