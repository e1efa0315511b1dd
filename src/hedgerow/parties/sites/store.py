"""What a party of a run keeps on its disk: a site its own nodes, everybody what it has learned.

A tree counts when all sites have their parts. The site that begins has every other site write its
part as pending, keeps its own, which is the decision, and then tells the others to keep theirs. A
pending part is replaced by the next attempt, or kept as soon as anybody uses the tree: nobody does
before the decision.

What was learned in an attempt that failed was learned all the same, so every attempt has a record.
It is begun before anything arrives: that of a site which was killed says that no more is known than
the declaration.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.table import OwnColumns
from hedgerow.parties.store.database import Store, open_store
from hedgerow.parties.store.durable import read_small, remove_leftovers, replacing, sync_folder
from hedgerow.privacy import Leakage, Ledger, Release
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.site import Interior, Leaf, Node

ROOM = "ppid3"
"""Folder of these runs in the state of a site."""
NODES_SCHEMA, NODES_VERSION = "hedgerow.site-nodes", 1
MAX_NODES_BYTES = 1 << 28
_NODES_KEYS = {"schema", "version", "run", "job", "tree", "site", "root", "columns", "nodes"}
_TOKEN = re.compile(r"S([1-9][0-9]{0,3})L([1-9][0-9]{0,17})")
_TREE = re.compile(r"[0-9a-f]{32}")
LEARNED_SCHEMA, LEARNED_VERSION = "hedgerow.site-learned", 1
UNDER_WAY, GROWN, ANSWERING = "under way, or killed", "grown", "answering"
ANY_NUMBER = 1 << 60
"""So often or more often is as often as one likes."""
_MAX_BYTES = 1 << 26
LEDGER = "ledger.json"
_ANSWERS = "answers"
_KEPT, _PENDING = "kept", "pending"
_OWN = ("attempt", "begun", "state", "rows", "counted")
_LEARNED_KEYS = {"schema", "version", *_OWN}


@dataclass(frozen=True)
class RunRoom:
    """Where a party keeps a run: rows of its store, and a folder for what people read."""

    store: Store
    run: str
    folder: Path

    @classmethod
    def of(cls, config: PartyConfig, job: VerticalJob) -> RunRoom:
        """Return the room of a run, made if need be, with what an earlier version has left."""
        folder = config.state.folder(ROOM, job.run_id)
        room = cls(open_store(config.state), job.run_id, folder)
        room._take_over()
        return room

    def _take_over(self) -> None:
        """Take over nodes and records that an earlier version kept in files of the folder."""
        parts = {_KEPT: self.folder / "nodes.json", _PENDING: self.folder / "pending.json"}
        records = self.folder / "learned"
        found = [path for path in (*parts.values(), records) if path.exists()]
        if not found:
            return
        with self.store.transaction("import a site's run") as made:
            for state, path in parts.items():
                if path.exists():
                    text = read_small(path, MAX_NODES_BYTES, Code.BAD_MODEL_FILE)
                    made.put_site_nodes(self.run, state, text)
            for path in records.glob("[!.]*.json"):
                text = read_small(path, _MAX_BYTES, Code.BAD_LEDGER_FILE)
                made.put_learned(self.run, path.stem, text)
        for path in found:
            path.rename(path.with_name(f"imported-{path.name}"))
        sync_folder(self.folder)


def is_tree(text: object) -> bool:
    """Whether something is the identifier of an attempt, and of the tree that it grows."""
    return isinstance(text, str) and _TREE.fullmatch(text) is not None


@dataclass(frozen=True)
class StoredNodes:
    """The part of a tree that lies at one site.

    The attempt that grew it, 32 hexadecimal digits, and the root are the same at all sites.
    """

    tree: str
    root: Token
    nodes: dict[int, Node]

    def to_json(self, job: VerticalJob, site: str, own: OwnColumns) -> str:
        """Write it, with the site's own names of attributes and values."""
        data = {
            "schema": NODES_SCHEMA,
            "version": NODES_VERSION,
            "run": job.run_id,
            "job": job.hash,
            "tree": self.tree,
            "site": site,
            "root": str(self.root),
            "columns": own.to_dict(),
            "nodes": {str(n): _write_node(node, own) for n, node in sorted(self.nodes.items())},
        }
        return json.dumps(data, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, job: VerticalJob, site: str, own: OwnColumns) -> StoredNodes:
        """Read it strictly.

        H402 for another version, H401 for another job, site or domain, and for anything that is not
        as `to_json` writes it.
        """
        data = jsonfile.loads(text, Code.BAD_MODEL_FILE)
        if data.get("schema") == NODES_SCHEMA and data.get("version") != NODES_VERSION:
            raise Code.MODEL_VERSION.error(
                expected=f"version {NODES_VERSION}", found=f"version {data.get('version')!r}"
            )
        with jsonfile.refusing(Code.BAD_MODEL_FILE):
            if (
                set(data) != _NODES_KEYS
                or data["schema"] != NODES_SCHEMA
                or not is_tree(data["tree"])
            ):
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
            nodes = {int(n): _read_node(node, own, job) for n, node in data["nodes"].items()}
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
    """The nodes of one run at one site, on its disk: those that count, or those pending."""

    def __init__(self, room: RunRoom, job: VerticalJob, site: str, own: OwnColumns) -> None:
        self._store, self._run, self._about = room.store, room.run, (job, site, own)
        remove_leftovers(room.folder)
        self.kept = self._load(_KEPT)
        self.pending = None if self.kept else self._load(_PENDING)

    def prepare(self, nodes: StoredNodes) -> None:
        """Write a part that counts when `keep` is called; on the disk when this returns."""
        with self._store.transaction("prepare nodes") as made:
            made.put_site_nodes(self._run, _PENDING, nodes.to_json(*self._about))
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
        with self._store.transaction("keep nodes") as made:
            made.put_site_nodes(self._run, _KEPT, self.pending.to_json(*self._about))
            made.drop_site_nodes(self._run, _PENDING)
            made.tell("model", {"run": self._run, "tree": tree})
        self.kept, self.pending = self.pending, None
        return self.kept

    def discard(self) -> None:
        """Forget a pending part."""
        if self.pending is not None:
            with self._store.transaction("discard nodes") as made:
                made.drop_site_nodes(self._run, _PENDING)
        self.pending = None

    def _load(self, state: str) -> StoredNodes | None:
        with self._store.snapshot() as made:
            text = made.site_nodes(self._run, state)
        return None if text is None else StoredNodes.from_json(text, *self._about)


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


