"""What a party keeps of a run comes back as it was kept last, and is not read with another key."""

import random
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.topdown.accounted import RunMemory
from tests.parties.forks import fork_printing
from tests.parties.store.writers import keep_memories
from tests.parties.wire.parties_calls import refuses

KEY = bytes([7]) * 32


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(StateFolder(tmp_path / "state"))


def test_the_newest_state_comes_back(store: Store) -> None:
    kept = RunMemory(store, "wards-1", "north")
    assert kept.data is None
    for state in (b"one", b"two", b"three"):
        kept.keep(state)
        kept.keep(state)
    assert RunMemory(store, "wards-1", "north").data == b"three"
    kept.keep(b"four")
    assert RunMemory(store, "wards-1", "north").data == b"four"
    assert RunMemory(store, "wards-2", "north").data is None


def test_a_state_that_has_changed(store: Store) -> None:
    RunMemory(store, "wards-1", "north").keep(b"one")
    store._base.execute("UPDATE memories SET data = x'00'")
    refuses(Code.JOURNAL_DAMAGED, lambda: RunMemory(store, "wards-1", "north"))


def test_a_full_disk(store: Store) -> None:
    kept = RunMemory(store, "wards-1", "north")
    kept.keep(b"one")
    (pages,) = store._base.execute("PRAGMA page_count").fetchone()
    store._base.execute(f"PRAGMA max_page_count = {pages}")
    refuses(Code.STATE_NOT_WRITTEN, lambda: kept.keep(bytes(100_000)))
    assert kept.data == b"one"
    again = open_store(store.state)
    assert RunMemory(again, "wards-1", "north").data == b"one"


def test_a_state_with_secrets_is_encrypted(store: Store) -> None:
    secret = b"a share that nobody else may see"
    kept = RunMemory(store, "wards-1", "birch", key=KEY)
    kept.keep(b"first")
    kept.keep(secret)
    for path in store.state.root.glob("party.db*"):
        assert secret not in path.read_bytes()
    assert RunMemory(store, "wards-1", "birch", key=KEY).data == secret
    other = bytes([8]) * 32
    refuses(Code.VAULT_WRONG_KEY, lambda: RunMemory(store, "wards-1", "birch", key=other))
    with store.snapshot() as made:
        sealed = made.memory("wards-1")
    assert sealed is not None

    def exchanged(run: str, party: str, data: bytes) -> RunMemory:
        with store.transaction("exchange") as made:
            made.put_memory(run, data)
        return RunMemory(store, run, party, key=KEY)

    # What belongs to another run or party is not taken for this one.
    refuses(Code.VAULT_OF_ANOTHER, lambda: exchanged("wards-2", "birch", sealed))
    refuses(Code.VAULT_OF_ANOTHER, lambda: exchanged("wards-1", "cedar", sealed))
    flipped = sealed[:-1] + bytes([sealed[-1] ^ 1])
    refuses(Code.VAULT_DAMAGED, lambda: exchanged("wards-1", "birch", flipped))
    refuses(Code.VAULT_TRUNCATED, lambda: exchanged("wards-1", "birch", sealed[:-1]))
    refuses(Code.NOT_A_VAULT, lambda: exchanged("wards-1", "birch", secret * 10))
    assert exchanged("wards-1", "birch", sealed).data == secret


def test_killed_while_it_is_kept(tmp_path: Path) -> None:
    """The state is one that was acknowledged, or the one after it; never an older one."""
    root, moments, last = tmp_path / "state", random.Random(5), -1
    for _ in range(10):
        child, told = fork_printing(keep_memories, root, last + 1)
        with told:
            assert told.readline() == b"ready\n"
            child.join(moments.uniform(0.0, 0.1))
            child.kill()
            said = [int(line) for line in told.read().split(b"\n")[:-1]]
        child.join()
        last = max([last, *said])
        data = RunMemory(Store(StateFolder(root)), "wards-1", "north").data
        if data is not None:
            assert int(data) in (last, last + 1)
            last = int(data)
    assert last > 10


def test_runs_of_earlier_versions_are_not_overlooked(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    (state.folder("topdown", "wards-1") / "state.jsonl").write_text("{}")
    refuses(Code.STATE_VERSION, lambda: Store(state))
