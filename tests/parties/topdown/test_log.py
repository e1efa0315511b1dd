"""The log of a coordinator only grows; what is cut, lost or changed in it is found."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.journal import Entry
from hedgerow.parties.topdown.log import RunLog
from tests.parties.wire.parties_calls import refuses

ABOUT: dict[str, str | int] = {"run": "wards-1", "party": "delta"}
ANSWERS = (b"first\nanswer", b"\x00" * 70_000, b"third")


def entry_of(answer: bytes) -> Entry:
    return {"what": "heard", "bytes": len(answer), "sha256": hashlib.sha256(answer).hexdigest()}


EXPECTED = [
    ({"what": "asked"}, b""),
    (entry_of(ANSWERS[0]), ANSWERS[0]),
    ({"what": "lost"}, b""),
    (entry_of(ANSWERS[1]), ANSWERS[1]),
    (entry_of(ANSWERS[2]), ANSWERS[2]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with RunLog(tmp_path, about=ABOUT) as log:
        assert len(log) == 0
        log.append([{"what": "asked"}, entry_of(ANSWERS[0])], ANSWERS[0])
        log.append([{"what": "lost"}])
        for answer in ANSWERS[1:]:
            log.append([entry_of(answer)], answer)
    return tmp_path


def test_it_is_read_as_it_was_written_and_goes_on(folder: Path) -> None:
    assert (folder / "heard.bin").read_bytes() == b"".join(ANSWERS)
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == EXPECTED
        log.append([entry_of(b"more")], b"more")
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == [*EXPECTED, (entry_of(b"more"), b"more")]


@pytest.mark.parametrize("cut", [0, 1, 4])
def test_an_answer_that_the_journal_does_not_have_is_cut_off(folder: Path, cut: int) -> None:
    """The process ended between the two, or within the journal's line."""
    lines = (folder / "state.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "state.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:-100])
    whole = b"".join(ANSWERS)
    (folder / "heard.bin").write_bytes(whole[: len(whole) - cut])
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == EXPECTED[:-1]
        log.append([entry_of(b"3")], b"3")
    assert (folder / "heard.bin").read_bytes() == b"".join(ANSWERS[:2]) + b"3"
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == [*EXPECTED[:-1], (entry_of(b"3"), b"3")]


def test_answers_that_are_gone_or_an_older_copy(folder: Path) -> None:
    (folder / "heard.bin").write_bytes(b"".join(ANSWERS)[:-1])
    assert "older" in refuses(Code.ANSWERS_LOST, lambda: RunLog(folder, about=ABOUT)).found
    (folder / "heard.bin").unlink()
    refuses(Code.ANSWERS_LOST, lambda: RunLog(folder, about=ABOUT))
    (folder / "heard.bin").symlink_to(folder / "state.jsonl")
    refuses(Code.STATE_NOT_WRITTEN, lambda: RunLog(folder, about=ABOUT))


def test_an_answer_that_has_changed(folder: Path) -> None:
    data = bytearray(b"".join(ANSWERS))
    data[20] ^= 1
    (folder / "heard.bin").write_bytes(data)
    with RunLog(folder, about=ABOUT) as log:
        refuses(Code.JOURNAL_DAMAGED, lambda: list(log.each()))


def test_a_line_that_has_changed(folder: Path) -> None:
    text = (folder / "state.jsonl").read_text()
    (folder / "state.jsonl").write_text(text.replace('"lost"', '"told"'))
    refuses(Code.JOURNAL_DAMAGED, lambda: RunLog(folder, about=ABOUT))


def test_one_process_at_a_time_and_one_run(folder: Path) -> None:
    with RunLog(folder, about=ABOUT):
        refuses(Code.JOURNAL_IN_USE, lambda: RunLog(folder, about=ABOUT))
    refuses(Code.JOURNAL_DAMAGED, lambda: RunLog(folder, about=ABOUT | {"run": "wards-2"}))


def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunLog(folder, about=ABOUT) as log:

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            refuses(Code.STATE_NOT_WRITTEN, lambda: log.append([entry_of(b"x")], b"x"))
        # What the disk has of it is not known until it is opened, and checked, again.
        refuses(Code.STATE_NOT_WRITTEN, lambda: log.append([{"what": "lost"}]))
    with RunLog(folder, about=ABOUT) as log:
        assert list(log.each()) == EXPECTED
