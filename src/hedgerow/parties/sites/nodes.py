"""`StoredNodes` and `NodeStore`: what a site keeps of a tree: its own nodes, as JSON.

A tree counts when all sites have their parts. The site that begins has every other site write its
part as pending, keeps its own, which is the decision, and then tells the others to keep theirs. A
pending part is replaced by the next attempt, or kept as soon as anybody uses the tree: nobody does
before the decision.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.table import OwnColumns
from hedgerow.parties.store.durable import read_small, remove_leftovers, replacing
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.site import Interior, Leaf, Node

ROOM = "ppid3"
"""Folder of these runs in the state of a site."""
SCHEMA, VERSION = "hedgerow.site-nodes", 1
MAX_NODES_BYTES = 1 << 28
_KEYS = {"schema", "version", "run", "job", "tree", "site", "root", "columns", "nodes"}
_TOKEN = re.compile(r"S([1-9][0-9]{0,3})L([1-9][0-9]{0,17})")
_TREE = re.compile(r"[0-9a-f]{32}")


def run_folder(config: PartyConfig, job: VerticalJob) -> Path:
    """Return the folder of a run at this site, made if need be."""
    return config.state.folder(ROOM, job.run_id)


def is_tree(text: object) -> bool:
    """Whether something is the identifier of an attempt, and of the tree that it grows."""
    return isinstance(text, str) and _TREE.fullmatch(text) is not None


@dataclass(frozen=True)
class StoredNodes:
    """The part of a tree that lies at one site.

    Attributes
    ----------
    tree : str
        Which attempt grew it, 32 hexadecimal digits; the same at all sites.
    root : Token
        Where the tree begins.
    nodes : dict of int to Node
        By number.
    """

    tree: str
    root: Token
    nodes: dict[int, Node]

    def to_json(self, job: VerticalJob, site: str, own: OwnColumns) -> str:
        """Write it, with the site's own names of attributes and values."""
        data = {
            "schema": SCHEMA,
            "version": VERSION,
            "run": job.run_id,
            "job": job.hash,
            "tree": self.tree,
            "site": site,
            "root": str(self.root),
            "columns": own.to_dict(),
            "nodes": {str(n): _written(node, own) for n, node in sorted(self.nodes.items())},
        }
        return json.dumps(data, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, job: VerticalJob, site: str, own: OwnColumns) -> StoredNodes:
        """Read it strictly.

        Raises
        ------
        HedgerowError
            H402 for another version, H401 for another job, site or domain, and for anything that is
            not as `to_json` writes it.
        """
        data = jsonfile.loads(text, Code.BAD_MODEL_FILE)
        if data.get("schema") == SCHEMA and data.get("version") != VERSION:
            raise Code.MODEL_VERSION.error(
                expected=f"version {VERSION}", found=f"version {data.get('version')!r}"
            )
        with jsonfile.refusing(Code.BAD_MODEL_FILE):
            if set(data) != _KEYS or data["schema"] != SCHEMA or not is_tree(data["tree"]):
                raise ValueError("other keys, or another schema")
            if (data["job"], data["site"]) != (job.hash, site):
                raise ValueError(f"nodes of {data['site']} in {data['run']}")
            if data["columns"] != json.loads(json.dumps(own.to_dict())):
                raise Code.BAD_SITES.error(
                    expected=f"the domain of {site} under which the tree of {job.run_id} was grown",
                    found="another one",
                    fix="serve it with that domain; another domain needs another tree, under "
                    "another name of the job",
                )
            if not isinstance(data["nodes"], dict):
                raise ValueError("no nodes by their numbers")
            nodes = {int(n): _read(node, own, job) for n, node in data["nodes"].items()}
            mine = job.sites.index(site)
            root = read_token(data["root"], job)
            for token in _tokens(nodes, root):
                if token.site == mine and token.node not in nodes:
                    raise ValueError(f"the token {token} of no node")
        return cls(data["tree"], root, nodes)


def read_token(text: object, job: VerticalJob) -> Token:
    """Read a token such as S2L4; `ValueError` if it names no site of the job."""
    found = _TOKEN.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[1]) > len(job.sites):
        raise ValueError(f"{jsonfile.shown(text)} in place of a token")
    return Token(int(found[1]) - 1, int(found[2]))


class NodeStore:
    """The nodes of one run at one site, on its disk.

    Parameters
    ----------
    folder : Path
        Of the run.
    job : VerticalJob
    site : str
    own : OwnColumns

    Attributes
    ----------
    kept, pending : StoredNodes or None
    """

    def __init__(self, folder: Path, job: VerticalJob, site: str, own: OwnColumns) -> None:
        self.folder, self._about = folder, (job, site, own)
        remove_leftovers(folder)
        self.kept = self._load("nodes.json")
        self.pending = None if self.kept else self._load("pending.json")

    def prepare(self, nodes: StoredNodes) -> None:
        """Write a part that counts when `keep` is called; on the disk when this returns."""
        with replacing(self.folder / "pending.json") as file:
            file.write(nodes.to_json(*self._about).encode())
        self.pending = nodes

    def keep(self, tree: str) -> StoredNodes:
        """Let the pending part of a tree count; H893 if there is none of it."""
        if self.kept is not None and self.kept.tree == tree:
            return self.kept
        if self.pending is None or self.pending.tree != tree or self.kept is not None:
            raise Code.WRONG_RUN_STATE.error(
                expected="a part of the tree that is about to be kept",
                found="a site that has none of it",
                fix="have the site that begins run `hedgerow site train` again",
            )
        with replacing(self.folder / "nodes.json") as file:
            file.write(self.pending.to_json(*self._about).encode())
        self.kept = self.pending
        self.discard()
        return self.kept

    def discard(self) -> None:
        """Forget a pending part."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "pending.json").unlink()
        self.pending = None

    def _load(self, name: str) -> StoredNodes | None:
        path = self.folder / name
        if not path.exists():
            return None
        text = read_small(path, MAX_NODES_BYTES, Code.BAD_MODEL_FILE)
        return StoredNodes.from_json(text, *self._about)


def _tokens(nodes: dict[int, Node], root: Token) -> list[Token]:
    inner = [node for node in nodes.values() if isinstance(node, Interior)]
    return [root, *(token for node in inner for token in node.children)]


def _written(node: Node, own: OwnColumns) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"counts": list(node.counts), "empty": node.empty}
    assert own.domain is not None
    attribute = own.domain.attributes[node.attribute]
    children = zip(attribute.labels(), node.children, strict=True)
    return {"attribute": attribute.name, "children": {v: str(token) for v, token in children}}


def _read(node: dict[str, Any], own: OwnColumns, job: VerticalJob) -> Node:
    if set(node) == {"counts", "empty"}:
        counts = node["counts"]
        if (
            own.target is None
            or len(counts) != job.n_classes
            or any(type(count) is not int or count < 0 for count in counts)
            or not isinstance(node["empty"], bool)
        ):
            raise ValueError("a leaf without a count for each class, or at a site without it")
        return Leaf(tuple(counts), node["empty"])
    if set(node) != {"attribute", "children"} or own.domain is None:
        raise ValueError("neither a leaf nor a node that tests an attribute")
    place = own.domain.index(node["attribute"])
    if list(node["children"]) != own.domain.attributes[place].labels():
        raise ValueError(f"other values of {node['attribute']!r} than the domain has")
    return Interior(place, tuple(read_token(text, job) for text in node["children"].values()))