@dataclass
class LearnedRecord:
    """The record of one attempt, or of the answers: what questions have shown since.

    A row for each declared name: name, declared (times at most), learned (times), values, why.
    `begun` is in seconds since 1970; `counted` if the attempt got as far as counting records.
    """

    room: RunRoom
    attempt: str
    begun: float = field(default_factory=time.time)
    state: str = UNDER_WAY
    rows: list[dict[str, Any]] = field(default_factory=list)
    counted: bool = False

    def __post_init__(self) -> None:
        self._before = {row["name"]: (row["learned"], row["values"]) for row in self.rows}

    @classmethod
    def of_answers(cls, room: RunRoom) -> LearnedRecord:
        """Return the record of answers, with what earlier processes have written."""
        for one in cls.all_of(room):
            if one.attempt == _ANSWERS:
                return one
        return cls(room, _ANSWERS, state=ANSWERING)

    @classmethod
    def all_of(cls, room: RunRoom) -> list[LearnedRecord]:
        """Read the records of a run, in the order of their beginning."""
        with room.store.snapshot() as made:
            texts = made.learned(room.run).values()
        return sorted((cls._read(room, text) for text in texts), key=lambda one: one.begun)

    @classmethod
    def earlier(cls, room: RunRoom) -> int:
        """Return how many attempts of a run have begun to count, however they ended.

        Of one whose process was killed it is not known, so it is one of them.
        """
        attempts = [one for one in cls.all_of(room) if one.state != ANSWERING]
        return sum(one.counted or one.state == UNDER_WAY for one in attempts)

    @classmethod
    def exists(cls, room: RunRoom, attempt: str) -> bool:
        """Whether there is a record of an attempt: its identifier must not be used again."""
        with room.store.snapshot() as made:
            return attempt in made.learned(room.run)

    @classmethod
    def _read(cls, room: RunRoom, text: str) -> LearnedRecord:
        data = jsonfile.loads(text, Code.BAD_LEDGER_FILE)
        if set(data) != _LEARNED_KEYS or (data["schema"], data["version"]) != (
            LEARNED_SCHEMA,
            LEARNED_VERSION,
        ):
            raise Code.BAD_LEDGER_FILE.error(
                found=f"a record of {room.run} in another schema or version"
            )
        return cls(room, *(data[key] for key in _OWN))

    def write(
        self, leakages: list[Leakage], state: str | None = None, *, counted: bool = False
    ) -> None:
        """Replace the record by what the declarations say now; on the disk when this returns."""
        self.state, self.counted = state or self.state, counted
        self.rows = [row for leakage in leakages for row in _rows(leakage)]
        self._write()

    def write_more(self, leakage: Leakage) -> None:
        """Replace the record by what it had when it was read and what was learned since."""
        self.rows = _rows(leakage)
        for row in self.rows:
            times, values = self._before.get(row["name"], (0, 0))
            row["learned"] += times
            row["values"] += values
        self._write()

    def _write(self) -> None:
        own = {key: getattr(self, key) for key in _OWN}
        data = {"schema": LEARNED_SCHEMA, "version": LEARNED_VERSION, **own}
        with self.room.store.transaction("record what was learned") as made:
            made.put_learned(self.room.run, self.attempt, json.dumps(data))


def write_ledger(folder: Path, ledger: Ledger) -> None:
    """Replace the ledger of a run; on the disk when this returns."""
    with replacing(folder / LEDGER) as file:
        file.write(ledger.to_json().encode())


def charge_later(folder: Path, releases: Sequence[Release]) -> None:
    """Charge what came after the tree was grown to the ledger of its run, once.

    Releases that were charged before, under the same reason, are left out.
    """
    path, ledger = folder / LEDGER, Ledger()
    if path.exists():
        text = read_small(path, _MAX_BYTES, Code.BAD_LEDGER_FILE)
        ledger = Ledger.from_json(text)
    due = [one for one in releases if not ledger.charged(one.reason, one.audience)]
    if due:
        ledger.charge(*due)
        write_ledger(folder, ledger)


def _rows(leakage: Leakage) -> list[dict[str, Any]]:
    """Return declaration and record side by side."""
    audience = leakage.openings[0].audience
    seen = {row["name"]: row for row in leakage.what_was_learned(audience)}
    return [
        {
            "name": row["name"],
            # A bound on the worst case may have more digits than readers of JSON take.
            "declared": min(row["times"], ANY_NUMBER),
            "learned": seen.get(row["name"], {}).get("times", 0),
            "values": seen.get(row["name"], {}).get("values", 0),
            "why": row["why"],
        }
        for row in leakage.declaration()
        if row["audience"] == audience
    ]
