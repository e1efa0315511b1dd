"""``hedgerow site``: three real processes over mutual TLS, also when one of them is killed."""

import json
import math
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.sites import run as site_run
from hedgerow.parties.store.accounts import Accounts
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.tables import Attribute, Domain, Target
from tests.parties.sites.site_town import (
    SERVERS,
    SITES,
    HeldProgram,
    SiteTown,
    Training,
    event_of,
    kill,
    learned,
    lines_of,
    make_job,
    outcome,
    reference,
    site_town,
    until,
)

runner = CliRunner()


def run(town: SiteTown, name: str, verb: str, job: Path, *options: str) -> dict[str, Any]:
    """Run a short command in this process; return what it prints as JSON."""
    folder = str(town.parties[name].folder)
    done = runner.invoke(app, ["site", verb, str(job), folder, *options, "--format", "json"])
    assert done.exit_code == 0, (done.output, done.exception)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def test_three_sites_as_processes(tmp_path: Path) -> None:
    with site_town(tmp_path) as town:
        job = make_job()
        path = town.write(job)
        serving = {name: town.serve(name, path) for name in SITES}
        for process in serving.values():
            event_of(process, "serving")
        report = outcome(town.start("club", "train", path))
        for process in serving.values():
            assert event_of(process, "grown")["tree"] == report["tree"]
        local, root, tree = reference(town, job)
        assert report["root"] == str(root)
        assert town.tree(job).to_json() == tree.to_json()
        assert town.nodes(job) == {n: s.nodes for n, s in zip(SITES, local.sites, strict=True)}
        # Day 9, of the paper's example: sunny, with normal humidity.
        (answer,) = run(town, "office", "classify", path, "--id", "9")["answers"]
        assert answer == {"id": 9, "class": "yes", "counts": [0, 2], "path": ["S1L1"]}
        token = event_of(serving["club"], "token")
        assert (token["from"], token["path"]) == ("office", ["S1L1", "S2L2"])
        token = event_of(serving["observatory"], "token")
        assert (token["from"], token["path"]) == ("club", ["S2L2", "S1L4"])
        token = event_of(serving["club"], "token")
        assert (token["from"], token["path"]) == ("observatory", ["S1L4"])
        folder = str(town.parties["club"].folder)
        ids = ("--id", "9", "--id", "1")
        shown = runner.invoke(app, ["site", "classify", str(path), folder, *ids])
        assert "9: S1L1 > S2L2 : yes [0, 2]" in shown.stdout
        assert "1: S1L1 > S2L2 : no [3, 0]" in shown.stdout
        for process in serving.values():
            process.send_signal(signal.SIGTERM)
        for name, process in serving.items():
            assert [line["event"] for line in lines_of(process)][-1] == "stopped", name
            assert process.wait(20) == 0
        # What was learned is on the disk: no service is needed to see it.
        records = run(town, "observatory", "learned", path)["records"]
        assert [record["state"] for record in records] == ["grown", "answering"]
        shown = runner.invoke(app, ["site", "learned", str(path), folder], env={"COLUMNS": "200"})
        for words in ("lemma 2", "sub-intersections", "best gain of another site", "any number"):
            assert words in shown.stdout


def test_three_servers_count_for_sites_as_processes_also_when_one_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_run, "new_program", held_until_let_go(site_run.new_program))
    with site_town(tmp_path, servers=True) as town:
        job = make_job(cardinality="secret", timeouts={"lost": 1.5})
        path = town.write(job)
        servers = {name: town.start(name, "count", path) for name in SERVERS}
        club, observatory = town.serve("club", path), town.serve("observatory", path)
        for process in servers.values():
            event_of(process, "counting")
        for process in (club, observatory):
            event_of(process, "serving")
        # The office is in this process, so that the tree stands still while it grows.
        with town.serving(job, "office"):
            training = Training(town, job)
            assert HeldProgram.reached.wait(30)
            kill(servers["birch"])
            error = training.end()
            assert error is not None
            assert error.code is Code.SITE_LOST
            assert "birch" in error.found
            for name in ("alder", "cedar"):
                assert "birch" in event_of(servers[name], "failed")["error"]
            HeldProgram.go.set()
            servers["birch"] = town.start("birch", "count", path)
            event_of(servers["birch"], "counting")
            report = outcome(town.start("club", "train", path))
            # The servers are not needed any more, and say good-bye.
            for process in servers.values():
                assert event_of(process, "grown")["tree"] == report["tree"]
                assert process.wait(20) == 0
            until(lambda: town.kept(job)["office"])
            (answer,) = run(town, "club", "classify", path, "--id", "9")["answers"]
            assert answer["counts"] == [0, 2]
        assert town.tree(job).to_json() == reference(town, make_job())[2].to_json()
        folder = str(town.parties["cedar"].folder)
        shown = runner.invoke(app, ["site", "learned", str(path), folder], env={"COLUMNS": "200"})
        assert "who asks, about which sites and how many groups" in shown.stdout
        assert shown.stdout.count("cedar, ") == 2


def held_until_let_go(honest: Callable[..., SiteProgram]) -> Callable[..., SiteProgram]:
    """Return what makes sites that stop in the middle of growing, until they are let go."""

    def new_program(index: int, job: SiteJob, table: Any, *more: Any) -> SiteProgram:
        if HeldProgram.go.is_set():
            return honest(index, job, table, *more)
        return HeldProgram(Site(index, job, table))

    HeldProgram.go.clear()
    HeldProgram.reached.clear()
    return new_program


