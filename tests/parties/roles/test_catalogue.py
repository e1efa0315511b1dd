"""What members are told about models."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.errors import Code
from hedgerow.net.meter import Meter
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.catalogue import Catalogue, ChargeVerbs
from hedgerow.parties.roles.owner_account import fetch_charges
from hedgerow.parties.roles.server_reports import ChargeClient, ModelReport, ServerAccount
from hedgerow.parties.runs.admission import charge
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.meters import RunMeter
from hedgerow.parties.store.models import ModelManifest, open_model, write_model
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.handlers import Caller, Verb, declared_verbs
from hedgerow.privacy import Leakage, Ledger, Opening
from hedgerow.protocols.registry import IN_PIECES
from tests.parties.queries.answer_towns import SERVERS, Town
from tests.parties.roles.upload_servers import consortium, serving
from tests.parties.runs.party_jobs import make_job, make_manifest
from tests.parties.wire.parties_calls import refuses

ANN, OLGA = Caller("ann0", "analyst"), Caller("north", "owner")
OWN_ROWS = 147


@pytest.fixture
def town(tmp_path: Path):
    town = Town(tmp_path, analysts=2, queries_per_analyst=7)
    town.train("m", analysts=["ann0"])
    town.train("other", analysts=["ann1"])
    config = town.configs[SERVERS[1]]
    key = operator_key(config.folder)
    library = Library(config.state, key, 1)
    verbs = declared_verbs(Catalogue(config, town.policies[1], key, library))
    town.told = lambda verb, caller, **fields: verbs[verb].function(
        caller, verbs[verb].fields.model_validate(fields), None
    )
    yield town
    library.close()


@pytest.fixture
def told(town: Town):
    return lambda caller, **fields: town.told("models", caller, **fields)


@pytest.fixture
def report(town: Town):
    return lambda caller, **fields: ModelReport.parse(town.told("model-show", caller, **fields)[1])


def test_one_model(told) -> None:
    fields, (text, tree) = told(ANN, model="m")
    assert fields == {"left": 7, "manifest": len(text)}
    manifest = ModelManifest.parse(text.decode())
    assert (manifest.name, manifest.server, manifest.analysts) == ("m", 1, ("ann0",))
    assert tree == b""
    assert told(OLGA, model="m")[0]["left"] == 0


def test_nothing_of_a_tree_in_pieces_can_be_guessed(town: Town, told, report) -> None:
    """Neither how many rows a peer has, by hash, nor how many leaves there are, nor the plan."""
    config = town.configs[SERVERS[1]]
    key, leaves = operator_key(config.folder), {"leaves": np.zeros((2, 1, 7), np.uint32)}
    opening = Opening("which own ids all have", "peer 1", (OWN_ROWS,), independent="rows")
    leakage = Leakage([opening], records=OWN_ROWS).to_json()
    texts = {"ledger": Ledger().to_json(), "leakage": leakage}
    for name in IN_PIECES:
        manifest = ModelManifest(
            name, name, 1, {"capacity": 9}, "run-1", "2" * 64, "3" * 32, members=("wren",)
        )
        kept = write_model(config.state, key, manifest, leaves, tree={"groups": [17]}, **texts)
        assert kept.files["leakage.json"] == hashlib.sha256(leakage.encode()).hexdigest()
        for caller in (OLGA, Caller("rook", "peer"), Caller("alder", "server")):
            fields, (text, published) = told(caller, model=name)
            assert (fields, published) == ({"left": 0, "manifest": len(text)}, b"")
            heard = ModelManifest.parse(text.decode())
            assert (heard.files, heard.arrays, heard.plan, heard.tag) == ({}, {}, {}, "")
            assert (heard.run, heard.job, heard.members) == ("run-1", "2" * 64, ("wren",))
            shown = report(caller, model=name)
            assert (shown.learned, shown.opened, shown.rows_left) == ((), (), None)


def test_digests_of_what_is_kept_stay_here(told) -> None:
    for caller in (ANN, OLGA):
        manifest = ModelManifest.parse(told(caller, model="m")[1][0].decode())
        assert manifest.files == {}
        # What analysts compare, and make their questions of.
        assert manifest.tag
        assert manifest.plan


def test_the_list(told) -> None:
    def names(caller: Caller) -> list[str]:
        fields, payload = told(caller)
        assert fields == {}
        return [line["model"] for line in json.loads(payload)["models"]]

    assert names(ANN) == ["m"]
    assert names(OLGA) == ["m", "other"]


def test_an_opened_tree_is_for_everybody(town: Town, told, report) -> None:
    config = town.configs[SERVERS[1]]
    manifest = ModelManifest(
        "shown", "open-tree", 1, {}, "shown-run", "2" * 64, "3" * 32, ("patients",)
    )
    leakage = Leakage([Opening("splits", "public", (2,), independent="coins", times=3)])
    leakage.check("splits", "public", (2,))
    texts = {"ledger": Ledger().to_json(), "leakage": leakage.to_json()}
    write_model(config.state, operator_key(config.folder), manifest, {}, tree={"a": 1}, **texts)
    fields, (text, tree) = told(ANN, model="shown")
    assert (fields["manifest"], json.loads(tree)) == (len(text), {"a": 1})
    found = report(ANN, model="shown")
    assert (found.populations, found.analysts, found.asking) == (("patients",), (), ())
    assert found.learned[0].audience == "public"
    (opened,) = found.opened
    assert (opened.name, opened.audience, opened.shape) == ("splits", "public", "2")
    assert (opened.declared, opened.opened) == (3, 1)


def test_the_report_has_the_ledger_and_what_was_opened(town: Town, report) -> None:
    found = report(OLGA, model="m")
    config = town.configs[SERVERS[1]]
    stored = open_model(config.state, operator_key(config.folder), "m")
    leakage = Leakage.from_json(stored.leakage)
    assert [(o.name, o.declared, o.opened) for o in found.opened] == [
        (row["name"], row["declared"], row["opened"]) for row in leakage.compare()
    ]
    assert [row.epsilon for row in found.learned] == [
        row["epsilon"] for row in stored.read_ledger().summary()
    ]
    assert found.sent is None


def test_the_meter_of_the_run(town: Town, report) -> None:
    state = town.configs[SERVERS[1]].state
    meter = Meter([1])
    for payload in (10, 20):
        meter.record("multiply", 1, payload=payload, wire=payload + 5)
    RunMeter(open_store(state), "m-run", 1).write(meter.snapshot())
    sent = report(OLGA, model="m").sent
    assert (sent.rounds, sent.payload, sent.wire) == (2, 30, 40)


def test_refusals(told) -> None:
    refuses(Code.BAD_NAME, lambda: told(ANN, model="../m"))
    refuses(Code.UNKNOWN_MODEL, lambda: told(ANN, model="none"))
    refuses(Code.BAD_NAME, lambda: told(ANN, model=3))
    refuses(Code.BAD_REQUEST, lambda: told(ANN, name="m"))
    refuses(Code.CALLER_NOT_ALLOWED, lambda: told(ANN, model="other"))


def test_a_policy_that_no_longer_allows_the_analyst(town: Town, told, report) -> None:
    assert report(ANN, model="m").asking[0].left == 7
    town.policies[1].__dict__["allowed_analysts"] = ("ann1",)
    refuses(Code.POLICY_REFUSES, lambda: report(ANN, model="m"))
    refuses(Code.POLICY_REFUSES, lambda: told(ANN, model="m"))
    assert json.loads(told(ANN)[1])["models"] == []


runner = CliRunner()
JOB = make_job()


def accounts(config: PartyConfig) -> Accounts:
    return Accounts(config.state, Policy.load(config.folder))


def verbs(config: PartyConfig) -> dict[str, Verb]:
    return declared_verbs(ChargeVerbs(accounts(config), RunStore(config.state)))


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[dict[str, PartyConfig]]:
    """A consortium whose servers have charged a job that zoe has posted."""
    made = consortium(tmp_path)
    for name in SERVERS:
        with open_store(made[name].state).transaction("upload") as tx:
            tx.put_upload("north-1", make_manifest().to_json())
        RunStore(made[name].state).accept(JOB, "zoe")
        charge(JOB, made[name], accounts(made[name]))
    with serving(made, verbs):
        yield made


def show(config: PartyConfig, code: int, *more: str) -> str:
    done = runner.invoke(app, ["account", "show", str(config.folder), *more])
    assert done.exit_code == code, done.output
    return done.output


def test_an_owner_sees_what_was_charged_and_by_whom(parties: dict[str, PartyConfig]) -> None:
    """It is entered in its own account, too, once, under the key of the job."""
    north = parties["north"]
    assert "spent epsilon 0 of 3" in show(north, 0, "--here")
    for _ in range(2):
        told = json.loads(show(north, 0, "--format", "json"))
    (own,) = told["accounts"]
    assert own["spent"]["epsilon"] == pytest.approx(1.0)
    assert own["left"] == pytest.approx(2.0)
    assert [line["key"] for line in own["charges"]] == [f"job:{JOB.hash}"]
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
    for words in ("zoe", "patients at cedar: spent epsilon 1,", "patients: spent epsilon 1 of 3"):
        assert words in text
    # And it stays where no server is asked.
    assert "spent epsilon 1 of 3" in show(north, 0, "--here")
    with open_store(north.state).snapshot() as made:
        assert [one.kind for one in made.trail()].count("charge") == 1


def test_servers_that_differ_or_are_away(parties: dict[str, PartyConfig]) -> None:
    accounts(parties["cedar"]).charge("patients", "job:more", 0.5, what="run more")
    (one,), refusals = ChargeClient(parties["north"]).charges()
    assert not refusals
    assert one.differs
    assert [servers for _, servers in one.lines] == [tuple(SERVERS), ("cedar",)]
    for _ in range(2):
        text = show(parties["north"], 1)
        assert "H945" in text
        assert "patients at cedar: spent epsilon 1.5," in text
        # What one server tells of is entered: it may be true.
        assert "patients: spent epsilon 1.5 of 3" in text


def test_a_charge_with_other_figures(parties: dict[str, PartyConfig]) -> None:
    """The larger ones are entered; what is entered stays as it is, and is complained about."""
    figures = {"alder": 0.5, "birch": 0.75, "cedar": 0.5}
    for name, epsilon in figures.items():
        accounts(parties[name]).charge("patients", "job:more", epsilon, what="run more")
    found = fetch_charges(parties["north"])
    assert [error.code for error in found.complaints] == [Code.CHARGES_DIFFER]
    (_, more) = accounts(parties["north"]).spent("patients").charges
    assert (more.key, more.epsilon) == ("job:more", 0.75)
    south = accounts(parties["south"])
    south.charge("patients", "job:more", 0.25)
    (differs,) = south.enter("patients", [more])
    assert differs == more
    assert south.spent("patients").epsilon == 0.25


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
    manifest = make_manifest("south-1", population="staff")
    with open_store(birch.state).transaction("upload") as tx:
        tx.put_upload("south-1", manifest.to_json())
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
        {"patients": account | {"charges": [line | {"key": ""}]}},
        {"patients": account | {"charges": [line | {"key": "a key"}]}},
        {"patients": account | {"charges": [line | {"delta": 1.5}]}},
    ]
    said: list[object] = [{"patients": account | {"charges": [line | {"epsilon": "inf"}]}}]

    def saying(config: PartyConfig) -> dict[str, Verb]:
        return {"charges": Verb(("owner",), lambda *_: ({}, json.dumps(said[-1]).encode()))}

    with serving(parties, saying):
        client = ChargeClient(parties["north"])
        (one,), refusals = client.charges()
        assert not refusals
        assert one.lines[0][0].epsilon == float("inf")
        for reply in bad:
            said.append(reply)
            found, refusals = client.charges()
            assert found == []
            assert {error.code for error in refusals.values()} == {Code.BAD_REPLY}
