"""Models at rest: what a server keeps of a model, so that it can answer.

A row of the party's store with the manifest, of which others are told a part, the ledger, the
leakage, and the tree if it was opened; beside it ``state/models/<name>/shares.bin``, in the vault.
The row is written last: a model without one is not there yet. The hash of the manifest, which has
those of the other texts, is bound to the shares, so that none of them can be exchanged for another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.store.database import Row, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.vault import About, read_arrays, write_arrays
from hedgerow.privacy import Ledger
from hedgerow.protocols.registry import (
    IN_PIECES,
    PEER_PROTOCOLS,
    TOPDOWN,
    VERTICAL,
    current_name,
    server_protocol,
)
from hedgerow.protocols.topdown.options import read_plan
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.plan import Session

SCHEMA = "hedgerow.model at a server"
VERSION = 2
_NAMED_KIND = 1
"""The version whose manifests had the protocol as their kind, by the names of then."""
ROOM = "models"
_TEXTS = {"ledger.json": "ledger", "leakage.json": "leakage", "tree.json": "tree"}

Shares = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ModelManifest:
    """What is kept about a model at a server; `for_others` is what leaves it.

    `read_plan` makes a plan of `plan`. `job` is a hash, `files` has SHA-256 of those beside it.
    `tag` is the same at the three servers if, and only if, their shares belong together. `arrays`
    has ``dtype`` and ``shape`` (without the axes of shares) of every shared array. `members` took
    part and keep it; none are named where that is the three servers.
    """

    name: str
    protocol: str
    server: int
    plan: dict[str, Any] = field(repr=False)
    run: str
    job: str
    tag: str
    populations: tuple[str, ...] = ()
    analysts: tuple[str, ...] = ()
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)
    members: tuple[str, ...] = ()

    def read_plan(self) -> Any:
        """Return the plan; H401 for numbers that are no plan of this protocol."""
        with jsonfile.refusing(Code.BAD_MODEL_FILE):
            if self.protocol == TOPDOWN:
                return read_plan(dict(self.plan))
            if self.protocol == VERTICAL:
                return Session(SiteJob(**self.plan["job"]), {}, self.plan["secret"])
            if (among_peers := PEER_PROTOCOLS.get(self.protocol)) is not None:
                return among_peers.plan_type.from_dict(dict(self.plan))
            return server_protocol(self.protocol).plan_type.from_dict(dict(self.plan))

    def for_others(self) -> ModelManifest:
        """Return what others are told.

        No `files`: who knows all else that is in a text finds the rest by its hash. Of a tree in
        pieces, neither plan nor what depends on records: it is asked by those who have them.
        """
        if self.protocol in IN_PIECES:
            return replace(self, plan={}, tag="", arrays={}, files={})
        return replace(self, files={})

    def to_json(self) -> str:
        """Write it; the same manifest is the same text."""
        data = {"schema": SCHEMA, "version": VERSION, **asdict(self)}
        return json.dumps(data, sort_keys=True, indent=1, allow_nan=False)

    @classmethod
    def parse(cls, text: str) -> ModelManifest:
        """Read what `to_json` wrote; H401 for anything else, H402 for another version."""
        code = Code.BAD_MODEL_FILE
        data = jsonfile.loads(text, code)
        with jsonfile.refusing(code):
            if data.pop("schema") != SCHEMA:
                raise code.error(found="a manifest of another schema")
            if (version := data.pop("version")) == _NAMED_KIND:
                data["protocol"] = current_name(data.pop("kind"))
            elif version != VERSION:
                raise Code.MODEL_VERSION.error(found=f"version {jsonfile.shown(version)}")
            for key in ("populations", "analysts", "members"):
                data[key] = tuple(data.get(key, ()))
            return cls(**data)


@dataclass(frozen=True)
class StoredModel:
    """A model that was opened: the shares of this server, or the tree; JSON as training left it."""

    manifest: ModelManifest
    shares: Shares = field(repr=False)
    ledger: str = field(repr=False)
    leakage: str = field(repr=False)
    tree: dict[str, Any] | None = field(default=None, repr=False)

    def read_ledger(self) -> Ledger:
        """Return the ledger, every check replayed."""
        return Ledger.from_json(self.ledger)


def write_model(
    state: StateFolder,
    key: bytes | None,
    manifest: ModelManifest,
    shares: Mapping[str, NDArray[Any]],
    *,
    ledger: str,
    leakage: str,
    tree: Mapping[str, Any] | None = None,
) -> ModelManifest:
    """Keep a model, with `arrays` and `files` filled in; the same one again changes nothing.

    There are no shares where the tree is public, and a party that holds none needs no `key`;
    `ledger` and `leakage` are JSON. H892 if there is
    another model of that name.
    """
    check_free(state, manifest.name, manifest.job)
    state.folder(ROOM, manifest.name)
    texts = {"ledger.json": ledger, "leakage.json": leakage}
    if tree is not None:
        texts["tree.json"] = json.dumps(tree, allow_nan=False)
    arrays = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape[2:])}
        for name, array in shares.items()
    }
    files = {name: _digest(text) for name, text in texts.items()}
    whole = ModelManifest(**{**vars(manifest), "arrays": arrays, "files": files})
    if key is not None:
        path = state.path(ROOM, manifest.name, "shares.bin")
        write_arrays(path, dict(shares), key, about=_about(whole, whole.to_json()))
    row = {column: texts.get(name) for name, column in _TEXTS.items()}
    with open_store(state).transaction("keep a model") as made:
        new = made.row("models", name=manifest.name) is None
        made.put("models", {"name": manifest.name, "manifest": whole.to_json(), **row})
        if new:
            told = {"model": whole.name, "run": whole.run, "hash": whole.job, "tag": whole.tag}
            made.tell("model", told)
    return whole


def read_manifest(state: StateFolder, name: str) -> ModelManifest:
    """Return the manifest of a model; H407 if there is none, H401 or H409 if it is not whole."""
    return _manifest(_row(state, name))


def open_model(state: StateFolder, key: bytes | None, name: str) -> StoredModel:
    """Return a checked model; H407 if none, H409 for another text, H860 to H864 from the vault."""
    row = _row(state, name)
    manifest = _manifest(row)
    shares: Shares = {}
    if key is not None:
        path = state.path(ROOM, name, "shares.bin")
        shares = read_arrays(path, key, about=_about(manifest, row["manifest"]))
    for file, digest in manifest.files.items():
        if file not in _TEXTS:
            raise Code.MODEL_DAMAGED.error(found=f"a manifest that names {jsonfile.shown(file)}")
        if _digest(row[_TEXTS[file]] or "") != digest:
            raise Code.MODEL_DAMAGED.error(
                expected=f"{file} of model {name} as it was written", found="a text that differs"
            )
    tree = row["tree"]
    tree = None if tree is None else jsonfile.loads(tree, Code.BAD_MODEL_FILE)
    return StoredModel(manifest, shares, row["ledger"], row["leakage"], tree)


def list_models(state: StateFolder) -> Iterator[ModelManifest]:
    """Manifests of all models that are there, by name."""
    with open_store(state).snapshot() as made:
        rows = made.rows("models")
    yield from map(_manifest, rows)


def check_free(state: StateFolder, name: str, job: str) -> None:
    """Refuse, with H892, a name that the model of another job has."""
    row = _find(state, name)
    if row is None:
        return
    known = _manifest(row)
    if known.job != job:
        raise Code.MODEL_EXISTS.error(
            expected=f"a name other than {name}", found=f"the model {name} of run {known.run}"
        )


def _find(state: StateFolder, name: str) -> Row | None:
    with open_store(state).snapshot() as made:
        return made.row("models", name=check_name(name, "model"))


def _row(state: StateFolder, name: str) -> Row:
    row = _find(state, name)
    if row is None:
        raise Code.UNKNOWN_MODEL.error(
            expected="the name of a model that this party keeps",
            found=f"{name}, which it does not",
        )
    return row


def _manifest(row: Row) -> ModelManifest:
    manifest = ModelManifest.parse(row["manifest"])
    if manifest.name != row["name"]:
        raise Code.MODEL_DAMAGED.error(found=f"a manifest of {manifest.name} for {row['name']}")
    return manifest


def _about(manifest: ModelManifest, text: str) -> About:
    """Bind shares to the text of the manifest as it is kept, whichever version has written it."""
    return {
        "kind": "model",
        "model": manifest.name,
        "server": manifest.server,
        "manifest": _digest(text),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
