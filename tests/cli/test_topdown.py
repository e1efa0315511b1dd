"""``hedgerow topdown``: real processes over mutual TLS, also when they are killed."""

import json
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.owner import Joining
from hedgerow.trees import read_model
from tests.parties.topdown.topdown_town import (
    OWNERS,
    SEEDS,
    Town,
    event_of,
    kill,
    make_job,
    outcome,
    same_tree,
    town_in,
)

runner = CliRunner()


def charges(town: Town, name: str) -> list[str]:
    spent = Accounts(town.parties[name].state, town.policy(name)).spent("patients")
    return [charge.key for charge in spent.charges]


def told(*arguments: object) -> str:
    """Run a command that must end well; return all that it prints."""
    done = runner.invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


class Held:
    """An owner in a thread of the test, who holds its answer back from some round on."""

    def __init__(self, town: Town, name: str, job: TopDownJob, number: int) -> None:
        self.go, self.reached = threading.Event(), threading.Event()
        self.model: Path | None = None
        self.error: HedgerowError | None = None
        self._arguments = (town.parties[name], town.policy(name), job, town.table(name))
        self._seed, self._number = SEEDS[name], number
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with Joining(*self._arguments, insecure_seed=self._seed) as joining:
            answer, asked = joining.answer, []

            def held(ask: bytes) -> bytes:
                asked.append(ask)
                if len(asked) > self._number:
                    self.reached.set()
                    assert self.go.wait(60)
                return answer(ask)

            joining.answer = held
            try:
                self.model = joining.take_part()
            except HedgerowError as error:
                self.error = error

    def end(self) -> None:
        self.go.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_four_owners_and_a_coordinator_as_processes(tmp_path: Path) -> None:
    with town_in(tmp_path) as town:
        town.allow_seeds()
        job = make_job()
        path = town.write(job)
        coordinator = town.coordinate(path)
        joins = [town.join(name, path) for name in OWNERS]
        ends = [outcome(process) for process in joins]
        report = outcome(coordinator)
        expected = town.reference(job)
        for said in [*ends, report]:
            assert same_tree(read_model(said["model"]).model, expected)
        for name in OWNERS:
            assert charges(town, name) == [job.account_key]
            own = town.parties[name].folder
            (shown,) = json.loads(told("account", "show", own, "--format", "json"))["accounts"]
            assert [charge["key"] for charge in shown["charges"]] == [job.account_key]
            assert (shown["spent"]["epsilon"], shown["limit"]) == ("inf", "inf")
        # After the end nobody is called, and nothing is charged: it says what it had paid.
        north = town.parties["north"].folder
        again = ("topdown", "join", path, north, "--table", town.table("north"))
        assert "north had charged patients" in told(*again, "--insecure-seed", SEEDS["north"])
        assert report["not_private"] == sorted(OWNERS)
        assert report["events"] == []
        # The files are those that other verbs read.
        shown = runner.invoke(app, ["show", report["model"]])
        assert shown.exit_code == 0, shown.output
        assert "age" in shown.output
        pyarrow.csv.write_csv(
            pyarrow.csv.read_csv(town.table("north")).slice(0, 5), tmp_path / "few.csv"
        )
        answers = runner.invoke(app, ["predict", report["model"], str(tmp_path / "few.csv")])
        assert answers.exit_code == 0, answers.output
        assert len(answers.output.splitlines()) == 6


def test_killed_parties_come_back_and_the_tree_is_the_same(tmp_path: Path) -> None:
    """An owner is late and waited for; meanwhile the coordinator and another owner are killed."""
    with town_in(tmp_path, owners=("north", "south")) as town:
        town.allow_seeds()
        owners = ["north", "south"]
        job = make_job(owners=owners, dropouts="wait", timeouts={"answer": 0.3})
        path = town.write(job)
        coordinator = town.coordinate(path)
        south = Held(town, "south", job, number=2)
        north = town.join("north", path)
        wanted = {"round": 2, "late": ["south"], "waiting_for": ["south"]}
        event_of(coordinator, "status", **wanted)
        kill(north)
        kill(coordinator)
        coordinator = town.coordinate(path)
        again = event_of(coordinator, "status")
        # What north had answered in this round was kept before it was acknowledged.
        assert (again["round"], again["waiting_for"]) == (2, ["south"])
        north = town.join("north", path)
        south.go.set()
        model = outcome(north)["model"]
        report = outcome(coordinator)
        south.end()
        expected = town.reference(job)
        assert south.model is not None
        for found in (model, report["model"], south.model):
            assert same_tree(read_model(found).model, expected)
        assert charges(town, "north") == charges(town, "south") == [job.account_key]
        assert report["events"] == []


