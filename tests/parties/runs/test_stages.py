"""Stages in the vault, and what three servers have in common of them."""

import secrets
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.stages import Stages, forget_stages
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import StateFolder
from tests.parties.wire.parties_calls import refuses

KEY = bytes(32)
ARRAYS = {"x": np.arange(6, dtype=np.uint32).reshape(1, 2, 3)}


def stages(folder: Path, server: int = 0, session: bytes | None = None, common: int = 99) -> Stages:
    made = Stages(StateFolder(folder / "state"), "run-1", "job", server, KEY)
    made.begin(session or secrets.token_bytes(16), min(common, len(made.kept)), lambda: 7)
    return made


def test_a_stage_is_there_again(tmp_path: Path) -> None:
    first = stages(tmp_path)
    assert first.last() is None
    assert first.load("level 0") is None
    first.save("level 0", ARRAYS)
    first.save("level 1", {})
    again = stages(tmp_path)
    heard = []
    again.on_load = heard.append
    found = again.load("level 0")
    assert found is not None
    np.testing.assert_array_equal(found["x"], ARRAYS["x"])
    assert again.load("level 1") == {}
    assert [kept.stage for kept in heard] == ["level 0", "level 1"]
    assert heard[0].entries == 7
    assert again.last() == heard[1]
    with pytest.raises(ValueError, match="second time"):
        again.save("level 1", {})


def test_what_goes_beyond_is_forgotten_for_good(tmp_path: Path) -> None:
    first = stages(tmp_path)
    first.save("level 0", ARRAYS)
    first.confirm_with(cut)
    for level in (1, 2):
        with pytest.raises(ConnectionError):
            first.save(f"level {level}", ARRAYS)
    stages(tmp_path, common=1)
    again = stages(tmp_path)
    assert [kept.stage for kept in again.kept] == ["level 0"]
    assert len(list((tmp_path / "state/runs/run-1/stages").iterdir())) == 1
    again.save("level 1", ARRAYS)
    assert again.load("level 1") is not None


def test_what_all_servers_had_is_not_made_again(tmp_path: Path) -> None:
    first = stages(tmp_path)
    first.save("level 0", ARRAYS)
    first.save("level 1", ARRAYS)
    error = refuses(Code.WRONG_RUN_STATE, lambda: stages(tmp_path, common=1))
    assert "lost" in error.found


def cut(tag: bytes) -> None:
    raise ConnectionError(tag)


def test_what_all_servers_had_at_the_beginning_is_not_made_again(tmp_path: Path) -> None:
    """A stage that none knows of the others is taken up, and what follows from it is seen."""
    first = stages(tmp_path)
    first.confirm_with(cut)
    with pytest.raises(ConnectionError):
        first.save("model", ARRAYS)
    second = stages(tmp_path)
    assert second.load("model") is not None
    error = refuses(Code.WRONG_RUN_STATE, lambda: stages(tmp_path, common=0))
    assert "lost" in error.found


def test_only_what_all_servers_have_may_be_opened(tmp_path: Path) -> None:
    first = stages(tmp_path)
    first.save("level 0", ARRAYS)
    first.mark("level 0")
    refuses(Code.OPENING_NOT_KEPT, lambda: first.mark("leaves"))
    first.confirm_with(cut)
    with pytest.raises(ConnectionError):
        first.save("leaves", ARRAYS)
    refuses(Code.OPENING_NOT_KEPT, lambda: first.mark("leaves"))
    second = stages(tmp_path)
    second.mark("leaves")


def test_tags_tell_attempts_apart(tmp_path: Path) -> None:
    session, other = secrets.token_bytes(16), secrets.token_bytes(16)
    for server, first in enumerate((session, session, other)):
        made = stages(tmp_path / str(server) if server else tmp_path, server, first)
        made.save("level 0", ARRAYS)
    tags = []
    for server in range(3):
        made = stages(tmp_path / str(server) if server else tmp_path, server)
        made.save("level 1", ARRAYS)
        tags.append([kept.tag for kept in made.kept])
    assert tags[0][0] == tags[1][0] != tags[2][0]
    assert len({tag for _, tag in tags}) == 3


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()


def test_save_waits_for_the_others_after_it_is_on_the_disk(tmp_path: Path) -> None:
    made, seen = stages(tmp_path), []

    def confirm(tag: bytes) -> None:
        seen.append((tag, (tmp_path / "state/runs/run-1/stages/0.bin").exists()))
        raise ConnectionError

    made.confirm_with(confirm)
    with pytest.raises(ConnectionError):
        made.save("level 0", ARRAYS)
    # It is kept here all the same: perhaps the others have it, too.
    assert [kept.tag for kept in stages(tmp_path).kept] == [seen[0][0]]
    assert seen[0][1]


def test_a_file_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    made = stages(tmp_path)
    made.save("level 0", ARRAYS)
    made.save("level 1", ARRAYS)
    folder = tmp_path / "state/runs/run-1/stages"
    (folder / "1.bin").write_bytes((folder / "0.bin").read_bytes())
    refuses(Code.VAULT_OF_ANOTHER, lambda: made.load("level 1"))


def test_a_file_without_its_row_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stages(tmp_path)

    def killed(store: Store, name: str) -> None:
        assert name == "keep a stage"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "transaction", killed)
        with pytest.raises(KeyboardInterrupt):
            made.save("level 0", ARRAYS)
    assert (tmp_path / "state/runs/run-1/stages/0.bin").exists()
    again = stages(tmp_path)
    assert again.kept == []
    again.save("level 0", ARRAYS)
    assert [kept.stage for kept in stages(tmp_path).kept] == ["level 0"]


def test_a_stage_that_is_gone_before_others_is_missed(tmp_path: Path) -> None:
    made = stages(tmp_path)
    made.save("level 0", ARRAYS)
    made.save("level 1", ARRAYS)
    store = open_store(StateFolder(tmp_path / "state"))
    store._base.execute("DELETE FROM stages WHERE number = 0")
    refuses(Code.JOURNAL_DAMAGED, lambda: stages(tmp_path))


def test_what_all_servers_have_is_in_the_trail(tmp_path: Path) -> None:
    made = stages(tmp_path)
    made.save("level 0", ARRAYS)
    made.confirm_with(cut)
    with pytest.raises(ConnectionError):
        made.save("level 1", ARRAYS)
    with open_store(StateFolder(tmp_path / "state")).snapshot() as found:
        told = [(entry.kind, entry.fields()) for entry in found.trail()]
    tag = made.kept[0].tag.hex()
    assert told == [("confirmed", {"run": "run-1", "stage": "level 0", "tag": tag})]


def test_shares_of_a_run_that_is_over_are_removed(tmp_path: Path) -> None:
    made = stages(tmp_path)
    made.save("level 0", ARRAYS)
    state = StateFolder(tmp_path / "state")
    forget_stages(state, "run-1")
    forget_stages(state, "run-2")
    assert list((tmp_path / "state/runs/run-1/stages").iterdir()) == []
