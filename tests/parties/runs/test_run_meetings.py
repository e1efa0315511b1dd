"""A server that falls over before the three have met does not hold the others up."""

from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs import admission
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.peers import Told
from hedgerow.parties.wire.requests import Fields
from tests.parties.roles.upload_servers import SERVERS, consortium
from tests.parties.runs.run_servers import Town, job
from tests.parties.wire.parties_calls import refuses

STEP = 150.0


class Fake:
    """A worker that waits for the others."""

    def __init__(self, run: str, attempt: int) -> None:
        self.run, self.attempt, self.pid = run, attempt, 0
        self.met, self.killed = False, False

    def kill(self) -> None:
        self.killed = True


class Others:
    """The other servers, who say what they are told to say."""

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}
        self.begun: list[int] = []

    def ready(self, run: Any, servers: Any = None) -> dict[str, Any]:
        del servers
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
            told[name] = Told.parse(said, run.id, name)
        return told

    def go(self, run: Any, attempt: int, session: bytes) -> dict[str, Any]:
        del run, session
        self.begun.append(attempt)
        return {}


class Manager(RunManager):
    def _spawn(self, run: Any, attempt: int, session: bytes) -> None:
        del session
        self._child = Fake(run.id, attempt)  # type: ignore[assignment]


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setattr(admission, "admit", lambda *_: [])
    monkeypatch.setattr(admission, "charge", lambda *_: True)
    config = consortium(tmp_path)[SERVERS[0]]
    made = Manager(config, Policy.load(config.folder))
    made._peers = Others()  # type: ignore[assignment]
    made.accept(job().to_toml(), "north")
    made._coordinate(made.store.all())
    return made


def look(manager: Manager, **says: Any) -> tuple[Any, list[int]]:
    """Look at the runs while the others say this; return the worker and the attempts."""
    others: Any = manager._peers
    others.says = says
    manager._coordinate(manager.store.all())
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
    refuses(Code.WRONG_RUN_STATE, lambda: manager.go(run.id, run.job.hash, 9, bytes(16)))


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
