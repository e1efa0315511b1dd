"""Run the party programs: on plain arrays, simulated in this process, or in processes over TLS."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import or_
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.net.launch import run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.evaluation import RANGES, Evaluation, plan_evaluation
from hedgerow.protocols.hidden.programs import (
    ANALYST,
    HOLDER,
    SEEDED,
    answer_program,
    evaluate_program,
    train_program,
)
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.kinds import answered_kind, kind_named
from hedgerow.protocols.sharing.integrate import Integrated, dealt
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import SERVERS, ReplicatedEngine
from hedgerow.tables import Encoded

EngineName = Literal["clear", "simulate", "processes"]
Marks = Sequence[tuple[str, Sequence[str]]]
Shares = dict[str, NDArray[Any]]

LIMIT = 24 * 3600.0
"""Seconds after which processes are ended; each step has a time limit of its own."""


@dataclass(frozen=True)
class Run:
    """One run of the servers, as it was counted.

    `meter` has rounds and bytes of all parties; nothing where one process computes in the clear.
    `seconds` are those of the slowest party's program, without the start of processes.
    """

    what: str
    leakage: Leakage
    meter: Reading
    seconds: float

    def __repr__(self) -> str:
        return f"<Run {self.what!r} of {self.seconds:,.3f} s: {self.leakage!r}, {self.meter!r}>"


@dataclass
class Server:
    """What a server keeps of a model: its shares, and its ledger with all answers that it gave.

    The clear engine's one server has the values themselves.
    """

    shares: Shares = field(repr=False)
    ledger: str = field(repr=False)


@dataclass(frozen=True)
class Trained:
    """A trained model at its three servers, or at one where the engine is clear."""

    kind: str
    engine: EngineName
    servers: tuple[Server, ...] = field(repr=False)
    public: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_asking", threading.Lock())

    @property
    def ledger(self) -> Ledger:
        """A copy of the servers' ledger as it is now."""
        return Ledger.from_json(self.servers[0].ledger)

    @contextmanager
    def asking(self) -> Iterator[list[Ledger]]:
        """Lend the servers' ledger to one run at a time; what is in the list is kept at the end."""
        with self._asking:  # type: ignore[attr-defined]
            kept = [self.ledger]
            try:
                yield kept
            finally:
                for server in self.servers:
                    server.ledger = kept[0].to_json()

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be copied; estimators that hold a model can.
        return {key: value for key, value in vars(self).items() if key != "_asking"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _asking=threading.Lock())


def train(
    kind: str,
    plan: ServerPlan,
    owners: Integrated,
    engine: EngineName = "simulate",
    *,
    marks: Marks = (),
    domain_is_public: bool = True,
    seed: int | None = None,
) -> tuple[Trained, Run]:
    """Train a hidden model on the padded tables of all owners.

    The engine is one process on plain arrays, from which nothing is hidden ("clear"); the three
    servers and all owners in one process ("simulate"); or a process for each of them on this
    machine, over mutual TLS ("processes").

    `marks` are reasons, with their audiences, that are known beforehand to void a guarantee; a
    domain that was read from the data is among them. A seed makes masks and noise repeatable, which
    is recorded as not private.

    H211 if the servers' ledgers or records of openings differ; besides, what training itself
    refuses.
    """
    job = {
        "kind": kind,
        "plan": plan.to_dict(),
        "uploads": [asdict(upload) for upload in owners.uploads],
        "engine": "clear" if engine == "clear" else "replicated",
        "domain_is_public": domain_is_public,
        "marks": [[reason, list(audiences)] for reason, audiences in (*marks, *owners.marks)],
        "seed": seed,
    }
    parties = SERVERS + len(owners.uploads)
    found, meter, seconds = _run(train_program, parties, job, owners.own(), engine)
    kept = [found[str(server)] for server in range(SERVERS) if str(server) in found]
    check_alike(kept)
    servers = tuple(Server(server["shares"], server["ledger"]) for server in kept)
    ledger = Ledger.from_json(kept[0]["ledger"])
    leakage = Leakage.from_json(kept[0]["leakage"], ledger)
    return (
        Trained(kind, engine, servers, kept[0]["public"]),
        Run("train", leakage, meter, seconds),
    )


def rehearse(kind: str, plan: ServerPlan) -> dict[str, Any]:
    """Train on a table without records, in the clear; return what would be published of it.

    So whatever can fail about that does so before anything is opened. It costs what the plan's
    slots cost on plain arrays; a plan with one slot shows as much.
    """
    domain, target, n = plan.domain, plan.domain.target, 0
    nobody = Encoded(
        domain,
        np.zeros((n, len(domain.attributes)), dtype=domain.dtype, order="F"),
        None if target is None else np.zeros(n, np.float64 if target.bounds else np.uint8),
        np.zeros(n, dtype=np.bool_),
    )
    trained, _ = train(kind, plan, dealt(plan.layout, nobody, plan.n_slots), "clear")
    text = kind_named(kind).document(trained.public, json.loads(trained.ledger.to_json()))
    return jsonfile.loads(text, Code.BAD_MODEL_FILE)