@pytest.mark.slow
def test_a_killed_site_is_named_and_the_next_attempt_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_run, "new_program", held_until_let_go(site_run.new_program))
    with site_town(tmp_path) as town:
        job = make_job(timeouts={"lost": 1.0})
        path, heard = town.write(job), []
        club, observatory = town.serve("club", path), town.serve("observatory", path)
        event_of(club, "serving")
        event_of(observatory, "serving")
        # The office is in this process, so that the tree stands still while it grows.
        with town.serving(job, "office", tell=lambda what, fields: heard.append((what, fields))):
            training = Training(town, job)
            assert HeldProgram.reached.wait(30)
            until(lambda: any(said["waiting_for"] == ["office"] for said in training.said))
            kill(observatory)
            error = training.end()
            assert error is not None
            assert error.code is Code.SITE_LOST
            assert "observatory is not reached" in error.found
            assert "observatory" in event_of(club, "failed")["error"]
            until(lambda: [what for what, _ in heard] == ["failed"])
            assert "H842" in heard[0][1]["error"]
            for name in SITES:
                assert town.nodes_text(name, job) is None
                assert town.nodes_text(name, job, "pending") is None
            # The one that was killed knows that it took part, and not what it learned.
            (record,) = learned(town, "observatory", job).values()
            assert record["state"] == "under way, or killed"
            HeldProgram.go.set()
            observatory = town.serve("observatory", path)
            event_of(observatory, "serving")
            run(town, "club", "train", path)
            event_of(observatory, "grown")
            until(lambda: heard[-1][0] == "grown")
        assert town.tree(job).to_json() == reference(town, job)[2].to_json()
        # Two attempts of one job are charged once.
        config = town.parties["observatory"]
        accounts = Accounts(config.state, Policy.load(config.folder))
        (charge,) = accounts.spent("days").charges
        assert (charge.key, charge.epsilon) == (job.account_key, math.inf)


@pytest.mark.slow
def test_sites_that_are_killed_again_and_again(tmp_path: Path) -> None:
    """A larger table; whoever the coins choose is killed, and the tree is grown again."""
    coins, rng = random.Random(7), np.random.default_rng(7)
    with site_town(tmp_path) as town:
        # Car-like: few values, many rows, a class that most attributes matter to.
        n, ids = 400, np.arange(400)
        values = rng.integers(0, 3, (n, 6))
        play = (values[:, 0] + values[:, 2] * values[:, 4] + (values[:, 5] == 1)) % 3 > 0
        names = {name: [f"{name[0]}{i}" for i in range(2)] for name in SITES}
        for at, name in enumerate(SITES):
            columns = {
                "id": ids,
                **dict(zip(names[name], values.T[2 * at : 2 * at + 2], strict=True)),
            }
            attributes = tuple(
                Attribute(name=one, kind="categorical", categories=(0, 1, 2)) for one in names[name]
            )
            target = None
            if name == "club":
                columns["play"] = np.where(play, "yes", "no")
                target = Target(name="play", classes=("no", "yes"))
            order = rng.permutation(n)
            rows = {key: np.asarray(column)[order] for key, column in columns.items()}
            pyarrow.csv.write_csv(pa.table(rows), town.table(name))
            town.domain(name).write_text(Domain(attributes=attributes, target=target).to_toml())
        job = make_job(timeouts={"lost": 2.0})
        path = town.write(job)
        serving = {name: town.serve(name, path) for name in SITES}
        kills = 0
        for process in serving.values():
            event_of(process, "serving")
        for _ in range(6):
            training = town.start("club", "train", path)
            event_of(training, "status", state="growing")
            time.sleep(coins.uniform(0.0, 1.5))
            name = coins.choice(SITES)
            kill(serving[name])
            kills += 1
            out, err = training.communicate(timeout=60)
            serving[name] = town.serve(name, path)
            event_of(serving[name], "serving")
            if training.returncode == 0:
                break
            # Whoever was killed is named; if that is the site that begins, its command is cut off.
            assert "H842" in out + err or name == "club", (out, err)
            assert name in out + err
        report = outcome(town.start("club", "train", path))
        local = town.local(job)
        assert report["root"] == str(local.grow())
        run(town, "office", "classify", path, "--id", "1")
        for name, site in zip(SITES, local.sites, strict=True):
            assert town.stored(name, job).nodes == site.nodes
        assert kills >= 1


def test_numbered_refusals(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job()
    path, bad = town.write(job), tmp_path / "bad.toml"
    bad.write_text(job.to_toml().replace("class_at", "class_of"))
    club = str(town.parties["club"].folder)
    own = ("--table", str(town.table("club")), "--domain", str(town.domain("office")))
    for code, arguments in (
        (Code.BAD_JOB, ("train", bad, club)),
        (Code.SERVICE_UNREACHABLE, ("train", path, club)),
        (Code.SERVICE_UNREACHABLE, ("classify", path, club, "--id", "1")),
        (Code.BAD_SITES, ("serve", path, club, *own)),
    ):
        done = runner.invoke(app, ["site", *map(str, arguments)])
        assert isinstance(done.exception, HedgerowError)
        assert done.exception.code is code


def test_answers_that_the_class_site_keeps(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job(answers_to="class site")
    path = town.write(job)
    with town.serving(job):
        run(town, "club", "train", path)
        (answer,) = run(town, "club", "classify", path, "--id", "9")["answers"]
        assert (answer["class"], answer["counts"]) == (None, None)
        folder = str(town.parties["club"].folder)
        shown = runner.invoke(app, ["site", "classify", str(path), folder, "--id", "1"])
        assert shown.stdout == "1: S1L1 > S2L2 : kept by club\n"
    rows = run(town, "club", "kept", path)["answers"]
    assert [(row["id"], row["class"]) for row in rows] == [(9, "yes"), (1, "no")]
    assert runner.invoke(app, ["site", "kept", str(path), folder]).stdout == (
        "9: yes [0, 2]\n1: no [3, 0]\n"
    )
