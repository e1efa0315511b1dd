"""What a server does about runs by itself; no worker is started here."""

from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs import admission
from hedgerow.parties.runs.manager import MOST_FRUITLESS, RunManager
from hedgerow.parties.runs.peers import PeerState
from hedgerow.parties.runs.verbs import RunVerbs
from hedgerow.parties.store.database import open_store
from hedgerow.parties.wire.handlers import declared_verbs
from hedgerow.parties.wire.requests import Fields
from tests.parties.roles.upload_servers import SERVERS, consortium
from tests.parties.runs.party_jobs import make_manifest
from tests.parties.runs.run_servers import Town, job
from tests.parties.wire.parties_calls import refuses

GO = bytes(16), SERVERS, SERVERS[0]
"""Session, members and who says so."""
STEP = 150.0


class Fake:
    """A worker that waits for the others and does nothing by itself."""

    def __init__(self, run: str, attempt: int) -> None:
        self.run, self.attempt, self.pid = run, attempt, 0
        self.met, self.again, self.done, self.stages = False, True, False, 0
        self.error: Any = Code.PEER_GONE.error(found="nobody")
        self.killed = False

    def kill(self) -> None:
        self.killed = True


class Manager(RunManager):
    """A manager whose workers are `Fake`; nobody calls at its port."""

    def __init__(self, config: PartyConfig, policy: Policy) -> None:
        with RunPort(config.me.host, 0) as port:
            super().__init__(config, policy, port)

    def _spawn(self, run: Any, attempt: int, session: bytes, members: Any) -> None:
        del session, members
        self._child = Fake(run.id, attempt)  # type: ignore[assignment]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartyConfig:
    monkeypatch.setattr(admission, "admit", lambda *_: [])
    monkeypatch.setattr(admission, "charge", lambda *_: True)
    return consortium(tmp_path)["birch"]


def managed(config: PartyConfig) -> Manager:
    return Manager(config, Policy.load(config.folder))


def test_a_job_is_taken_once(config: PartyConfig) -> None:
    made, text = managed(config), job().to_toml()
    assert made.accept(text, "north", check=True)["run"] == job().run_id
    assert made.store.all() == []
    first = made.accept(text, "north")
    assert made.accept(text, "north")["created"] == first["created"]
    refuses(Code.MODEL_EXISTS, lambda: made.accept(job("b", model="ward-model").to_toml(), "x"))
    made.end(job().run_id, "north")
    made.accept(job("b", model="ward-model").to_toml(), "x")
    refuses(Code.MODEL_EXISTS, lambda: made.resume(job().run_id, "north"))


def test_another_job_of_that_name_is_named_with_both_hashes(config: PartyConfig) -> None:
    made, other = managed(config), job(plan={"max_depth": 2})
    made.accept(job().to_toml(), "north")
    error = refuses(Code.JOBS_DIFFER, lambda: made.ready(other.run_id, other.hash))
    assert other.hash in error.expected
    assert job().hash in error.found
    refuses(Code.JOBS_DIFFER, lambda: made.ready(job().run_id, other.hash))
    refuses(Code.UNKNOWN_RUN, lambda: made.ready("else-0123", other.hash))


def test_attempts_only_grow(config: PartyConfig) -> None:
    made, run = managed(config), job()
    made.accept(run.to_toml(), "north")
    made.go(run.run_id, run.hash, 3, *GO)
    child: Any = made._child
    assert made.ready(run.run_id, run.hash)["busy"] == run.run_id
    refuses(Code.WRONG_RUN_STATE, lambda: made.go(run.run_id, run.hash, 3, *GO))
    made.accept(job("b").to_toml(), "north")
    refuses(Code.WRONG_RUN_STATE, lambda: made.go(job("b").run_id, job("b").hash, 1, *GO))
    made.go(run.run_id, run.hash, 4, *GO)
    assert child.killed
    # The end of a worker that was replaced changes nothing.
    made._on_end(child)
    assert made.store.get(run.run_id).state == "running"
    # A daemon that is started again lets it wait, and remembers the number.
    again = managed(config)
    assert again.store.get(run.run_id).state == "waiting"
    refuses(Code.WRONG_RUN_STATE, lambda: again.go(run.run_id, run.hash, 4, *GO))


