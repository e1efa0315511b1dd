"""Journals of earlier versions are read as they were written, or not at all."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.journal import locked_journal
from tests.parties.store.old_journals import write_journal
from tests.parties.wire.parties_calls import refuses

ABOUT: dict[str, Any] = {}


def read(path: Path, about: Mapping[str, Any] = ABOUT) -> list[dict[str, Any]]:
    with locked_journal(path, about) as entries:
        return entries


def written(path: Path, n: int = 3) -> list[bytes]:
    return write_journal(path, ABOUT, *({"charge": i, "text": "x\u2028" * i} for i in range(n)))


def test_entries_come_back(tmp_path: Path) -> None:
    written(tmp_path / "j")
    assert read(tmp_path / "j") == [{"charge": i, "text": "x\u2028" * i} for i in range(3)]


def test_every_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "j"
    *kept, last = written(path)
    for size in range(1, len(last)):
        path.write_bytes(b"".join(kept) + last[:size])
        assert len(read(path)) == 2
        # It is left as it is: it is only read.
        assert path.stat().st_size == len(b"".join(kept)) + size


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    good = b"".join(written(path))
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        refuses(Code.JOURNAL_DAMAGED, lambda: read(path))
    path.write_bytes(good)
    assert len(read(path)) == 3


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
        refuses(Code.JOURNAL_DAMAGED, lambda: read(path))
    # Equal beginnings make equal sums: what a journal is about keeps two of them apart.
    path.write_bytes(b"".join([head, a, b, c, other[4]]))
    assert len(read(path)) == 4


def test_a_journal_about_something_else(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write_journal(path, {"server": "a", "population": "p"}, {"epsilon": 1.0})
    for about in ({"server": "b", "population": "p"}, {}):
        refuses(Code.JOURNAL_DAMAGED, lambda about=about: read(path, about))
    refuses(Code.JOURNAL_DAMAGED, lambda: read(tmp_path / "none"))
    (tmp_path / "link").symlink_to(path)
    refuses(Code.JOURNAL_DAMAGED, lambda: read(tmp_path / "link"))


def test_nobody_adds_to_it_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "j"
    written(path)
    code = (
        "import fcntl, sys\nfcntl.flock(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    )

    def other() -> int:
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False)
        return done.returncode

    with locked_journal(path, ABOUT):
        assert other() != 0
        refuses(Code.JOURNAL_IN_USE, lambda: read(path))
    assert other() == 0


@pytest.mark.parametrize("size", [(1 << 20) - 200, 1 << 20])
def test_a_line_has_at_most_a_mebibyte(tmp_path: Path, size: int) -> None:
    path = tmp_path / "j"
    write_journal(path, ABOUT, {"text": "x" * size})
    if size < 1 << 20:
        assert len(read(path)) == 1
    else:
        refuses(Code.JOURNAL_DAMAGED, lambda: read(path))
