"""Requests by identifier, in a file."""

import sqlite3
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.query_index import Asked, Key, Life, QueryIndex
from tests.parties.wire.parties_calls import refuses

ONE, TWO = Key("ann", "1" * 32), Key("bob", "1" * 32)


def asked(key: Key, n: int = 2) -> Asked:
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
    assert (index.drawn("a"), index.drawn("b"), index.drawn("c"), len(index)) == (1, 1, 0, 2)
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
