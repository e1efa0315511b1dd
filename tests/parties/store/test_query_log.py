"""Charges, halves and what may leave, also after a restart."""

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.query_log import Asked, LoggedQuery, QueryKey, QueryLog
from tests.parties.wire.parties_calls import refuses

ONE, TWO = QueryKey("ann", "1" * 32), QueryKey("bob", "1" * 32)


def asked(key: QueryKey, n: int = 2) -> Asked:
    return Asked(key, "class", n, "d")


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
        other = QueryKey("ann", "2" * 32)
        assert log.find([ONE, other]) == {ONE: LoggedQuery(asked(ONE, 3), "asked", "")}
        log.close()
        log = opened(state)


def test_one_request_twice_in_a_charge_leaves_the_log_whole(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(TWO, 4)])
    refuses(Code.QUERY_CONFLICT, lambda: log.charge([asked(ONE, 3), asked(ONE, 3)]))
    for _ in range(2):
        assert (log.rows, log.find([ONE])) == (4, {})
        log.close()
        log = opened(state)
    log.charge([asked(ONE, 3)])
    assert log.rows == 7
    log.close()


def test_the_life_of_a_half(state: StateFolder) -> None:
    log = opened(state)
    assert not log.find([ONE])
    log.charge([asked(ONE), asked(TWO)])
    halves = {ONE: np.array([1, 2], np.uint16), TWO: np.array([[3], [4]], np.uint32)}
    log.hold(DRAW, halves, halves)
    assert log.find([ONE])[ONE] == LoggedQuery(asked(ONE), "held", DRAW)
    with pytest.raises(ValueError, match="may not leave"):
        log.half(ONE)
    log.finish([ONE])
    log.finish([ONE])
    for _ in range(2):
        found = log.find([ONE, TWO])
        assert [(found[key].state, found[key].draw) for key in (ONE, TWO)] == [
            ("done", DRAW),
            ("held", DRAW),
        ]
        np.testing.assert_array_equal(log.half(ONE), [1, 2])
        log.close()
        log = opened(state)


def test_a_later_draw_takes_the_place_of_one_that_did_not_leave(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(ONE), asked(TWO)])
    log.hold(DRAW, [ONE, TWO], {ONE: np.ones(2, np.uint16), TWO: np.ones(2, np.uint16)})
    log.hold(OTHER, [ONE], {ONE: np.zeros(2, np.uint16)})
    draws = log._store._base.execute("SELECT draw FROM halves ORDER BY draw")
    assert draws.fetchall() == [(DRAW,), (OTHER,)]
    log.hold("c" * 32, [TWO], {TWO: np.zeros(2, np.uint16)})
    draws = log._store._base.execute("SELECT draw FROM halves ORDER BY draw")
    assert draws.fetchall() == [(OTHER,), ("c" * 32,)]
    log.finish([ONE])
    np.testing.assert_array_equal(log.half(ONE), [0, 0])


def test_the_server_that_gives_no_half(state: StateFolder) -> None:
    log = opened(state, server=2)
    log.charge([asked(ONE)])
    log.hold(DRAW, [ONE], {})
    log.finish([ONE])
    assert log.half(ONE) is None


def test_what_was_not_charged_is_not_answered(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(ONE)])
    for action in (lambda: log.finish([ONE, TWO]), lambda: log.hold(DRAW, [ONE, TWO], {})):
        refuses(Code.JOURNAL_DAMAGED, action)
        assert log.find([ONE])[ONE].state == "asked"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM questions WHERE analyst = 'ann'",
        "UPDATE questions SET n = 1 WHERE analyst = 'ann'",
        "DELETE FROM query_logs",
    ],
)
def test_charges_that_are_gone_or_changed_are_found(state: StateFolder, statement: str) -> None:
    log = opened(state)
    log.charge([asked(ONE, 3), asked(TWO, 4)])
    log.close()
    open_store(state)._base.execute(statement)
    refuses(Code.JOURNAL_DAMAGED, lambda: opened(state))


def test_after_a_failure_nothing_is_charged_or_answered(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(ONE)])
    base = log._store._base
    (pages,) = base.execute("PRAGMA page_count").fetchone()
    base.execute(f"PRAGMA max_page_count = {pages}")
    many = [asked(QueryKey("bob", f"{k:032x}")) for k in range(1000)]
    error = refuses(Code.STATE_NOT_WRITTEN, lambda: log.charge(many))
    assert "full" in error.found
    # Not known to be charged would be charged again.
    refuses(Code.STATE_NOT_WRITTEN, lambda: log.find([ONE]))
    assert log.rows == 2
    log.close()
    again = opened(state)
    assert again.rows == 2
    assert again.find([ONE, many[0].key]) == {ONE: LoggedQuery(asked(ONE), "asked", "")}


@pytest.mark.parametrize("name", ["journal.jsonl", f"halves-{DRAW}.bin"])
def test_questions_of_earlier_versions_are_not_overlooked(state: StateFolder, name: str) -> None:
    (state.folder("queries", "m") / name).write_text("{}")
    refuses(Code.STATE_VERSION, lambda: Store(state))


def test_a_log_of_another_model_of_that_name(state: StateFolder) -> None:
    opened(state).close()
    refuses(Code.JOURNAL_DAMAGED, lambda: opened(state, tag="another"))
    refuses(Code.JOURNAL_DAMAGED, lambda: opened(state, server=1))
    log = opened(state)
    refuses(Code.JOURNAL_IN_USE, lambda: opened(state))
    log.close()


def test_nothing_is_written_in_the_open(state: StateFolder) -> None:
    log = opened(state)
    log.charge([asked(ONE)])
    # Not one number after the other: SQLite has those of its pages in the open.
    half = np.arange(1000, dtype=np.uint32) * np.uint32(7)
    log.hold(DRAW, [ONE], {ONE: half})
    files = [path for path in state.root.rglob("*") if path.is_file()]
    assert any(b"halves" in path.read_bytes() for path in files)
    for path in files:
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
        found = log.find([last])[last]
        assert (found.state, found.draw) == ("done", f"{4000:032x}")
        log.charge([asked(last, 1)])
        assert log.rows == 5000
        log.close()
        log = opened(state)
    log.close()
