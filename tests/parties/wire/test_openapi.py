"""The page of requests says what the code declares, and services hold callers to it."""

import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.roles.daemon import Daemon
from hedgerow.parties.wire.client import Reply, call
from hedgerow.parties.wire.handlers import Verb
from hedgerow.parties.wire.openapi import openapi
from hedgerow.parties.wire.service import Service
from tests.parties.consortia import found, introduce
from tests.parties.free_ports import free_ports
from tests.parties.runs.run_servers import job
from tests.parties.store.test_uploads import Dealer
from tests.parties.towns import Town
from tests.parties.vertical.site_towns import VerticalTown
from tests.parties.wire.parties_calls import RawLine, refuses

ROOT = Path(__file__).parents[3]
GOOD: dict[str, Any] = {
    "id": "0f" * 16,
    "hash": "0" * 64,
    "job": "0" * 64,
    "session": "0f" * 16,
    "signature": "0f" * 64,
    "letter": "0f" * 16,
    "reply": {},
    "members": ["some-name"],
    "what": "class",
    "trail": {"height": 7, "hash": "0f" * 32},
    "ids": ["7"],
    "error": {"code": "BAD_NAME", "expected": "a", "found": "b", "fix": "c"},
}
BY_TYPE = {"integer": 1, "number": 1.5, "boolean": True, "string": "some-name", "array": []}
SPOILT = {"integer": "1", "number": "1", "boolean": 1, "string": 1, "array": {}, "object": []}


