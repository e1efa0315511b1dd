"""What the three servers of `bench.hidden` run, over TLS."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.questions import DealtQuestion, join_answers, open_answers
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.integrate import keyed
from hedgerow.protocols.sharing.queries import query_planes
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads
from hedgerow.protocols.sharing.uploaded import HeldUpload, deal_uploads, held_table
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import less_than
from hedgerow.secure.replicated import SERVERS, ReplicatedEngine
from hedgerow.secure.replicated.outside import deal
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.secure.secret import pack
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode, pad
from hedgerow.trees import Limits, grow_cart, grow_id3
from reproduce.data import split
from reproduce.paper_000.data import DATA

FEATURES, BINS = 11, 32
KEY = bytes(KEY_BYTES)


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
) -> dict[str, Any]:
    """Make a table of what was uploaded, train and answer; every server runs this.

    Owner and analyst deal outside of the network: every process draws the same parts from a key.
    Of several runs of the training the first is not counted, and of the others the medians are.
    """
    plan, ledger = HiddenPlan.from_dict(plan_data), Ledger()
    held = uploaded(name, plan)
    warm(network)
    engine = ReplicatedEngine(network, Leakage(plan.openings(), ledger=ledger), session="train")
    # All servers are warm, and have what was uploaded, before the clock starts.
    network.farewell(range(SERVERS))
    before, begin = network.meter.snapshot(), time.perf_counter()
    table = held_table(engine, plan.layout, plan.ring, held)
    table_s, table_bytes = time.perf_counter() - begin, network.meter.since(before).payload[0]
    # A tree that nobody asks is charged to a ledger of its own.
    ledgers = [Ledger() for _ in range(runs - 1)] + [ledger]
    trained = [_trained(network, table, plan, each) for each in ledgers]
    counted = [figures for _, figures in trained[min(1, runs - 1) :]]
    engine.finish()
    return {
        "table_s": table_s,
        "table_bytes": table_bytes,
        "level_s": np.median([figures["level_s"] for figures in counted], axis=0).tolist(),
        "leaves_s": statistics.median(figures["leaves_s"] for figures in counted),
        "rounds": counted[-1]["rounds"],
        "bytes": counted[-1]["bytes"],
        "answers": _answered(network, plan, ledger, trained[-1][0], name, queries),
    }


def uploaded(name: str, plan: HiddenPlan) -> list[HeldUpload]:
    """Return what the servers hold of a table, in memory."""
    uploads = horizontal_uploads(plan.layout, [plan.n_slots])
    tables = {uploads[0].party: pad(table_of(name), plan.n_slots, entropy=keyed(KEY))}
    return deal_uploads(plan.layout, uploads, tables, keyed(KEY))


def asked_of(name: str, queries: int) -> Encoded:
    """Return the rows that an analyst asks about."""
    table = table_of(name)
    return table.rows(np.arange(queries) % table.n_slots)


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
    network: Network, plan: HiddenPlan, ledger: Ledger, model: SecretForest, name: str, queries: int
) -> dict[str, Any]:
    """Answer at a server: from dealt bits of the queries to its half of the classes."""
    rows = asked_of(name, queries)
    parts = deal(pack(query_planes(plan.layout, rows)), xor=True, entropy=keyed(KEY))
    question = DealtQuestion(queries, dict(enumerate(parts)))
    declared = Leakage(HIDDEN_TREE.answer_openings(plan, queries), ledger=ledger)
    engine = ReplicatedEngine(network, declared, session="answers")
    model = SecretForest.from_shares(engine, plan.layout, plan.depth, model.ring, model.shares())
    before, begin = network.meter.snapshot(), time.perf_counter()
    (halves,) = open_answers(HIDDEN_TREE, model, plan, [question], "class", ledger)
    end, used = time.perf_counter(), network.meter.since(before)
    engine.finish()
    return {
        "seconds": end - begin,
        "rounds": used.rounds,
        "bytes": used.payload[0],
        "half": halves.get(network.local[0]),
    }


def answers_of(plan: HiddenPlan, name: str, halves: Mapping[int, Any]) -> dict[str, float]:
    """Compare what an analyst reads with the classes, and with the tree grown in the clear."""
    found, table = join_answers(halves), table_of(name)
    asked = asked_of(name, len(found))
    if plan.branching == "wary":
        clear = grow_id3(table, criterion=plan.criterion, max_depth=plan.depth)
    else:
        clear = grow_cart(table, criterion=plan.criterion, limits=Limits(max_depth=plan.depth))
    return {
        "accuracy": float(np.mean(found == asked.target)),
        "same_as_clear": float(np.mean(found == clear.predict_class(asked.bins))),
    }
