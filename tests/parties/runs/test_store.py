"""What a server remembers of its runs."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.jobs import read_kept_job
from hedgerow.parties.runs.store import RunStore, job_of_run, read_error
from hedgerow.parties.store.database import Transaction, open_store
from hedgerow.parties.store.durable import StateFolder
from tests.parties.runs.run_servers import job
from tests.parties.wire.parties_calls import refuses


def store(folder: Path) -> RunStore:
    return RunStore(StateFolder(folder / "state"))


def test_a_run_is_there_again(tmp_path: Path) -> None:
    first = store(tmp_path)
    run = first.accept(job(), "north")
    assert first.accept(job(), "south") is run
    first.change(run, "running", attempt=3)
    error = Code.PEER_GONE.error(found="nobody")
    first.change(run, "failed", error=error)
    again = store(tmp_path).get(run.id)
    assert again.to_fields() == run.to_fields()
    assert (again.state, again.attempt, again.by, again.is_open) == ("failed", 3, "north", False)
    assert str(again.error) == str(error)
    first.change(run, "waiting", generation=2)
    assert (run.error, run.generation, run.is_open) == (None, 2, True)
    first.change(run, "done")
    assert run.is_open
    first.change(run, "done", closed=True)
    assert not store(tmp_path).get(run.id).is_open


def test_runs_are_listed_in_their_order(tmp_path: Path) -> None:
    first = store(tmp_path)
    made = [first.accept(job(name), "north").id for name in ("zz", "aa", "mm")]
    assert [run.id for run in first.all()] == made
    assert [run.id for run in store(tmp_path).all()] == made


def test_what_was_not_accepted_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = store(tmp_path)
    full = Code.STATE_NOT_WRITTEN.error(found="a full disk")
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "put", Mock(side_effect=full))
        refuses(Code.STATE_NOT_WRITTEN, lambda: first.accept(job(), "north"))
    for again in (first, store(tmp_path)):
        refuses(Code.UNKNOWN_RUN, lambda again=again: again.get(job().run_id))
        refuses(Code.BAD_NAME, lambda again=again: again.get("../x"))
    assert store(tmp_path).accept(job(), "north").state == "accepted"


def test_a_change_that_is_not_on_the_disk_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store(tmp_path)
    run = first.accept(job(), "north")
    full = Code.STATE_NOT_WRITTEN.error(found="a full disk")
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "tell", Mock(side_effect=full))
        refuses(Code.STATE_NOT_WRITTEN, lambda: first.change(run, "running", attempt=1))
    assert run.to_fields() == store(tmp_path).get(run.id).to_fields()
    assert (run.state, run.attempt) == ("accepted", 0)


def test_every_change_is_in_the_trail(tmp_path: Path) -> None:
    first = store(tmp_path)
    run = first.accept(job(), "north")
    first.change(run, "running", attempt=1)
    first.change(run, "failed", error=Code.PEER_GONE.error(found="nobody"))
    with open_store(first.state).snapshot() as made:
        told = [entry.fields() for entry in made.trail()]
    assert [(e["run"], e["hash"], e["by"]) for e in told] == [(run.id, run.job.hash, "north")] * 3
    assert [(e["state"], e["attempt"], e["error"]) for e in told] == [
        ("accepted", 0, None),
        ("running", 1, None),
        ("failed", 1, Code.PEER_GONE.number),
    ]


def test_a_job_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    first = store(tmp_path)
    run = first.accept(job(), "north").id
    other = job().to_toml().replace("max_depth = 3", "max_depth = 2")
    with open_store(first.state).transaction("tamper") as made:
        row = made.row("runs", id=run)
        assert row is not None
        made.put("runs", {**row, "job": other})
    refuses(Code.RUN_OF_ANOTHER_JOB, lambda: job_of_run(first.state, run))
    refuses(Code.RUN_OF_ANOTHER_JOB, lambda: store(tmp_path))
    refuses(Code.UNKNOWN_RUN, lambda: job_of_run(first.state, "nobody-1"))


def test_runs_of_earlier_versions_are_not_overlooked(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    (state.folder("runs", "wards-1") / "state.jsonl").write_text("{}")
    error = refuses(Code.STATE_VERSION, lambda: RunStore(state))
    assert "finish or discard" in error.fix
    (state.root / "runs" / "wards-1" / "state.jsonl").unlink()
    assert RunStore(state).all() == []


def test_no_error_is_none() -> None:
    assert read_error(None) is None


def test_runs_of_the_version_that_said_kind_keep_their_words(tmp_path: Path) -> None:
    first = store(tmp_path)
    old = read_kept_job(job().to_toml().replace('protocol = "hidden-tree"', 'kind = "trees"'))
    assert old.hash != job().hash
    run = first.accept(old, "north")
    first.change(run, "running", attempt=1)
    again = store(tmp_path).get(old.run_id)
    assert (again.job.hash, again.to_fields()["protocol"]) == (old.hash, "hidden-tree")
    # What the store writes of it is still the same job.
    store(tmp_path).change(again, "failed", error=Code.PEER_GONE.error(found="nobody"))
    assert job_of_run(first.state, old.run_id).to_toml() == old.to_toml()
    assert store(tmp_path).accept(job(), "north").id != old.run_id
