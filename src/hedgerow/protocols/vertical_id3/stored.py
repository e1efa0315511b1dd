"""A site after a run, as plain data: its part of the tree, and its records of what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import Announced
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.nodes import Interior, Leaf, Node
from hedgerow.protocols.vertical_id3.set_cardinality import Meter
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.table import SiteTable


def written_site(site: Site) -> dict[str, Any]:
    """Return what `read_site` needs; records are named by their ids alone."""
    return {
        "nodes": [[number, *_written(node)] for number, node in sorted(site.nodes.items())],
        "root": None if site.root is None else list(site.root),
        "announced": [[i, list(s.values), s.classes, s.records] for i, s in site.announced.items()],
        "meter": asdict(site.meter),
        "ledger": site.ledger.to_json(),
        "leakages": [leakage.to_json() for leakage in site.leakages],
        "ids": site.table.ids,
    }


def read_site(state: Mapping[str, Any], index: int, job: SiteJob, table: SiteTable) -> Site:
    """Return a site as it was after its run, from that and from its table as it was before."""
    site = Site(index, job, table.rows(np.flatnonzero(np.isin(table.ids, state["ids"]))))
    site.nodes = {int(number): _read(*node) for number, *node in state["nodes"]}
    site.root = None if state["root"] is None else Token(*map(int, state["root"]))
    site.announced = {
        int(i): Announced(tuple(values), classes, records)
        for i, values, classes, records in state["announced"]
    }
    site.meter = Meter(**state["meter"])
    site.ledger = Ledger.from_json(state["ledger"])
    site.leakages = [Leakage.from_json(text, site.ledger) for text in state["leakages"]]
    site.finished = site.grown = True
    return site


def _written(node: Node) -> list[Any]:
    if isinstance(node, Leaf):
        return ["leaf", list(node.counts), node.empty]
    return ["interior", node.attribute, [list(token) for token in node.children]]


def _read(kind: str, first: Any, second: Any) -> Node:
    if kind == "leaf":
        return Leaf(tuple(map(int, first)), bool(second))
    return Interior(int(first), tuple(Token(int(site), int(node)) for site, node in second))
