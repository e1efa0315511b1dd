"""What the pages of a console are made of, at servers that ask each other without a wire."""

import html
import json
import re
import string
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hedgerow.net.port import RunPort
from hedgerow.parties.console import facts
from hedgerow.parties.console.rendering import ConsolePages
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.vertical.peer_job import PivotJob
from tests.parties.console.console_town import EPSILON, epsilon_job, facts_of
from tests.parties.runs.loopback import Loopback
from tests.parties.runs.run_servers import set_line
from tests.parties.towns import Town
from tests.parties.vertical.peer_towns import PEERS, job_dict, make_job

JOBS = 5


def asking(folder: Path) -> Loopback:
    """Return servers of which birch asks ann or bob about every job."""
    made = Loopback(folder)
    set_line(made.parties["birch"].folder / "policy.toml", "approvers", '["ann", "bob"]')
    made.start("birch")
    return made


def test_what_waits_is_never_beyond_what_is_shown(tmp_path: Path) -> None:
    town = asking(tmp_path)
    jobs = [epsilon_job(f"ward{i}") for i in range(JOBS)]
    for one in jobs:
        town.managers["birch"].accept(one.to_toml(), "north")
    facts = facts_of(town.managers["birch"])
    facts.decide(jobs[0].run_id, jobs[0].hash, "ann", approved=True)
    found = facts.overview(runs=2)
    # The first of them waits for the others, and no longer here.
    waiting = {one.run_id for one in jobs[1:]}
    assert {need.page.removeprefix("runs/") for need in found.needs if need.page} == waiting
    assert found.pending == pytest.approx({"patients": EPSILON * len(waiting)})
    assert (len(found.runs), found.under_way) == (2, JOBS)

    # A failure is no older for what was posted since.
    facts.decide(jobs[1].run_id, jobs[1].hash, "ann", approved=False)
    town.managers["birch"]._refuse_unapproved()
    labels = [need.label for need in facts.overview(runs=2).needs]
    assert (labels.count("run"), labels.count("decide")) == (1, JOBS - 2)
    page = ConsolePages(facts, "/", "word").overview()
    assert f'<span class="figure">{JOBS - 1}</span>runs under way' in page


def test_members_that_cannot_be_asked_are_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(config: PartyConfig) -> None:
        raise UnicodeError

    desk, _ = peer_desk(tmp_path)
    monkeypatch.setattr("hedgerow.parties.console.facts.check_consortium", fails)
    page = desk.overview()
    assert "members could not be asked how they are: UnicodeError" in page
    assert "being asked" not in page


def peer_desk(folder: Path) -> tuple[ConsolePages, RunManager]:
    """Return the console of a peer, and what it has of runs."""
    config = Town(folder, peers=PEERS).parties["heron"]
    with RunPort(config.me.host, 0) as port:
        manager = RunManager(config, Policy.load(config.folder), port)
    return ConsolePages(facts_of(manager), "/", "word"), manager


def test_what_answers_charge_is_on_the_page_of_the_run(tmp_path: Path) -> None:
    desk, manager = peer_desk(tmp_path)
    noisy = {"max_depth": 2, "noise": "splits+leaves", "epsilon": 0.75, "hide": "thresholds"}
    exact = {"max_depth": 2, "hide": "thresholds"}
    for name, plan, more in (("noisy", noisy, True), ("exact", exact, False)):
        job = make_job(name=name, align="hidden", plan=plan)
        page = desk.run(manager.store.accept(job, "rook").id)
        assert ("The first answer charges more" in page) == more
        assert ("Costs of answers" in page) == more
        assert '<td>peer</td><td class="number">inf</td>' in page
        assert ('<td class="number">0.75</td>' in page) == more


def test_two_jobs_that_differ_in_a_column_do_not_look_the_same(tmp_path: Path) -> None:
    desk, manager = peer_desk(tmp_path)
    texts = set()
    # A name that ends the text of a page, and one that turns what stands behind it around.
    for name in ("pressure", "hiv", "</pre><script>", "gnidaer\u202e"):
        fields = json.loads(
            json.dumps(job_dict(align="hidden")).replace('"humidity"', json.dumps(name))
        )
        job = PivotJob.model_validate(fields)
        page = desk.run(manager.store.accept(job, "rook").id)
        shown = html.unescape(re.findall(r"<pre [^>]*>(.*?)</pre>", page, re.S)[0])
        assert PivotJob.from_toml(shown).hash == job.hash
        assert set(shown) <= set(string.printable)
        texts.add(shown)
    assert len(texts) == 4


def test_what_members_said_long_ago_is_not_shown_as_what_they_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, gate, said = [0.0], threading.Event(), ["fine"]
    watch = facts.MemberWatch(cast(Any, None))

    def asked(config: object) -> list[str]:
        assert gate.wait(30)
        return list(said)

    def shows(found: list[str]) -> bool:
        return any(watch.look() == found or time.sleep(0.01) for _ in range(1000))

    monkeypatch.setattr(facts, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(facts, "check_consortium", asked)
    gate.set()
    assert shows(["fine"])
    gate.clear()
    said[0] = "one is away"
    now[0] = 30.0
    assert watch.look() == ["fine"]
    gate.set()
    assert shows(["one is away"])
    gate.clear()
    now[0] = 200.0
    monkeypatch.setattr(facts, "_FIRST", 0.05)
    assert watch.look() is None
    gate.set()
    assert shows(["one is away"])
