"""The linear step of Pivot as published, under Paillier of 2,048 bits, beside ours by transfers.

Seconds are processor time: of one number in the first rows, and of all peers together, in one
process, in the others. Those have few records, since an encryption takes as long as thousands of
transfers; the time of both grows with the records, but for decryptions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import row, seconds
from hedgerow.crypto.paillier import Encrypted, Slots, insecure_deal
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.protocols.growers.layout import as_one_hot
from hedgerow.protocols.pivot.columns import PeerColumns, PeerRows, transfers
from hedgerow.protocols.pivot.growth import node_splits
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.paillier import PaillierColumns
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.ciphertexts import JointKey
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.tables import Attribute, Domain, Target

RECORDS, PEERS, BINS, CLASSES = 100, 3, 8, 4
DOT = 1_000
REPEATS = 3


def primitives() -> list[dict[str, Any]]:
    """Time what one number costs."""
    holders = insecure_deal(PEERS)
    key, some = holders[0].key, 8
    numbers = np.arange(some).astype(object)
    encrypted = key.encrypt(numbers)
    many = Encrypted(key, Slots(1, key.room), some, np.resize(encrypted, (1, DOT)))
    half = np.arange(0, DOT, 2)
    partials = [holder.partial(encrypted) for holder in holders]
    work: dict[str, tuple[int, Callable[[], object]]] = {
        "encryption": (some, lambda: key.encrypt(numbers)),
        f"dot product of {DOT:,} with 0 and 1, all 1": (
            1,
            lambda: many.sums([np.arange(DOT)], DOT),
        ),
        f"dot product of {DOT:,} with 0 and 1, half 1": (1, lambda: many.sums([half], DOT)),
        "partial decryption by one holder": (some, lambda: holders[0].partial(encrypted)),
        f"combination of {PEERS} partial decryptions": (some, lambda: key.combine(partials)),
    }
    return [
        row(f"{name}, {key.bits:,} bits", seconds(f, REPEATS, time.process_time) / n)
        for name, (n, f) in work.items()
    ]


def steps() -> list[dict[str, Any]]:
    """Time a root, and going down from it in the open and in secret, all ways."""
    attributes = tuple(
        Attribute(name=f"x{j}", kind="numeric", bounds=(0.0, 1.0), bins=BINS) for j in range(PEERS)
    )
    target = Target(name="y", classes=tuple(map(str, range(CLASSES))))
    domain = Domain(attributes=attributes, target=target)
    plan = PivotOptions().plan(domain, RECORDS, owners=range(PEERS))
    rng = np.random.default_rng(0)
    bins = {j: rng.integers(0, BINS, RECORDS) for j in range(PEERS)}
    columns = np.eye(CLASSES, dtype=np.int64)[rng.integers(0, CLASSES, RECORDS)].T
    hot = as_one_hot(np.array([3]), len(plan.layout.candidates))

    def published(engine: AdditiveEngine, *, packed: bool) -> PeerRows:
        shares = engine.input(columns, 0, columns.shape, plan.ring)
        return PaillierColumns(plan.layout, shares, plan.owners, bins, keys[engine], packed=packed)

    def ours(engine: AdditiveEngine) -> PeerRows:
        shares = engine.input(columns, 0, columns.shape, plan.ring)
        most = plan.domain.n_bins.tolist()
        seeds = PuncturedBins(transfers(engine), plan.owners, most, bins, RECORDS)
        return PeerColumns(plan.layout, shares, seeds)

    keys: dict[AdditiveEngine, JointKey] = {}
    makers: dict[str, Callable[[AdditiveEngine], PeerRows]] = {
        "ours": ours,
        "packed": lambda engine: published(engine, packed=True),
        "one by one": lambda engine: published(engine, packed=False),
    }
    figures: dict[str, dict[str, tuple[float, int]]] = {}
    for name, make in makers.items():
        engine = AdditiveEngine(Simulator(PEERS), Leakage([]))
        held: list[PeerRows] = []
        # Base transfers and keys belong to the session and not to a step.
        transfers(engine).begin()
        keys[engine] = JointKey.insecure_dealt(engine.core)
        choice = engine.input(hot, 0, hot.shape, plan.ring)
        actions: dict[str, Callable[[], object]] = {
            "beginning": lambda make=make, held=held, engine=engine: held.append(make(engine)),
            "histogram": lambda held=held: held[0].histogram(),
            "public split": lambda held=held: held[0].go_down(
                node_splits(plan, np.array([0]), np.array([3]))
            ),
            "secret choice of a cut": lambda held=held, choice=choice: held[0].descend_among(
                np.array([0]), choice, [[0]]
            ),
        }
        for action, work in actions.items():
            before, start = engine.network.meter.snapshot(), time.process_time()
            work()
            taken = time.process_time() - start
            sent = (engine.network.meter.snapshot() - before).payload
            figures.setdefault(action, {})[name] = (taken, sum(sent))
    return [
        row(
            f"{action}, {RECORDS} records, {PEERS} peers, {CLASSES} classes, {kind}",
            found["ours"][0],
            found[kind][0],
            our_bytes=found["ours"][1],
            peer_bytes=found[kind][1],
        )
        for action, found in figures.items()
        for kind in ("packed", "one by one")
    ]


def run() -> list[dict[str, Any]]:
    """Time numbers, then steps."""
    return [*primitives(), *steps()]
