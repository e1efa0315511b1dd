"""Charges, halves and what may leave, also after a restart."""

import gc
import sqlite3
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.query_log import Asked, Life, QueryIndex, QueryKey, QueryLog
from tests.parties.wire.parties_calls import refuses

ONE, TWO = QueryKey("ann", "1" * 32), QueryKey("bob", "1" * 32)


def asked(key: QueryKey, n: int = 2) -> Asked:
    return Asked(key, "class", n, "d")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


def test_lives(path: Path) -> None:
    index = QueryIndex(path)
    assert index.find(ONE) is None
    index.add([asked(ONE, 3), asked(TWO)])
    assert index.find(ONE) == Life(asked(ONE, 3))
    index.hold("a", [ONE, TWO])
    index.hold("b", [TWO])
    index.finish([ONE])
    assert index.find(ONE) == Life(asked(ONE, 3), "a", done=True)
    assert index.find(TWO) == Life(asked(TWO), "b")
    assert [index.count_drawn(draw) for draw in "abc"] == [1, 1, 0]
    assert len(index) == 2
    assert path.stat().st_mode & 0o077 == 0
    index.close()
    index.close()
    assert not path.exists()


def test_it_is_made_anew(path: Path) -> None:
    path.write_bytes(b"what a crash has left")
    index = QueryIndex(path)
    assert len(index) == 0


def test_what_no_journal_holds(path: Path) -> None:
    index = QueryIndex(path)
    index.add([asked(ONE)])
    refuses(Code.JOURNAL_DAMAGED, lambda: index.finish([TWO]))
    refuses(Code.JOURNAL_DAMAGED, lambda: index.add([asked(ONE)]))
    # Not known to be charged would be charged again.
    refuses(Code.STATE_NOT_WRITTEN, lambda: index.find(ONE))


def test_after_a_failure_nothing_is_answered(path: Path) -> None:
    index = QueryIndex(path)
    index.add([asked(ONE)])

    class Full:
        def execute(self, *_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def close(self) -> None:
            pass

    index._base = Full()  # type: ignore[assignment]
    error = refuses(Code.STATE_NOT_WRITTEN, lambda: index.add([asked(TWO)]))
    assert "disk is full" in error.found
    refuses(Code.STATE_NOT_WRITTEN, lambda: index.find(ONE))
    refuses(Code.STATE_NOT_WRITTEN, lambda: index.find(TWO))


SECRET = bytes(range(32))
DRAW, OTHER = "a" * 32, "b" * 32


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


def opened(state: StateFolder, **changes) -> QueryLog:
    options = {"model": "m", "tag": "t", "server": 0} | changes
    return QueryLog(state, SECRET, **options)


def test_a_query_is_charged_once(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(ONE, 3), asked(TWO, 4)])
    log.charge([asked(ONE, 3)])
    for _ in range(2):
        assert (log.rows, log.rows_of("ann"), log.rows_of("bob")) == (7, 3, 4)
        assert log.find(ONE) == asked(ONE, 3)
        assert log.find(QueryKey("ann", "2" * 32)) is None
        assert log.state(ONE) == ("asked", "")
        log.close()
        log = opened(state)


def test_one_request_twice_in_a_charge_leaves_the_journal_whole(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(TWO, 4)])
    refuses(Code.QUERY_CONFLICT, lambda: log.charge([asked(ONE, 3), asked(ONE, 3)]))
    for _ in range(2):
        assert (log.rows, log.find(ONE)) == (4, None)
        log.close()
        log = opened(state)
    log.charge([asked(ONE, 3)])
    assert log.rows == 7
    log.close()


def test_the_life_of_a_half(state: StateFolder) -> None:
    log = opened(state)
    assert log.state(ONE) == (None, "")
    log.charge([asked(ONE), asked(TWO)])
    halves = {ONE: np.array([1, 2], np.uint16), TWO: np.array([[3], [4]], np.uint32)}
    log.hold(DRAW, halves, halves)
    assert log.state(ONE) == ("held", DRAW)
    with pytest.raises(ValueError, match="may not leave"):
        log.half(ONE)
    log.finish([ONE])
    log.finish([ONE])
    for _ in range(2):
        assert log.state(ONE) == ("done", DRAW)
        assert log.state(TWO) == ("held", DRAW)
        np.testing.assert_array_equal(log.half(ONE), [1, 2])
        log.close()
        log = opened(state)


def test_a_later_draw_takes_the_place_of_one_that_did_not_leave(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(ONE), asked(TWO)])
    log.hold(DRAW, [ONE, TWO], {ONE: np.ones(2, np.uint16), TWO: np.ones(2, np.uint16)})
    folder = state.path("queries", "m")
    log.hold(OTHER, [ONE], {ONE: np.zeros(2, np.uint16)})
    assert {path.name for path in folder.glob("*.bin")} == {
        f"halves-{DRAW}.bin",
        f"halves-{OTHER}.bin",
    }
    log.hold("c" * 32, [TWO], {TWO: np.zeros(2, np.uint16)})
    assert not (folder / f"halves-{DRAW}.bin").exists()
    log.finish([ONE])
    np.testing.assert_array_equal(log.half(ONE), [0, 0])


def test_the_server_that_gives_no_half(state: StateFolder) -> None:
    log = opened(state, server=2)
    log.charge([asked(ONE)])
    log.hold(DRAW, [ONE], {})
    log.finish([ONE])
    assert log.half(ONE) is None


def test_a_journal_of_another_model_of_that_name(state: StateFolder) -> None:
    opened(state).close()
    refuses(Code.JOURNAL_DAMAGED, lambda: opened(state, tag="another"))
    refuses(Code.JOURNAL_DAMAGED, lambda: opened(state, server=1))
    log = opened(state)
    refuses(Code.JOURNAL_IN_USE, lambda: opened(state))
    log.close()


def test_nothing_is_written_in_the_open(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(ONE)])
    half = np.arange(1000, dtype=np.uint32)
    log.hold(DRAW, [ONE], {ONE: half})
    for path in state.path("queries", "m").iterdir():
        assert half[5:50].tobytes() not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0


def test_memory_does_not_grow_with_the_queries(state: StateFolder) -> None:
    log, batch = opened(state), 1000

    def more(first: int, last: int) -> int:
        """Live through some requests; return the bytes that are held afterwards."""
        for at in range(first, last, batch):
            keys = [QueryKey("ann", f"{k:032x}") for k in range(at, at + batch)]
            log.charge([asked(key, 1) for key in keys])
            log.hold(f"{at:032x}", keys, {})
            log.finish(keys)
        # What only waits to be collected is not held.
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = more(0, 1000)
        after = more(1000, 5000)
    finally:
        tracemalloc.stop()
    # A life in memory took 700 bytes.
    assert after - before < 4000 * 20
    last = QueryKey("ann", f"{4999:032x}")
    for _ in range(2):
        assert (len(log), log.rows) == (5000, 5000)
        assert log.state(last) == ("done", f"{4000:032x}")
        log.charge([asked(last, 1)])
        assert log.rows == 5000
        log.close()
        log = opened(state)
    log.close()
