"""Models at rest: found again as they were, or refused."""

from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.models import (
    ModelManifest,
    check_free,
    list_models,
    open_model,
    read_manifest,
    write_model,
)
from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.tables import Attribute, Domain, Target
from tests.parties.wire.parties_calls import refuses

KEY = bytes(32)
DOMAIN = Domain(
    attributes=(Attribute(name="a", kind="categorical", categories=("x", "y")),),
    target=Target(name="y", classes=(0, 1)),
    capacity=10,
)
PLAN = plan_hidden(DOMAIN, noise="none", depth=1)
SHARES = {"splits": np.arange(8, dtype=np.uint16).reshape(1, 2, 1, 2, 2)}


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


def manifest(name: str = "m-1", job: str = "ab" * 32, **changes) -> ModelManifest:
    fields = {
        "name": name,
        "protocol": "hidden-tree",
        "server": 1,
        "plan": PLAN.to_dict(),
        "run": "r-1",
        "job": job,
        "tag": "cd" * 32,
        "populations": ("patients",),
        "analysts": ("zoe",),
    }
    return ModelManifest(**fields | changes)


def write(state: StateFolder, about: ModelManifest, **options) -> ModelManifest:
    ledger = Ledger().to_json()
    return write_model(state, KEY, about, SHARES, ledger=ledger, leakage="{}", **options)


def test_a_model_is_there_again(state: StateFolder) -> None:
    written = write(state, manifest())
    found = open_model(state, KEY, "m-1")
    assert found.manifest == written == read_manifest(state, "m-1")
    assert written.arrays == {"splits": {"dtype": "uint16", "shape": [1, 2, 2]}}
    np.testing.assert_array_equal(found.shares["splits"], SHARES["splits"])
    assert found.tree is None
    assert found.read_ledger().entries == ()
    assert found.manifest.read_plan() == PLAN
    write(state, manifest("m-0"), tree={"nodes": [1, 2]})
    assert open_model(state, KEY, "m-0").tree == {"nodes": [1, 2]}
    assert [one.name for one in list_models(state)] == ["m-0", "m-1"]


def test_a_model_is_never_replaced_by_another(state: StateFolder) -> None:
    check_free(state, "m-1", "ab" * 32)
    write(state, manifest())
    write(state, manifest())
    refuses(Code.MODEL_EXISTS, lambda: write(state, manifest(job="ef" * 32)))
    refuses(Code.MODEL_EXISTS, lambda: check_free(state, "m-1", "ef" * 32))


def test_names_that_are_none(state: StateFolder) -> None:
    refuses(Code.UNKNOWN_MODEL, lambda: open_model(state, KEY, "m-1"))
    for name in ("../m-1", "/etc", "M", ""):
        refuses(Code.BAD_NAME, lambda name=name: open_model(state, KEY, name))


def test_what_was_changed_is_refused(state: StateFolder) -> None:
    write(state, manifest())
    write(state, manifest("m-2"))
    store, folder = open_store(state), state.root / "models"
    with store.snapshot() as made:
        good = {row["name"]: row for row in made.rows("models")}

    def change(name: str, column: str, text: str) -> None:
        with store.transaction("change") as made:
            made.put("models", {**good[name], column: text})

    refuses(Code.VAULT_WRONG_KEY, lambda: open_model(state, bytes([1]) * 32, "m-1"))
    for column in ("ledger", "leakage"):
        change("m-1", column, good["m-1"][column] + " ")
        refuses(Code.MODEL_DAMAGED, lambda: open_model(state, KEY, "m-1"))
    with store.transaction("put back") as made:
        made.put("models", good["m-1"])
    # The shares of another model.
    (folder / "m-1/shares.bin").write_bytes((folder / "m-2/shares.bin").read_bytes())
    refuses(Code.VAULT_OF_ANOTHER, lambda: open_model(state, KEY, "m-1"))
    # A manifest that promises more than was paid.
    text = good["m-2"]["manifest"]
    change("m-2", "manifest", text.replace("zoe", "eve"))
    refuses(Code.VAULT_OF_ANOTHER, lambda: open_model(state, KEY, "m-2"))
    change("m-2", "manifest", text.replace('"m-2"', '"m-3"'))
    refuses(Code.MODEL_DAMAGED, lambda: open_model(state, KEY, "m-2"))
    change("m-2", "manifest", text.replace('"version": 2', '"version": 3'))
    refuses(Code.MODEL_VERSION, lambda: open_model(state, KEY, "m-2"))
    change("m-2", "manifest", text.replace("a server", "nobody"))
    refuses(Code.BAD_MODEL_FILE, lambda: open_model(state, KEY, "m-2"))
    # Shares without a row are no model yet.
    store._base.execute("DELETE FROM models WHERE name = 'm-2'")
    assert (folder / "m-2/shares.bin").exists()
    assert [one.name for one in list_models(state)] == ["m-1"]


def test_a_model_is_told_once(state: StateFolder) -> None:
    write(state, manifest())
    write(state, manifest())
    with open_store(state).snapshot() as made:
        (told,) = [entry.fields() for entry in made.trail()]
    assert told == {"model": "m-1", "run": "r-1", "hash": "ab" * 32, "tag": "cd" * 32}


@pytest.mark.parametrize("room", ["models", "uploads"])
def test_manifests_of_an_earlier_version_are_refused(state: StateFolder, room: str) -> None:
    (state.folder(room, "m-1") / "manifest.json").write_text("{}")
    assert "manifest.json" in refuses(Code.STATE_VERSION, lambda: Store(state)).found
