"""`Store`: what a party must not forget, in one SQLite database; all SQL is in this module.

The file is ``state/party.db``, in WAL mode with ``synchronous=FULL``: a transaction is on the disk
when it has ended, or nothing of it is. All threads and processes of a party may use it at the same
time; one writes at a time. The name of a transaction says what becomes durable with it: these are
the points at which a process may be killed and has to go on from.

Every row has a checksum of its values, so that one that the disk has changed is found when it is
read. The checksums, like those of SQLite, are no protection against somebody who may write the
file; signatures of the trail are (`trail`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import stat
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity
from hedgerow.parties.store.durable import FILE_MODE, StateFolder, sync_folder
from hedgerow.parties.store.trail import CHARGE, KEY, START, TrailEntry, next_entry, plain_charge

FILE = "party.db"
PATIENCE = 10.0
"""Seconds for which other processes of this party may keep the database to themselves."""
APPLICATION = 0x48454447


class _Migration(NamedTuple):
    """What makes a version, and the files of earlier ones whose place it takes."""

    script: str
    replaced: tuple[str, ...] = ()


# Never changed, only added to. Accounts of earlier versions are taken over, see there.
_MIGRATIONS: tuple[_Migration, ...] = (
    _Migration("""
        CREATE TABLE trail (
            n INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL,
            signature BLOB NOT NULL
        ) STRICT;
        CREATE INDEX trail_kind ON trail (kind);
        CREATE TABLE charges (
            entry INTEGER PRIMARY KEY REFERENCES trail (n), population TEXT NOT NULL,
            key TEXT NOT NULL, epsilon REAL NOT NULL CHECK (epsilon >= 0),
            delta REAL NOT NULL CHECK (delta >= 0), what TEXT NOT NULL, time REAL NOT NULL,
            sum BLOB NOT NULL, UNIQUE (population, key)
        ) STRICT;
    """),
    _Migration(
        """
        CREATE TABLE runs (
            id TEXT PRIMARY KEY, job TEXT NOT NULL, state TEXT NOT NULL, attempt INTEGER NOT NULL,
            generation INTEGER NOT NULL, error TEXT, closed INTEGER NOT NULL,
            created REAL NOT NULL, changed REAL NOT NULL, by TEXT NOT NULL, sum BLOB NOT NULL
        ) STRICT;
        CREATE TABLE stages (
            run TEXT NOT NULL, number INTEGER NOT NULL, stage TEXT NOT NULL, session BLOB NOT NULL,
            entries INTEGER NOT NULL, confirmed INTEGER NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (run, number)
        ) STRICT;
        CREATE TABLE ledger_lines (
            run TEXT NOT NULL, number INTEGER NOT NULL, line TEXT NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (run, number)
        ) STRICT;
        """,
        ("runs/*/state.jsonl", "topdown/*/ledger.jsonl"),
    ),
    _Migration(
        """
        CREATE TABLE query_logs (
            model TEXT PRIMARY KEY, tag TEXT NOT NULL, server INTEGER NOT NULL,
            questions INTEGER NOT NULL, sum BLOB NOT NULL
        ) STRICT;
        CREATE TABLE questions (
            model TEXT NOT NULL, analyst TEXT NOT NULL, id TEXT NOT NULL, what TEXT NOT NULL,
            n INTEGER NOT NULL, digest TEXT NOT NULL, draw TEXT, done INTEGER NOT NULL,
            sum BLOB NOT NULL, PRIMARY KEY (model, analyst, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX draws ON questions (model, draw) WHERE draw IS NOT NULL;
        """,
        ("queries/*/journal.jsonl",),
    ),
    _Migration(
        """
        CREATE TABLE memories (
            run TEXT PRIMARY KEY, data BLOB NOT NULL, sum BLOB NOT NULL
        ) STRICT;
        CREATE TABLE heard (
            run TEXT NOT NULL, number INTEGER NOT NULL, entry TEXT NOT NULL, answer BLOB NOT NULL,
            sum BLOB NOT NULL, PRIMARY KEY (run, number)
        ) STRICT;
        """,
        ("topdown/*/state.jsonl", "*/state.jsonl"),
    ),
    _Migration("""
        CREATE TABLE upload_events (
            number INTEGER PRIMARY KEY, entry TEXT NOT NULL, sum BLOB NOT NULL
        ) STRICT;
    """),
    _Migration("""
        CREATE TABLE site_nodes (
            run TEXT NOT NULL, state TEXT NOT NULL, nodes TEXT NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (run, state)
        ) STRICT;
        CREATE TABLE learned (
            run TEXT NOT NULL, attempt TEXT NOT NULL, record TEXT NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (run, attempt)
        ) STRICT;
    """),
    _Migration(
        """
        CREATE TABLE uploads (
            id TEXT PRIMARY KEY, manifest TEXT, sum BLOB NOT NULL
        ) STRICT;
        CREATE TABLE models (
            name TEXT PRIMARY KEY, manifest TEXT NOT NULL, ledger TEXT NOT NULL,
            leakage TEXT NOT NULL, tree TEXT, sum BLOB NOT NULL
        ) STRICT;
        """,
        ("uploads/*/manifest.json", "models/*/manifest.json"),
    ),
    _Migration(
        """
        CREATE TABLE halves (
            model TEXT NOT NULL, draw TEXT NOT NULL, sealed BLOB NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (model, draw)
        ) STRICT;
        """,
        ("queries/*/halves-*.bin",),
    ),
    _Migration(
        """
        CREATE TABLE posts (
            run TEXT PRIMARY KEY, signature BLOB NOT NULL, sum BLOB NOT NULL
        ) STRICT;
        CREATE TABLE own_tables (
            population TEXT PRIMARY KEY, entry TEXT NOT NULL, sum BLOB NOT NULL
        ) STRICT;
        """,
        ("topdown/*",),
    ),
    _Migration("""
        CREATE TABLE peers (
            name TEXT PRIMARY KEY, height INTEGER NOT NULL, hash TEXT NOT NULL, sum BLOB NOT NULL
        ) STRICT;
    """),
    _Migration("""
        CREATE TABLE refusals (
            job TEXT NOT NULL, reason TEXT NOT NULL, by TEXT NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (job, reason)
        ) STRICT;
    """),
    _Migration("DROP TABLE site_nodes; DROP TABLE learned;", ("ppid3/*",)),
    _Migration("""
        CREATE TABLE approvals (
            run TEXT PRIMARY KEY, person TEXT NOT NULL, approved INTEGER NOT NULL,
            time REAL NOT NULL, signature BLOB NOT NULL, sum BLOB NOT NULL
        ) STRICT;
    """),
    _Migration("""
        CREATE TABLE terms (
            owner TEXT NOT NULL, population TEXT NOT NULL, terms TEXT NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (owner, population)
        ) STRICT;
        CREATE TABLE promises (
            population TEXT PRIMARY KEY, epsilon REAL NOT NULL CHECK (epsilon >= 0),
            delta REAL NOT NULL CHECK (delta >= 0), cap REAL NOT NULL, sum BLOB NOT NULL
        ) STRICT;
        CREATE TABLE server_charges (
            population TEXT NOT NULL, key TEXT NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (population, key)
        ) STRICT;
    """),
    _Migration("""
        CREATE TABLE withdrawals (
            id TEXT PRIMARY KEY, summary TEXT NOT NULL, sum BLOB NOT NULL
        ) STRICT;
    """),
    _Migration(
        """
        CREATE TABLE meters (
            run TEXT PRIMARY KEY, reading TEXT NOT NULL, sum BLOB NOT NULL
        ) STRICT;
        CREATE TABLE kept_answers (
            run TEXT NOT NULL, number INTEGER NOT NULL, answer TEXT NOT NULL, sum BLOB NOT NULL,
            PRIMARY KEY (run, number)
        ) STRICT;
        """,
        ("runs/*/kept.jsonl",),
    ),
    _Migration("""
        CREATE TABLE debts (
            member TEXT PRIMARY KEY, octets INTEGER NOT NULL, sum BLOB NOT NULL
        ) STRICT;
    """),
    _Migration("""
        CREATE TABLE resumptions (
            run TEXT PRIMARY KEY, generation INTEGER NOT NULL, by TEXT NOT NULL,
            signature BLOB NOT NULL, sum BLOB NOT NULL
        ) STRICT;
    """),
    _Migration("""
        CREATE TABLE prepared (
            run TEXT PRIMARY KEY, session BLOB NOT NULL, times INTEGER NOT NULL, sum BLOB NOT NULL
        ) STRICT;
    """),
)

VERSION = len(_MIGRATIONS)
_PERSON = b"hedgerow/row/1"
_KEPT = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT)

Row = dict[str, Any]
Value = str | int | float | bytes | None
Table = Literal[
    "approvals",
    "charges",
    "debts",
    "halves",
    "heard",
    "kept_answers",
    "ledger_lines",
    "memories",
    "meters",
    "models",
    "own_tables",
    "peers",
    "prepared",
    "posts",
    "promises",
    "query_logs",
    "questions",
    "refusals",
    "resumptions",
    "runs",
    "server_charges",
    "stages",
    "terms",
    "upload_events",
    "uploads",
    "withdrawals",
]
"""Rows by what they are about; the modules that write them say what they mean."""

LEAST_DEBT = 1 << 13
"""Bytes that a request counts as at least: lines of the trail, and a folder or a log with them."""


class Quota(NamedTuple):
    """A member, and what refuses so many bytes that its requests have left in all."""

    member: str
    check: Callable[[int], None]


class Transaction:
    """What can be read and written, inside `Store.transaction` or `Store.snapshot`."""

    def __init__(self, store: Store, base: sqlite3.Connection) -> None:
        self._store, self._base = store, base

    def tell(self, kind: str, fields: Mapping[str, Any]) -> int:
        """Append to the trail, signed if this party has a key; return the number of the entry.

        H867 if the end of the trail does not fit together, H810 for a key that is not safe.
        """
        end = self._entries("ORDER BY n DESC LIMIT 2")
        if end and not end[0].follows(end[1].hash if len(end) > 1 else START):
            raise Code.JOURNAL_DAMAGED.error(found=f"{self._store.path}: the end of the trail")
        last, signer = end[0] if end else None, self._store.signer()
        if signer is not None:
            known = self._entries("WHERE kind = ? ORDER BY n DESC LIMIT 1", KEY)
            if not known or known[0].fields() != {"certificate": signer.pem}:
                last = self._add(next_entry(last, KEY, {"certificate": signer.pem}, signer))
        return self._add(next_entry(last, kind, fields, signer)).n

    def owe(self, by: Quota, octets: int = 0) -> None:
        """Count what a member's request leaves here for good; what its quota refuses is undone.

        Entries of the trail are never removed, so what was counted stays so.
        """
        found = self.row("debts", member=by.member)
        total = (found["octets"] if found else 0) + LEAST_DEBT + octets
        by.check(total)
        self.put("debts", {"member": by.member, "octets": total})

    def put(self, table: Table, row: Mapping[str, Value]) -> None:
        """Write a row, in the place of the one that has its key."""
        self._write("REPLACE", table, row)

    def add(self, table: Table, row: Mapping[str, Value]) -> None:
        """Write a row whose key none has; H867 if one does."""
        self._write("INSERT", table, row)

    def drop(self, table: Table, **where: Value) -> None:
        """Forget the rows with these values."""
        rest, values = _condition(where)
        self._base.execute(f"DELETE FROM {table}{rest}", values)  # noqa: S608

    def row(self, table: Table, **where: Value) -> Row | None:
        """Return the row with these values, which are a key."""
        return next(self.each(table, **where), None)

    def rows(self, table: Table, **where: Value) -> list[Row]:
        """Return the rows with these values, in the order of their keys.

        H867 where they are numbered and one is gone before others.
        """
        found = list(self.each(table, **where))
        numbers = [row["number"] for row in found if "number" in row]
        if numbers != list(range(len(numbers))):
            raise Code.JOURNAL_DAMAGED.error(
                found=f"{self._store.path}: a row of {table} is gone before others"
            )
        return found

    def each(self, table: Table, **where: Value) -> Iterator[Row]:
        """Yield rows as `rows` does, unnumbered or not; one at a time is in memory."""
        rest, values = _condition(where)
        # Every table begins with its key.
        cursor = self._base.execute(f"SELECT * FROM {table}{rest} ORDER BY 1, 2", values)  # noqa: S608
        names = [name for name, *_ in cursor.description]
        for found in cursor:
            row = dict(zip(names, found, strict=True))
            if row.pop("sum") != _sum(table, row):
                raise Code.JOURNAL_DAMAGED.error(
                    found=f"{self._store.path}: a row of {table} with another checksum"
                )
            yield row

    def count_heard(self, run: str) -> int:
        """Return how much was heard of a run."""
        where = "SELECT coalesce(max(number) + 1, 0) FROM heard WHERE run = ?"
        return int(self._base.execute(where, (run,)).fetchone()[0])

    def add_upload_event(self, entry: str) -> None:
        """Add what has happened to an upload of this owner."""
        self.add("upload_events", {"number": len(self.upload_events()), "entry": entry})

    def upload_events(self) -> list[str]:
        """Return what has happened to the uploads of this owner, in order; H867 if some is gone."""
        return [row["entry"] for row in self.rows("upload_events")]

    def put_upload(self, id: str, manifest: str | None) -> None:
        """Write that an id is used up, or, with its manifest, that the upload is complete."""
        self.put("uploads", {"id": id, "manifest": manifest})

    def uploads(self) -> dict[str, str | None]:
        """Return the manifests of all uploads by id; None for one that is not complete."""
        return {row["id"]: row["manifest"] for row in self.rows("uploads")}

    def put_terms(self, owner: str, population: str, terms: str) -> None:
        """Write what an owner allows on its uploads of a population, in the place of what was."""
        self.put("terms", {"owner": owner, "population": population, "terms": terms})

    def terms(self, population: str) -> dict[str, str]:
        """Return what owners allow on their uploads of a population, by owner."""
        return {row["owner"]: row["terms"] for row in self.rows("terms", population=population)}

    def check_pages(self) -> None:
        """Look at every page of the file, also those that nobody reads now; H867."""
        ((found, *_), *_) = self._base.execute("PRAGMA integrity_check(1)")
        if found != "ok":
            raise Code.JOURNAL_DAMAGED.error(found=f"{self._store.path}: {found}")

    def trail(self) -> list[TrailEntry]:
        """Return all entries of the trail, unchecked."""
        return self._entries("ORDER BY n")

    def trail_end(self, last: int) -> list[TrailEntry]:
        """Return the latest entries of the trail, so many, unchecked."""
        return self._entries("ORDER BY n DESC LIMIT ?", last)[::-1]

    def entries_of(self, kind: str) -> list[TrailEntry]:
        """Return the entries of the trail of one kind, unchecked."""
        return self._entries("WHERE kind = ? ORDER BY n", kind)

    def head(self) -> tuple[int, str]:
        """Return how many entries the trail has, and the hash of the last; empty if it has none."""
        end = self._entries("ORDER BY n DESC LIMIT 1")
        return (end[0].n, end[0].hash.hex()) if end else (0, "")

    def hash_at(self, n: int) -> str:
        """Return the hash of an entry of the trail; empty if there is none."""
        found = self._entries("WHERE n = ?", n)
        return found[0].hash.hex() if found else ""

    def add_charge(self, charge: Mapping[str, Value]) -> None:
        """Add a charge (population, key, epsilon, delta, what, time) to its account and tell it."""
        self.add("charges", {"entry": self.tell(CHARGE, plain_charge(charge)), **charge})

    def charges(self, population: str | None = None) -> list[Row]:
        """Return the charges of a population, or of all, in their order; H867 if some are gone."""
        found = self.rows("charges")
        told = self._base.execute("SELECT count(*) FROM trail WHERE kind = ?", (CHARGE,))
        if told.fetchone()[0] != len(found):
            raise Code.JOURNAL_DAMAGED.error(
                expected="every charge that the trail tells of",
                found=f"{self._store.path}: another number of them",
            )
        return [row for row in found if population in (None, row["population"])]

    def _add(self, entry: TrailEntry) -> TrailEntry:
        self._base.execute(
            "INSERT INTO trail (n, kind, body, hash, signature) VALUES (?, ?, ?, ?, ?)",
            (entry.n, entry.kind, entry.body, entry.hash, entry.signature),
        )
        return entry

    def _entries(self, rest: str, *values: Value) -> list[TrailEntry]:
        columns = "n, kind, body, hash, signature"
        found = self._base.execute(f"SELECT {columns} FROM trail {rest}", values)  # noqa: S608
        return [TrailEntry(*row) for row in found]

    def _write(self, verb: str, table: Table, row: Mapping[str, Value]) -> None:
        names = (*row, "sum")
        marks = ", ".join("?" * len(names))
        statement = f"{verb} INTO {table} ({', '.join(names)}) VALUES ({marks})"
        self._base.execute(statement, (*row.values(), _sum(table, row)))


class _Place(NamedTuple):
    device: int
    inode: int


class Store:
    """The database of a party, with one connection of this process; for all of its threads.

    Made if it does not exist, brought to this version if it is of an earlier one. H867 if it does
    not fit together, H868 if other processes keep it for more than 10 s, H869 if the disk does
    not take it, H932 if a later version of Hedgerow has written it.
    """

    def __init__(self, state: StateFolder) -> None:
        self.state, self.path = state, state.path(FILE)
        self._lock, self._pid = threading.RLock(), os.getpid()
        self._failed: str | None = None
        self._patience = PATIENCE
        try:
            with self._numbered():
                if not os.path.lexists(self.path):
                    self._create()
                self._place = _place_of(self.path)
                self._base = _connect(self.path)
        except OSError as error:
            raise self._error(error) from None
        self._closing = weakref.finalize(self, self._base.close)
        try:
            with self._numbered():
                self._base.execute("PRAGMA synchronous = FULL")
                self._base.execute("PRAGMA foreign_keys = ON")
                # What is replaced is overwritten: it may be noise that was drawn, or a share.
                self._base.execute("PRAGMA secure_delete = ON")
                self._migrate()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, name: str, patience: float = PATIENCE) -> Iterator[Transaction]:
        """Write: all of it is on the disk when the block has ended, and nothing if it raises.

        `name` says what becomes durable. H869 if that is not certain: the store then takes no more.
        """
        del name
        with self._working("IMMEDIATE", patience) as made:
            yield made

    @contextmanager
    def snapshot(self, patience: float = PATIENCE) -> Iterator[Transaction]:
        """Read, all from one moment, whatever others write meanwhile."""
        with self._working("DEFERRED", patience) as made:
            yield made

    @property
    def usable(self) -> bool:
        """Whether it takes more: it is open, of this process, and where it was."""
        return self._failed is None and os.getpid() == self._pid and self._in_place()

    @property
    def durability(self) -> tuple[str, ...]:
        """How SQLite keeps what was committed, in its own words, as this connection is set."""
        settings = ("journal_mode", "synchronous")
        with self._lock, self._numbered():
            said = [self._base.execute(f"PRAGMA {one}").fetchone()[0] for one in settings]
        return tuple(f"{name} {value}" for name, value in zip(settings, said, strict=True))

    def signer(self) -> Identity | None:
        """Return whose key signs the trail: that of the party, if it has one beside its state."""
        keys = self.state.root.parent / "keys"
        identity = Identity(keys / "party.key", keys / "party.pem")
        return identity if identity.key.exists() else None

    def close(self) -> None:
        """Give up the connection; a second call does nothing."""
        with self._lock:
            self._closing()
            self._failed = self._failed or "closed before"

    @contextmanager
    def _working(self, kind: str, patience: float) -> Iterator[Transaction]:
        with self._lock:
            self._check_open()
            if self._base.in_transaction:
                raise ValueError("a transaction within a transaction")
            with self._numbered(), self._rolling_back():
                if patience != self._patience:
                    self._base.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
                    self._patience = patience
                self._base.execute(f"BEGIN {kind}")
                yield Transaction(self, self._base)
                self._base.execute("COMMIT")

    @contextmanager
    def _rolling_back(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # Some errors have rolled it back already.
            with contextlib.suppress(sqlite3.Error):
                self._base.execute("ROLLBACK")
            raise

    @contextmanager
    def _numbered(self) -> Iterator[None]:
        """Give errors of the database their numbers."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> HedgerowError:
        # Extended codes have the plain one in their last byte.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _KEPT:
            return Code.JOURNAL_IN_USE.error(found=f"{self.path}, which others keep")
        if code in _DAMAGED:
            return Code.JOURNAL_DAMAGED.error(found=f"{self.path}: {error}")
        # What the disk holds is not known: the system may report the next sync as good.
        self._failed = f"a write that failed: {error}"
        return Code.STATE_NOT_WRITTEN.error(found=f"{self.path}: {error}")

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise Code.JOURNAL_IN_USE.error(found=f"{self.path} of the process that forked this")
        if self._failed is not None:
            raise Code.STATE_NOT_WRITTEN.error(
                expected=f"{self.path} to be open", found=self._failed
            )
        if not self._in_place():
            raise Code.JOURNAL_IN_USE.error(
                expected=f"{self.path} to stay where it was while it is open",
                found="another file, or none, in its place",
                fix="end all processes of this party before its state is replaced",
            )

    def _in_place(self) -> bool:
        try:
            return _place_of(self.path) == self._place
        except FileNotFoundError:
            return False

    def _create(self) -> None:
        """Make an empty database that is there as a whole or not at all."""
        if os.path.lexists(f"{self.path}-wal"):
            raise Code.JOURNAL_DAMAGED.error(
                expected=f"{self.path} beside {self.path.name}-wal",
                found="none: what was written last has lost the database that it belongs to",
            )
        part = self.path.with_name(f".{FILE}.{secrets.token_hex(8)}.part")
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))
        try:
            with contextlib.closing(_connect(part)) as base:
                base.execute(f"PRAGMA application_id = {APPLICATION}")
                base.execute("PRAGMA journal_mode = WAL")
            descriptor = os.open(part, os.O_RDONLY)
            os.fsync(descriptor)
            # Before it has its name: closing a file gives up locks that SQLite has on it.
            os.close(descriptor)
            # Another process may have made it meanwhile.
            with contextlib.suppress(FileExistsError):
                os.link(part, self.path)
        finally:
            part.unlink()
        sync_folder(self.path.parent)

    def _migrate(self) -> None:
        (application,) = self._base.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION:
            raise Code.JOURNAL_DAMAGED.error(found=f"{self.path}, which is no state of a party")
        if self._version() == VERSION:
            return
        with self._rolling_back():
            self._base.execute("BEGIN IMMEDIATE")
            # Another process may have done it meanwhile.
            version = self._version()
            if version > VERSION:
                raise Code.STATE_VERSION.error(
                    expected=f"{self.path} of version {VERSION} at most",
                    found=f"version {version}",
                    fix="use the version of Hedgerow that has written it, or a later one",
                )
            for migration in _MIGRATIONS[version:]:
                self._check_replaced(migration.replaced)
                # Not executescript, which would commit what there is before.
                for statement in filter(str.strip, migration.script.split(";")):
                    self._base.execute(statement)
            self._base.execute(f"PRAGMA user_version = {VERSION}")
            self._base.execute("COMMIT")

    def _check_replaced(self, patterns: tuple[str, ...]) -> None:
        """Refuse what an earlier version has left and this one would not see."""
        for pattern in patterns:
            for path in self.state.root.glob(pattern):
                raise Code.STATE_VERSION.error(
                    expected=f"all that counts in {self.path}",
                    found=f"{path}, of an earlier version of Hedgerow",
                    fix="finish or discard what it belongs to with the version that has written "
                    "it, and move it out of the state folder",
                )

    def _version(self) -> int:
        return int(self._base.execute("PRAGMA user_version").fetchone()[0])


