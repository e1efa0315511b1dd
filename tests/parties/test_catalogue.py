"""What members are told about models."""

from pathlib import Path

import pytest
from answer_towns import SERVERS, Town
from parties_calls import refuses

from hedgerow.errors import Code
from hedgerow.parties.catalogue import Catalogue
from hedgerow.parties.handlers import Caller
from hedgerow.parties.library import Library
from hedgerow.parties.models import Manifest
from hedgerow.parties.state_key import operator_key

ANN, OLGA = Caller("ann0", "analyst"), Caller("north", "owner")


@pytest.fixture
def told(tmp_path: Path):
    town = Town(tmp_path, analysts=2, queries_per_analyst=7)
    town.train("m", analysts=["ann0"])
    town.train("other", analysts=["ann1"])
    config = town.configs[SERVERS[1]]
    key = operator_key(config.folder)
    library = Library(config.state, key, 1)
    verb = Catalogue(config.state, key, library, town.policies[1]).verbs["models"]
    yield lambda caller, **fields: verb.function(caller, fields, None)
    library.close()


def test_one_model(told) -> None:
    fields, (text, tree) = told(ANN, model="m")
    assert fields == {"left": 7, "manifest": len(text)}
    manifest = Manifest.parse(text.decode())
    assert (manifest.name, manifest.server, manifest.analysts) == ("m", 1, ("ann0",))
    assert tree == b""
    assert told(OLGA, model="m")[0]["left"] == 0


def test_the_list(told) -> None:
    assert [m["model"] for m in told(ANN)[0]["models"]] == ["m"]
    assert [m["model"] for m in told(OLGA)[0]["models"]] == ["m", "other"]


def test_refusals(told) -> None:
    refuses(Code.BAD_NAME, lambda: told(ANN, model="../m"))
    refuses(Code.BAD_MODEL_FILE, lambda: told(ANN, model="none"))
    refuses(Code.BAD_REQUEST, lambda: told(ANN, model=3))
    refuses(Code.BAD_REQUEST, lambda: told(ANN, name="m"))
