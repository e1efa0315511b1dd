"""A file is there as a whole or not at all."""

import os
import stat
import threading
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.durable import open_regular, remove_leftovers, replacing, write_once


def test_takes_the_place_of_an_older_file_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"new")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "a"
    elsewhere.write_bytes(b"other")
    path.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic"):
        open_regular(path)
    with replacing(path) as file:
        file.write(b"new")
    assert elsewhere.read_bytes() == b"other"
    assert not path.is_symlink()


def test_pipes_and_folders_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ""):
        with pytest.raises(OSError, match="regular"):
            open_regular(tmp_path / name)


def test_a_disk_that_does_not_take_it_is_a_numbered_error(tmp_path: Path) -> None:
    with pytest.raises(HedgerowError) as caught, replacing(tmp_path / "none" / "a"):
        raise AssertionError("not reached")
    assert caught.value.code is Code.STATE_NOT_WRITTEN


def test_one_of_many_makers_makes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    threads = [
        threading.Thread(target=write_once, args=(path, bytes([i]) * 1000)) for i in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = path.read_bytes()
    assert data == data[:1] * 1000
    write_once(path, b"later")
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path) -> None:
    for name in (".a.0123.part", ".b.4567.part", "a", "b.part"):
        (tmp_path / name).touch()
    assert remove_leftovers(tmp_path) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b.part"]
