"""Runs of three sites over mutual TLS, in one process: the tree, and every fault by its number."""

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.sites import run as site_run
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.post import OtherSites
from hedgerow.parties.sites.run import SiteRun
from hedgerow.parties.sites.service import SiteService
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.privacy import Ledger
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import TOKEN
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site
from tests.parties.sites.site_town import (
    SITES,
    HeldProgram,
    SiteTown,
    Training,
    learned,
    make_job,
    part,
    reference,
    until,
)
from tests.parties.wire.parties_calls import refuses

WORDS = {
    "club": ("outlook", "sunny", "play"),
    "observatory": ("humidity", "wind", "strong"),
    "office": ("temperature", "mild", "cool"),
}


def all_kept(town: SiteTown, job: VerticalJob) -> None:
    until(lambda: all(town.kept(job).values()))


def nothing_kept(town: SiteTown, job: VerticalJob) -> bool:
    states = ("kept", "pending")
    return all(town.nodes_text(name, job, state) is None for name in SITES for state in states)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> type[HeldProgram]:
    """Let the office, the first time, stop in the middle of growing."""
    honest, used = site_run.new_program, []

    def new_program(index: int, job: SiteJob, table: Any, *more: Any) -> SiteProgram:
        if SITES[index] == "office" and not used:
            used.append(index)
            return HeldProgram(Site(index, job, table))
        return honest(index, job, table, *more)

    monkeypatch.setattr(site_run, "new_program", new_program)
    HeldProgram.go.clear()
    HeldProgram.reached.clear()
    return HeldProgram


