"""What the parties of `bench.hidden` run: three servers, an owner and an analyst, over TLS."""

from __future__ import annotations

import statistics
import time
from functools import cache
from typing import Any

import numpy as np

from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Ledger, Opening
from hedgerow.protocols.hidden.answers import TREES
from hedgerow.protocols.hidden.model import SecretForest, empty_shares
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.predict import share_queries
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads, share_table
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode, pad
from hedgerow.trees import Limits, grow_cart, grow_id3
from reproduce.data import split
from reproduce.paper_000.data import DATA

OWNER, ANALYST = 3, 4
PARTIES = 5
SEATS = {"owner 0": OWNER, "analyst": ANALYST}
FEATURES, BINS = 11, 32
READY = "a sign that the servers are ready"


def synthetic_domain(rows: int) -> Domain:
    """Return the domain of the made-up tables: 11 numeric attributes in 32 bins."""
    attributes = tuple(
        Attribute(name=f"x{j}", kind="numeric", bounds=(0.0, 1.0), bins=BINS)
        for j in range(FEATURES)
    )
    return Domain(attributes=attributes, target=Target(name="y", classes=(0, 1)), capacity=rows)


@cache
def table_of(name: str) -> Encoded:
    """Return a table by name: ``synthetic 32768`` and the like, or the training rows of a split.

    The class of a made-up row follows three of its attributes, with noise.
    """
    if name.startswith("synthetic"):
        rows = int(name.split()[1])
        rng = np.random.default_rng(rows)
        x = rng.random((rows, FEATURES))
        y = (x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(0, 0.2, rows) > 0.75).astype(np.int64)
        return encode(x, synthetic_domain(rows), y)
    whole = DATA[name]()
    part = whole.rows(split(len(whole.target), seed=0)[0])
    return encode(part.frame, part.domain, part.target)


def program(
    network: Network, name: str, plan_data: dict[str, Any], queries: int, runs: int
) -> dict[str, Any] | None:
    """Upload, train and answer; every party runs this and has a part of its own.

    Of several runs of the training the first is not counted, and of the others the medians are.
    """
    plan = HiddenPlan.from_dict(plan_data)
    here = network.local[0]
    if here == ANALYST:
        return _ask(network, plan, name, queries)
    ledger = Ledger()
    ready = Opening(READY, "owner 0", (1,), independent="a public constant")
    declared = Leakage([*plan.openings(), ready], ledger=ledger)
    held = {OWNER: pad(table_of(name), plan.n_slots)} if here == OWNER else {}
    if not held:
        warm(network)
    engine = ReplicatedEngine(network, declared, seats=SEATS, session="train")
    # The owner has its table before the clock starts, and the servers are warm before it sends.
    nothing = np.zeros(1, dtype=np.int64)
    zero = engine.input(nothing if held else None, OWNER, (1,), plan.ring)
    engine.open(zero, READY, "owner 0")
    begin = time.perf_counter()
    uploads = horizontal_uploads(plan.layout, [plan.n_slots], OWNER)
    table = share_table(engine, plan.layout, plan.ring, uploads, held)
    if held:
        return {"bytes": network.meter.snapshot().payload[0]}
    upload_s = time.perf_counter() - begin
    # A tree that nobody asks is charged to a ledger of its own.
    ledgers = [Ledger() for _ in range(runs - 1)] + [ledger]
    trained = [_trained(network, table, plan, each) for each in ledgers]
    counted = [figures for _, figures in trained[min(1, runs - 1) :]]
    engine.finish()
    return {
        "upload_s": upload_s,
        "level_s": np.median([figures["level_s"] for figures in counted], axis=0).tolist(),
        "leaves_s": statistics.median(figures["leaves_s"] for figures in counted),
        "rounds": counted[-1]["rounds"],
        "bytes": counted[-1]["bytes"],
        "answers": _answered(network, plan, ledger, trained[-1][0], queries),
    }


def warm(network: Network) -> None:
    """Load the compiled kernels: every primitive once, on a few numbers of every ring."""
    engine = ReplicatedEngine(network, Leakage(()), session="warm up")
    for ring in (Z16, Z32, Z64):
        x = engine.public(np.arange(16).reshape(4, 4), ring)
        y = x * x + x @ x
        chosen = argmax(y, bits=12) * less_than(x, y)
        engine.shuffle(chosen, engine.permutation(4))
        if ring != Z64:
            engine.extend(chosen, Z64)


def _trained(
    network: Network, table: SecretTable, plan: HiddenPlan, ledger: Ledger
) -> tuple[SecretForest, dict[str, Any]]:
    before, marks = network.meter.snapshot(), [time.perf_counter()]
    model = train_hidden(table, plan, ledger, lambda _: marks.append(time.perf_counter()))
    end, used = time.perf_counter(), network.meter.since(before)
    return model, {
        "level_s": np.diff(marks).tolist(),
        "leaves_s": end - marks[-1],
        "rounds": used.rounds,
        "bytes": used.payload[0],
    }


def _answered(
    network: Network, plan: HiddenPlan, ledger: Ledger, model: SecretForest, queries: int
) -> dict[str, Any]:
    """Answer at a server: from the shared bits of the queries to the opened classes."""
    engine = _answering(network, plan, ledger, queries)
    model = SecretForest.from_shares(engine, plan.layout, plan.depth, model.ring, model.shares())
    before, begin = network.meter.snapshot(), time.perf_counter()
    shared = share_queries(engine, plan.layout, model.ring, None, queries, ANALYST)
    encoded = time.perf_counter()
    TREES.answer(model, plan, shared, "class", ledger)
    end, used = time.perf_counter(), network.meter.since(before)
    engine.finish()
    return {
        "seconds": end - begin,
        "encoding_s": encoded - begin,
        "rounds": used.rounds,
        "bytes": used.payload[0],
    }


def _ask(network: Network, plan: HiddenPlan, name: str, queries: int) -> dict[str, Any]:
    """Ask as the analyst, and compare the answers with those of the tree grown in the clear."""
    table, ledger = table_of(name), Ledger()
    asked = table.rows(np.arange(queries) % table.n_slots)
    # The analyst's own ledger has to show what its answers are computed from.
    plan.charge(ledger)
    engine = _answering(network, plan, ledger, queries)
    nothing = empty_shares(engine, plan.layout, plan.depth, plan.n_trees, 1, plan.ring)
    model = SecretForest.from_shares(engine, plan.layout, plan.depth, plan.ring, nothing)
    shared = share_queries(engine, plan.layout, plan.ring, asked, queries, ANALYST)
    found = TREES.answer(model, plan, shared, "class", ledger)
    if plan.branching == "wary":
        clear = grow_id3(table, criterion=plan.criterion, max_depth=plan.depth)
    else:
        clear = grow_cart(table, criterion=plan.criterion, limits=Limits(max_depth=plan.depth))
    return {
        "accuracy": float(np.mean(found == asked.target)),
        "same_as_clear": float(np.mean(found == clear.predict_class(asked.bins))),
        "bytes": network.meter.snapshot().payload[0],
    }


def _answering(
    network: Network, plan: HiddenPlan, ledger: Ledger, queries: int
) -> ReplicatedEngine:
    declared = Leakage(TREES.answer_openings(plan, queries), ledger=ledger)
    return ReplicatedEngine(network, declared, seats=SEATS, session="answers")
