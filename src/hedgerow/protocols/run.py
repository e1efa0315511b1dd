"""Run the programs of hidden models on this machine: in one process, or in one for each server.

Only who computes and who carries the bytes differs. Owners and analysts deal what they share in
this process, as they do for servers that are elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code
from hedgerow.net.launch import run_parties
from hedgerow.net.mesh import Mesh
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.contract import Context
from hedgerow.protocols.hidden import programs
from hedgerow.protocols.hidden.evaluation import (
    RANGES,
    Evaluation,
    EvaluationPlan,
    plan_evaluation,
)
from hedgerow.protocols.hidden.programs import FIRST_OWNER, SEEDED
from hedgerow.protocols.hidden.questions import DealtQuestion, join_answers, question_of
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.registry import hidden_protocol, server_protocol
from hedgerow.protocols.sharing.integrate import Entropy, Integrated, dealt, keyed
from hedgerow.protocols.sharing.table import Upload
from hedgerow.protocols.sharing.uploaded import HeldUpload, deal_uploads, planes_shape_of
from hedgerow.secure.replicated import SERVERS
from hedgerow.secure.replicated.outside import Dealt
from hedgerow.tables import Encoded

EngineName = Literal["clear", "simulate", "processes"]
Marks = Sequence[tuple[str, Sequence[str]]]
Plain = dict[str, Any]
"""Plain data, see `hedgerow.net.values.write_value`."""
MEMBERS = tuple(f"server {server}" for server in range(SERVERS))
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

    protocol: str
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
    protocol: str,
    plan: ServerPlan,
    owners: Integrated,
    engine: EngineName = "simulate",
    *,
    marks: Marks = (),
    domain_is_public: bool = True,
    capacity: int | None = None,
    seed: int | None = None,
) -> tuple[Trained, Run]:
    """Train a hidden model on the padded tables of all owners.

    The engine is one process on plain arrays, from which nothing is hidden ("clear"); the three
    servers in one process ("simulate"); or a process for each of them on this machine, over mutual
    TLS ("processes"). Owners deal their tables to the servers beforehand.

    `marks` are reasons, with their audiences, that are known beforehand to void a guarantee; a
    domain that was read from the data is among them. A seed makes masks and noise repeatable, which
    is recorded as not private.

    H211 if the servers' ledgers or records of openings differ; besides, what training itself
    refuses.
    """
    job = _job("train", protocol, plan, engine) | {
        "uploads": [asdict(upload) for upload in owners.uploads],
        "domain_is_public": domain_is_public,
        "capacity": capacity,
        "marks": [[reason, list(audiences)] for reason, audiences in marks],
        "seed": seed,
    }
    held = deal_uploads(plan.layout, owners.uploads, owners.tables, _entropy(seed))
    found, meter, seconds = _run(job, _own(held), engine)
    kept = list(found.values())
    servers = tuple(Server(server["shares"], server["ledger"]) for server in kept)
    ledger = Ledger.from_json(kept[0]["ledger"])
    leakage = Leakage.from_json(kept[0]["leakage"], ledger)
    return (
        Trained(protocol, engine, servers, kept[0]["public"]),
        Run("train", leakage, meter, seconds),
    )


def rehearse(protocol: str, plan: ServerPlan) -> dict[str, Any]:
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
    trained, _ = train(protocol, plan, dealt(plan.layout, nobody, plan.n_slots), "clear")
    text = server_protocol(protocol).document(trained.public, json.loads(trained.ledger.to_json()))
    return jsonfile.loads(text, Code.BAD_MODEL_FILE)


def ask(
    trained: Trained, plan: ServerPlan, bins: NDArray[Any], what: str = "class"
) -> tuple[NDArray[Any], Run]:
    """Ask a hidden model with encoded queries (n, features), under the plan it was trained with.

    The servers count answers in ledgers of their own, which are brought up to date. A run that
    fails after it began counts as answered: nobody knows what was opened. Returns the opened
    answers, and the record.
    """
    protocol, n = hidden_protocol(trained.protocol), len(bins)
    present = np.ones(n, dtype=np.bool_)
    question = question_of(
        plan, Encoded(plan.layout.domain, np.asfortranarray(bins), None, present)
    )
    job = _job("answer", trained.protocol, plan, trained.engine) | {"what": what, "n": n}
    with trained.asking() as kept:
        # The servers refuse too; here nobody is started for it.
        protocol.check_budget(plan, n, kept[0])
        own = _own([question], trained, kept[0].to_json())
        protocol.spend(plan, n, kept[0])
        found, meter, seconds = _run(job, own, trained.engine)
        kept[0] = Ledger.from_json(found["0"]["ledger"])
    leakage = Leakage.from_json(found["0"]["leakage"], trained.ledger)
    answers = protocol.read(
        plan, join_answers({int(at): one["half"] for at, one in found.items()}), what
    )
    return answers, Run(what, leakage, meter, seconds)


def evaluate(
    trained: Trained,
    plan: ServerPlan,
    rows: Encoded,
    epsilon: float | None,
    ranges: int = RANGES,
    *,
    domain_is_public: bool = True,
    capacity: int | None = None,
    seed: int | None = None,
) -> tuple[Evaluation, Run]:
    """Evaluate a hidden model on held-out rows, of which the number of slots is public.

    The table, in the analyst's hands, costs a held-out record `epsilon`; None counts exactly. H501
    for a model of numbers, or one whose answers are paid for one by one.
    """
    made = plan_evaluation(hidden_protocol(trained.protocol), plan, rows.n_slots, epsilon, ranges)
    upload = _held_out(plan, rows.n_slots)
    job = _job("evaluate", trained.protocol, plan, trained.engine) | {
        "evaluation": made.to_dict(),
        "domain_is_public": domain_is_public,
        "capacity": capacity,
        "marks": [],
        "seed": seed,
    }
    held = deal_uploads(plan.layout, [upload], {upload.party: rows}, _entropy(seed))
    own = _own(held, trained, trained.servers[0].ledger)
    found, meter, seconds = _run(job, own, trained.engine)
    ledger = Ledger.from_json(found["0"]["ledger"])
    leakage = Leakage.from_json(found["0"]["leakage"], ledger)
    assert plan.domain.target is not None
    classes, table = (
        tuple(plan.domain.target.classes or ()),
        join_answers({int(at): one["half"] for at, one in found.items()}),
    )
    result = Evaluation(table, made.places.boundary, classes, ledger)
    return result, Run("evaluate", leakage, meter, seconds)


def hidden_member(network: Network, job: Plain, own: Plain) -> Plain:
    """Be the servers that live here: one in a process of its own, or all three.

    The job is public and the same at all: ``program``, ``protocol``, ``plan``, ``engine`` ("clear"
    or "replicated") and what `train`, `ask` and `evaluate` add to it. By server, `own` has what
    nobody else is handed: its ``parts`` of what was dealt and, of a model, ``shares`` and
    ``ledger``.

    Returns by server what it has at the end; a model is at one server where the engine is clear.
    """
    plan = server_protocol(job["protocol"]).plan_type.from_dict(dict(job["plan"]))
    context = Context(network, MEMBERS, plan, engine=job["engine"], seed=job.get("seed"))
    roles = {"train": _train, "answer": _answer, "evaluate": _evaluate}
    return roles[job["program"]](context, job, own)


def _train(context: Context, job: Plain, own: Plain) -> Plain:
    uploads = [Upload(**{**one, "features": tuple(one["features"])}) for one in job["uploads"]]
    held = [_held(context.plan, upload, _parts(own, k)) for k, upload in enumerate(uploads)]
    ledger, terms = ledger_of(job, context.plan), programs.Terms(job["protocol"])
    made = programs.server(replace(context, job=terms, table=held, ledger=ledger))
    kept = {"public": made.public, **_records(made)}
    if context.engine == "clear":
        return {"0": {"shares": made.shares, **kept}}
    return {
        server: {"shares": {name: x[at : at + 1] for name, x in made.shares.items()}, **kept}
        for at, server in enumerate(own)
    }


def _answer(context: Context, job: Plain, own: Plain) -> Plain:
    ledger, n = Ledger.from_json(_first(own)["ledger"]), job["n"]
    hidden_protocol(job["protocol"]).spend(context.plan, n, ledger)
    asked = programs.AskedModel(_shares(context, own), [DealtQuestion(n, _parts(own))])
    terms = programs.AnswerTerms(job["protocol"], job["what"])
    found = programs.answer(replace(context, job=terms, table=asked, ledger=ledger))
    return _given(own, found.halves[0], found)


def _evaluate(context: Context, job: Plain, own: Plain) -> Plain:
    plan = EvaluationPlan.from_dict(dict(job["evaluation"]))
    rows = _held(context.plan, _held_out(context.plan, plan.n_slots), _parts(own))
    ledger, of_model = ledger_of(job, plan), Ledger.from_json(_first(own)["ledger"])
    terms = programs.EvaluationTerms(job["protocol"], context.plan)
    held = programs.EvaluatedModel(_shares(context, own), of_model, [rows])
    found = programs.evaluate(replace(context, plan=plan, job=terms, table=held, ledger=ledger))
    return _given(own, found.halves, found)


def ledger_of(job: Mapping[str, Any], plan: Any) -> Ledger:
    """Open the ledger of a run, with everything that is known before it."""
    domain = plan.domain if job["domain_is_public"] else None
    ledger = Ledger(domain=domain, capacity=job.get("capacity"))
    for reason, audiences in job["marks"]:
        ledger.mark_not_private(reason, audiences)
    if job["seed"] is not None:
        ledger.mark_not_private(SEEDED)
    return ledger


def _job(program: str, protocol: str, plan: ServerPlan, engine: EngineName) -> Plain:
    """Return what every server is told."""
    computed = "clear" if engine == "clear" else "replicated"
    return {"program": program, "protocol": protocol, "plan": plan.to_dict(), "engine": computed}


def _own(
    dealt: Sequence[HeldUpload | DealtQuestion], trained: Trained | None = None, ledger: str = ""
) -> Plain:
    """Return what each server alone is handed."""
    own: Plain = {}
    for server in range(SERVERS):
        mine = [one.parts[server] for one in dealt if one.parts is not None]
        own[str(server)] = {
            "parts": [
                {"seeds": {str(j): seed for j, seed in part.seeds.items()}, "rest": part.correction}
                for part in mine
            ],
            "ledger": ledger,
        }
    for server, of_model in enumerate(() if trained is None else trained.servers):
        own[str(server)]["shares"] = of_model.shares
    return own


def _parts(own: Plain, k: int = 0) -> dict[int, Dealt]:
    """Return the parts that the servers here hold of the k-th array that was dealt."""
    found = {}
    for server, data in own.items():
        part = data["parts"][k]
        seeds = {int(j): seed for j, seed in part["seeds"].items()}
        found[int(server)] = Dealt(seeds, part["rest"])
    return found


def _shares(context: Context, own: Plain) -> Shares:
    """Join the shares of the servers that live here."""
    held = [data["shares"] for data in own.values() if "shares" in data]
    if context.engine == "clear":
        return {name: np.asarray(array) for name, array in held[0].items()}
    return {name: np.concatenate([shares[name] for shares in held]) for name in held[0]}


def _first(own: Plain) -> Plain:
    found: Plain = next(iter(own.values()))
    return found


def _held(plan: ServerPlan, upload: Upload, parts: dict[int, Dealt]) -> HeldUpload:
    return HeldUpload(upload, planes_shape_of(plan.layout, upload), parts)


def _held_out(plan: ServerPlan, n_slots: int) -> Upload:
    """Return the upload that held-out rows are: all columns, and the target."""
    return Upload(FIRST_OWNER, 0, n_slots, tuple(range(plan.layout.n_features)), target=True)


def _given(own: Plain, halves: Mapping[int, NDArray[Any]], found: Any) -> Plain:
    """Return the records of the servers here, and the half that each of them gives."""
    return {server: {"half": halves.get(int(server)), **_records(found)} for server in own}


def _records(found: Any) -> Plain:
    return {"ledger": found.ledger.to_json(), "leakage": found.leakage.to_json()}


def _entropy(seed: int | None) -> Entropy:
    """Return what owners deal with; shares follow from a seed, as all else does then."""
    if seed is None:
        return os.urandom
    text = f"hedgerow dealt {seed}".encode()
    return keyed(hashlib.blake2b(text, digest_size=KEY_BYTES).digest())


def _run(job: Plain, own: Plain, engine: EngineName) -> tuple[Plain, Reading, float]:
    """Run a program at all servers; what each has at the end, and the meters of all."""
    if engine == "processes":
        # Only what is its own is written for a process, and nothing to the others.
        apart = {int(server): [{server: data}] for server, data in own.items()}
        ends = run_parties(hidden_member, SERVERS, [job], own=apart, limit=LIMIT)
        found: Plain = {}
        for end in ends:
            found |= end.value
        meter = joined_meters(end.meter for end in ends)
        seconds = max(end.seconds for end in ends)
    else:
        start = time.perf_counter()
        with Simulator(SERVERS) as network:
            found, meter = hidden_member(network, job, own), network.meter.snapshot()
        seconds = time.perf_counter() - start
    check_alike(list(found.values()))
    return found, meter, seconds


def run_side_by_side(
    n: int, servers: int, attend: Callable[[Network], Any], mesh: Mesh | None = None
) -> tuple[list[Any], list[Reading]]:
    """Run n members that write to each other in this process; what each has, and what it sent.

    The first so many are servers, which live together and come last.
    """

    def metered(network: Network) -> tuple[Any, Reading]:
        return attend(network), network.meter.snapshot()

    seats: list[tuple[int, ...]] = [(party,) for party in range(servers, n)]
    if servers:
        seats.append(tuple(range(servers)))
    ends = (mesh or Mesh(n, timeout=LIMIT)).run(dict.fromkeys(seats, metered))
    return [found for found, _ in ends], [sent for _, sent in ends]


def joined_meters(readings: Iterable[Reading | None]) -> Reading:
    """Return what several members have sent."""
    return reduce(or_, [one for one in readings if one is not None], Reading((), {}))


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