def test_the_tree_and_what_was_learned_are_those_of_one_process(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job()
    with town.serving(job) as runs:
        status = town.client("club", job).train()
        all_kept(town, job)
        # Once it is grown, it is not grown again.
        assert town.client("club", job).train()["attempt"] == status["attempt"]
        until(lambda: all(run.status()[1].state == "grown" for run in runs.values()))
    local, root, tree = reference(town, job)
    assert status["root"] == str(root)
    assert town.tree(job).to_json() == tree.to_json()
    assert town.nodes(job) == {n: s.nodes for n, s in zip(SITES, local.sites, strict=True)}
    for name, site in zip(SITES, local.sites, strict=True):
        (record,) = learned(town, name, job).values()
        expected = {row["name"]: row["times"] for row in site.what_was_learned()}
        if name != "club":
            # That site is told where the tree begins.
            expected[TOKEN] = expected.get(TOKEN, 0) + 1
        assert {r["name"]: r["learned"] for r in record["rows"] if r["learned"]} == expected
        assert all(row["learned"] <= row["declared"] for row in record["rows"])
        assert record["state"] == "grown"
        ledger = Ledger.from_json((town.folder(name, job) / "ledger.json").read_text())
        assert math.isinf(ledger.total(f"site {SITES.index(name)}").epsilon)
        accounts = Accounts(town.parties[name].state, Policy.load(town.parties[name].folder))
        (charge,) = accounts.spent("days").charges
        assert (charge.key, charge.epsilon) == (job.account_key, math.inf)
        # Nothing of the others is stored.
        files = [path for path in town.folder(name, job).rglob("*") if path.suffix != ".toml"]
        files += town.parties[name].state.root.glob("party.db*")
        text = "".join(path.read_bytes().decode(errors="replace") for path in files)
        theirs = [word for other in SITES if other != name for word in WORDS[other]]
        assert not [word for word in theirs if word in text]
        assert any(word in text for word in WORDS[name])


def test_cut_connections_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    town, job, coins, cuts = SiteTown(tmp_path), make_job(), random.Random(2), []
    honest = OtherSites.call

    def call(self, name, verb, fields, payload=None):
        coin = coins.random()
        if coin > 0.1:
            reply = honest(self, name, verb, fields, payload)
        if coin < 0.2:
            cuts.append(verb)
            raise Code.REQUEST_CUT_OFF.error(found="the line was cut")
        return reply

    monkeypatch.setattr(OtherSites, "call", call)
    monkeypatch.setattr("hedgerow.parties.sites.post.PAUSE", 0.01)
    with town.serving(job):
        town.client("club", job).train()
        all_kept(town, job)
        (answer,) = town.client("office", job).ask(["9"])
    assert answer.counts == (0, 2)
    assert "site-message" in cuts
    assert town.tree(job).to_json() == reference(town, job)[2].to_json()


def test_a_restart_answers_with_the_stored_nodes(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job()
    with town.serving(job):
        tree = town.client("club", job).train()["attempt"]
        all_kept(town, job)
    # One of them was killed before it heard that the tree counts.
    part = town.nodes_text("observatory", job)
    assert part is not None
    with open_store(town.parties["observatory"].state).transaction("set back") as made:
        made.drop_site_nodes(job.run_id, "kept")
        made.put_site_nodes(job.run_id, "pending", part)
    with town.serving(job):
        (answer,) = town.client("club", job).ask(["1"])
        assert answer.counts == (3, 0)
        assert town.client("club", job).status()["attempt"] == tree
    assert town.nodes_text("observatory", job) == part
    # The site that begins has lost its part: the others keep theirs, and say so.
    with open_store(town.parties["club"].state).transaction("lose") as made:
        made.drop_site_nodes(job.run_id, "kept")
    before = town.stored("office", job)
    with town.serving(job):
        error = refuses(Code.MODEL_EXISTS, town.client("club", job).train)
    assert "grown before" in error.found
    assert town.stored("office", job) == before


def test_jobs_that_differ_are_found_before_anything(tmp_path: Path) -> None:
    town = SiteTown(tmp_path)
    # The observatory is not there, and could be waited for: not when the attempt is over anyway.
    mine, theirs, heard = make_job(timeouts={"join": 600.0}), make_job(max_depth=1), []
    with (
        town.serving(mine, "club"),
        town.serving(theirs, "office", tell=lambda what, fields: heard.append(fields)),
    ):
        error = refuses(Code.JOBS_DIFFER, town.client("club", mine).train)
    assert "at office" in str(error)
    assert heard[0]["site"] == "club"
    assert nothing_kept(town, mine)
    (record,) = learned(town, "club", mine).values()
    assert not any(row["learned"] for row in record["rows"])
    assert "H891" in record["state"]


def test_a_site_that_does_not_come(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job(timeouts={"join": 0.5})
    with town.serving(job, "club", "observatory"):
        training = Training(town, job)
        error = training.end()
        assert error is not None
        assert error.code is Code.SITE_LOST
        assert "office is not reached" in error.found
        assert any(said["waiting_for"] == ["office"] for said in training.said)
        # It comes; the next attempt is a new one.
        with town.serving(job, "office"):
            town.client("club", job).train()
            all_kept(town, job)
    assert len(learned(town, "club", job)) == 2


@pytest.mark.parametrize(
    "how",
    [
        "starts again",
        pytest.param("stops", marks=pytest.mark.slow),
        pytest.param("vanishes", marks=pytest.mark.slow),
    ],
)
def test_a_site_that_is_lost_while_the_tree_grows(
    tmp_path: Path, held: type[HeldProgram], how: str
) -> None:
    town, job = SiteTown(tmp_path), make_job(timeouts={"lost": 1.0})
    with town.serving(job, "club", "office") as runs:
        lost = town.run("observatory", job)
        service = SiteService(lost)
        service.service.start()
        training = Training(town, job)
        assert held.reached.wait(20)
        until(lambda: any("office" in said["waiting_for"] for said in training.said))
        if how == "stops":
            lost.stop()
        service.service.stop(0.0)
        if how == "starts again":
            lost, service = (again := town.run("observatory", job)), SiteService(again)
            service.service.start()
        error = training.end()
        assert error is not None
        assert error.code is Code.SITE_LOST
        assert "observatory" in error.found
        until(lambda: runs["office"].status()[1].state == "failed")
        office = runs["office"].status()[1].error
        assert office is not None
        assert (office.code, "observatory" in office.found) == (Code.SITE_LOST, True)
        assert nothing_kept(town, job)
        held.go.set()
        if how != "starts again":
            lost, service = (again := town.run("observatory", job)), SiteService(again)
            service.service.start()
        town.client("club", job).train()
        all_kept(town, job)
        lost.stop()
        service.service.stop()
    assert town.tree(job).to_json() == reference(town, job)[2].to_json()
    states = sorted(record["state"][:6] for record in learned(town, "club", job).values())
    assert states == ["failed", "grown"]


def lying(monkeypatch: pytest.MonkeyPatch, who: str, change) -> None:
    honest = site_run.new_program

    def new_program(index: int, *more: Any) -> SiteProgram:
        program = honest(index, *more)
        if SITES[index] == who:
            change(program.site)
        return program

    monkeypatch.setattr(site_run, "new_program", new_program)


def test_a_site_that_lies_about_its_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lie(site: Site) -> None:
        # It announces one value fewer than it brings groups for.
        site.table = replace(site.table, n_values=site.table.n_values - 1)

    lying(monkeypatch, "observatory", lie)
    town, job = SiteTown(tmp_path), make_job(align=False)
    for name in SITES:
        pyarrow.csv.write_csv(part(name, shared=False), town.table(name))
    heard = []
    with town.serving(job, tell=lambda what, fields: heard.append((what, fields))):
        error = refuses(Code.SITE_CONTRADICTS, town.client("club", job).train)
        assert "site observatory" in error.found
        until(lambda: len(heard) == 3)
    assert {what for what, _ in heard} == {"failed"}
    assert all("H754" in fields["error"] for _, fields in heard)
    assert nothing_kept(town, job)


@pytest.mark.parametrize("align", [True, False])
def test_ids_that_differ(tmp_path: Path, align: bool) -> None:
    town, job = SiteTown(tmp_path), make_job(align=align)
    rows = part("office", shared=False)
    ids = pa.array(np.arange(14) + 1000) if align else pa.array([*range(1, 14), 50])
    pyarrow.csv.write_csv(rows.set_column(0, "id", ids), town.table("office"))
    if not align:
        for name in ("club", "observatory"):
            pyarrow.csv.write_csv(part(name, shared=False), town.table(name))
    with town.serving(job):
        error = refuses(Code.IDS_DO_NOT_ALIGN, town.client("club", job).train)
    assert ("no id that all of them have" in error.found) == align
    assert nothing_kept(town, job)


def test_refused_before_it_serves(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job()
    rows = part("office")
    pyarrow.csv.write_csv(pa.concat_tables([rows, rows.slice(0, 1)]), town.table("office"))
    refuses(Code.DUPLICATE_ID, lambda: town.run("office", job))
    (town.parties["club"].folder / "members" / "office.pem").unlink()
    refuses(Code.MISSING_CERTIFICATE, lambda: town.run("club", job))
    policy = town.parties["observatory"].folder / "policy.toml"
    policy.write_text(policy.read_text().replace('"ppid3"', '"open"'))
    refuses(Code.POLICY_REFUSES, lambda: town.run("observatory", job))


def test_only_the_site_with_the_class_begins(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job()
    with town.serving(job):
        error = refuses(Code.WRONG_ROLE, town.client("office", job).train)
    assert "club" in error.expected
    assert (
        "hedgerow site serve"
        in refuses(Code.SERVICE_UNREACHABLE, town.client("club", job).train).fix
    )
    # Whether it serves or not.
    refuses(Code.WRONG_ROLE, town.client("office", job).train)


def test_the_class_at_all_sites(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path, every=True), make_job(class_at="all")
    with town.serving(job):
        town.client("club", job).train()
        all_kept(town, job)
        (answer,) = town.client("observatory", job).ask(["9"])
    assert answer.counts == (0, 2)
    assert town.tree(job).to_json() == reference(town, job)[2].to_json()


def test_noise_is_charged_to_the_public_and_hides_nothing_from_sites(tmp_path: Path) -> None:
    town, job = SiteTown(tmp_path), make_job(epsilon=1.0, max_depth=2)
    with town.serving(job) as runs:
        town.client("club", job).train()
        all_kept(town, job)
        until(lambda: all(run.status()[1].state == "grown" for run in runs.values()))
    for i, name in enumerate(SITES):
        ledger = Ledger.from_json((town.folder(name, job) / "ledger.json").read_text())
        assert 0.99 < ledger.total("public").epsilon <= 1.0
        assert math.isinf(ledger.total(f"site {i}").epsilon)
        # What the others learned is not known here, and no figure may look as if it were.
        assert all(math.isinf(ledger.total(f"site {j}").epsilon) for j in range(3))
        assert {mark.reason for mark in ledger.not_private} == {site_run.OTHERS}


def test_a_run_that_is_told_to_stop_says_so(tmp_path: Path, held: type[HeldProgram]) -> None:
    town, job = SiteTown(tmp_path), make_job()
    runs: dict[str, SiteRun]
    with town.serving(job) as runs:
        Training(town, job)
        assert held.reached.wait(20)
        runs["club"].stop()
        until(lambda: runs["office"].status()[1].state == "failed")
        error = runs["office"].status()[1].error
        held.go.set()
    assert error is not None
    assert (error.code, "club, which was told to stop" in error.found) == (Code.SITE_LOST, True)
