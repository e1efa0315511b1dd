"""What a server does about runs by itself; no worker is started here."""

from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs import admission
from hedgerow.parties.runs.keeper import MOST_FRUITLESS, RunKeeper
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.verbs import run_verbs
from tests.parties.roles.upload_servers import consortium
from tests.parties.runs.party_jobs import make_manifest
from tests.parties.runs.run_servers import job
from tests.parties.wire.parties_calls import refuses

SESSION = bytes(16)


class Fake:
    """A worker that does nothing by itself."""

    def __init__(self, run: str, attempt: int) -> None:
        self.run, self.attempt, self.pid = run, attempt, 0
        self.met, self.again, self.done, self.stages = True, True, False, 0
        self.error: Any = Code.PEER_GONE.error(found="nobody")
        self.killed = False

    def kill(self) -> None:
        self.killed = True


class Keeper(RunKeeper):
    def _spawn(self, run: Any, attempt: int, session: bytes) -> None:
        del session
        self._child = Fake(run.id, attempt)  # type: ignore[assignment]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartyConfig:
    monkeypatch.setattr(admission, "admit", lambda *_: [])
    monkeypatch.setattr(admission, "charge", lambda *_: True)
    return consortium(tmp_path)["birch"]


def keeper(config: PartyConfig) -> Keeper:
    return Keeper(config, Policy.load(config.folder))


def test_a_job_is_taken_once(config: PartyConfig) -> None:
    made, text = keeper(config), job().to_toml()
    assert made.accept(text, "north", check=True)["run"] == job().run_id
    assert made.store.all() == []
    first = made.accept(text, "north")
    assert made.accept(text, "north")["created"] == first["created"]
    refuses(Code.MODEL_EXISTS, lambda: made.accept(job("b", model="ward-model").to_toml(), "x"))
    made.end(job().run_id, "north")
    made.accept(job("b", model="ward-model").to_toml(), "x")
    refuses(Code.MODEL_EXISTS, lambda: made.resume(job().run_id, "north"))


def test_another_job_of_that_name_is_named_with_both_hashes(config: PartyConfig) -> None:
    made, other = keeper(config), job(plan={"max_depth": 2})
    made.accept(job().to_toml(), "north")
    error = refuses(Code.JOBS_DIFFER, lambda: made.ready(other.run_id, other.hash))
    assert other.hash in error.expected
    assert job().hash in error.found
    refuses(Code.JOBS_DIFFER, lambda: made.ready(job().run_id, other.hash))
    refuses(Code.UNKNOWN_RUN, lambda: made.ready("else-0123", other.hash))


def test_attempts_only_grow(config: PartyConfig) -> None:
    made, run = keeper(config), job()
    made.accept(run.to_toml(), "north")
    made.go(run.run_id, run.hash, 3, SESSION)
    child: Any = made._child
    assert made.ready(run.run_id, run.hash)["busy"] == run.run_id
    refuses(Code.WRONG_RUN_STATE, lambda: made.go(run.run_id, run.hash, 3, SESSION))
    made.accept(job("b").to_toml(), "north")
    refuses(Code.WRONG_RUN_STATE, lambda: made.go(job("b").run_id, job("b").hash, 1, SESSION))
    made.go(run.run_id, run.hash, 4, SESSION)
    assert child.killed
    # The end of a worker that was replaced changes nothing.
    made._left(child)
    assert made.store.get(run.run_id).state == "running"
    # A daemon that is started again lets it wait, and remembers the number.
    again = keeper(config)
    assert again.store.get(run.run_id).state == "waiting"
    refuses(Code.WRONG_RUN_STATE, lambda: again.go(run.run_id, run.hash, 4, SESSION))


