"""What a member must not forget of a run: kept, sealed, and refused when it is gone."""

from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import StateFolder
from tests.parties.wire.parties_calls import refuses

KEY = bytes(range(32))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(StateFolder(tmp_path / "state"))


@pytest.mark.parametrize("key", [None, KEY])
def test_what_is_kept_is_there_again(store: Store, key: bytes | None) -> None:
    told: list[int] = []
    memory = RunMemory(store, "wards-1", "north", key, on_keep=lambda: told.append(1))
    memory.begin(charged=False)
    assert (memory.load(), list(memory.lines()), told) == (None, [], [])
    memory.keep(b"one")
    memory.keep(b"one")
    memory.append(b"a")
    memory.append(b"")
    memory.keep(b"two")
    # The same state again is no news.
    assert len(told) == 4
    again = RunMemory(store, "wards-1", "north", key)
    again.begin(charged=True)
    assert (again.load(), list(again.lines())) == (b"two", [b"a", b""])
    assert RunMemory(store, "wards-2", "north", key).load() is None


def test_a_run_that_was_charged_and_has_no_memory_answers_no_more(store: Store) -> None:
    memory = RunMemory(store, "wards-1", "north")
    refuses(Code.ANSWERS_LOST, lambda: memory.begin(charged=True))
    memory.begin(charged=False)
    # From now on there is a row, if an empty one.
    again = RunMemory(store, "wards-1", "north")
    again.begin(charged=True)
    assert again.load() is None
    again.keep(b"state")
    with store.transaction("lose it") as made:
        made.drop("memories", run="wards-1")
    lost = RunMemory(store, "wards-1", "north")
    refuses(Code.ANSWERS_LOST, lambda: lost.begin(charged=True))


def test_a_sealed_memory_is_for_its_party_its_run_and_its_key(store: Store) -> None:
    memory = RunMemory(store, "wards-1", "alder", KEY)
    memory.begin(charged=False)
    memory.keep(b"a sealing key")
    memory.append(b"a line")
    with store.snapshot() as made:
        kept = made.row("memories", run="wards-1")
        row = made.row("heard", run="wards-1", number=0)
    assert kept is not None
    assert row is not None
    sealed = kept["data"]
    assert b"a sealing key" not in sealed
    assert b"a line" not in row["answer"]
    refuses(Code.VAULT_OF_ANOTHER, lambda: RunMemory(store, "wards-1", "birch", KEY))
    with pytest.raises(Exception, match="H86"):
        RunMemory(store, "wards-1", "alder", bytes(32))
    with store.transaction("put it elsewhere") as made:
        made.put("memories", {"run": "wards-2", "data": sealed})
    refuses(Code.VAULT_OF_ANOTHER, lambda: RunMemory(store, "wards-2", "alder", KEY))
