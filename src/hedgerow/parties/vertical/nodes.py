"""`StoredNodes`: the part of a tree that lies at one site, as the site's model has it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.vertical.columns import OwnColumns
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.site import Interior, Leaf, Node

SCHEMA, VERSION = "hedgerow.site-nodes", 3
_NAMED = 2
"""The version that named the protocol once more, beside the manifest."""
_KEYS = {"schema", "version", "run", "job", "site", "root", "columns", "nodes", "learned"}
_TOKEN = re.compile(r"S([1-9][0-9]{0,3})L([1-9][0-9]{0,17})")


@dataclass(frozen=True)
class StoredNodes:
    """The nodes of one site; the root is the same at all sites.

    `learned` has what was declared and shown, each a `Leakage` as plain data: first while the sites
    set up, then while the tree grew.
    """

    root: Token
    nodes: dict[int, Node]
    learned: list[dict[str, Any]]

    def to_dict(self, job: VerticalJob, site: str, own: OwnColumns) -> dict[str, Any]:
        """Return plain data, with the site's own names of attributes and values."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "run": job.run_id,
            "job": job.hash,
            "site": site,
            "root": str(self.root),
            "columns": own.to_dict(),
            "nodes": {str(n): _write_node(node, own) for n, node in sorted(self.nodes.items())},
            "learned": self.learned,
        }

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], job: VerticalJob, site: str, own: OwnColumns
    ) -> StoredNodes:
        """Read it strictly.

        H402 for another version, H755 for another domain than that under which the tree was grown,
        H401 for another job or site, and for anything that is not as `to_dict` writes it.
        """
        if data.get("schema") == SCHEMA and data.get("version") == _NAMED:
            data = {key: value for key, value in data.items() if key != "kind"}
        elif data.get("schema") == SCHEMA and data.get("version") != VERSION:
            raise Code.MODEL_VERSION.error(
                expected=f"version {VERSION}", found=f"version {data.get('version')!r}"
            )
        with jsonfile.refusing(Code.BAD_MODEL_FILE):
            if set(data) != _KEYS or data["schema"] != SCHEMA:
                raise ValueError("other keys, or another schema")
            if (data["job"], data["site"]) != (job.hash, site):
                raise ValueError(f"nodes of {data['site']} in {data['run']}")
            if data["columns"] != json.loads(json.dumps(own.to_dict())):
                raise Code.BAD_SITES.error(
                    expected=f"the domain of {site} under which the tree of {job.run_id} was grown",
                    found="another one",
                    fix="name that domain with `hedgerow upload --here`; another domain needs "
                    "another tree, under another name of the job",
                )
            if not isinstance(data["nodes"], dict):
                raise ValueError("no nodes by their numbers")
            nodes = {int(n): _read_node(node, own, job) for n, node in data["nodes"].items()}
            mine = job.sites.index(site)
            root = read_token(data["root"], job)
            for token in _tokens(nodes, root):
                if token.site == mine and token.node not in nodes:
                    raise ValueError(f"the token {token} of no node")
        return cls(root, nodes, data["learned"])


def read_token(text: object, job: VerticalJob) -> Token:
    """Read a token such as S2L4; `ValueError` if it names no site of the job."""
    found = _TOKEN.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found[1]) > len(job.sites):
        raise ValueError(f"{jsonfile.shown(text)} in place of a token")
    return Token(int(found[1]) - 1, int(found[2]))


def _tokens(nodes: dict[int, Node], root: Token) -> list[Token]:
    inner = [node for node in nodes.values() if isinstance(node, Interior)]
    return [root, *(token for node in inner for token in node.children)]


def _write_node(node: Node, own: OwnColumns) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"counts": list(node.counts), "empty": node.empty}
    assert own.domain is not None
    attribute = own.domain.attributes[node.attribute]
    children = zip(attribute.labels(), node.children, strict=True)
    return {"attribute": attribute.name, "children": {v: str(token) for v, token in children}}


def _read_node(node: dict[str, Any], own: OwnColumns, job: VerticalJob) -> Node:
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
