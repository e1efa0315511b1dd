"""Vertical ID3 on secret counts, run: on plain numbers, simulated, or by servers in processes.

Only who computes and who carries the bytes differs, so that the same seeds give the same tree.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from hedgerow.crypto.sealed import KEY_BYTES, SealingKey
from hedgerow.net.launch import run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.options import check_option
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.run import LIMIT, EngineName, check_alike
from hedgerow.protocols.sharing.integrate import keyed
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import Token, from_bytes
from hedgerow.protocols.vertical_id3.programs import LocalSites, Tap
from hedgerow.protocols.vertical_id3.secret.server import Computed, CountServers
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from hedgerow.secure.replicated.core import EVERYONE, SERVERS
from hedgerow.secure.replicated.outside import HALVES

CARRIER = SERVERS
"""Party with all sites, where servers are processes of their own."""
KEY, KEYS, ASK, ANSWER = "sealing key", "sealing keys", "ask", "answer"
"""Steps of mail between a server and the carrier."""
_CARRIED = (KEY, KEYS, ASK, ANSWER)
_PATIENCE = 3600.0
"""Seconds for which a server waits for a question: sites may have much to do among themselves."""

Answer = Callable[[int, Mapping[int, bytes]], Mapping[int, bytes]]
Seeds = Sequence[tuple[bytes, int]]
"""For tests: of every site 16 bytes for keys and shuffles, and a number for noise."""


@dataclass(frozen=True)
class SecretRun:
    """A tree, and how it came about.

    The ledger is that of the servers, and `learned` what they learned: name, times, values, why.
    The meter is among them; seconds are without the start of processes.
    """

    sites: list[Site]
    root: Token
    ledger: Ledger = field(repr=False)
    learned: list[dict[str, Any]] = field(repr=False)
    meter: Reading = field(repr=False)
    seconds: float


class ServerQuestions:
    """Brings the servers their questions, when all three are there; `answer` is by server."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._asked: dict[tuple[int, int], dict[int, bytes]] = {}

    def __call__(self, sender: int, server: int, data: bytes) -> Mapping[int, bytes]:
        """Take one question; returns what the servers answer, once they have all of it."""
        at = sender, from_bytes(data, f"site {sender}").call
        asked = self._asked.setdefault(at, {})
        asked[server] = data
        return self._answer(sender, self._asked.pop(at)) if len(asked) == SERVERS else {}


def run_secret(
    job: SiteJob,
    tables: Sequence[SiteTable],
    engine: EngineName = "simulate",
    *,
    seed: int | None = None,
    seeds: Seeds | None = None,
    tap: Tap | None = None,
) -> SecretRun:
    """Grow a tree over several sites with three servers that count; their keys are drawn here.

    `engine` "clear" is one process on plain numbers, from which nothing is hidden; "simulate" has
    the three servers in this process; "processes" has each in its own, and the sites in a fourth,
    over mutual TLS: H211 if the servers' records differ. `seed` (of the servers) and `seeds` (of
    the sites) are recorded as not private. `tap` sees every message of a site, and every answer;
    not with processes.
    """
    check_option("engine", engine, EngineName)
    if engine == "processes":
        return _in_processes(job, tables, seed, seeds)
    start = time.perf_counter()
    keys = {server: _sealing_key(server, seed) for server in range(SERVERS)}
    job = replace(job, server_keys=tuple(keys[i].public.hex() for i in range(SERVERS)))
    computed: Computed = "clear" if engine == "clear" else "replicated"
    with Simulator(SERVERS) as network:
        servers = CountServers(job, keys, lambda: network, computed=computed, seed=seed)
        sites = sites_of(job, tables, seeds)
        root = LocalSites(sites, tap, ServerQuestions(servers.answers)).grow()
        servers.finish()
        meter = network.meter.snapshot()
    return SecretRun(
        *(sites, root, servers.ledger, servers.what_was_learned(EVERYONE), meter),
        time.perf_counter() - start,
    )


def sites_of(job: SiteJob, tables: Sequence[SiteTable], seeds: Seeds | None) -> list[Site]:
    """Make the sites of a run in this process."""
    if seeds is None:
        return [Site(i, job, table) for i, table in enumerate(tables)]
    return [
        Site(i, job, table, entropy=keyed(key), source=NoiseSource.insecure_seeded(number))
        for i, (table, (key, number)) in enumerate(zip(tables, seeds, strict=True))
    ]


