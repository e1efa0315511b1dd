"""What members are told about models."""

import json
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.net.meter import Meter
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.catalogue import Catalogue
from hedgerow.parties.roles.model_report import ModelReport
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.models import Manifest, open_model, write_model
from hedgerow.parties.wire.handlers import Caller
from hedgerow.privacy import Leakage, Ledger, Opening
from tests.parties.queries.answer_towns import SERVERS, Town
from tests.parties.wire.parties_calls import refuses

ANN, OLGA = Caller("ann0", "analyst"), Caller("north", "owner")


@pytest.fixture
def town(tmp_path: Path):
    town = Town(tmp_path, analysts=2, queries_per_analyst=7)
    town.train("m", analysts=["ann0"])
    town.train("other", analysts=["ann1"])
    config = town.configs[SERVERS[1]]
    key = operator_key(config.folder)
    library = Library(config.state, key, 1)
    verbs = Catalogue(config.state, key, library, town.policies[1]).verbs
    town.told = lambda verb, caller, **fields: verbs[verb].function(caller, fields, None)
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
    manifest = Manifest.parse(text.decode())
    assert (manifest.name, manifest.server, manifest.analysts) == ("m", 1, ("ann0",))
    assert tree == b""
    assert told(OLGA, model="m")[0]["left"] == 0


def test_the_list(told) -> None:
    def names(caller: Caller) -> list[str]:
        fields, payload = told(caller)
        assert fields == {}
        return [line["model"] for line in json.loads(payload)["models"]]

    assert names(ANN) == ["m"]
    assert names(OLGA) == ["m", "other"]


def test_an_opened_tree_is_for_everybody(town: Town, told, report) -> None:
    config = town.configs[SERVERS[1]]
    manifest = Manifest("shown", "open", 1, {}, "shown-run", "2" * 64, "3" * 32, ("patients",))
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
    state.folder("runs", "m-run")
    path = state.path("runs", "m-run", "meter.json")
    meter = Meter([1])
    for payload in (10, 20):
        meter.record("multiply", 1, payload=payload, wire=payload + 5)
    path.write_text(meter.snapshot().to_json())
    path.chmod(0o600)
    sent = report(OLGA, model="m").sent
    assert (sent.rounds, sent.payload, sent.wire) == (2, 30, 40)
    path.write_text("{}")
    assert report(OLGA, model="m").sent is None


def test_refusals(told) -> None:
    refuses(Code.BAD_NAME, lambda: told(ANN, model="../m"))
    refuses(Code.UNKNOWN_MODEL, lambda: told(ANN, model="none"))
    refuses(Code.BAD_REQUEST, lambda: told(ANN, model=3))
    refuses(Code.BAD_REQUEST, lambda: told(ANN, name="m"))
    refuses(Code.CALLER_NOT_ALLOWED, lambda: told(ANN, model="other"))


def test_a_policy_that_no_longer_allows_the_analyst(town: Town, told, report) -> None:
    assert report(ANN, model="m").asking[0].left == 7
    town.policies[1].__dict__["allowed_analysts"] = ("ann1",)
    refuses(Code.POLICY_REFUSES, lambda: report(ANN, model="m"))
    refuses(Code.POLICY_REFUSES, lambda: told(ANN, model="m"))
    assert json.loads(told(ANN)[1])["models"] == []
