"""``hedgerow topdown`` with three servers: real processes over mutual TLS."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.privacy import Ledger
from hedgerow.trees import read_model
from tests.parties.topdown.topdown_town import (
    SERVERS,
    Town,
    event_of,
    kill,
    make_job,
    outcome,
    same_tree,
    town_in,
)

runner = CliRunner()
OWNERS = ("north", "south")


def small_job(**changes) -> TopDownJob:
    plan = {"method": "secure-counts", "criterion": "max", "n_splits": 2, "max_depth": 2}
    plan |= changes.pop("plan", {})
    return make_job(owners=list(OWNERS), plan=plan, **changes)


def charges(town: Town, name: str) -> list[str]:
    spent = Accounts(town.parties[name].state, town.policy(name)).spent("patients")
    return [charge.key for charge in spent.charges]


def test_three_servers_two_owners_and_a_coordinator_as_processes(tmp_path: Path) -> None:
    with town_in(tmp_path, owners=OWNERS, servers=SERVERS) as town:
        town.allow_seeds()
        job = small_job()
        path = town.write(job)
        coordinator = town.start("delta", "coordinate", path)
        others = [town.serve(name, path) for name in SERVERS]
        others += [town.join(name, path) for name in OWNERS]
        expected = town.secure_reference(job)
        ends = [outcome(process) for process in others]
        report = outcome(coordinator)
        for said in [*ends, report]:
            assert same_tree(read_model(said["model"]).model, expected)
        assert all(charges(town, name) == [job.account_key] for name in (*SERVERS, *OWNERS))
        assert report["not_private"] == sorted((*SERVERS, *OWNERS))
        assert (report["events"], report["left_out"]) == ([], [])
        ledger = Ledger.from_json(Path(ends[0]["ledger"]).read_text())
        assert list(ledger.releases) == job.make_plan().releases(joint=True)


@pytest.mark.slow
def test_a_server_that_is_killed_comes_back(tmp_path: Path) -> None:
    """Once while it waits for a question, and then wherever it is."""
    with town_in(tmp_path, owners=OWNERS, servers=SERVERS) as town:
        town.allow_seeds()
        for name in SERVERS:
            path = town.parties[name].folder / "party.toml"
            path.write_text(path.read_text().replace("step = 60 ", "step = 5 "))
        job = small_job(plan={"n_splits": 12, "max_depth": 5, "lookahead": 1, "min_gain": 0.0})
        path = town.write(job)
        coordinator = town.coordinate(path)
        servers = {name: town.serve(name, path) for name in SERVERS}
        event_of(servers["cedar"], "status", what="waiting")
        kill(servers["cedar"])
        servers["cedar"] = town.serve("cedar", path)
        owners = [town.join(name, path) for name in OWNERS]
        event_of(servers["birch"], "status", what="answering", round=3)
        kill(servers["birch"])
        servers["birch"] = town.serve("birch", path)
        ends = [outcome(process) for process in (*servers.values(), *owners, coordinator)]
        expected = town.secure_reference(job)
        assert all(same_tree(read_model(said["model"]).model, expected) for said in ends)
        assert ends[-1]["events"] == []
        assert all(charges(town, name) == [job.account_key] for name in (*SERVERS, *OWNERS))


def test_what_a_job_with_servers_would_charge(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(small_job().to_toml())
    told = runner.invoke(app, ["topdown", "plan", str(path)])
    assert told.exit_code == 0, told.output
    assert "sealed shares" in told.output
    assert "three servers" in told.output
    told = runner.invoke(app, ["topdown", "plan", str(path), "--format", "json"])
    assert json.loads(told.output)["costs"]["public"]["epsilon"] == pytest.approx(8.0)


def test_numbered_refusals_of_servers(tmp_path: Path) -> None:
    town = Town(tmp_path, OWNERS, servers=SERVERS)
    path = town.write(small_job())
    other = town.write(make_job(owners=list(OWNERS)), "other.toml")
    alder, north = (str(town.parties[name].folder) for name in ("alder", "north"))
    for code, arguments in (
        (Code.WRONG_ROLE, ("serve", path, north)),
        (Code.JOB_WITHOUT_SERVERS, ("serve", other, alder)),
        (Code.POLICY_REFUSES, ("serve", path, alder, "--insecure-seed", 1)),
        (Code.WRONG_ROLE, ("join", path, alder, "--table", town.table("north"))),
    ):
        done = runner.invoke(app, ["topdown", *map(str, arguments)])
        assert isinstance(done.exception, HedgerowError)
        assert done.exception.code is code
    assert charges(town, "alder") == []
