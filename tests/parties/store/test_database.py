"""The store of a party: what was committed is there, whole, whatever happened in between."""

import os
import random
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store import database
from hedgerow.parties.store.database import APPLICATION, VERSION, Store, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.trail import verify
from tests.parties.forks import fork_printing
from tests.parties.store.writers import (
    commit_and_die,
    die_before_commit,
    fill_the_disk,
    write_entries,
)
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


@pytest.fixture
def store(state: StateFolder) -> Iterator[Store]:
    made = Store(state)
    yield made
    made.close()


def tell(store: Store, **fields: object) -> int:
    with store.transaction("note") as made:
        return made.tell("note", fields)


def told(store: Store) -> list[dict[str, object]]:
    with store.snapshot() as made:
        return [entry.fields() for entry in made.trail()]


def test_the_database_is_private_durable_and_of_this_version(state: StateFolder) -> None:
    store = Store(state)
    tell(store, a=1)
    files = sorted(path.name for path in state.root.iterdir())
    assert files == ["party.db", "party.db-shm", "party.db-wal"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in state.root.iterdir()} == {0o600}
    with sqlite3.connect(state.path("party.db")) as base:
        found = [
            base.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode")
        ]
    base.close()
    assert found == [APPLICATION, VERSION, "wal"]
    settings = {"synchronous": 2, "foreign_keys": 1, "secure_delete": 1}
    assert {n: store._base.execute(f"PRAGMA {n}").fetchone()[0] for n in settings} == settings
    store.close()
    store.close()
    assert "closed" in refuses(Code.STATE_NOT_WRITTEN, lambda: tell(store, a=2)).found
    assert told(Store(state)) == [{"a": 1}]


def test_nothing_of_a_transaction_that_fails(store: Store) -> None:
    tell(store, a=1)

    def fail(error: type[BaseException]) -> None:
        with store.transaction("note") as made:
            made.tell("note", {"a": 2})
            raise error

    for error in (KeyError, KeyboardInterrupt, ConnectionResetError):
        with pytest.raises(error):
            fail(error)
    with pytest.raises(ValueError, match="JSON"):
        tell(store, a=float("nan"))
    with pytest.raises(ValueError, match="within"), store.snapshot(), store.snapshot():
        pass
    tell(store, a=3)
    assert told(store) == [{"a": 1}, {"a": 3}]


def test_one_store_of_a_process(state: StateFolder) -> None:
    first = open_store(state)
    assert open_store(StateFolder(state.root)) is first
    first.close()
    second = open_store(state)
    assert second is not first
    tell(second, a=1)
    # Nobody has it any more: SQLite has tidied up.
    del first, second
    assert [path.name for path in state.root.iterdir()] == ["party.db"]


def test_threads_and_other_connections(state: StateFolder) -> None:
    stores = [Store(state), Store(state)]

    def work(i: int) -> None:
        for k in range(20):
            tell(stores[i % 2], thread=i, k=k)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = told(stores[0])
    assert sorted((e["thread"], e["k"]) for e in found) == [
        (i, k) for i in range(6) for k in range(20)
    ]
    for i in range(6):
        assert [e["k"] for e in found if e["thread"] == i] == list(range(20))


def test_a_snapshot_is_of_one_moment_and_keeps_nobody_from_writing(state: StateFolder) -> None:
    reader, writer = Store(state), Store(state)
    tell(writer, a=1)
    with reader.snapshot() as made:
        assert len(made.trail()) == 1
        tell(writer, a=2)
        assert len(made.trail()) == 1
    assert len(told(reader)) == 2


def test_another_process_that_writes_is_waited_for(state: StateFolder) -> None:
    mine, other = Store(state), Store(state)
    with other.transaction("note"):
        error = refuses(Code.JOURNAL_IN_USE, lambda: mine.transaction("note", 0.05).__enter__())
        assert "others keep" in error.found
    tell(mine, a=1)


def test_a_fork_has_no_store(store: Store) -> None:
    child = os.fork()
    if child == 0:
        try:
            refuses(Code.JOURNAL_IN_USE, lambda: tell(store, a=1))
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert told(store) == []