def requests_page() -> Any:
    spec = importlib.util.spec_from_file_location("requests_page", ROOT / "tools/requests_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_of_the_verbs() -> None:
    text = (ROOT / "docs/reference/requests.md").read_text()
    assert requests_page().page() == text, "run `make docs`"


def test_every_verb_says_why_it_may_be_made_twice() -> None:
    for classes in requests_page().SERVICES.values():
        for name, verb in requests_page().verbs_of(*classes).items():
            assert verb.twice.endswith("."), name
            assert (verb.leaves == "nothing") == (verb.twice == "nothing changes."), name
            assert verb.about, name
            assert verb.roles, name


def kind_of(schema: dict[str, Any]) -> str:
    # What a schema refers to is an object.
    options = [each.get("type", "object") for each in schema.get("anyOf", [schema])]
    return next(kind for kind in options if kind != "null")


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """Return fields that the schema allows."""
    return {
        name: GOOD.get(name, BY_TYPE.get(kind_of(kind), {}))
        for name, kind in schema["properties"].items()
    }


class Asked:
    """A service whose every verb is asked, by somebody of the right role."""

    def __init__(self, service: Service, parties: dict[str, PartyConfig], name: str) -> None:
        self.service, self.parties, self.server = service, parties, parties[name]
        config = self.server
        self.address = (config.listen or config.me.host, service.address[1])

    def refusal(self, verb: str, fields: dict[str, Any], roles: Any) -> HedgerowError | None:
        """Make a request; return what it is refused with, if it is."""
        own = self.server.name
        by = next(
            config
            for config in self.parties.values()
            if config.role in roles and (config.name != own or len(roles) == 1)
        )
        pem = self.server.identity.pem
        try:
            call(self.address, by.identity, pem, verb, fields, name=own, timeout=20.0)
        except HedgerowError as error:
            return error
        return None

    def document(self) -> dict[str, Any]:
        """Read what the service says of itself."""
        others = [one for one in self.parties.values() if one.name != self.server.name]
        line = RawLine(self.address, others[0].identity, self.server.identity.pem)
        line.send(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n")
        status, _, body = line.reply()
        assert status == 200
        line.close()
        return json.loads(body)


def hold_to_the_schema(asked: Asked, verbs: dict[str, Verb]) -> None:
    """Ask every verb as its schema allows, and in all ways that it does not."""
    document = asked.document()
    assert document == json.loads(json.dumps(openapi(verbs, document["info"]["title"])))
    paths = {path for path in document["paths"] if path.startswith("/v1/")}
    assert paths == {f"/v1/{name}" for name in verbs}
    for name, verb in verbs.items():
        schema = document["components"]["schemas"][verb.fields.__name__]
        schema = {**schema, "components": document["components"]}
        operation = document["paths"][f"/v1/{name}"]["post"]
        assert operation["x-roles"] == sorted(verb.roles)
        if not schema.get("properties"):
            schema = {**schema, "properties": {}}
        good = sample(schema)
        jsonschema.validate(good, schema)
        # It may name nothing that is there; but it was understood.
        error = asked.refusal(name, good, verb.roles)
        if error is not None:
            assert error.code not in (Code.BAD_REQUEST, Code.BAD_NAME, Code.SERVICE_FAILED), error
            assert error.party is not None
        bad = [good | {"more": 1}]
        bad += [{k: v for k, v in good.items() if k != left} for left in schema.get("required", ())]
        bad += [
            good | {field: SPOILT[kind_of(kind)]} for field, kind in schema["properties"].items()
        ]
        for fields in bad:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(fields, schema)
            error = asked.refusal(name, fields, verb.roles)
            assert error is not None, (name, fields)
            assert error.code in (Code.BAD_REQUEST, Code.BAD_NAME), (name, fields)


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PartyConfig]:
    made = found(tmp_path_factory.mktemp("fort"), first_port=free_ports())
    introduce(made)
    return made


@pytest.fixture(scope="module")
def daemon(parties: dict[str, PartyConfig]) -> Iterator[Daemon]:
    config = parties["birch"]
    # To sessions that it is invited to nobody else comes.
    config.timeouts.__dict__.update(connect=1.0)
    with Daemon(config, Policy.load(config.folder)) as made:
        yield made


def test_a_server(daemon: Daemon, parties: dict[str, PartyConfig]) -> None:
    services = requests_page().SERVICES
    verbs = requests_page().verbs_of(*services["Every party"], *services["A server"])
    hold_to_the_schema(Asked(daemon.service, parties, "birch"), verbs)


def test_a_coordinator(tmp_path: Path) -> None:
    town = Town(tmp_path, owners=("north", "south"), coordinator="delta")
    config = town.parties["delta"]
    with Daemon(config, town.policy("delta")) as daemon:
        assert daemon.service is not None
        verbs = daemon.service._handlers
        hold_to_the_schema(Asked(daemon.service, town.parties, "delta"), verbs)
        assert {"job", "run-go", "models", "inbox", "health"} <= set(verbs)
        assert "upload" not in verbs


def test_a_site(tmp_path: Path) -> None:
    town = VerticalTown(tmp_path)
    with Daemon(town.parties["club"], town.policy("club")) as daemon:
        assert daemon.service is not None
        verbs = daemon.service._handlers
        hold_to_the_schema(Asked(daemon.service, town.parties, "club"), verbs)
        assert {"job", "run-go", "models", "inbox", "sites-ask", "sites-meet"} <= set(verbs)
        assert "upload" not in verbs


def test_made_twice_at_a_server(daemon: Daemon, parties: dict[str, PartyConfig]) -> None:
    """What changes something does so once, whatever happened in between."""
    birch = parties["birch"]

    def ask(verb: str, fields: dict[str, Any], payload: Any = None, by: str = "north") -> Reply:
        who, me = parties[by].identity, birch.me
        return call((me.host, me.port), who, birch.identity.pem, verb, fields, payload, name="b")

    def twice(action: Callable[[], Reply]) -> Reply:
        first = action()
        assert action() == first
        return first

    fields, payload = Dealer("ward-1").payload(1)
    ask("upload", fields, payload)
    refuses(Code.UPLOAD_ID_USED, lambda: ask("upload", fields, payload))
    mine = job("mine", uploads=["ward-1"], plan={"noise": "splits+leaves", "epsilon": 1.0})
    text = mine.to_toml().encode()
    run = ask("job", {}, text).fields["run"]
    assert ask("job", {}, text).fields["run"] == run
    assert len(ask("runs", {}).fields["runs"]) == 1

    def state() -> str:
        return ask("run-show", {"run": run}).fields["state"]

    stop = {"run": run, "generation": 0}
    assert twice(lambda: ask("run-stop", stop)).fields["state"] == "stopped"
    resume = {"run": run, "generation": 1}
    for _ in range(2):
        ask("run-resume", resume)
    assert ask("run-show", {"run": run}).fields["generation"] == 1
    # An old request that comes once more changes nothing of what came after it.
    ask("run-stop", stop)
    assert state() != "stopped"
    ask("run-stop", {"run": run, "generation": 1})
    ask("run-resume", resume)
    assert state() == "stopped"
    # Another test may have invited it to a session, in which it waits for a while.
    end = time.monotonic() + 60
    while not ask("query-meet", {"session": ""}, by="alder").fields["free"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    session = {"session": "ab" * 16}
    assert twice(lambda: ask("query-meet", session, by="alder")).fields == {"free": True}