@pytest.mark.slow
def test_a_run_of_processes_goes_on_without_an_owner(tmp_path: Path) -> None:
    with town_in(tmp_path, owners=("north", "south")) as town:
        town.allow_seeds()
        job = make_job(owners=["north", "south"], timeouts={"answer": 8.0, "join": 60.0})
        path = town.write(job)
        south = Held(town, "south", job, number=1)
        coordinator = town.coordinate(path)
        north = town.join("north", path)
        lost = event_of(coordinator, "status", round=2)
        assert lost["dropped"] == ["south"]
        model = outcome(north)["model"]
        report = outcome(coordinator)
        assert same_tree(read_model(model).model, town.without(job, "south", 1))
        event = report["events"][0]
        assert (event["participant"], event["round"], event["what"]) == ("south", 1, "lost")
        # What it has charged stays charged.
        assert charges(town, "south") == [job.account_key]
        south.go.set()


def test_what_a_job_would_charge(tmp_path: Path) -> None:
    job = make_job(plan={"epsilon": 1.0})
    path = tmp_path / "job.toml"
    path.write_text(job.to_toml())
    told = runner.invoke(app, ["topdown", "plan", str(path)])
    assert told.exit_code == 0, told.output
    for words in (job.run_id, "total: epsilon 1", "histograms", "trusted by nobody", "north"):
        assert words in told.output
    told = runner.invoke(app, ["topdown", "plan", str(path), "--format", "json"])
    report: dict[str, Any] = json.loads(told.output)
    assert report["plan"] == job.make_plan().digest
    assert report["costs"]["public"]["epsilon"] == job.costs()["public"].epsilon
    assert len(report["releases"]) == len(job.make_plan().releases())
    assert {release["audience"] for release in report["releases"]} == {"public"}


def test_numbered_refusals(tmp_path: Path) -> None:
    town = Town(tmp_path, ("north",))
    job = make_job(owners=["north"])
    path, bad = town.write(job), tmp_path / "bad.toml"
    bad.write_text(job.to_toml().replace("least_owners", "most_owners"))
    north, delta = (str(town.parties[name].folder) for name in ("north", "delta"))
    table = str(town.table("north"))
    for code, arguments in (
        (Code.BAD_JOB, ("plan", bad)),
        (Code.WRONG_ROLE, ("coordinate", path, north)),
        (Code.WRONG_ROLE, ("join", path, delta, "--table", table)),
        (Code.POLICY_REFUSES, ("join", path, north, "--table", table, "--insecure-seed", 1)),
    ):
        done = runner.invoke(app, ["topdown", *map(str, arguments)])
        assert isinstance(done.exception, HedgerowError)
        assert done.exception.code is code
    assert charges(town, "north") == []


def test_refusals_in_plain_words(tmp_path: Path) -> None:
    town = Town(tmp_path, ("north",))
    job = make_job(owners=["north"])
    path, bad = town.write(job), tmp_path / "bad.toml"
    bad.write_text(job.to_toml().replace("least_owners", "most_owners"))
    north = town.parties["north"].folder

    def refused(code: Code, *arguments: object) -> str:
        done = runner.invoke(app, ["topdown", *map(str, arguments)])
        assert isinstance(done.exception, HedgerowError)
        assert done.exception.code is code
        return str(done.exception)

    assert "most_owners: no such key is known" in refused(Code.BAD_JOB, "plan", bad)
    text = refused(Code.NO_JOB_FILE, "plan", tmp_path / "nowhere.toml")
    assert "there is no" in text
    assert "Errno" not in text
    # Its mode does not matter then.
    text = refused(Code.BAD_PARTY_FILE, "coordinate", path, tmp_path)
    assert "no party's folder" in text
    text = refused(Code.WRONG_ROLE, "coordinate", path, north)
    assert "this folder is an owner's" in text
    assert "in this folder: hedgerow topdown join" in text


@pytest.mark.slow
def test_parties_that_are_killed_again_and_again(tmp_path: Path) -> None:
    """A long run, in which whoever the coins choose is killed and started anew."""
    coins = random.Random(5)
    with town_in(tmp_path) as town:
        town.allow_seeds()
        job = make_job(
            dropouts="wait",
            plan={"n_splits": 40, "max_depth": 7, "lookahead": 1, "min_gain": 0.0, "error": 0.0},
        )
        path = town.write(job)
        running: dict[str, subprocess.Popen[str]] = {"delta": town.coordinate(path)}
        running |= {name: town.join(name, path) for name in OWNERS}
        kills, end = 0, time.monotonic() + 300
        model = town.run_folder("delta", job) / "model.json"
        while not model.exists() and time.monotonic() < end:
            time.sleep(coins.uniform(0.2, 2.0))
            name = coins.choice([*OWNERS, "delta"])
            if running[name].poll() is None and not model.exists() and kills < 8:
                kill(running[name])
                kills += 1
            if running[name].poll() is not None:
                delta = name == "delta"
                running[name] = town.coordinate(path) if delta else town.join(name, path)
        assert kills >= 3
        for name in OWNERS:
            if running[name].poll() is None or running[name].returncode != 0:
                outcome(running[name])
        assert same_tree(read_model(model).model, town.reference(job))
        assert all(charges(town, name) == [job.account_key] for name in OWNERS)
