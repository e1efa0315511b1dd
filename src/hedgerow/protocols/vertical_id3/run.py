"""Run the programs of a vertical ID3 on this machine: in one process, or in one for each member.

Only who computes and who carries the bytes differs, so that the same seeds give the same tree.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.launch import run_parties
from hedgerow.net.mesh import Mesh
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.options import check_option
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.contract import Computed, Context
from hedgerow.protocols.run import (
    LIMIT,
    EngineName,
    check_alike,
    joined_meters,
    run_side_by_side,
)
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.programs import (
    MAIL,
    AnsweringPart,
    CountRecord,
    Question,
    classify,
    first_site,
    program_of,
)
from hedgerow.protocols.vertical_id3.site import Interior, Site, SiteTable
from hedgerow.secure.replicated.core import EVERYONE
from hedgerow.tables import Domain
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

_PATIENCE = 3600.0
"""Seconds for which a member waits for another, which may have much to encrypt."""


@dataclass(frozen=True)
class VerticalRun:
    """A tree, and how it came about.

    Where servers count, ledger and leakage are theirs, and the meter is among them; `sent` is what
    all members have sent, and seconds are without the start of processes.
    """

    sites: list[Site]
    root: Token
    ledger: Ledger | None = field(repr=False)
    leakage: Leakage | None = field(repr=False)
    meter: Reading = field(repr=False)
    seconds: float
    sent: Reading = field(default_factory=lambda: Reading((), {}), repr=False)

    @property
    def learned(self) -> list[dict[str, Any]] | None:
        """What the servers learned: name, times, values, why; None without servers."""
        return None if self.leakage is None else self.leakage.what_was_learned(EVERYONE)


def members_of(plan: Session) -> tuple[str, ...]:
    """Return how members are named where nobody has given them names."""
    servers = (f"server {i}" for i in range(first_site(plan)))
    return (*servers, *(f"site {i}" for i in range(plan.job.n_sites)))


def run_vertical(
    plan: Session,
    tables: Sequence[SiteTable],
    engine: EngineName = "simulate",
    *,
    seed: int | None = None,
    sources: Sequence[NoiseSource] | None = None,
) -> VerticalRun:
    """Grow a tree over several sites; sizes need not be in the plan.

    `engine` "simulate" has all members in this process; "clear" too, with servers that compute on
    plain numbers, from which nothing is hidden; "processes" has each in its own, over mutual TLS:
    H211 if the servers' records differ. A `seed` makes a run repeatable, recorded as not private;
    in one process, `sources` may give each site its own.
    """
    check_option("engine", engine, EngineName)
    base, members = first_site(plan), members_of(plan)
    if engine == "processes":
        return _in_processes(plan, tables, members, seed)
    computed: Computed = "clear" if engine == "clear" else "replicated"
    drawn = sources or [_source(i, seed) for i in range(len(tables))]

    def attend(network: Network) -> Any:
        party = network.local[0]
        context = Context(network, members, plan, seed=seed, engine=computed)
        if party >= base:
            at = party - base
            context = replace(context, table=tables[at], source=drawn[at])
        return program_of(plan, party)(context)

    start = time.perf_counter()
    ends, sent = run_side_by_side(len(members), base, attend)
    seconds = time.perf_counter() - start
    sites, ledger, leakage, meter = ends[: len(tables)], None, None, Reading((), {})
    if base:
        ledger, leakage = ends[-1].ledger, ends[-1].leakage
        meter = meter if engine == "clear" else sent[-1].without(*MAIL)
    every = joined_meters(sent)
    return VerticalRun(sites, sites[0].root, ledger, leakage, meter, seconds, every)


def ask_sites(
    sites: Sequence[Site], ids: NDArray[Any], bins: Sequence[NDArray[Any]], asker: int = 0
) -> NDArray[np.int64] | None:
    """Have a site ask for the classes of instances, of which each site knows its own bins.

    Returns class counts of the leaves, int64 (n, c); None where the class site keeps them.
    """
    plan = Session(sites[0].job, {}, secret=False)

    def attend(network: Network) -> NDArray[np.int64] | None:
        (party,) = network.local
        asked = ids if party == asker else None
        own = AnsweringPart(sites[party], ids, bins[party], asked)
        return classify(Context(network, members_of(plan), plan, Question(asker), own))

    seats = [(party,) for party in range(len(sites))]
    found: list[NDArray[np.int64] | None] = Mesh(len(sites)).run(dict.fromkeys(seats, attend))
    return found[asker]


def vertical_member(
    network: Network, public: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Be one member of a run in processes; a site has its table as `own`."""
    plan, seed = Session(SiteJob(**public["job"]), {}, public["secret"]), public["seed"]
    (party,), base = network.local, first_site(plan)
    context = Context(network, members_of(plan), plan, seed=seed)
    if own is not None:
        source = _source(party - base, seed)
        context = replace(context, table=SiteTable(**own), source=source)
    found = program_of(plan, party)(context)
    if isinstance(found, CountRecord):
        return {"ledger": found.ledger.to_json(), "leakage": found.leakage.to_json()}
    return {"site": found.to_state(), "keys": list(found.job.server_keys)}


