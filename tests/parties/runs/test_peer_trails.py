"""A party whose state was rolled back or copied takes part in nothing until that is explained."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.peer_trails import FORGET
from tests.parties.roles.upload_servers import SERVERS
from tests.parties.runs.loopback import Loopback


@pytest.fixture
def town(tmp_path: Path) -> Loopback:
    return Loopback(tmp_path)


def head(town: Loopback, name: str) -> tuple[int, str]:
    with open_store(town.parties[name].state).snapshot() as made:
        return made.head()


def remembered(town: Loopback, name: str) -> dict[str, tuple[int, str]]:
    with open_store(town.parties[name].state).snapshot() as made:
        return {row["name"]: (row["height"], row["hash"]) for row in made.rows("peers")}


def is_running(town: Loopback, run: str) -> bool:
    return {made.show(run)["state"] for made in town.managers.values()} == {"running"}


def waits_for(town: Loopback, at: str, run: str, of: str) -> str:
    """A run waits at a party because of the state of another one, before anything was begun."""
    shown: dict[str, Any] = town.managers[at].show(run)
    assert (shown["state"], shown["attempt"]) == ("accepted", 0), shown
    assert "H936" in str(shown["reason"]), shown
    assert f"hedgerow trail forget {of}" in shown["reason"]
    return str(shown["reason"])


def test_what_is_remembered_has_the_charges_of_the_run(town: Loopback) -> None:
    run = town.post("ward")
    town.look()
    assert is_running(town, run)
    # The others have charged it before the leader lets its own worker begin.
    for name in SERVERS[1:]:
        assert remembered(town, "alder")[name] == head(town, name)
        height, _ = remembered(town, name)["alder"]
        with open_store(town.parties["alder"].state).snapshot() as made:
            assert height >= made.charges()[-1]["entry"]
    town.end_workers()
    town.look()
    town.look()
    assert {made.show(run)["closed"] for made in town.managers.values()} == {True}


@pytest.mark.parametrize("victim", SERVERS[:2])
def test_an_older_state_is_refused_and_the_newest_goes_on(town: Loopback, victim: str) -> None:
    town.complete("first")
    town.copy_state(victim, "old")
    town.complete("second")
    town.copy_state(victim, "new")
    town.restore_state(victim, "old")
    run = town.post("third")
    # Who has met it refuses it, and it hears so itself.
    for _ in range(3):
        town.look()
        for name in SERVERS if victim == "alder" else ("alder", victim):
            assert f"{victim} with" in waits_for(town, name, run, victim)
    town.restore_state(victim, "new")
    town.post("third")
    town.look()
    assert is_running(town, run)


@pytest.mark.parametrize("victim", SERVERS[:2])
def test_a_state_that_has_forgotten_the_run_is_no_unknown_run(town: Loopback, victim: str) -> None:
    """It answers nothing about the run, and says why: nobody has to post the job again first."""
    town.complete("first")
    town.copy_state(victim, "old")
    run = town.post("second")
    town.look()
    assert is_running(town, run)
    town.end_workers(done=False)
    town.restore_state(victim, "old")
    town.look()
    others = [name for name in SERVERS if name != victim]
    for name in others if victim == "alder" else others[:1]:
        shown = town.managers[name].show(run)
        assert shown["state"] == "waiting", shown
        assert shown["waiting_for"] == [victim]
        assert "H936" in str(shown["reason"])
        assert f"hedgerow trail forget {victim}" in shown["reason"]
    assert town.managers[victim].store.find(run) is None


@pytest.mark.parametrize("victim", SERVERS[:2])
def test_a_copy_that_goes_on_beside_the_original_is_refused(town: Loopback, victim: str) -> None:
    town.complete("first")
    town.copy_state(victim, "fork")
    town.complete("second")
    known = head(town, victim)
    # The copy does things of its own, until it has more entries than the original.
    town.restore_state(victim, "fork")
    while head(town, victim)[0] <= known[0]:
        with open_store(town.parties[victim].state).transaction("other things") as made:
            made.tell("note", {"of": "the copy"})
    run = town.post("third")
    for _ in range(3):
        town.look()
    for name in SERVERS if victim == "alder" else ("alder", victim):
        assert "another hash" in waits_for(town, name, run, victim)


def test_a_restart_is_nothing_of_the_kind(town: Loopback) -> None:
    for turn, name in enumerate((*SERVERS, *SERVERS)):
        town.database(name)
        town.start(name)
        town.complete(f"job-{turn}")


def test_an_old_state_is_taken_once_it_was_forgotten(town: Loopback) -> None:
    town.complete("first")
    town.copy_state("birch", "old")
    town.complete("second")
    town.restore_state("birch", "old")
    run = town.post("third")
    town.look()
    waits_for(town, "alder", run, "birch")
    height, hash_ = remembered(town, "alder")["birch"]
    command = ["trail", "forget", "birch", str(town.parties["alder"].folder)]
    for told in ("has forgotten", "remembers nothing"):
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, told in done.output) == (0, True), done.output
    with open_store(town.parties["alder"].state).snapshot() as made:
        (entry,) = [entry for entry in made.trail() if entry.kind == FORGET]
    assert entry.fields() == {"peer": "birch", "height": height, "hash": hash_}
    town.look()
    assert is_running(town, run)
    assert remembered(town, "alder")["birch"] == head(town, "birch")


def test_it_fails_with_that_number_if_nobody_explains(town: Loopback) -> None:
    town.complete("first")
    town.copy_state("birch", "old")
    town.complete("second")
    town.restore_state("birch", "old")
    run = town.post("third")
    town.look()
    leader = town.managers["alder"]
    leader._watches[run].since -= leader.config.timeouts.rejoin + 1
    town.look()
    error = leader.store.get(run).error
    assert error is not None
    assert error.code is Code.STATE_SET_BACK


def test_questions_write_nothing(town: Loopback) -> None:
    """A run that waits is asked about again and again: no commit, and no entry, for each."""
    town.complete("first")
    run = town.post("second", "alder", "birch")
    town.look()
    before = [(head(town, name), remembered(town, name)) for name in SERVERS]
    changes = [open_store(town.parties[name].state)._base.total_changes for name in SERVERS]
    for _ in range(5):
        town.look()
    assert [(head(town, name), remembered(town, name)) for name in SERVERS] == before
    assert [open_store(town.parties[name].state)._base.total_changes for name in SERVERS] == changes
    assert town.managers["alder"].show(run)["waiting_for"] == ["cedar"]


def test_one_question_is_enough_once_both_know_what_to_show(town: Loopback) -> None:
    town.complete("first")
    town.post("second", "alder", "birch")
    town.look()
    town.asked.clear()
    town.look()
    assert town.asked.count(("alder", "birch", "run-ready")) == 1
    assert town.asked.count(("birch", "alder", "run-ready")) == 1


def test_who_does_not_show_it_begins_nothing(town: Loopback) -> None:
    town.complete("first")
    trails = town.managers["birch"].store.trails
    asked = town.managers["alder"].store.trails.question("birch").claim
    trails.check("alder", asked)
    for change in ({"at": 0, "shown": ""}, {"shown": "0" * 64}, {"height": asked.at - 1}):
        claim = asked.model_copy(update={"height": asked.height + 1, **change})
        with pytest.raises(Exception, match="H936"):
            trails.check("alder", claim)
    # What was remembered a moment ago is enough: the next height may not have been asked for.
    with open_store(town.parties["birch"].state).transaction("peers") as made:
        made.put("peers", {"name": "alder", "height": asked.height + 5, "hash": "1" * 64})
    trails.check("alder", asked)
