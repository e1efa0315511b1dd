"""A coordinator over mutual TLS, with owners as threads: one job, one tree, and who is refused."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.reach import ask_health
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.topdown.carrying import Carrier, largest_answer
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.owner import Joining
from hedgerow.parties.topdown.participant import CoordinatorClient, take_part
from hedgerow.parties.topdown.turns import RoundsStatus, Turn
from hedgerow.parties.wire.client import call
from hedgerow.privacy import Ledger
from hedgerow.trees import read_model
from tests.parties.topdown.topdown_town import DOMAIN, SEEDS, Town, make_job, same_tree
from tests.parties.wire.parties_calls import refuses

OWNERS = ("north", "south")


@pytest.fixture
def town(tmp_path: Path) -> Town:
    made = Town(tmp_path, OWNERS)
    made.allow_seeds()
    return made


@pytest.fixture
def job() -> TopDownJob:
    return make_job(owners=list(OWNERS))


class Carrying:
    """A coordinator in a thread."""

    def __init__(self, town: Town, job: TopDownJob) -> None:
        # How long somebody takes does not depend on how busy this machine is.
        self.now = 0.0
        self.carrier = Carrier(town.parties["delta"], job, poll=2.0, clock=lambda: self.now)
        self.said: list[Any] = []
        self.report: dict[str, Any] | None = None
        self.error: HedgerowError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.report = self.carrier.carry(self.said.append)
        except HedgerowError as error:
            self.error = error

    def when(self, reached: Callable[[RoundsStatus], bool], seconds: float) -> None:
        """Let so many seconds pass once the run is there."""

        def turn() -> None:
            while not reached(self.carrier.rounds.status()):
                self.carrier.rounds.wait(0.1)
            self.now += seconds

        threading.Thread(target=turn, daemon=True).start()

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


@contextmanager
def carrying(town: Town, job: TopDownJob) -> Iterator[Carrying]:
    run = Carrying(town, job)
    with run.carrier:
        run._thread.start()
        try:
            yield run
        finally:
            if run._thread.is_alive():
                run.carrier.rounds.stop(Code.PEER_STOPPED.error(found="the end of the test"))
            run.end()


def takes_part(town: Town, job: TopDownJob, name: str) -> Path:
    seed = SEEDS[name]
    table = town.table(name)
    with Joining(town.parties[name], town.policy(name), job, table, insecure_seed=seed) as joining:
        return joining.take_part()


def charges(town: Town, name: str) -> list[str]:
    spent = Accounts(town.parties[name].state, town.policy(name)).spent("patients")
    return [charge.key for charge in spent.charges]


def all_take_part(town: Town, job: TopDownJob) -> list[Path]:
    found: dict[str, Path] = {}
    threads = [
        threading.Thread(target=lambda n=name: found.update({n: takes_part(town, job, n)}))
        for name in job.owners
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[name] for name in job.owners]


@pytest.mark.parametrize("method", ["noisy-counts", "local-rnm"])
def test_the_tree_is_that_of_one_process_and_everybody_has_it(town: Town, method: str) -> None:
    job = make_job(owners=list(OWNERS), plan={"method": method})
    with carrying(town, job) as run:
        models = all_take_part(town, job)
        run.end()
    expected = town.reference(job)
    folder = town.run_folder("delta", job)
    for path in [*models, folder / "model.json"]:
        assert same_tree(read_model(path).model, expected)
    ledger = Ledger.from_json((folder / "ledger.json").read_text())
    # Two owners with a record each are two people: one of them pays as one owner does.
    assert ledger.formal_total("public").epsilon == job.costs()["public"].epsilon
    assert not ledger.total("public").private
    assert run.report is not None
    assert (run.report["state"], run.report["not_private"]) == ("done", ["north", "south"])
    meter = json.loads((folder / "meter.json").read_text())
    assert meter["rounds"] == run.report["rounds"]
    assert meter["bytes"] == sum(
        at["bytes_in"] + at["bytes_out"] for at in meter["participants"].values()
    )
    assert TopDownJob.from_toml((folder / "job.toml").read_text()) == job
    # Whoever has the model needs no coordinator for it.
    assert takes_part(town, job, "north") == models[0]
    # A second start has the model, and waits for nobody.
    with carrying(town, job) as run:
        run.end()
        assert run.report is not None


def test_owners_with_another_job_are_refused_and_named(town: Town, job: TopDownJob) -> None:
    attribute = DOMAIN.attributes[0].model_copy(update={"bins": 9})
    domain = DOMAIN.model_copy(update={"attributes": (attribute, *DOMAIN.attributes[1:])})
    others = {
        "epsilon": make_job(owners=list(OWNERS), plan={"epsilon": 8.5}),
        "domain": make_job(owners=list(OWNERS), domain=domain.to_dict()),
    }
    with carrying(town, job) as run:
        for other in others.values():
            error = refuses(Code.JOBS_DIFFER, lambda other=other: takes_part(town, other, "south"))
            assert error.party == "delta"
            # Nobody asked anything of it, so it has paid nothing.
            assert charges(town, "south") == []
        status = run.carrier.rounds.status()
        assert "H891" in status.refused["south"]
        assert status.waiting_for == OWNERS
        all_take_part(town, job)
        run.end()
    assert run.report is not None
    assert [(e["participant"], e["what"]) for e in run.report["events"]] == [("south", "refused")]


def test_an_owner_does_not_take_a_coordinators_word_for_the_job(
    town: Town, job: TopDownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_job(owners=list(OWNERS), plan={"epsilon": 80.0})
    with carrying(town, other) as run:
        # A coordinator that takes any hash for its own, and even repeats it.
        monkeypatch.setattr(run.carrier, "_participant", lambda caller, fields: caller.name)
        refuses(Code.JOBS_DIFFER, lambda: takes_part(town, job, "north"))
        assert charges(town, "north") == []
        run.carrier.job = job
        refuses(Code.BAD_ASK, lambda: takes_part(town, job, "north"))
        assert run.carrier.rounds.record.answers == {}


def test_who_may_ask(tmp_path: Path) -> None:
    town = Town(tmp_path, ("north", "south", "east"))
    job = make_job(owners=list(OWNERS))
    with carrying(town, job):
        east = CoordinatorClient(town.parties["east"], job)
        refuses(Code.CALLER_NOT_ALLOWED, east.next)
        assert ask_health(town.parties["east"], town.parties["east"].coordinator) is not None

        def asked(verb: str, payload: bytes | None = None, **fields: Any) -> object:
            north = town.parties["north"]
            to = north.coordinator
            address, certificate = (to.host, to.port), north.certificate("delta")
            return call(address, north.identity, certificate, verb, fields, payload)

        mine = {"run": job.run_id, "hash": job.hash}
        refuses(Code.BAD_REQUEST, lambda: asked("topdown-next"))
        refuses(Code.BAD_REQUEST, lambda: asked("topdown-next", **mine, wait=-1))
        refuses(Code.BAD_REQUEST, lambda: asked("topdown-next", **mine, wait=True))
        refuses(Code.BAD_REQUEST, lambda: asked("topdown-next", **mine, wait=0, more=1))
        refuses(Code.BAD_REQUEST, lambda: asked("topdown-answer", b"x", **mine, ask=1, private=1))
        refuses(Code.UNKNOWN_VERB, lambda: asked("upload"))
        large = b"x" * (largest_answer(job.make_plan()) + 1)
        fields = mine | {"ask": "0", "private": True}
        refuses(Code.PAYLOAD_TOO_LARGE, lambda: asked("topdown-answer", large, **fields))


def test_only_a_coordinator_carries_and_only_once(town: Town, job: TopDownJob) -> None:
    error = refuses(Code.WRONG_ROLE, lambda: Carrier(town.parties["north"], job))
    assert "this folder is an owner's" in error.found
    assert "hedgerow topdown join" in error.fix
    refuses(Code.UNKNOWN_MEMBER, lambda: Carrier(town.parties["delta"], make_job()))
    with carrying(town, job):
        refuses(Code.JOURNAL_IN_USE, lambda: Carrier(town.parties["delta"], job))
    (town.parties["delta"].folder / "members" / "north.pem").unlink()
    refuses(Code.MISSING_CERTIFICATE, lambda: Carrier(town.parties["delta"], job))


def test_a_run_that_stops_tells_everybody_and_goes_on_later(town: Town) -> None:
    job = make_job(owners=list(OWNERS), least_owners=2, timeouts={"join": 30.0})
    with carrying(town, job) as run:
        run.when(lambda status: status.waiting_for == ("south",), 30.0)
        error = refuses(Code.TOO_FEW_OWNERS, lambda: takes_part(town, job, "north"))
        assert error.party == "delta"
        run.end()
        assert run.error is not None
        assert run.error.code is Code.TOO_FEW_OWNERS
    report = json.loads((town.run_folder("delta", job) / "report.json").read_text())
    assert report["state"] == "stopped"
    assert "south" in report["error"]
    with carrying(town, job) as run:
        models = all_take_part(town, job)
        run.end()
    assert same_tree(read_model(models[0]).model, town.reference(job))


def test_a_run_goes_on_without_an_owner_that_does_not_answer(town: Town) -> None:
    job = make_job(owners=list(OWNERS), timeouts={"answer": 10.0})
    with carrying(town, job) as run:
        south = town.parties["south"]
        gone, asked = threading.Event(), []
        with Joining(
            south, town.policy("south"), job, town.table("south"), insecure_seed=SEEDS["south"]
        ) as joining:

            def falls_silent(ask: bytes) -> bytes:
                asked.append(ask)
                if len(asked) == 2:
                    assert gone.wait(30)
                return joining.answer(ask)

            found: list[bytes] = []
            told: list[str] = []
            thread = threading.Thread(
                target=lambda: found.append(
                    take_part(
                        CoordinatorClient(south, job),
                        falls_silent,
                        private=False,
                        patience=5.0,
                        tell=lambda what, number, names: told.append(what),
                    )
                )
            )
            thread.start()
            run.when(lambda status: (status.round, status.waiting_for) == (1, ("south",)), 10.0)
            model = takes_part(town, job, "north")
            gone.set()
            # Its answer comes too late, and it gets the model all the same.
            thread.join(30)
        run.end()
    assert same_tree(read_model(model).model, town.without(job, "south", 1))
    assert found == [model.read_bytes()]
    assert told[:2] == ["answering", "answering"]
    assert set(told[2:]) <= {"dropped"}
    assert run.report is not None
    assert [(e["participant"], e["round"], e["what"]) for e in run.report["events"]] == [
        ("south", 1, "lost")
    ]


def test_a_model_of_another_domain_is_not_taken(
    town: Town, job: TopDownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_job(owners=list(OWNERS), domain=(DOMAIN.to_dict() | {"capacity": 4001}))
    tree = town.reference(other).to_json().encode()
    monkeypatch.setattr(CoordinatorClient, "next", lambda self: Turn("done", 1, tree))
    refuses(Code.BAD_REPLY, lambda: takes_part(town, job, "north"))
    monkeypatch.setattr(CoordinatorClient, "next", lambda self: Turn("done", 1, b"{}"))
    refuses(Code.BAD_MODEL_FILE, lambda: takes_part(town, job, "north"))
    assert not (town.run_folder("north", job) / "model.json").exists()


def test_a_coordinator_that_stays_away_is_not_waited_for_for_ever(town: Town) -> None:
    job = make_job(owners=list(OWNERS), timeouts={"join": 0.2})
    told: list[tuple[str, tuple[str, ...]]] = []
    coordinator = CoordinatorClient(town.parties["north"], job)
    error = refuses(
        Code.SERVICE_UNREACHABLE,
        lambda: take_part(
            coordinator,
            lambda ask: b"",
            patience=job.timeouts.join,
            tell=lambda what, number, names: told.append((what, names)),
        ),
    )
    assert told[0] == ("away", ("delta",))
    assert "hedgerow topdown coordinate" in error.fix
    # An owner as a whole pays nothing for it either.
    refuses(Code.SERVICE_UNREACHABLE, lambda: takes_part(town, job, "north"))
    assert charges(town, "north") == []


def test_who_comes_when_the_tree_is_grown_gets_it_and_pays_nothing(town: Town) -> None:
    job = make_job(owners=list(OWNERS), timeouts={"join": 30.0})
    with carrying(town, job) as run:
        run.when(lambda status: status.waiting_for == ("south",), 30.0)
        model = takes_part(town, job, "north")
        assert takes_part(town, job, "south").read_bytes() == model.read_bytes()
        run.end()
    assert (charges(town, "north"), charges(town, "south")) == ([job.account_key], [])
    assert not (town.run_folder("south", job) / "ledger.json").exists()