def ask(
    trained: Trained, plan: ServerPlan, bins: NDArray[Any], what: str = "class"
) -> tuple[NDArray[Any], Run]:
    """Ask a hidden model with encoded queries (n, features), under the plan it was trained with.

    The servers count answers in ledgers of their own, which are brought up to date. A run that
    fails after it began counts as answered: nobody knows what was opened. Returns the opened
    answers, and the record.
    """
    kind, n = answered_kind(trained.kind), len(bins)
    job = _job_of(trained, plan) | {"n": n, "what": what}
    with trained.asking() as kept:
        # The servers refuse too; here nobody is started for it.
        kind.check_budget(plan, n, kept[0])
        now = kept[0].to_json()
        own: dict[int, dict[str, Any]] = {
            at: {"shares": server.shares, "ledger": now}
            for at, server in enumerate(trained.servers)
        }
        own[ANALYST] = {"bins": bins, "ledger": now}
        kind.spend(plan, n, kept[0])
        found, meter, seconds = _run(answer_program, SERVERS + 1, job, own, trained.engine)
        check_alike(list(found.values()))
        kept[0] = Ledger.from_json(found[str(ANALYST)]["ledger"])
    leakage = Leakage.from_json(found[str(ANALYST)]["leakage"], trained.ledger)
    return np.asarray(found[str(ANALYST)]["answers"]), Run(what, leakage, meter, seconds)


def evaluate(
    trained: Trained,
    plan: ServerPlan,
    rows: Encoded,
    epsilon: float | None,
    ranges: int = RANGES,
    *,
    domain_is_public: bool = True,
    seed: int | None = None,
) -> tuple[Evaluation, Run]:
    """Evaluate a hidden model on held-out rows, of which the number of slots is public.

    The table, in the analyst's hands, costs a held-out record `epsilon`; None counts exactly. What
    keeps the model from promising anything (a domain that was read from data) keeps this, too. H501
    for a model of numbers, or one whose answers are paid for one by one.
    """
    found = plan_evaluation(answered_kind(trained.kind), plan, rows.n_slots, epsilon, ranges)
    job = _job_of(trained, plan) | {
        "evaluation": found.to_dict(),
        "domain_is_public": domain_is_public,
        "marks": [
            [why, []] for why, who in trained.ledger.not_private if not who and why != SEEDED
        ],
        "seed": seed,
    }
    own: dict[int, dict[str, Any]] = {
        at: {"shares": server.shares, "ledger": server.ledger}
        for at, server in enumerate(trained.servers)
    }
    own[ANALYST] = {"ledger": trained.servers[0].ledger}
    own[HOLDER] = {"bins": rows.bins, "target": rows.target, "present": rows.present}
    ends, meter, seconds = _run(evaluate_program, SERVERS + 2, job, own, trained.engine)
    check_alike(list(ends.values()))
    mine = ends[str(ANALYST)]
    ledger = Ledger.from_json(mine["ledger"])
    leakage = Leakage.from_json(mine["leakage"], ledger)
    assert plan.domain.target is not None
    classes, table = tuple(plan.domain.target.classes or ()), np.asarray(mine["table"])
    result = Evaluation(table, found.places.boundary, classes, ledger)
    return result, Run("evaluate", leakage, meter, seconds)


def _job_of(trained: Trained, plan: ServerPlan) -> dict[str, Any]:
    """Return what every program that uses a trained model is told."""
    lead = (ClearEngine if trained.engine == "clear" else ReplicatedEngine).share_axes
    return {
        "kind": trained.kind,
        "plan": plan.to_dict(),
        "engine": "clear" if trained.engine == "clear" else "replicated",
        "model": {
            name: {"dtype": array.dtype.name, "shape": list(array.shape[lead:])}
            for name, array in trained.servers[0].shares.items()
        },
    }


def _run(
    program: Any,
    parties: int,
    job: dict[str, Any],
    own: Mapping[int, dict[str, Any]],
    engine: EngineName,
) -> tuple[dict[str, Any], Reading, float]:
    """Run a program and join what its parties return, with the meters of all."""
    found: dict[str, Any] = {}
    if engine == "processes":
        # Only what is its own is written for a process, and nothing to the others.
        apart = {party: [{str(party): data}] for party, data in own.items()}
        ends = run_parties(program, parties, [job], own=apart, limit=LIMIT)
        for end in ends:
            found |= end.value or {}
        meter = reduce(or_, [end.meter for end in ends if end.meter is not None])
        return found, meter, max(end.seconds for end in ends)
    start = time.perf_counter()
    with Simulator(parties) as network:
        found = program(network, job, {str(party): data for party, data in own.items()})
        return found, network.meter.snapshot(), time.perf_counter() - start


def check_alike(
    parties: Sequence[Mapping[str, Any]], records: Sequence[str] = ("ledger", "leakage")
) -> None:
    """Refuse, H211, charges or openings that differ: they follow from public numbers."""
    for record in records:
        different = sum(party[record] != parties[0][record] for party in parties)
        if different:
            raise Code.BAD_LEDGER_FILE.error(
                expected=f"the same {record} at all parties",
                found=f"{different} that differ",
                fix="use one version of Hedgerow and one job at all parties",
            )