def test_only_the_leader_begins_and_with_all_members(config: PartyConfig) -> None:
    made, run = managed(config), job()
    made.accept(run.to_toml(), "north")
    for by in ("birch", "cedar", "north"):
        refuses(
            Code.CALLER_NOT_ALLOWED,
            lambda by=by: made.go(run.run_id, run.hash, 1, bytes(16), SERVERS, by),
        )
    for members in (SERVERS[:2], SERVERS[::-1], [*SERVERS, "north"], [], ["birch"]):
        refuses(
            Code.WRONG_RUN_STATE,
            lambda some=members: made.go(run.run_id, run.hash, 1, bytes(16), some, SERVERS[0]),
        )
    made.go(run.run_id, run.hash, 1, *GO)


def test_how_a_worker_ends_decides(config: PartyConfig) -> None:
    made, run = managed(config), job()
    made.accept(run.to_toml(), "north")
    attempt = 0

    def end(**how: Any) -> str:
        nonlocal attempt
        attempt += 1
        made.go(run.run_id, run.hash, attempt, *GO)
        child: Any = made._child
        vars(child).update({"met": True} | how)
        made._on_line(child, {"event": "met", "level": 1})
        made._on_end(child)
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
    made, run = managed(config), job()
    made.accept(run.to_toml(), "north")
    made.go(run.run_id, run.hash, 1, *GO)
    child: Any = made._child
    assert (
        made.end(run.run_id, "north")["state"]
        == made.end(run.run_id, "north")["state"]
        == "stopped"
    )
    assert child.killed


def test_only_the_poster_and_owners_of_uploads_stop_and_resume(config: PartyConfig) -> None:
    """Also after a restart: who has posted a run is on the disk."""
    with open_store(config.state).transaction("upload") as tx:
        tx.put_upload("north-1", make_manifest().to_json())
    run = job()
    managed(config).accept(run.to_toml(), "zoe")
    made = managed(config)
    assert made.show(run.run_id)["by"] == "zoe"
    made.go(run.run_id, run.hash, 1, *GO)
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
    made = Manager(config, policy)
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
    verbs = declared_verbs(RunVerbs(managed(config)))
    between = {name for name, verb in verbs.items() if "analyst" not in verb.roles}
    assert between == {"run-ready", "run-go"}
    # Of somebody else, and signed: a server posts and resumes nothing.
    assert all("server" in verbs[name].roles for name in ("job", "run-resume"))
    assert "server" not in verbs["run-stop"].roles
    assert set(verbs) == {
        *("job", "runs", "run-show", "run-job", "run-stop", "run-resume", "run-ready", "run-go")
    }


