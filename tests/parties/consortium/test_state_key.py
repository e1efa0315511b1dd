"""The key comes from the environment or from a file that nobody else can read."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.state_key import VARIABLE, key_path, make_state_key, operator_key


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "keys").mkdir()
    return tmp_path


def refuses(action: Callable[[], object]) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        action()
    return caught.value


def test_a_new_key_is_random_and_private(folder: Path) -> None:
    path = key_path(folder)
    make_state_key(path)
    key = operator_key(folder)
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert refuses(lambda: make_state_key(path)).code is Code.BAD_STATE_KEY
    assert operator_key(folder) == key
    path.unlink()
    make_state_key(path)
    assert operator_key(folder) != key


def test_the_environment_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_state_key(key_path(folder))
    monkeypatch.setenv(VARIABLE, "0f" * 32)
    assert operator_key(folder) == b"\x0f" * 32


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o660, 0o620])
def test_a_key_that_others_can_read_is_refused(folder: Path, mode: int) -> None:
    make_state_key(key_path(folder))
    key_path(folder).chmod(mode)
    error = refuses(lambda: operator_key(folder))
    assert error.code is Code.STATE_KEY_EXPOSED
    assert f"{mode:04o}" in str(error)


def test_a_link_is_refused(folder: Path) -> None:
    make_state_key(folder / "elsewhere")
    key_path(folder).symlink_to(folder / "elsewhere")
    assert refuses(lambda: operator_key(folder)).code is Code.STATE_KEY_EXPOSED


@pytest.mark.parametrize("text", ["", "12", "0" * 64, "g" * 64, "ab " * 21 + "a", "ab" * 33, "é"])
def test_malformed_keys_are_refused_and_not_shown(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_path(folder).write_text(text)
    key_path(folder).chmod(0o600)
    error = refuses(lambda: operator_key(folder))
    assert error.code is Code.BAD_STATE_KEY
    assert len(text) < 3 or text not in str(error)
    monkeypatch.setenv(VARIABLE, text)
    assert refuses(lambda: operator_key(folder)).code is Code.BAD_STATE_KEY


def test_a_missing_key_says_where_it_should_be(folder: Path) -> None:
    error = refuses(lambda: operator_key(folder))
    assert error.code is Code.BAD_STATE_KEY
    assert "state.key" in str(error)