def test_a_state_that_is_replaced_while_it_is_open(state: StateFolder, tmp_path: Path) -> None:
    store = open_store(state)
    path = state.path("party.db")
    path.rename(tmp_path / "aside")
    assert "none, in its place" in refuses(Code.JOURNAL_IN_USE, lambda: tell(store, a=1)).found
    path.write_bytes((tmp_path / "aside").read_bytes())
    refuses(Code.JOURNAL_IN_USE, lambda: told(store))
    store.close()
    Path(f"{path}-wal").unlink(missing_ok=True)
    assert told(open_store(state)) == []


def test_what_is_no_database_of_a_party(state: StateFolder, tmp_path: Path) -> None:
    path = state.root / "party.db"
    for content in (b"", b"nonsense" * 1000):
        path.write_bytes(content)
        refuses(Code.JOURNAL_DAMAGED, lambda: Store(state))
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE trail (n)").connection.close()
    refuses(Code.JOURNAL_DAMAGED, lambda: Store(state))
    path.unlink()
    os.mkfifo(path)
    refuses(Code.JOURNAL_DAMAGED, lambda: Store(state))
    path.unlink()
    path.mkdir()
    refuses(Code.JOURNAL_DAMAGED, lambda: Store(state))
    path.rmdir()
    path.symlink_to(tmp_path / "elsewhere")
    refuses(Code.UNSAFE_FOLDER, lambda: Store(state))
    path.unlink()
    Path(f"{path}-wal").write_bytes(b"what was written last")
    assert "lost" in refuses(Code.JOURNAL_DAMAGED, lambda: Store(state)).found


def test_every_damaged_page_is_refused(state: StateFolder) -> None:
    store = Store(state)
    for i in range(200):
        with store.transaction("charge") as made:
            made.add_charge(charge(f"job:{i}"))
    store.close()
    path = state.path("party.db")
    good = path.read_bytes()

    def read_all() -> None:
        opened = Store(state)
        try:
            with opened.snapshot() as made:
                made.check_pages()
                assert len(made.charges()) == 200
                verify(made.trail(), made.charges())
        finally:
            opened.close()

    read_all()
    size = int.from_bytes(good[16:18], "big")
    for page in range(len(good) // size):
        at = page * size
        path.write_bytes(good[:at] + bytes(size) + good[at + size :])
        damages(read_all)
    for cut in (100, size, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:cut])
        damages(read_all)
    # A digit of a charge that the disk has changed.
    path.write_bytes(good.replace(b"job:177", b"job:179"))
    damages(read_all)
    path.write_bytes(good)
    read_all()


