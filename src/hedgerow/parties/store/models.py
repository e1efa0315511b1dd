"""Models at rest: what a server keeps of a model, so that it can answer.

A folder ``state/models/<name>`` with ``shares.bin`` (in the vault), ``ledger.json``,
``leakage.json``, ``tree.json`` for a tree that was opened, and ``manifest.json``, which is public.
The manifest is written last: a model without one is not there yet. Its hash, and those of the
other files, are bound to the shares, so that none of them can be exchanged for another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.store.durable import StateFolder, read_small, replacing
from hedgerow.parties.store.vault import About, read_arrays, write_arrays
from hedgerow.privacy import Ledger
from hedgerow.protocols.kinds import kind_named

SCHEMA = "hedgerow.model at a server"
VERSION = 1
_MAX_FILE = 1 << 26
_ROOM = "models"
_FILES = ("ledger.json", "leakage.json", "tree.json")

Shares = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ModelManifest:
    """What is public about a model at a server.

    `read_plan` makes a plan of `plan`. `job` is a hash, `files` has SHA-256 of those beside it.
    `tag` is the same at the three servers if, and only if, their shares belong together. `arrays`
    has ``dtype`` and ``shape`` (without the axes of shares) of every shared array.
    """

    name: str
    kind: str
    server: int
    plan: dict[str, Any] = field(repr=False)
    run: str
    job: str
    tag: str
    populations: tuple[str, ...] = ()
    analysts: tuple[str, ...] = ()
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    files: dict[str, str] = field(default_factory=dict, repr=False)

    def read_plan(self) -> Any:
        """Return the plan; H401 for numbers that are no plan of this kind."""
        with jsonfile.refusing(Code.BAD_MODEL_FILE):
            return kind_named(self.kind).plan_type.from_dict(dict(self.plan))

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
            if (version := data.pop("version")) != VERSION:
                raise Code.MODEL_VERSION.error(found=f"version {jsonfile.shown(version)}")
            for key in ("populations", "analysts"):
                data[key] = tuple(data[key])
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
    key: bytes,
    manifest: ModelManifest,
    shares: Mapping[str, NDArray[Any]],
    *,
    ledger: str,
    leakage: str,
    tree: Mapping[str, Any] | None = None,
) -> ModelManifest:
    """Keep a model, with `arrays` and `files` filled in; the same one again changes nothing.

    There are no shares where the tree is public; `ledger` and `leakage` are JSON. H892 if there is
    another model of that name.
    """
    check_free(state, manifest.name, manifest.job)
    state.folder(_ROOM, manifest.name)
    texts = {"ledger.json": ledger, "leakage.json": leakage}
    if tree is not None:
        texts["tree.json"] = json.dumps(tree, allow_nan=False)
    arrays = {
        name: {"dtype": array.dtype.name, "shape": list(array.shape[2:])}
        for name, array in shares.items()
    }
    files = {name: _digest(text) for name, text in texts.items()}
    whole = ModelManifest(**{**vars(manifest), "arrays": arrays, "files": files})
    path = state.path(_ROOM, manifest.name, "shares.bin")
    write_arrays(path, dict(shares), key, about=_about(whole))
    for name, text in (*texts.items(), ("manifest.json", whole.to_json())):
        with replacing(state.path(_ROOM, manifest.name, name)) as file:
            file.write(text.encode())
    return whole


def read_manifest(state: StateFolder, name: str) -> ModelManifest:
    """Return the manifest of a model; H407 if there is none, H401 or H409 if it is not whole."""
    path = state.path(_ROOM, check_name(name, "model"), "manifest.json")
    if not path.exists():
        raise Code.UNKNOWN_MODEL.error(
            expected="the name of a model that this server keeps",
            found=f"{name}, which it does not",
        )
    manifest = ModelManifest.parse(read_small(path, _MAX_FILE, Code.BAD_MODEL_FILE))
    if manifest.name != name:
        raise Code.MODEL_DAMAGED.error(found=f"a manifest of {manifest.name} for {name}")
    return manifest


def open_model(state: StateFolder, key: bytes, name: str) -> StoredModel:
    """Return a checked model; H407 if none, H409 for another file, H860 to H864 from the vault."""
    manifest = read_manifest(state, name)
    shares = read_arrays(state.path(_ROOM, name, "shares.bin"), key, about=_about(manifest))
    texts = {}
    for file, digest in manifest.files.items():
        if file not in _FILES:
            raise Code.MODEL_DAMAGED.error(found=f"a manifest that names {jsonfile.shown(file)}")
        text = read_small(state.path(_ROOM, name, file), _MAX_FILE, Code.BAD_MODEL_FILE)
        if _digest(text) != digest:
            raise Code.MODEL_DAMAGED.error(
                expected=f"{file} of model {name} as it was written", found="a file that differs"
            )
        texts[file] = text
    tree = texts.get("tree.json")
    return StoredModel(
        manifest,
        shares,
        texts.get("ledger.json", ""),
        texts.get("leakage.json", ""),
        None if tree is None else jsonfile.loads(tree, Code.BAD_MODEL_FILE),
    )


def list_models(state: StateFolder) -> Iterator[ModelManifest]:
    """Manifests of all models that are there, by name."""
    for name in state.names(_ROOM):
        if state.path(_ROOM, name, "manifest.json").exists():
            yield read_manifest(state, name)


def check_free(state: StateFolder, name: str, job: str) -> None:
    """Refuse, with H892, a name that the model of another job has."""
    if not state.path(_ROOM, check_name(name, "model"), "manifest.json").exists():
        return
    known = read_manifest(state, name)
    if known.job != job:
        raise Code.MODEL_EXISTS.error(
            expected=f"a name other than {name}", found=f"the model {name} of run {known.run}"
        )


def _about(manifest: ModelManifest) -> About:
    return {
        "kind": "model",
        "model": manifest.name,
        "server": manifest.server,
        "manifest": _digest(manifest.to_json()),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
