"""Vertical ID3 over car evaluation (1,728 rows, 6 attributes, 3 sites, the class at the last).

The whole tree with the curve cipher; then the same work with the curve and with the 2048-bit
cipher in one run, on every eighth record and one level, because the second would take hours for
the whole tree. ``ours`` and ``peer`` of a row did exactly the same encryptions.

Ways of counting are listed in `CARDINALITIES`, the ring of the commutative cipher and shares of
three servers; each gets a row for the whole tree. The servers are in this process here: all their
work and all messages, but no network between them.

Two rows say what a batched proof of one exponent would cost each element, on one core: encryption
of points that can be added, and with it a proof made once and checked once.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_ed25519_base_noclamp

from bench.data import load
from bench.harness import row, seconds
from bench.ppid3 import proof
from bench.ppid3.modp import ModpCipher
from hedgerow import ID3Classifier
from hedgerow.crypto.commutative import CommutativeCipher, Curve25519Cipher
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.protocols.contract import Context
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.programs import grow
from hedgerow.protocols.vertical_id3.run import joined_tree, members_of, run_vertical
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from hedgerow.tables import Encoded, encode
from hedgerow.trees import grow_id3

SITES = 3
GROUPS = [[0, 1], [2, 3], [4, 5]]
CARDINALITIES = ("ring", "secret")
_ELEMENTS = 200


def car() -> Encoded:
    """Read car evaluation with row numbers as ids."""
    table = load("car_evaluation")
    y = np.array(table["class"].to_pylist())
    columns = table.drop_columns(["class"])
    domain = ID3Classifier().fit(columns, y).domain_
    return encode(columns, domain, y, ids=np.arange(len(y)))


def timed(
    table: Encoded,
    cipher: CommutativeCipher,
    max_depth: int | None = None,
    cardinality: str = "ring",
) -> tuple[float, dict[str, Any]]:
    """Grow a tree over the sites, check that it is ID3's, and return seconds and counts."""
    assert table.domain.target is not None
    job = SiteJob(SITES, SITES - 1, table.domain.target.n_classes or 0, max_depth=max_depth)
    plan = Session(job, {}, secret=cardinality == "secret")
    tables = [
        SiteTable(
            table.bins[:, group],
            table.domain.n_bins[group].astype(np.int64),
            table.target if job.knows_class(i) else None,
            table.ids,  # type: ignore[arg-type]
        )
        for i, group in enumerate(GROUPS)
    ]
    counts: dict[str, Any] = {}
    start = time.perf_counter()
    if plan.secret:
        run = run_vertical(plan, tables)
        sites, root = run.sites, run.root
        counts = {"server rounds": run.meter.rounds, "server bytes": sum(run.meter.payload)}
    else:

        def attend(network: Network) -> Site:
            context = Context(network, members_of(plan), plan)
            own = tables[context.party]
            return grow(context, Site(context.party, job, own, cipher=cipher))

        sites = Mesh(SITES).run({(i,): attend for i in range(SITES)})
        root = sites[0].root
        assert root is not None
    took = time.perf_counter() - start
    if joined_tree(sites, root, table.domain, GROUPS) != grow_id3(table, max_depth=max_depth):
        raise RuntimeError("the tree over the sites is not that of ID3")
    nodes = sum(len(site.nodes) for site in sites)
    # c q (1 + p r) of the paper's section 5, which is exact where no attribute is used up.
    formula = job.n_classes * nodes * (1 + int(table.domain.n_bins.sum()))
    return took, counts | {
        "intersections": sum(site.meter.intersections for site in sites),
        "intersections by the paper's formula": formula,
        "encryptions": sum(site.meter.encryptions for site in sites),
        "bytes": sum(site.meter.bytes for site in sites),
        "nodes": nodes,
    }


def element_seconds(cipher: CommutativeCipher) -> float:
    """Return the seconds of one encryption in a batch."""
    key, elements = cipher.new_key(), cipher.hash([str(i).encode() for i in range(_ELEMENTS)], "b")
    return seconds(lambda: cipher.encrypt(key, elements), repeats=3) / _ELEMENTS


def proven_seconds() -> tuple[float, float, float]:
    """Return the seconds of one element: by X25519, as an Edwards point, and that with a proof."""
    key, before = proof.new_scalar(), proof.points(_ELEMENTS)
    public = crypto_scalarmult_ed25519_base_noclamp(key)

    def prove() -> None:
        after = proof.encrypt(key, before)
        if not proof.holds(proof.prove(key, before, after), public, before, after):
            raise RuntimeError("an honest proof does not hold")

    one_by_one = [
        lambda: [crypto_scalarmult(key, point) for point in before],
        lambda: proof.encrypt(key, before),
        prove,
    ]
    first, second, third = (seconds(action, repeats=3) / _ELEMENTS for action in one_by_one)
    return first, second, third


def run() -> list[dict[str, Any]]:
    """Measure; progress goes to standard error."""
    table, curve, modp, short = car(), Curve25519Cipher(), ModpCipher(), ModpCipher(256)
    each = [element_seconds(cipher) for cipher in (curve, modp, short)]
    rows = [
        row("one encryption, curve against 2048 bits", each[0], each[1]),
        row("one encryption, curve against 2048 bits with exponents of 256", each[0], each[2]),
    ]
    alone, added, proven = proven_seconds()
    rows += [
        row("one encryption, X25519 against Edwards points", alone, added),
        row("one encryption, X25519 against Edwards points with a proof", alone, proven),
    ]
    some = table.rows(np.arange(0, table.n_slots, 8))
    timed(some, curve, 1)
    print("every eighth record, one level", file=sys.stderr)
    ours, counts = timed(some, curve, 1)
    rows.append(row("car, every 8th record, one level", ours, timed(some, modp, 1)[0], **counts))
    for name in CARDINALITIES:
        print(f"the whole tree, {name}", file=sys.stderr)
        timed(some, curve, 1, cardinality=name)
        took, counts = timed(table, curve, cardinality=name)
        rows.append(row(f"car, whole tree, 3 sites, {name}", took, **counts))
    return rows