def damages(action: Callable[[], object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code in (Code.JOURNAL_DAMAGED, Code.TRAIL_BROKEN), str(caught.value)


def charge(key: str, population: str = "p") -> dict[str, object]:
    figures = {"epsilon": 1.0, "delta": 0.0, "what": "", "time": 0.0}
    return {"population": population, "key": key, **figures}


def test_a_charge_that_is_gone_and_one_that_is_there_twice(store: Store) -> None:
    for key in ("a", "b"):
        with store.transaction("charge") as made:
            made.add_charge(charge(key))

    def again() -> None:
        with store.transaction("charge") as made:
            made.add_charge(charge("a"))

    refuses(Code.JOURNAL_DAMAGED, again)
    assert len(told(store)) == 2
    store._base.execute("DELETE FROM charges WHERE key = 'a'")
    with store.snapshot() as made:
        refuses(Code.JOURNAL_DAMAGED, lambda: made.charges("p"))


def test_a_trail_whose_end_was_changed_is_not_continued(store: Store) -> None:
    for a in range(3):
        tell(store, a=a)
    store._base.execute("UPDATE trail SET body = replace(body, '2', '7') WHERE n = 3")
    assert "trail" in refuses(Code.JOURNAL_DAMAGED, lambda: tell(store, a=3)).found


def test_a_later_version_is_refused_and_an_earlier_one_brought_up_to_date(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(state).close()
    later = "CREATE TABLE later (x); INSERT INTO later VALUES (1);"
    more = (*database._MIGRATIONS, database._Migration(later))
    with monkeypatch.context() as patch:
        patch.setattr(database, "_MIGRATIONS", more)
        patch.setattr(database, "VERSION", VERSION + 1)
        newer = Store(state)
        assert newer._base.execute("SELECT x FROM later").fetchall() == [(1,)]
        newer.close()
        Store(state).close()
    error = refuses(Code.STATE_VERSION, lambda: Store(state))
    assert f"version {VERSION + 1}" in error.found


def test_a_migration_is_done_as_a_whole_or_not_at_all(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(state).close()
    with monkeypatch.context() as patch:
        wrong = database._Migration("CREATE TABLE later (x); no statement")
        more = (*database._MIGRATIONS, wrong)
        patch.setattr(database, "_MIGRATIONS", more)
        patch.setattr(database, "VERSION", VERSION + 1)
        refuses(Code.STATE_NOT_WRITTEN, lambda: Store(state))
    store = Store(state)
    assert (
        store._base.execute("SELECT name FROM sqlite_master WHERE name = 'later'").fetchall() == []
    )


def test_a_full_disk(state: StateFolder) -> None:
    """The system refuses to let the file grow in the middle of a transaction."""
    child, told_ = fork_printing(fill_the_disk, state.root)
    with told_:
        lines = told_.read().decode().split()
    child.join()
    # Acknowledged ones first, then one H869, and H869 for all that follow.
    refused = lines.index("H869")
    assert refused > 3
    assert lines[refused:] == ["H869"] * 3
    store = Store(state)
    found = [entry["key"] for entry in told(store)]
    assert found[:refused] == lines[:refused]
    assert len(found) <= refused + 1
    tell(store, key="later")


def test_a_database_that_may_not_grow(store: Store) -> None:
    tell(store, a=1)
    (pages,) = store._base.execute("PRAGMA page_count").fetchone()
    store._base.execute(f"PRAGMA max_page_count = {pages}")
    error = refuses(Code.STATE_NOT_WRITTEN, lambda: tell(store, a="x" * 100_000))
    assert "full" in error.found
    refuses(Code.STATE_NOT_WRITTEN, lambda: tell(store, a=2))
    assert told(open_store(store.state)) == [{"a": 1}]


def test_killed_before_and_after_a_commit(state: StateFolder) -> None:
    for run in range(3):
        child, told_ = fork_printing(die_before_commit, state.root, f"before {run}")
        with told_:
            assert told_.read() == b"written\n"
        child.join()
        assert child.exitcode == -signal.SIGKILL
        child, told_ = fork_printing(commit_and_die, state.root, f"after {run}")
        told_.close()
        child.join()
        assert child.exitcode == -signal.SIGKILL
    assert [entry["key"] for entry in told(Store(state))] == [f"after {run}" for run in range(3)]


def test_two_processes_killed_thirty_times_lose_nothing_acknowledged(state: StateFolder) -> None:
    moments, acknowledged, acked = random.Random(4), [], 0
    for run in range(15):
        children = [fork_printing(write_entries, state.root, f"{run}-{i}") for i in range(2)]
        for _, told_ in children:
            assert told_.readline() == b"ready\n"
        for child, told_ in children:
            child.join(moments.uniform(0.0, 0.15))
            child.kill()
            with told_:
                out = told_.read()
            child.join()
            assert b"Error" not in out
            # A line of the report may be torn as well; the commit came before it.
            acknowledged += [key.decode() for key in out.split(b"\n")[:-1]]
        store = Store(state)
        with store.snapshot() as made:
            trail = made.trail()
        store.close()
        keys = [entry.fields()["key"] for entry in trail]
        assert [entry.n for entry in trail] == list(range(1, len(trail) + 1))
        assert len(keys) == len(set(keys))
        assert set(acknowledged) <= set(keys)
        acked = len(acknowledged)
    print(f"{acked} acknowledged, {len(keys)} written")
    assert acked > 100