def secret_program(
    network: Network, public: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Be one of the three servers, or the party that has the sites and carries their messages.

    1. The servers hand the carrier their sealing keys, and get the job with all of them.
    2. The carrier runs the sites, and takes their questions to the servers, one after the other.

    All parties have ``job`` without keys, and ``seed``; the carrier also ``tables`` and ``seeds``.

    Reveals: as `hedgerow.protocols.vertical_id3.secret.server`.
    Cost: that; mail of questions and answers is of no fixed size.
    """
    (party,) = network.local
    if party != CARRIER:
        return _serve(network, public, party)
    assert own is not None
    keys = tuple(network.receive(KEY, CARRIER, [server])[1].hex() for server in range(SERVERS))
    job = replace(SiteJob(**public["job"]), server_keys=keys)
    for server in range(SERVERS):
        network.post(KEYS, CARRIER, server, "".join(keys).encode())

    def answer(sender: int, asks: Mapping[int, bytes]) -> dict[int, bytes]:
        for server, ask in asks.items():
            network.post(ASK, CARRIER, server, sender.to_bytes(2, "little") + ask)
        return {server: network.receive(ANSWER, CARRIER, [server])[1] for server in HALVES}

    tables = [SiteTable(**table) for table in own["tables"]]
    sites = sites_of(job, tables, own["seeds"])
    LocalSites(sites, to_servers=ServerQuestions(answer)).grow()
    for server in range(SERVERS):
        network.post(ASK, CARRIER, server, b"")
    return {"keys": list(keys), "sites": [site.to_state() for site in sites]}


def _serve(network: Network, public: Mapping[str, Any], server: int) -> dict[str, Any]:
    key = _sealing_key(server, public["seed"])
    network.post(KEY, server, CARRIER, key.public)
    text = network.receive(KEYS, server, [CARRIER])[1].decode()
    keys = tuple(text[i : i + 2 * KEY_BYTES] for i in range(0, len(text), 2 * KEY_BYTES))
    job = replace(SiteJob(**public["job"]), server_keys=keys)
    servers = CountServers(job, {server: key}, lambda: network, seed=public["seed"])
    while ask := network.receive(ASK, server, [CARRIER])[1]:
        for half in servers.answers(int.from_bytes(ask[:2], "little"), {server: ask[2:]}).values():
            network.post(ANSWER, server, CARRIER, half)
    servers.finish()
    return {"ledger": servers.ledger.to_json(), "learned": servers.what_was_learned(EVERYONE)}


def _in_processes(
    job: SiteJob, tables: Sequence[SiteTable], seed: int | None, seeds: Seeds | None
) -> SecretRun:
    agreed = {key: value for key, value in asdict(job).items() if key != "server_keys"}
    public = {"job": agreed, "seed": seed}
    own = {
        "tables": [
            {name: getattr(table, name) for name in ("bins", "n_values", "labels", "ids")}
            for table in tables
        ],
        "seeds": None if seeds is None else [list(one) for one in seeds],
    }
    ends = run_parties(
        secret_program,
        SERVERS + 1,
        [public],
        own={CARRIER: [own]},
        timeout=_PATIENCE,
        limit=LIMIT,
    )
    servers, found = [end.value for end in ends[:SERVERS]], ends[CARRIER].value
    check_alike(servers, ("ledger", "learned"))
    job = replace(job, server_keys=tuple(found["keys"]))
    sites = [
        Site.from_state(state, i, job, table)
        for i, (state, table) in enumerate(zip(found["sites"], tables, strict=True))
    ]
    root = sites[job.starter].root
    assert root is not None
    return SecretRun(
        sites,
        root,
        Ledger.from_json(servers[0]["ledger"]),
        servers[0]["learned"],
        reduce(or_, [end.meter.without(*_CARRIED) for end in ends[:SERVERS] if end.meter]),
        max(end.seconds for end in ends),
    )


def _sealing_key(server: int, seed: int | None) -> SealingKey:
    """Return a new key, or one that follows from a seed: noise is drawn under its session."""
    if seed is None:
        return SealingKey()
    text = f"hedgerow server {server} seed {seed}".encode()
    return SealingKey(hashlib.blake2b(text, digest_size=KEY_BYTES).digest())
