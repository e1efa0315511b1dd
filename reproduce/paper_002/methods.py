"""One tree among several sites, both ways of counting, with everything that it costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from hedgerow.crypto.commutative import Curve25519Cipher
from hedgerow.crypto.sealed import SealingKey
from hedgerow.net.simulator import Simulator
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import PassSet, Token
from hedgerow.protocols.vertical_id3.run import joined_tree
from hedgerow.protocols.vertical_id3.secret.server import CountServers
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.tables import Encoded
from hedgerow.trees import grow_id3
from hedgerow.trees.tree import Tree
from reproduce.paper_002 import data
from reproduce.paper_002.formulas import Section5, literal_cost
from reproduce.paper_002.local_sites import LocalSites, ServerQuestions
from reproduce.paper_002.wire import Wire

Counting = Literal["ring", "needed", "secret"]

COUNTINGS: dict[Counting, str] = {
    "ring": "ring of all sites",
    "needed": "ring of the sites that matter",
    "secret": "secret counts",
}
"""As published; the default of `VerticalID3Classifier`; and its `cardinality="secret"`."""
WIDTH = Curve25519Cipher.width
"""Bytes of an element: the paper's bitsize is eight times this."""

READ: dict[str, Callable[..., Encoded]] = {
    "weather": data.weather,
    "random": data.random_table,
    "car": data.car,
    "mushroom": data.mushroom,
}


@dataclass(frozen=True)
class Setting:
    """One run, in public numbers; `sizes` are what the table is made with."""

    table: str
    sizes: tuple[int, ...] = ()
    k: int = 2
    class_at: Literal["first", "last", "all"] = "last"
    counting: Counting = "ring"
    max_depth: int | None = None

    @property
    def groups(self) -> list[list[int]]:
        """Columns of each site."""
        return data.dealt(self.read().n_features, self.k)

    @property
    def holder(self) -> int | None:
        """The site that holds the class; None if all do."""
        return {"first": 0, "last": self.k - 1, "all": None}[self.class_at]

    def read(self) -> Encoded:
        """Make or read the table."""
        return READ[self.table](*self.sizes)


class GrownSites:
    """Sites with the tree that they have grown, in this process, and all that was sent for it.

    `look` is given the sites before the first message.
    """

    def __init__(
        self,
        table: Encoded,
        groups: Sequence[Sequence[int]],
        class_at: int | None,
        counting: Counting,
        *,
        max_depth: int | None = None,
        look: Callable[[list[Site]], None] = lambda sites: None,
    ) -> None:
        self.table, self.groups = table, groups
        ring: Literal["all", "needed"] = "all" if counting == "ring" else "needed"
        n_classes = data.n_classes_of(table)
        job = SiteJob(len(groups), class_at, n_classes, max_depth=max_depth, ring=ring)
        self.network = Simulator(SERVERS)
        to_servers = None
        if counting == "secret":
            keys = {server: SealingKey() for server in range(SERVERS)}
            job = replace(job, server_keys=tuple(key.public.hex() for key in keys.values()))
            servers = CountServers(job, keys, lambda: self.network)
            to_servers = ServerQuestions(servers.answers)
        own = data.tables_of(table, groups, class_at)
        self.sites = [Site(i, job, part) for i, part in enumerate(own)]
        self.wire = Wire()
        self.local = LocalSites(self.sites, self.wire, to_servers)
        look(self.sites)
        self.root: Token = self.local.grow()
        self.rounds = self.local.rounds

    @property
    def tree(self) -> Tree:
        """The tree put together."""
        return joined_tree(self.sites, self.root, self.table.domain, self.groups)

    def learned(self, by: Literal["name", "why"] = "name") -> dict[str, int]:
        """Return how many values all sites together learned, by what they are or why."""
        found: Counter[str] = Counter()
        for site in self.sites:
            for one in site.what_was_learned():
                found[one[by]] += one["values"]
        return dict(found)


def run(setting: Setting) -> dict[str, Any]:
    """Grow the tree of a setting; return what it cost beside what the paper says it does."""
    table, groups = setting.read(), setting.groups
    start = time.perf_counter()
    grown = GrownSites(table, groups, setting.holder, setting.counting, max_depth=setting.max_depth)
    seconds = time.perf_counter() - start
    tree = grow_id3(table, max_depth=setting.max_depth)
    meters = [site.meter for site in grown.sites]
    sets = grown.wire.of(PassSet)
    elements: Counter[int] = Counter()
    for one in sets:
        elements[one.call] += sum(map(len, one.groups)) // WIDTH
    servers = grown.network.meter.snapshot()
    return {
        **asdict(setting),
        **counted(setting, table, tree),
        "is_id3": grown.tree == tree,
        "measured": {
            "intersections": sum(meter.intersections for meter in meters),
            "passes": sum(meter.passes for meter in meters),
            "encryptions": sum(meter.encryptions for meter in meters),
            "busiest_site": max(meter.encryptions for meter in meters),
            "comparisons": sum(meter.comparisons for meter in meters),
            "messages": len(grown.wire.messages),
            "bytes": grown.wire.bytes + sum(servers.payload),
            "sets_sent": len(sets),
            "set_bytes": WIDTH * elements.total(),
            "largest_pass": max(elements.values(), default=0),
            "rounds": grown.rounds,
            "server_rounds": servers.rounds,
            "server_bytes": sum(servers.payload),
        },
        "seconds": seconds,
    }


def counted(setting: Setting, table: Encoded, tree: Tree) -> dict[str, Any]:
    """Return the numbers of a tree, the paper's formulas and what its algorithms cost literally."""
    values = int(table.domain.n_bins.sum())
    paper = Section5(
        n=table.n_slots,
        k=setting.k,
        c=data.n_classes_of(table),
        values=values,
        q=len(tree.feature),
    )
    literal = literal_cost(table, tree, setting.groups, setting.holder)
    return {
        **asdict(paper),
        "r": table.n_features,
        "leaves": tree.n_leaves,
        "paper": {
            "node": paper.node,
            "intersections": paper.intersections,
            "one_intersection": paper.one_intersection,
            "encryptions": paper.encryptions,
            "bytes": paper.bytes(WIDTH),
        },
        "literal": asdict(literal),
    }


def count_whole(setting: Setting) -> dict[str, Any]:
    """Return the same of ID3's tree without growing it among sites."""
    table = setting.read()
    tree = grow_id3(table, max_depth=setting.max_depth)
    return asdict(setting) | counted(setting, table, tree)