_stores: weakref.WeakValueDictionary[Path, Store] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def open_store(state: StateFolder) -> Store:
    """Return the store of a party: the one that this process has open, if there is one.

    It is closed when nobody has it any more. One that has failed is opened, and checked, again.
    """
    with _opening:
        found = _stores.get(state.root)
        if found is None or not found.usable:
            found = _stores[state.root] = Store(state)
        return found


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, PATIENCE, isolation_level=None, check_same_thread=False)


def _place_of(path: Path) -> _Place:
    found = path.lstat()
    # Opening a pipe would wait for its other end.
    if not stat.S_ISREG(found.st_mode):
        raise Code.JOURNAL_DAMAGED.error(found=f"{path}, which is no file")
    return _Place(found.st_dev, found.st_ino)


def _condition(where: Mapping[str, Value]) -> tuple[str, tuple[Value, ...]]:
    names = " AND ".join(f"{name} = ?" for name in where)
    return (f" WHERE {names}" if names else ""), tuple(where.values())


def _sum(table: str, row: Mapping[str, Value]) -> bytes:
    """Return the checksum of a row; its values are those that SQLite gives back."""
    plain = [[k, _digest(v).hex() if isinstance(v, bytes) else v] for k, v in sorted(row.items())]
    return _digest(json.dumps([table, plain], separators=(",", ":")).encode())


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, person=_PERSON).digest()
