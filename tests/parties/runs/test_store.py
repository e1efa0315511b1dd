"""What a server remembers of its runs."""

from pathlib import Path

from hedgerow.errors import Code
from hedgerow.parties.runs.store import RunStore, read_error, read_job
from hedgerow.parties.store.durable import StateFolder
from tests.parties.runs.run_servers import job
from tests.parties.wire.parties_calls import refuses


def store(folder: Path) -> RunStore:
    return RunStore(StateFolder(folder / "state"), 1)


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


def test_what_was_not_accepted_is_no_run(tmp_path: Path) -> None:
    first = store(tmp_path)
    run = first.accept(job(), "north").id
    (tmp_path / "state/runs" / run / "state.jsonl").unlink()
    again = store(tmp_path)
    refuses(Code.UNKNOWN_RUN, lambda: again.get(run))
    refuses(Code.BAD_NAME, lambda: again.get("../x"))
    assert again.accept(job(), "north").state == "accepted"


def test_a_job_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    first = store(tmp_path)
    run = first.accept(job(), "north").id
    path = tmp_path / "state/runs" / run / "job.toml"
    path.write_text(path.read_text().replace("max_depth = 3", "max_depth = 2"))
    refuses(Code.RUN_OF_ANOTHER_JOB, lambda: read_job(first.state, run))
    refuses(Code.RUN_OF_ANOTHER_JOB, lambda: store(tmp_path))
    refuses(Code.UNKNOWN_RUN, lambda: read_job(first.state, "nobody-1"))


def test_no_error_is_none() -> None:
    assert read_error(None) is None
