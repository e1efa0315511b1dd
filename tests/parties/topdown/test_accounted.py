"""A state that is gone or older than the newest is found before anything is drawn again."""

from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.topdown.accounted import RunMemory
from tests.parties.wire.parties_calls import refuses

ABOUT: dict[str, str | int] = {"run": "wards-1", "party": "north"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with RunMemory(tmp_path, about=ABOUT) as kept:
        assert kept.data is None
        for state in (b"one", b"two", b"three"):
            kept.keep(state)
            kept.keep(state)
    return tmp_path


def test_the_newest_state_comes_back(folder: Path) -> None:
    with RunMemory(folder, about=ABOUT) as kept:
        assert kept.data == b"three"
        kept.keep(b"four")
    with RunMemory(folder, about=ABOUT) as kept:
        assert kept.data == b"four"
    assert len((folder / "state.jsonl").read_text().splitlines()) == 5


def test_a_state_that_is_gone(folder: Path) -> None:
    (folder / "state.bin").unlink()
    refuses(Code.ANSWERS_LOST, lambda: RunMemory(folder, about=ABOUT))


@pytest.mark.parametrize("older", [b"one", b"two"])
def test_an_older_copy(folder: Path, older: bytes) -> None:
    (folder / "state.bin").write_bytes(older)
    assert "older" in refuses(Code.ANSWERS_LOST, lambda: RunMemory(folder, about=ABOUT)).found


def test_a_process_that_ended_between_the_file_and_the_journal(folder: Path) -> None:
    lines = (folder / "state.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "state.jsonl").write_bytes(b"".join(lines[:-1]))
    with RunMemory(folder, about=ABOUT) as kept:
        assert kept.data == b"three"
    assert (folder / "state.jsonl").read_bytes() == b"".join(lines)


def test_a_link_is_not_followed(folder: Path) -> None:
    (folder / "state.bin").rename(folder / "elsewhere")
    (folder / "state.bin").symlink_to(folder / "elsewhere")
    refuses(Code.ANSWERS_LOST, lambda: RunMemory(folder, about=ABOUT))


def test_one_process_at_a_time_and_one_run(folder: Path) -> None:
    with RunMemory(folder, about=ABOUT):
        refuses(Code.JOURNAL_IN_USE, lambda: RunMemory(folder, about=ABOUT))
    refuses(Code.JOURNAL_DAMAGED, lambda: RunMemory(folder, about=ABOUT | {"run": "wards-2"}))


def test_a_state_with_secrets_is_encrypted(tmp_path: Path) -> None:
    key, secret = bytes([7]) * 32, b"a share that nobody else may see"
    with RunMemory(tmp_path, about=ABOUT, key=key) as kept:
        kept.keep(b"first")
        older = (tmp_path / "state.bin").read_bytes()
        kept.keep(secret)
    for path in tmp_path.iterdir():
        assert secret not in path.read_bytes()
    with RunMemory(tmp_path, about=ABOUT, key=key) as kept:
        assert kept.data == secret
    refuses(Code.VAULT_WRONG_KEY, lambda: RunMemory(tmp_path, about=ABOUT, key=bytes([8]) * 32))
    newest = (tmp_path / "state.bin").read_bytes()
    (tmp_path / "state.bin").write_bytes(newest[:-1] + bytes([newest[-1] ^ 1]))
    refuses(Code.VAULT_DAMAGED, lambda: RunMemory(tmp_path, about=ABOUT, key=key))
    (tmp_path / "state.bin").write_bytes(older)
    refuses(Code.ANSWERS_LOST, lambda: RunMemory(tmp_path, about=ABOUT, key=key))
    (tmp_path / "state.bin").unlink()
    refuses(Code.ANSWERS_LOST, lambda: RunMemory(tmp_path, about=ABOUT, key=key))
