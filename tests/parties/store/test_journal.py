"""What was acknowledged is there afterwards, once, whatever happened in between."""

import json
import os
import random
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.journal import Journal
from tests.parties.forks import fork_printing
from tests.parties.store.writers import append_entries

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def refuses(code: Code, action: Callable[[], object]) -> str:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code, str(caught.value)
    return str(caught.value)


def written(path: Path, n: int = 3) -> list[bytes]:
    with Journal(path) as journal:
        for i in range(n):
            journal.append({"charge": i, "text": "x" * i})
    return path.read_bytes().splitlines(keepends=True)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=4))
def test_round_trip(tmp_path: Path, entries: list[dict]) -> None:
    path = tmp_path / "j"
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for i, entry in enumerate(entries):
            assert journal.append(entry) == i + 1
        assert journal.entries() == entries
    with Journal(path) as journal:
        assert journal.entries() == entries
        assert len(journal) == len(entries)
        assert journal.cut == 0


def test_lines_are_json_and_private(tmp_path: Path) -> None:
    lines = written(tmp_path / "j")
    assert [json.loads(line)["n"] for line in lines] == [0, 1, 2, 3]
    assert json.loads(lines[2])["entry"] == {"charge": 1, "text": "x"}
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["j"]


@pytest.mark.parametrize(
    "entry", [{"a": float("nan")}, {1: 0, "1": 1}, {"a": 10**400}, {"a": object()}, {"a": {1, 2}}]
)
def test_what_json_does_not_keep_is_refused_before_it_is_written(
    tmp_path: Path, entry: dict
) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append({"a": 1})
        with pytest.raises((ValueError, TypeError)):
            journal.append({"b": 1}, entry)
        journal.append({"a": 2})
        assert journal.entries() == [{"a": 1}, {"a": 2}]
    with Journal(tmp_path / "j") as journal:
        assert len(journal) == 2


def test_every_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "j"
    *kept, last = written(path)
    for size in range(1, len(last)):
        path.write_bytes(b"".join(kept) + last[:size])
        with Journal(path) as journal:
            assert journal.cut == size
            assert len(journal.entries()) == 2
            assert journal.append({"again": size}) == 3
        with Journal(path) as journal:
            assert journal.cut == 0
            assert journal.entries()[2] == {"again": size}


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    good = b"".join(written(path))
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        refuses(Code.JOURNAL_DAMAGED, lambda: Journal(path))
    path.write_bytes(good)
    Journal(path).close()


def test_lines_cannot_be_lost_moved_or_repeated(tmp_path: Path) -> None:
    path = tmp_path / "j"
    head, a, b, c = written(path)
    spaced = a.replace(b",", b", ", 1)
    other = written(tmp_path / "k", 4)
    for lines in (
        [head, b, c],
        [head, a, c],
        [a, b, c],
        [head, b, a, c],
        [head, a, a, b, c],
        [head, head, a],
        [head, spaced, b, c],
        [head, a, b, c, b"\n"],
        [head, a, b, b"\0" * 50 + b"\n"],
        [head, b"{}\n"],
        [b""],
        [b"torn"],
        [head, a, b"x" * 3_000_000],
        [head, a, b, c[:-2] + b" \n"],
        [head, a.replace(b'"charge":0', b'"charge":9'), b, c],
    ):
        path.write_bytes(b"".join(lines))
        refuses(Code.JOURNAL_DAMAGED, lambda: Journal(path))
    # Equal beginnings make equal sums: what a journal is about keeps two of them apart.
    path.write_bytes(b"".join([head, a, b, c, other[4]]))
    with Journal(path) as journal:
        assert len(journal) == 4


def test_a_journal_about_something_else(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path, about={"server": "a", "population": "p"}) as journal:
        journal.append({"epsilon": 1.0})
    refuses(Code.JOURNAL_DAMAGED, lambda: Journal(path, about={"server": "b", "population": "p"}))
    refuses(Code.JOURNAL_DAMAGED, lambda: Journal(path))
    refuses(Code.JOURNAL_DAMAGED, lambda: Journal(tmp_path / "none", create=False))
    (tmp_path / "link").symlink_to(path)
    refuses(Code.JOURNAL_DAMAGED, lambda: Journal(tmp_path / "link"))
    assert "population" in path.read_text()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        refuses(Code.JOURNAL_IN_USE, lambda: Journal(path))
        code = (
            "import sys; from pathlib import Path; "
            "from hedgerow.parties.store.journal import Journal;"
            "Journal(Path(sys.argv[1]))"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
        )
        assert "H868" in other.stderr
        child = os.fork()
        if child == 0:
            try:
                journal.append({"from": "child"})
            except HedgerowError as error:
                os._exit(0 if error.code is Code.JOURNAL_IN_USE else 1)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        journal.append({"from": "parent"})
    refuses(Code.STATE_NOT_WRITTEN, lambda: journal.append({"after": "close"}))
    with Journal(path) as journal:
        assert journal.entries() == [{"from": "parent"}]


def test_threads_share_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, syncs, numbers = tmp_path / "j", [], []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (syncs.append(fd), time.sleep(0.002), real(fd)))
    with Journal(path) as journal:

        def work(i: int) -> None:
            numbers.extend(journal.append({"thread": i, "k": k}) for k in range(20))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        entries = journal.entries()
    assert sorted(numbers) == list(range(1, 201))
    assert sorted((e["thread"], e["k"]) for e in entries) == [
        (i, k) for i in range(10) for k in range(20)
    ]
    assert all([e["k"] for e in entries if e["thread"] == i] == list(range(20)) for i in range(10))
    # Threads that wait at the same time share a sync.
    assert len(syncs) < 150


def test_after_a_failed_sync_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "j")
    journal.append({"a": 1})

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        assert "Input/output" in refuses(Code.STATE_NOT_WRITTEN, lambda: journal.append({"a": 2}))
    # The system would call the next sync a success.
    refuses(Code.STATE_NOT_WRITTEN, lambda: journal.append({"a": 3}))
    journal.close()
    with Journal(tmp_path / "j") as again:
        assert again.entries() in ([{"a": 1}], [{"a": 1}, {"a": 2}])


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    journal.append({"a": 1})
    real, left = os.write, [10]

    def write(fd: int, data: memoryview) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        done = real(fd, data[: left[0]])
        left[0] -= done
        return done

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        refuses(Code.STATE_NOT_WRITTEN, lambda: journal.append({"a": 2}))
    refuses(Code.STATE_NOT_WRITTEN, lambda: journal.append({"a": 3}))
    journal.close()
    with Journal(tmp_path / "j") as again:
        assert again.cut == 10
        assert again.entries() == [{"a": 1}]


def test_killed_thirty_times_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    path, moments = tmp_path / "j", random.Random(4)
    acknowledged: list[str] = []
    torn = 0
    for run in range(30):
        child, told = fork_printing(append_entries, path, run)
        with told:
            assert told.readline() == b"ready\n"
            child.join(moments.uniform(0.0, 0.15))
            child.kill()
            out = told.read()
        child.join()
        assert b"Error" not in out
        # A line of the report may be torn as well; the journal's acknowledgement came before it.
        acknowledged += [key.decode() for key in out.split(b"\n")[:-1]]
        with Journal(path) as journal:
            torn += journal.cut > 0
            keys = [entry["key"] for entry in journal.entries()]
        assert len(keys) == len(set(keys))
        assert set(acknowledged) <= set(keys)
    print(f"{len(acknowledged)} acknowledged, {len(keys)} written, {torn} torn lines cut off")
    assert len(acknowledged) > 100