def _in_processes(
    plan: Session, tables: Sequence[SiteTable], members: Sequence[str], seed: int | None
) -> VerticalRun:
    base, job = first_site(plan), asdict(plan.job)
    del job["server_keys"]
    own = {
        party: [{name: getattr(table, name) for name in ("bins", "n_values", "labels", "ids")}]
        for party, table in enumerate(tables, base)
    }
    public = {"job": job, "secret": plan.secret, "seed": seed}
    ends = run_parties(
        vertical_member, len(members), [public], own=own, timeout=_PATIENCE, limit=LIMIT
    )
    servers, parts = [end.value for end in ends[:base]], [end.value for end in ends[base:]]
    check_alike(servers, ("ledger", "leakage"))
    agreed = replace(plan.job, server_keys=tuple(parts[0]["keys"]))
    sites = [
        Site.from_state(part["site"], i, agreed, table)
        for i, (part, table) in enumerate(zip(parts, tables, strict=True))
    ]
    assert sites[0].root is not None
    ledger = Ledger.from_json(servers[0]["ledger"]) if servers else None
    return VerticalRun(
        sites,
        sites[0].root,
        ledger,
        Leakage.from_json(servers[0]["leakage"], ledger) if servers else None,
        joined_meters(end.meter for end in ends[:base]).without(*MAIL),
        max(end.seconds for end in ends),
        joined_meters(end.meter for end in ends),
    )


def _source(site: int, seed: int | None) -> NoiseSource:
    """Return where a site draws from: the operating system, or what follows from a seed."""
    if seed is None:
        return NoiseSource.system()
    text = f"hedgerow site {site} seed {seed}".encode()
    number = hashlib.blake2b(text, digest_size=8).digest()
    return NoiseSource.insecure_seeded(int.from_bytes(number, "little"))


def joined_tree(
    sites: Sequence[Site], root: Token, domain: Domain, columns: Sequence[Sequence[int]]
) -> Tree:
    """Put the parts of all sites together: what no site sees, for checks and for publication.

    The domain is of all `columns`, by site, and the class. Values of interior nodes are the sums of
    their leaves.
    """
    classes = domain.target.n_classes if domain.target is not None else None
    assert classes
    kind, feature, first_child, below = [], [], [], [root]
    value: list[NDArray[np.float64]] = []
    weight: list[float] = []
    at = 0
    while at < len(below):
        token = below[at]
        node = sites[token.site].nodes[token.node]
        if isinstance(node, Interior):
            kind.append(int(SplitKind.WARY))
            feature.append(columns[token.site][node.attribute])
            first_child.append(len(below))
            below.extend(node.children)
            value.append(np.zeros(classes))
            weight.append(0.0)
        else:
            kind.append(int(SplitKind.LEAF))
            feature.append(-1)
            first_child.append(-1)
            value.append(np.array(node.counts, dtype=np.float64))
            weight.append(0.0 if node.empty else float(sum(node.counts)))
        at += 1
    for at in reversed(range(len(below))):
        if first_child[at] >= 0:
            token = below[at]
            node = sites[token.site].nodes[token.node]
            assert isinstance(node, Interior)
            children = range(first_child[at], first_child[at] + len(node.children))
            # An empty leaf repeats its parent's counts, which must not count twice.
            value[at] = sum((value[i] for i in children if weight[i] > 0), np.zeros(classes))
            weight[at] = sum(weight[i] for i in children)
    cut = np.full(len(below), -1)
    return Tree(domain, kind, feature, cut, first_child, np.array(value), weight)
