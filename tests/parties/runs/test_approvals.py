"""A job waits for the person whom a policy names; nothing is charged before."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.parties.runs.jobs import ServerJob, read_job
from hedgerow.parties.store.approvals import KIND, decide, decision
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.trail import verify
from tests.parties.roles.upload_servers import SERVERS
from tests.parties.runs.loopback import Loopback
from tests.parties.runs.run_servers import job, set_line
from tests.parties.wire.parties_calls import refuses

GO = bytes(16), SERVERS, SERVERS[0]


def town_with(folder: Path, party: str, people: str = '["ann", "bob"]') -> Loopback:
    made = Loopback(folder)
    set_line(made.parties[party].folder / "policy.toml", "approvers", people)
    made.start(party)
    return made


def charges(town: Loopback) -> list[int]:
    found = []
    for name in SERVERS:
        with open_store(town.parties[name].state).snapshot() as made:
            found.append(len(made.charges()))
    return found


def states(town: Loopback, run: str) -> set[str]:
    return {made.show(run)["state"] for made in town.managers.values()}


def approve(town: Loopback, party: str, person: str, **how: bool) -> None:
    config = town.parties[party]
    ward = job("ward")
    decide(open_store(config.state), config.identity, ward.run_id, ward.hash, person, **how)


@pytest.mark.parametrize("party", SERVERS[:2])
def test_a_job_waits_until_it_is_approved(tmp_path: Path, party: str) -> None:
    town = town_with(tmp_path, party)
    run = town.post("ward")
    for _ in range(3):
        town.look()
        # However long it takes: others do not give up meanwhile.
        for made in town.managers.values():
            made._watch(made.store.get(run)).since -= 0.6 * made.config.timeouts.rejoin
    assert (states(town, run), charges(town)) == ({"accepted"}, [0, 0, 0])
    # Whoever has met that party says for whom it waits.
    for name in SERVERS if party == "alder" else ("alder", party):
        reason = town.managers[name].show(run)["reason"]
        assert f"waiting for approval by ann or bob at {party}" in reason
        assert "H938" in reason
    assert town.managers["alder"].show(run)["waiting_for"] == [party]
    if party != "alder":
        refuses(
            Code.APPROVAL_AWAITED,
            lambda: town.managers[party].go(run, job("ward").hash, 1, *GO),
        )
    approve(town, party, "bob", approved=True)
    # Also for a daemon that is started after it.
    town.start(party)
    town.look()
    assert (states(town, run), charges(town)) == ({"running"}, [1, 1, 1])


@pytest.mark.parametrize("party", SERVERS[:2])
def test_a_refusal_ends_it_for_all(tmp_path: Path, party: str) -> None:
    town = town_with(tmp_path, party)
    run = town.post("ward")
    approve(town, party, "ann", approved=False)
    for _ in range(2):
        town.look()
    assert (states(town, run), charges(town)) == ({"failed"}, [0, 0, 0])
    for made in town.managers.values():
        error = made.store.get(run).error
        assert error is not None
        assert error.code is Code.NOT_APPROVED
        assert f"ann at {party} has refused" in error.found
    # Resumed, it is refused again, until the decision is another one.
    for later, approved in ((1, False), (2, True)):
        approve(town, party, "ann", approved=approved)
        for made in town.managers.values():
            made.resume(run, "north", later)
        town.look()
        town.look()
        assert states(town, run) == ({"running"} if approved else {"failed"})


def test_it_is_refused_if_nobody_decides_in_time(tmp_path: Path) -> None:
    town = town_with(tmp_path, "birch")
    set_line(town.parties["birch"].folder / "policy.toml", "approval_seconds", "1e-9")
    town.start("birch")
    run = town.post("ward")
    for _ in range(2):
        town.look()
    assert (states(town, run), charges(town)) == ({"failed"}, [0, 0, 0])
    error = town.managers["alder"].store.get(run).error
    assert error is not None
    assert (error.code, "no decision by ann or bob at birch" in error.found) == (
        Code.NOT_APPROVED,
        True,
    )


def test_only_what_this_party_has_signed_for_a_listed_person_counts(tmp_path: Path) -> None:
    town = town_with(tmp_path, "birch")
    run, ward, birch = town.post("ward"), job("ward"), town.parties["birch"]
    store = open_store(birch.state)

    def waits() -> bool:
        town.look()
        return states(town, run) == {"accepted"}

    approve(town, "birch", "mallory", approved=True)
    assert waits()
    decide(store, town.parties["cedar"].identity, run, ward.hash, "ann", approved=True)
    assert waits()
    decide(store, birch.identity, run, job("other").hash, "ann", approved=True)
    assert waits()
    # Of a refusal, somebody who may write the file makes an approval.
    approve(town, "birch", "ann", approved=False)
    with store.transaction("tamper") as made:
        row: Any = made.row("approvals", run=run)
        made.put("approvals", {**row, "approved": 1})
    assert decision(store, birch.identity, run, ward.hash) is None
    assert waits()
    approve(town, "birch", "ann", approved=True)
    assert not waits()


def test_the_command(tmp_path: Path) -> None:
    town = town_with(tmp_path, "birch")
    run, birch = town.post("ward"), town.parties["birch"]

    def invoke(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["runs", "approve", *arguments])

    for by in ([], ["--by", "mallory"]):
        done = invoke(run, str(birch.folder), *by)
        assert getattr(done.exception, "code", None) is Code.POLICY_REFUSES
    done = invoke("nothing-0123", str(birch.folder), "--by", "ann")
    assert getattr(done.exception, "code", None) is Code.UNKNOWN_RUN
    # Where nobody is asked, nobody decides.
    done = invoke(run, str(town.parties["alder"].folder), "--by", "ann")
    assert getattr(done.exception, "code", None) is Code.POLICY_REFUSES
    done = invoke(run, str(birch.folder), "--by", "ann", "--refuse")
    whole, said = done.output.rstrip().rsplit("\n", 1)
    assert said == f"{run}: refused by ann at birch"
    assert read_job(whole).hash == job("ward").hash
    set_line(birch.folder / "policy.toml", "approvers", '["bob"]')
    done = invoke(run, str(birch.folder), "--format", "json")
    told = json.loads(done.output)
    assert ServerJob.model_validate(told.pop("job")).hash == told.pop("hash") == job("ward").hash
    assert told == {"ok": True, "run": run, "person": "bob", "approved": True}
    with open_store(birch.state).snapshot() as made:
        verify(made.trail(), made.charges(), birch.identity.pem)
        entries = [entry.fields() for entry in made.trail() if entry.kind == KIND]
    assert [(e["person"], e["approved"], e["hash"]) for e in entries] == [
        ("ann", False, job("ward").hash),
        ("bob", True, job("ward").hash),
    ]
    town.start("birch")
    town.look()
    assert states(town, run) == {"running"}


def test_two_jobs_that_differ_in_a_bound_are_told_apart(tmp_path: Path) -> None:
    town = town_with(tmp_path, "birch")
    folder = str(town.parties["birch"].folder)
    narrow = job("narrow").to_dict()
    narrow["domain"]["attributes"][0]["bounds"] = [0, 1]
    both = [job("narrow"), ServerJob.model_validate(narrow)]
    for one in both:
        with town.managers["birch"].store.at_rest():
            town.managers["birch"].store.accept(one, "north")
        done = CliRunner().invoke(app, ["runs", "show", one.run_id, folder, "--job"])
        assert (done.exit_code, read_job(done.output).hash) == (0, one.hash)
        arguments = ["runs", "show", one.run_id, folder, "--job", "--format", "json"]
        fields = json.loads(CliRunner().invoke(app, arguments).output)
        assert (fields["hash"], fields["job"]) == (one.hash, one.to_dict())
    assert both[0].describe() == both[1].describe()
    assert both[0].hash != both[1].hash
    done = CliRunner().invoke(app, ["runs", "show", "nothing-0123", folder, "--job"])
    assert getattr(done.exception, "code", None) is Code.UNKNOWN_RUN


@pytest.mark.parametrize(("answer", "approved"), [("n", False), ("y", True)])
def test_at_a_terminal_it_asks_first(tmp_path: Path, answer: str, approved: bool) -> None:
    town = town_with(tmp_path, "birch", '["ann"]')
    run, birch = town.post("ward"), town.parties["birch"]
    keyboard, stdin = pty.openpty()
    program = [sys.executable, "-m", "hedgerow.cli", "runs", "approve", run, str(birch.folder)]
    os.write(keyboard, f"{answer}\n".encode())
    try:
        done = subprocess.run(
            program, stdin=stdin, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        os.close(stdin)
        os.close(keyboard)
    assert f"Approve {run} as ann?" in done.stderr
    assert (done.returncode == 0) == approved
    assert job("ward").to_toml() in done.stdout
    found = decision(open_store(birch.state), birch.identity, run, job("ward").hash)
    assert (found is not None) == approved