def test_how_a_worker_ends_decides(config: PartyConfig) -> None:
    made, run = keeper(config), job()
    made.accept(run.to_toml(), "north")
    attempt = 0

    def end(**how: Any) -> str:
        nonlocal attempt
        attempt += 1
        made.go(run.run_id, run.hash, attempt, SESSION)
        child: Any = made._child
        vars(child).update(how)
        made._heard(child, {"event": "met", "level": 1})
        made._left(child)
        return made.store.get(run.run_id).state

    assert end() == "waiting"
    assert end(again=False) == "failed"
    refuses(Code.WRONG_RUN_STATE, end)
    assert made.resume(run.run_id, "north", 5)["generation"] == 5
    for _ in range(MOST_FRUITLESS):
        assert end() == "waiting"
    assert end() == "failed"
    made.resume(run.run_id, "north")
    assert end(stages=1) == "waiting"
    assert end(done=True) == "done"
    # Done stays done, whatever becomes of an attempt for the sake of the others.
    assert end(again=False) == "done"
    refuses(Code.WRONG_RUN_STATE, lambda: made.end(run.run_id, "north"))


def test_stopping_ends_the_worker(config: PartyConfig) -> None:
    made, run = keeper(config), job()
    made.accept(run.to_toml(), "north")
    made.go(run.run_id, run.hash, 1, SESSION)
    child: Any = made._child
    assert (
        made.end(run.run_id, "north")["state"]
        == made.end(run.run_id, "north")["state"]
        == "stopped"
    )
    assert child.killed


def test_only_the_poster_and_owners_of_uploads_stop_and_resume(config: PartyConfig) -> None:
    """Also after a restart: who has posted a run is on the disk."""
    folder = config.state.folder("uploads", "north-1")
    (folder / "manifest.json").write_text(make_manifest().to_json())
    run = job()
    keeper(config).accept(run.to_toml(), "zoe")
    made = keeper(config)
    assert made.show(run.run_id)["by"] == "zoe"
    made.go(run.run_id, run.hash, 1, SESSION)
    for other in ("yves", "south"):
        error = refuses(Code.RUN_OF_ANOTHER, lambda other=other: made.end(run.run_id, other))
        assert "zoe" in error.expected
        assert other in error.found
        # A second poster would have the rights of the first.
        refuses(Code.RUN_OF_ANOTHER, lambda other=other: made.accept(run.to_toml(), other))
        refuses(
            Code.RUN_OF_ANOTHER,
            lambda other=other: made.accept(run.to_toml(), other, check=True),
        )
    assert made.show(run.run_id)["state"] == "running"
    for who in ("zoe", "north"):
        assert made.end(run.run_id, who)["state"] == "stopped"
        refuses(Code.RUN_OF_ANOTHER, lambda: made.resume(run.run_id, "yves"))
        assert made.resume(run.run_id, who)["state"] == "waiting"


def test_runs_of_one_member_are_bounded(config: PartyConfig) -> None:
    """Stopped ones too: their jobs lie on the disk of the server, up to 1 MB each."""
    policy = Policy.load(config.folder).model_copy(update={"runs_per_poster": 3})
    made = Keeper(config, policy)
    for k in range(3):
        run = made.accept(job(f"job-{k}").to_toml(), "north")["run"]
        made.end(run, "north")
    for options in ({}, {"check": True}):
        error = refuses(
            Code.POLICY_REFUSES,
            lambda options=options: made.accept(job("job-3").to_toml(), "north", **options),
        )
        assert "runs_per_poster = 3" in error.expected
    # The same ones again are no more runs, and others have numbers of their own.
    made.accept(job("job-0").to_toml(), "north")
    made.accept(job("job-3").to_toml(), "south")
    assert len(made.store.all()) == 4


def test_roles_of_the_requests(config: PartyConfig) -> None:
    verbs = run_verbs(RunManager(config, Policy.load(config.folder)))
    between = {name for name, verb in verbs.items() if set(verb.roles) == {"server"}}
    assert between == {"run-ready", "run-go"}
    assert "server" not in verbs["job"].roles
    assert set(verbs) == {
        *("job", "runs", "run-show", "run-stop", "run-resume", "run-ready", "run-go")
    }
