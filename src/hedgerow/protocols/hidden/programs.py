"""What the three servers of hidden models do: train, answer questions, evaluate.

Members 0, 1 and 2 are the servers, and there are no others: owners and analysts deal what they
share outside of the network (`hedgerow.secure.replicated.outside`) and an analyst gets two halves
of what is opened to it. A program is run by one server in its own process, or by all three in one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.privacy.leakage import Charges
from hedgerow.protocols.checkpoint import restored
from hedgerow.protocols.contract import Computed, Context
from hedgerow.protocols.hidden.evaluation import (
    TABLE,
    EvaluationPlan,
    check_derived,
    cross_table,
    noisy_table,
)
from hedgerow.protocols.hidden.protocol import Arrays
from hedgerow.protocols.hidden.questions import DealtQuestion, open_answers, openings_of
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.registry import hidden_protocol, server_protocol
from hedgerow.protocols.sharing.uploaded import HeldUpload, held_table, table_openings
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import EVERYONE, SERVERS, ReplicatedEngine
from hedgerow.secure.replicated.outside import open_halves
from hedgerow.secure.secret import Engine

FIRST_OWNER = SERVERS
"""Owners of uploads are numbered after the servers, though they have no seat among them."""

COLLUSION = "two servers together hold every share"
SEEDED = "seeded noise"
HALVES_KEPT = "halves"


class HiddenTerms(Protocol):
    """What training takes from a job, beside its plan and what servers hold of the uploads."""

    @property
    def protocol(self) -> str:
        """Of `hedgerow.protocols.registry`."""


@dataclass(frozen=True)
class Terms:
    """Terms of a run on this machine."""

    protocol: str


@dataclass(frozen=True)
class HiddenPart:
    """What training leaves at the servers that live here; `public` is what they publish."""

    shares: Arrays = field(repr=False)
    public: Any = field(repr=False)
    ledger: Ledger = field(repr=False)
    leakage: Leakage = field(repr=False)


def server(context: Context) -> HiddenPart:
    """Train on what was uploaded.

    The table of the context is a sequence of `HeldUpload`, which the servers hold alike. Its ledger
    is charged with the plan, and told that two servers together know everything, before the first
    message. Progress has ``level``, of levels that are done, ``depth`` and ``nodes``.

    Reveals: what the table (`table_openings`) and the training declare. Cost: that of `held_table`
    and of the training.
    """
    plan: ServerPlan = context.plan
    terms: HiddenTerms = context.job
    held: Sequence[HeldUpload] = context.table
    protocol, ledger = server_protocol(terms.protocol), _ledger(context)

    def progress(done: int) -> None:
        context.progress({"level": done, "depth": plan.levels, "nodes": plan.nodes(done)})

    openings = [*table_openings([one.upload for one in held], EVERYONE), *plan.openings()]
    leakage = Leakage(openings, ledger=ledger, mark=context.stages.mark)
    engine, stages = _engine(context, leakage), context.stages
    table = held_table(
        engine, plan.layout, plan.ring, held, plan.target_units, plan.n_slots, stages
    )
    progress(0)
    made = protocol.train(table, plan, ledger, progress, stages)
    engine.finish()
    return HiddenPart(made.shares, made.public, ledger, leakage)


@dataclass(frozen=True)
class AnswerTerms:
    """What is asked, `what`, of a model of this protocol; `session` was never used before."""

    protocol: str
    what: str
    session: str = ""


@dataclass(frozen=True)
class AskedModel:
    """What servers that live here hold: shares of a model, and parts of questions to it.

    `charges` pay for the answers, where the model's ledger does not.
    """

    shares: Arrays = field(repr=False)
    questions: Sequence[DealtQuestion]
    charges: Charges | None = field(default=None, repr=False)


@dataclass(frozen=True)
class AnswerPart:
    """Halves of the answer to each question, by server that lives here and gives one."""

    halves: Sequence[Mapping[int, NDArray[Any]]] = field(repr=False)
    ledger: Ledger = field(repr=False)
    leakage: Leakage = field(repr=False)


def answer(context: Context) -> AnswerPart:
    """Answer questions of one or several analysts to a model.

    The context has the model's plan, `AnswerTerms`, an `AskedModel` as its table, and the model's
    ledger, out of which these answers were taken before (`HiddenProtocol.spend`).

    1. `open_answers`.
    2. The halves are saved as a stage, by `half_name`, before the servers take leave of each other:
       who returns from here may give its halves away.

    Reveals, Cost: as `open_answers`.
    """
    terms: AnswerTerms = context.job
    asked: AskedModel = context.table
    plan, ledger, protocol = context.plan, context.ledger, hidden_protocol(terms.protocol)
    assert ledger is not None
    openings = openings_of(protocol, plan, asked.questions, terms.what)
    leakage = Leakage(openings, ledger=asked.charges or ledger)
    engine = _engine(context, leakage, terms.session)
    model = protocol.model(engine, plan, asked.shares)
    found = open_answers(protocol, model, plan, asked.questions, terms.what, ledger)
    halves = {half_name(k, at): half for k, one in enumerate(found) for at, half in one.items()}
    context.stages.save(HALVES_KEPT, halves)
    engine.finish()
    return AnswerPart(found, ledger, leakage)


def half_name(question: int, server: int) -> str:
    """Name the half that a server gives of the answer to a question, by its number."""
    return f"{question} at {server}"


@dataclass(frozen=True)
class EvaluationTerms:
    """The model that is evaluated: its protocol, and the plan that it was trained by."""

    protocol: str
    model: Any


@dataclass(frozen=True)
class EvaluatedModel:
    """What servers that live here hold: a model and its ledger, and of held-out rows their part."""

    shares: Arrays = field(repr=False)
    ledger: Ledger = field(repr=False)
    rows: Sequence[HeldUpload]


@dataclass(frozen=True)
class EvaluationPart:
    """Halves of the table, by server that lives here and gives one; charged to held-out rows."""

    halves: Mapping[int, NDArray[Any]] = field(repr=False)
    ledger: Ledger = field(repr=False)
    leakage: Leakage = field(repr=False)


def evaluate(context: Context) -> EvaluationPart:
    """Count how well a model answers for held-out rows, with noise, and tell the analyst.

    The context has an `EvaluationPlan`, `EvaluationTerms`, an `EvaluatedModel` as its table, and a
    ledger of the held-out rows that is charged with the plan. What keeps the model from promising
    anything keeps this, too.

    1. The servers make rows of what was dealt and count (`hedgerow.protocols.hidden.evaluation`).
    2. The noisy table is saved as a stage, or was by an earlier attempt: it is drawn once.
    3. They open it to the analyst, in halves.

    Reveals: the noisy table, to the analyst; to the servers `table_openings`.
    Cost: that of `held_table` and `cross_table`.
    """
    terms: EvaluationTerms = context.job
    held: EvaluatedModel = context.table
    evaluation: EvaluationPlan = context.plan
    plan, protocol, ledger = terms.model, hidden_protocol(terms.protocol), _ledger(context)
    for mark in held.ledger.not_private:
        if not mark.audiences and mark.reason != SEEDED:
            ledger.mark_not_private(mark.reason, relation=mark.relation)
    check_derived(plan, evaluation, held.ledger)
    paid = evaluation.charge(ledger)
    uploads = [one.upload for one in held.rows]
    openings = [*table_openings(uploads, EVERYONE), *evaluation.openings()]
    leakage = Leakage(openings, ledger=ledger, mark=context.stages.mark)
    engine, stages = _engine(context, leakage), context.stages
    kept = stages.load(TABLE)
    if kept is None:
        model = protocol.model(engine, plan, held.shares)
        rows = held_table(
            engine, plan.layout, model.ring, held.rows, None, evaluation.n_slots, stages
        )
        counts = cross_table(protocol, model, plan, rows, evaluation)
        noisy = noisy_table(counts, evaluation, paid)
        stages.save(TABLE, {"table": noisy.data})
    else:
        noisy = restored(engine, kept["table"])
    halves = open_halves(engine, noisy, TABLE, evaluation.audience)
    engine.finish()
    return EvaluationPart(halves, ledger, leakage)


def mark_collusion(ledger: Ledger) -> None:
    """Record that two servers together know everything."""
    for server in range(SERVERS):
        pair = [f"server {server}", f"server {(server + 1) % SERVERS}"]
        ledger.mark_not_private(COLLUSION, pair)


def _ledger(context: Context) -> Ledger:
    assert context.ledger is not None
    mark_collusion(context.ledger)
    return context.ledger


def _engine(context: Context, leakage: Leakage, session: str = "") -> Engine:
    return server_engine(context.engine, context.network, leakage, session, context.seed)


def server_engine(
    computed: Computed,
    network: Network | None,
    leakage: Leakage,
    session: str,
    seed: int | None,
    source: NoiseSource | None = None,
) -> Engine:
    """Return the engine of the servers here; a seed makes it repeatable and not private.

    The `source` is of noise in the clear, by default of the seed; only shares need the network.
    """
    if computed == "clear":
        if source is None:
            source = NoiseSource.system() if seed is None else NoiseSource.insecure_seeded(seed)
        return ClearEngine(leakage, source, n_parties=SERVERS, everyone=EVERYONE)
    assert network is not None
    insecure = None if seed is None else f"hedgerow seed {seed}".encode()
    return ReplicatedEngine(network, leakage, session=session, insecure_seed=insecure)


def check_together(computed: Computed, servers: Collection[int]) -> None:
    """Refuse, H501, to compute on plain numbers where not all servers are in this process."""
    if computed == "clear" and len(servers) != SERVERS:
        raise Code.BAD_PARAMETER.error(
            expected="all three servers in one process that computes in the clear",
            found=f"servers {sorted(servers)}",
        )
