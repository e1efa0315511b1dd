"""A file is there as a whole or not at all."""

import os
import stat
import threading
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.durable import (
    StateFolder,
    check_private,
    make_private,
    open_regular,
    read_small,
    remove_leftovers,
    replacing,
    write_new,
    write_once,
)


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


def refuses(code: Code, action) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code
    return caught.value


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_made_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        state = StateFolder(tmp_path / "state")
        assert mode(state.root) == 0o700
        assert mode(state.folder("runs", "r1")) == mode(state.path("runs")) == 0o700
    finally:
        os.umask(before)
    assert StateFolder(tmp_path / "state").root == state.root


def test_paths_are_inside(state: StateFolder) -> None:
    assert state.path("runs", "r1", "job.toml") == state.root / "runs" / "r1" / "job.toml"
    # Making a path makes no folders.
    assert not (state.root / "runs").exists()
    assert state.folder("runs", "r1").is_dir()
    assert state.folder("runs", "r1") == state.root / "runs" / "r1"


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("..",),
        ("runs", "..", "job.toml"),
        ("runs", "../../etc", "passwd"),
        ("/etc", "passwd"),
        ("runs", "/etc/passwd"),
        ("runs.d", "job.toml"),
        ("runs", ""),
        ("runs", "a\0b"),
    ],
)
def test_names_that_lead_elsewhere(state: StateFolder, parts: tuple[str, ...]) -> None:
    refuses(Code.BAD_NAME, lambda: state.path(*parts))
    refuses(Code.BAD_NAME, lambda: state.folder(*parts))
    assert list(state.root.iterdir()) == []


def test_a_symlinked_state_folder(tmp_path: Path) -> None:
    make_private(tmp_path / "elsewhere")
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    assert (
        "symbolic link"
        in refuses(Code.UNSAFE_FOLDER, lambda: StateFolder(tmp_path / "state")).found
    )
    # A link to nowhere is not filled with a folder either.
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    refuses(Code.UNSAFE_FOLDER, lambda: StateFolder(tmp_path / "dangling"))
    assert not (tmp_path / "nowhere").exists()


def test_a_state_folder_that_becomes_a_link(state: StateFolder, tmp_path: Path) -> None:
    state.root.rename(tmp_path / "moved")
    state.root.symlink_to(tmp_path / "moved")
    refuses(Code.UNSAFE_FOLDER, lambda: state.path("runs"))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_links_on_the_way(state: StateFolder, tmp_path: Path, depth: int) -> None:
    make_private(tmp_path / "elsewhere")
    parts = ("runs", "r1", "job.toml")
    parent = state.folder(*parts[: depth - 1]) if depth > 1 else state.root
    (parent / parts[depth - 1]).symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refuses(Code.UNSAFE_FOLDER, lambda: state.path(*parts)).found
    if depth < 3:
        refuses(Code.UNSAFE_FOLDER, lambda: state.folder("runs", "r1"))


@pytest.mark.parametrize("wrong", [0o750, 0o705, 0o701, 0o777])
def test_access_by_others(state: StateFolder, wrong: int) -> None:
    inner = state.folder("runs")
    inner.chmod(wrong)
    assert f"{wrong:04o}" in refuses(Code.UNSAFE_FOLDER, lambda: state.path("runs", "a")).found
    inner.chmod(0o700)
    state.root.chmod(wrong)
    assert "chmod 700" in refuses(Code.UNSAFE_FOLDER, lambda: StateFolder(state.root)).fix
    refuses(Code.UNSAFE_FOLDER, lambda: state.path("runs"))


def test_another_owner(state: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert "belongs to" in refuses(Code.UNSAFE_FOLDER, lambda: state.path("runs")).found


def test_what_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refuses(Code.UNSAFE_FOLDER, lambda: StateFolder(tmp_path / "file"))
    refuses(Code.UNSAFE_FOLDER, lambda: check_private(tmp_path / "none"))
    refuses(Code.UNSAFE_FOLDER, lambda: StateFolder(tmp_path / "none" / "state"))
    refuses(Code.FOLDER_EXISTS, lambda: make_private(tmp_path / "file"))


def test_new_files_replace_nothing(tmp_path: Path) -> None:
    write_new(tmp_path / "a", "one")
    assert mode(tmp_path / "a") == 0o600
    refuses(Code.FOLDER_EXISTS, lambda: write_new(tmp_path / "a", "two"))
    assert (tmp_path / "a").read_text() == "one"


def test_small_files(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10)
    assert read_small(path, 10, Code.BAD_PARTY_FILE) == "x" * 10
    assert (
        "more than 9"
        in refuses(Code.BAD_PARTY_FILE, lambda: read_small(path, 9, Code.BAD_PARTY_FILE)).found
    )
    path.write_bytes(b"\xff")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("a", "link", "pipe", "none", "."):
        refuses(
            Code.BAD_PARTY_FILE,
            lambda name=name: read_small(tmp_path / name, 9, Code.BAD_PARTY_FILE),
        )
