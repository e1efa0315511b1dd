"""Owners see what the servers have charged to their populations, for whom, and who differs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.roles.charge_client import ChargeClient, ServerAccount
from hedgerow.parties.roles.charges import charge_verbs
from hedgerow.parties.runs.admission import charge
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.handlers import Verb
from tests.parties.roles.upload_servers import SERVERS, consortium, serving
from tests.parties.runs.party_jobs import make_job, make_manifest
from tests.parties.wire.parties_calls import refuses

runner = CliRunner()
JOB = make_job()


def accounts(config: PartyConfig) -> Accounts:
    return Accounts(config.state, Policy.load(config.folder))


def verbs(config: PartyConfig) -> dict[str, Verb]:
    return charge_verbs(accounts(config), RunStore(config.state, config.number))


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[dict[str, PartyConfig]]:
    """A consortium whose servers have charged a job that zoe has posted."""
    made = consortium(tmp_path)
    for name in SERVERS:
        folder = made[name].state.folder("uploads", "north-1")
        (folder / "manifest.json").write_text(make_manifest().to_json())
        RunStore(made[name].state, made[name].number).accept(JOB, "zoe")
        charge(JOB, accounts(made[name]))
    with serving(made, verbs):
        yield made


def show(config: PartyConfig, code: int, *more: str) -> str:
    done = runner.invoke(app, ["account", "show", str(config.folder), *more])
    assert done.exit_code == code, done.output
    return done.output


def test_an_owner_sees_what_was_charged_and_by_whom(parties: dict[str, PartyConfig]) -> None:
    """Its own account says nothing of it: nothing was ever charged there."""
    north = parties["north"]
    told = json.loads(show(north, 0, "--format", "json"))
    assert told["accounts"] == []
    (one,) = told["charged"]
    assert (one["population"], one["differs"], set(one["servers"])) == (
        *("patients", False),
        set(SERVERS),
    )
    for account in one["servers"].values():
        assert (account["epsilon"], account["delta"]) == (3.0, 1e-6)
        (line,) = account["charges"]
        assert line["epsilon"] == pytest.approx(1.0)
        assert 0 < line["delta"] < 1e-15
        assert (line["run"], line["model"], line["by"]) == (JOB.run_id, JOB.model, "zoe")
        assert line["key"] == f"job:{JOB.hash}"
    text = show(north, 0)
    for words in ("zoe", "patients at cedar: spent epsilon 1,", "does not bind the servers"):
        assert words in text
    # Its own folder knows nothing of it, and says so when it is asked alone.
    assert "spent epsilon 0 of 3" in show(north, 0, "--here")


def test_servers_that_differ_or_are_away(parties: dict[str, PartyConfig]) -> None:
    accounts(parties["cedar"]).charge("patients", "job:more", 0.5, what="run more")
    (one,), refusals = ChargeClient(parties["north"]).charged()
    assert not refusals
    assert one.differs
    assert [servers for _, servers in one.lines] == [SERVERS, ("cedar",)]
    text = show(parties["north"], 1)
    assert "DIFFER" in text
    assert "patients at cedar: spent epsilon 1.5," in text


def test_who_may_ask(parties: dict[str, PartyConfig], tmp_path: Path) -> None:
    """An owner of nothing here hears nothing, an analyst neither; another server hears all."""
    birch = parties["birch"]

    def ask(who: str) -> dict[str, ServerAccount]:
        me = parties[who]
        reply = call((birch.me.host, birch.me.port), me.identity, birch.identity.pem, "charges")
        return json.loads(reply.payload)

    refuses(Code.CALLER_NOT_ALLOWED, lambda: ask("south"))
    refuses(Code.CALLER_NOT_ALLOWED, lambda: ask("zoe"))
    accounts(birch).policy.populations["staff"] = accounts(birch).policy.populations["patients"]
    assert set(ask("alder")) == set(ask("north")) == {"patients"}
    folder = birch.state.folder("uploads", "south-1")
    manifest = make_manifest("south-1", population="staff")
    (folder / "manifest.json").write_text(manifest.to_json())
    assert set(ask("south")) == {"staff"}
    told = json.loads(show(parties["south"], 1, "--format", "json"))
    assert told["refused"] == {"alder": "H871", "cedar": "H871"}


def test_replies_of_somebody_hostile(tmp_path: Path) -> None:
    parties = consortium(tmp_path)
    line = {"key": "k", "epsilon": 1.0, "delta": 0.0, "what": "", "time": 0.0}
    line |= {"run": "", "model": "", "by": ""}
    account = {"epsilon": 3.0, "delta": 1e-6, "charges": [line]}
    bad = [
        {"../x": account},
        {"patients": {"epsilon": 1.0}},
        {"patients": account | {"charges": [line | {"by": "../zoe"}]}},
        {"patients": account | {"charges": [line | {"epsilon": -1.0}]}},
        {"patients": account | {"charges": [line | {"epsilon": "nan"}]}},
        {"patients": account | {"charges": [line | {"what": "\x1b[2J"}]}},
    ]
    said: list[object] = [{"patients": account | {"charges": [line | {"epsilon": "inf"}]}}]

    def saying(config: PartyConfig) -> dict[str, Verb]:
        return {"charges": Verb(("owner",), lambda *_: ({}, json.dumps(said[-1]).encode()))}

    with serving(parties, saying):
        client = ChargeClient(parties["north"])
        (one,), refusals = client.charged()
        assert not refusals
        assert one.lines[0][0].epsilon == float("inf")
        for reply in bad:
            said.append(reply)
            found, refusals = client.charged()
            assert found == []
            assert {error.code for error in refusals.values()} == {Code.BAD_REPLY}
