"""What every party runs to train a hidden model and to ask it, written once for all parties.

Parties 0, 1 and 2 are the servers. In training the owners are parties 3, 4, ...; when a model is
asked, party 3 is the analyst. A program gets a `job`, which is public and the same at all parties,
and `own`: for every party that lives in the process, by its number as text, what nobody else is
handed. Both are plain data, see `hedgerow.net.values.write_value`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.hidden.evaluation import (
    TABLE,
    EvaluationPlan,
    check_derived,
    cross_table,
    noisy_table,
)
from hedgerow.protocols.hidden.kind import Arrays
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.kinds import answered_kind, kind_named
from hedgerow.protocols.sharing.queries import share_queries
from hedgerow.protocols.sharing.table import Upload, share_table
from hedgerow.protocols.sharing.uploaded import expand_table, n_planes, planes_of
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import EVERYONE, SERVERS, ReplicatedEngine
from hedgerow.secure.secret import Engine
from hedgerow.tables import Encoded

FIRST_OWNER = SERVERS
ANALYST = SERVERS
HOLDER = SERVERS + 1
"""Parties: the servers come first; of held-out rows the holder comes behind the analyst."""

COLLUSION = "two servers together hold every share"
SEEDED = "seeded noise"

Job = Mapping[str, Any]
Own = Mapping[str, Mapping[str, Any]]


def train_program(network: Network, job: Job, own: Own | None = None) -> dict[str, Any] | None:
    """Share the owners' tables and train.

    1. Every owner shares its padded table and leaves.
    2. The servers train, and each keeps its shares, its ledger and its record of openings.

    The job has ``kind``, ``plan``, ``uploads`` (fields of `Upload`), ``engine`` ("clear" or
    "replicated"), ``domain_is_public``, ``marks`` (reason and audiences for
    `Ledger.mark_not_private`) and ``seed`` (None, or an int for tests). An owner's own are
    ``bins``, ``target`` (None where another has it) and ``present`` of its slots.

    Returns ``shares``, ``public``, ``ledger`` and ``leakage`` for every server that lives here;
    None where none lives. The clear engine has one server, which holds everything.

    Reveals: what the kind's training declares.
    Cost: that of `share_table` and of the kind's training.
    """
    kind = kind_named(job["kind"])
    plan = kind.plan_type.from_dict(dict(job["plan"]))
    ledger = ledger_of(job, plan)
    leakage = Leakage(plan.openings(), ledger=ledger)
    uploads = [Upload(**{**one, "features": tuple(one["features"])}) for one in job["uploads"]]
    seats = {f"owner {i}": FIRST_OWNER + i for i in range(network.n - SERVERS)}
    engine = engine_of(network, job, leakage, seats)
    tables = {upload.party: _table(plan, upload, own) for upload in uploads}
    held = {party: table for party, table in tables.items() if table is not None}
    table = share_table(engine, plan.layout, plan.ring, uploads, held)
    servers = servers_here(network, engine)
    made = kind.train(table, plan, ledger) if servers else None
    engine.finish()
    if made is None:
        return None
    return {
        str(server): {
            "shares": {name: _of_server(engine, data, at) for name, data in made.shares.items()},
            "public": made.public,
            "ledger": ledger.to_json(),
            "leakage": leakage.to_json(),
        }
        for at, server in enumerate(servers)
    }


def answer_program(network: Network, job: Job, own: Own | None = None) -> dict[str, Any]:
    """Answer the analyst's queries.

    1. The analyst shares its queries.
    2. The servers walk the trees and open what was asked for, to the analyst.

    The job has ``kind``, ``plan``, ``engine``, ``domain_is_public`` as in training, ``model``
    (dtype and shape of every array), ``n`` (queries) and ``what`` (is asked). A server's own are
    ``shares`` and ``ledger``, the analyst's ``bins`` and ``ledger``.

    Returns ``ledger``, ``leakage`` and ``answers`` for every party that lives here; answers are
    None for everybody but the analyst.

    Reveals: the answers, to the analyst; their number, to all.
    Cost: that of `share_queries` and of the kind's answer.
    """
    own = own or {}
    kind = answered_kind(job["kind"])
    plan = kind.plan_type.from_dict(dict(job["plan"]))
    ledger = Ledger.from_json(next(iter(own.values()))["ledger"])
    kind.check_budget(plan, job["n"], ledger)
    leakage = Leakage(kind.answer_openings(plan, job["n"], job["what"]), ledger=ledger)
    engine = engine_of(network, job, leakage, {"analyst": ANALYST})
    held = [own[str(server)]["shares"] for server in servers_here(network, engine)]
    model = kind.model(engine, plan, _arrays(engine, job["model"], held))
    asked = own.get(str(ANALYST))
    queries = None if asked is None else _rows(plan, np.asarray(asked["bins"]))
    shared = share_queries(engine, plan.layout, model.ring, queries, job["n"], ANALYST)
    opened = kind.answer(model, plan, shared, job["what"], ledger)
    engine.finish()
    return {
        party: {
            "ledger": ledger.to_json(),
            "leakage": leakage.to_json(),
            "answers": opened if party == str(ANALYST) else None,
        }
        for party in own
    }


def evaluate_program(network: Network, job: Job, own: Own | None = None) -> dict[str, Any]:
    """Count how well a model answers for held-out rows, with noise, and tell the analyst.

    1. The owner of the rows shares their bits.
    2. The servers make rows of them and count (`hedgerow.protocols.hidden.evaluation`).
    3. They open the table to the analyst.

    The job has ``kind``, ``plan``, ``engine``, ``domain_is_public``, ``marks``, ``seed`` as in
    training, ``model`` as in answering, and ``evaluation`` (the plan of it). A server's own are
    ``shares`` and ``ledger`` (that of the model), the analyst's ``ledger``, the owner's ``bins``,
    ``target`` and ``present`` of its slots.

    Returns ``ledger`` (of the held-out rows), ``leakage`` and ``table`` for every party that lives
    here; there is no table for anybody but the analyst.

    Reveals: the noisy table, to the analyst. Cost: that of `expand_table` and `cross_table`.
    """
    own = own or {}
    kind = answered_kind(job["kind"])
    plan = kind.plan_type.from_dict(dict(job["plan"]))
    evaluation = EvaluationPlan.from_dict(dict(job["evaluation"]))
    for data in own.values():
        if "ledger" in data:
            check_derived(plan, evaluation, Ledger.from_json(data["ledger"]))
    ledger = ledger_of(job, evaluation)
    paid = evaluation.charge(ledger)
    leakage = Leakage(evaluation.openings(), ledger=ledger)
    engine = engine_of(network, job, leakage, {"analyst": ANALYST, "owner": HOLDER})
    held = [own[str(server)]["shares"] for server in servers_here(network, engine)]
    model = kind.model(engine, plan, _arrays(engine, job["model"], held))
    every = tuple(range(plan.layout.n_features))
    upload = Upload(HOLDER, 0, evaluation.n_slots, every, target=True)
    table = _table(plan, upload, own)
    shape = (n_planes(plan.domain), evaluation.n_slots)
    bits = engine.input_bits(None if table is None else planes_of(table), HOLDER, shape)
    rows = expand_table(engine, plan.layout, model.ring, [upload], {HOLDER: bits})
    counts = cross_table(kind, model, plan, rows, evaluation)
    opened = engine.open(noisy_table(counts, evaluation, paid), TABLE, evaluation.audience)
    engine.finish()
    found = None if opened is None else evaluation.ring.signed(opened).astype(np.int64)
    return {
        party: {
            "ledger": ledger.to_json(),
            "leakage": leakage.to_json(),
            "table": found if party == str(ANALYST) else None,
        }
        for party in own
    }


def ledger_of(job: Job, plan: Any) -> Ledger:
    """Open the ledger of a training, with everything that is known before it."""
    ledger = Ledger(domain=plan.domain if job["domain_is_public"] else None)
    for reason, audiences in job["marks"]:
        ledger.mark_not_private(reason, audiences)
    if job["seed"] is not None:
        ledger.mark_not_private(SEEDED)
    mark_collusion(ledger)
    return ledger


def mark_collusion(ledger: Ledger) -> None:
    """Record that two servers together know everything."""
    for server in range(SERVERS):
        pair = [f"server {server}", f"server {(server + 1) % SERVERS}"]
        ledger.mark_not_private(COLLUSION, pair)


def engine_of(network: Network, job: Job, leakage: Leakage, seats: Mapping[str, int]) -> Engine:
    """Return the engine that a job names; a seed makes it repeatable and not private."""
    seed = job.get("seed")
    if job["engine"] == "clear":
        source = NoiseSource.system() if seed is None else NoiseSource.insecure_seeded(seed)
        return ClearEngine(leakage, source, n_parties=SERVERS, everyone=EVERYONE)
    insecure = None if seed is None else f"hedgerow seed {seed}".encode()
    return ReplicatedEngine(network, leakage, seats=seats, insecure_seed=insecure)


def servers_here(network: Network, engine: Engine) -> tuple[int, ...]:
    """Return the servers that live in this process; the clear engine is one for all."""
    if not engine.share_axes:
        return (0,)
    return tuple(party for party in network.local if party < SERVERS)


def _of_server(engine: Engine, data: Any, at: int) -> Any:
    """Return the shares of one server, its place kept as an axis."""
    return data[at : at + 1] if engine.share_axes else data


def _arrays(engine: Engine, manifest: Job, held: Sequence[Arrays]) -> Arrays:
    """Join the shares of the servers that live here; without one, arrays of none."""
    if not engine.share_axes:
        return {name: np.asarray(held[0][name]) for name in manifest}
    nobody = {
        name: np.empty((0, *engine.share_shape[1:], *of["shape"]), dtype=of["dtype"])
        for name, of in manifest.items()
    }
    return {
        name: np.concatenate([none, *(shares[name] for shares in held)])
        for name, none in nobody.items()
    }


def _table(plan: ServerPlan, upload: Upload, own: Own | None) -> Encoded | None:
    data = (own or {}).get(str(upload.party))
    if data is None:
        return None
    table = Encoded(
        domain=plan.domain.select(list(upload.features), target=upload.target),
        bins=np.asfortranarray(data["bins"]),
        target=data["target"],
        present=data["present"],
    )
    units = plan.target_units
    return table if units is None or not upload.target else units.count(table)


def _rows(plan: ServerPlan, bins: Any) -> Encoded:
    present = np.ones(len(bins), dtype=np.bool_)
    return Encoded(plan.layout.domain, np.asfortranarray(bins), None, present)