class Others:
    """The other servers, who say what they are told to say."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}
        self.begun: list[int] = []

    def ready(self, run: Any, *how: Any) -> dict[str, Any]:
        del how
        told = {}
        for name in SERVERS[1:]:
            said: Fields = {
                "state": run.state,
                "attempt": run.attempt,
                "generation": run.generation,
                "busy": run.id if run.attempt else None,
                "met": False,
                "waiting_for": [],
                **self.says.get(name, {}),
            }
            told[name] = PeerState.parse(said, run.id, name)
        return told

    def go(self, run: Any, members: Any, attempt: int, session: bytes) -> dict[str, Any]:
        assert [member.name for member in members] == list(SERVERS)
        del run, session
        self.begun.append(attempt)
        return {}


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setattr(admission, "admit", lambda *_: [])
    monkeypatch.setattr(admission, "charge", lambda *_: True)
    config = consortium(tmp_path)[SERVERS[0]]
    made = managed(config)
    made._peers = Others()  # type: ignore[assignment]
    made.accept(job().to_toml(), "north")
    made._lead(made.store.all())
    return made


def look(manager: Manager, **says: Any) -> tuple[Any, list[int]]:
    """Look at the runs while the others say this; return the worker and the attempts."""
    others: Any = manager._peers
    others.says = says
    manager._lead(manager.store.all())
    return manager._child, others.begun


def test_a_meeting_is_left_when_a_server_has_no_worker_for_it(manager: Manager) -> None:
    first = manager._child
    assert look(manager) == (first, [1])
    second, attempts = look(manager, birch={"busy": None})
    assert first is not None
    assert (first.killed, attempts) == (True, [1, 2])
    assert second is not first
    # One that has met hears by itself that somebody is gone.
    second.met = True
    assert look(manager, birch={"busy": None}) == (second, [1, 2])


def test_a_server_that_does_not_know_the_attempt_yet_is_waited_for(manager: Manager) -> None:
    first = manager._child
    assert look(manager, cedar={"busy": None, "attempt": 0}) == (first, [1])


def test_the_end_elsewhere_ends_it_here(manager: Manager) -> None:
    child, _ = look(manager, cedar={"state": "failed", "busy": None})
    run = manager.store.all()[0]
    assert (child, run.state) == (None, "failed")


def test_a_stop_that_was_resumed_before_it_came_here_is_not_heard(manager: Manager) -> None:
    run = manager.store.all()[0]
    assert manager.resume(run.id, "north", 1)["generation"] == 1
    look(manager, cedar={"state": "stopped", "generation": 0, "busy": None})
    assert run.state == "waiting"
    # One of this generation is.
    look(manager, cedar={"state": "stopped", "generation": 1, "busy": None})
    assert run.state == "stopped"


def test_a_stop_counts_against_resumptions_before_it_that_come_later(manager: Manager) -> None:
    run = manager.store.all()[0]
    manager.end(run.id, "north", 0)
    # Resumed and stopped again at the others, while this party heard of neither.
    manager.end(run.id, "north", 1)
    assert (run.state, run.generation) == ("stopped", 1)
    assert manager.resume(run.id, "north", 1)["state"] == "stopped"
    assert manager.resume(run.id, "north", 2)["state"] == "waiting"
    manager.end(run.id, "north", 5)
    assert manager.resume(run.id, "north", 5)["state"] == "stopped"
    for ask in (manager.end, manager.resume):
        refuses(Code.WRONG_RUN_STATE, lambda ask=ask: ask(run.id, "north", (1 << 31) - 1))


def test_workers_that_have_not_met_are_not_waited_for(manager: Manager) -> None:
    # As if this server had fallen over: it has no worker, and the others wait for one.
    manager._child = None
    child, attempts = look(manager)
    assert (child.attempt, attempts) == (2, [1, 2])


def test_workers_that_have_met_may_end_well(manager: Manager) -> None:
    manager._child = None
    manager._watch(manager.store.all()[0]).restart()
    assert look(manager, birch={"met": True}) == (None, [1])
    assert manager._watch(manager.store.all()[0]).waiting_for == ("birch",)


def test_a_worker_that_never_comes_ends_the_run_with_a_number(manager: Manager) -> None:
    run = manager.store.all()[0]
    look(manager, birch={"busy": None})
    # As if that had gone on for as long as a server may be missing.
    manager._watch(run).since -= manager.config.timeouts.rejoin + 1
    look(manager, birch={"busy": None})
    assert run.state == "failed"
    assert run.error is not None
    assert run.error.code is Code.PEER_GONE
    assert "birch" in run.error.found
    refuses(Code.WRONG_RUN_STATE, lambda: manager.go(run.id, run.job.hash, 9, *GO))


@pytest.mark.slow
@pytest.mark.parametrize("victim", SERVERS[:2])
def test_a_server_killed_at_the_start_is_not_waited_for_a_step(tmp_path: Path, victim: str) -> None:
    made = Town(tmp_path, rejoin=2 * STEP, step=STEP)
    try:
        made.start()
        made.upload()
        run = made.post(job("early"))
        made.until(lambda: made.worker(victim) is not None, "a worker")
        made.kill(victim)
        made.start(victim)
        # Within less than a step, which is how long the others would wait in the meeting.
        made.until_state(run, "done", patience=0.6 * STEP)
        assert made.ask(victim, "run-show", {"run": run})["attempt"] > 1
    finally:
        made.stop()
