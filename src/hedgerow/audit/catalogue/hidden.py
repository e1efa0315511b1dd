"""What the auditor attacks in this room: answers of hidden trees on three servers.

The servers run in the simulator, which computes the real shares, and train with the real protocol.
The same table in the slots of every tree gives as many independent trees as there are runs; voting
trees, which have no noise of their own, are asked as often.

The first pair of tables is a counterexample to noise at the leaves alone: one more record changes
the best split, and with it whether two queries are in one leaf or in two.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.engine import AuditTarget, Pair
from hedgerow.audit.tables import AuditTable, families, neighbours
from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource, Opening
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.evaluation import (
    TABLE,
    cross_table,
    noisy_table,
    plan_evaluation,
)
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.questions import join_answers, open_answers, question_of
from hedgerow.protocols.hidden.sampling import amplified
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.integrate import keyed
from hedgerow.protocols.sharing.queries import deal_queries, held_queries
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads
from hedgerow.protocols.sharing.uploaded import deal_uploads, held_table
from hedgerow.protocols.votes import votes
from hedgerow.secure.replicated import SERVERS, ReplicatedEngine
from hedgerow.secure.replicated.outside import open_halves
from hedgerow.secure.secret import Engine, Secret
from hedgerow.tables import Attribute, Domain, Encoded, Target

EPSILON = 1.0
RUNS = 4_000
SMALL_RUNS = 20_000
TIES = (1, 2, 5)
SAMPLED_RUNS = 10_000
RATE, SAMPLED_EPSILON = 0.5, 4.0
SEED_BYTES = 32
ANSWERS = "class of each query in each tree"

DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=(0, 1)) for name in ("a1", "a2")
    ),
    target=Target(name="class", classes=(0, 1)),
)
QUERIES = np.array([[0, 0], [0, 1]], dtype=np.uint8)


def counterexample() -> Pair:
    """Return 240 records whose best split is a1, by a tie, and 241 whose best split is a2."""
    return next(pair for pair in families() if pair[0] == "tie of 240 records")


def one_record() -> Pair:
    """Return no record, and one."""
    row, label = np.zeros((1, 2), dtype=np.int64), np.ones(1, dtype=np.int64)
    return (
        "no record and one",
        AuditTable(row[:0], label[:0], (2, 2), 2),
        AuditTable(row, label, (2, 2), 2),
    )


def small_tie(n: int) -> Pair:
    """Return n records for each of two classes, a tie, and one record more for which a2 is better.

    With so few records the noise of the leaves shows in the answers as well as that of the split.
    """
    rows = np.repeat([[0, 1], [1, 0]], n, axis=0)
    first = AuditTable(rows, np.repeat([0, 1], n), (2, 2), 2)
    second = AuditTable(np.vstack([rows, [[0, 0]]]), np.append(first.classes, 1), (2, 2), 2)
    return neighbours(f"tie of {2 * n} records", first, second)


@dataclass(frozen=True)
class HiddenAnswers:
    """Train on an audit table of public `slots`, and return the classes of the two queries."""

    options: dict[str, Any] = field(default_factory=dict)
    slots: int = 241

    def plan(self, runs: int) -> HiddenPlan:
        """Return the plan of `runs` trees that do not know of each other."""
        if self.options.get("sampling") != "poisson":
            return _plan(capacity=self.slots * runs, n_trees=runs, **self.options)
        # The budget is that of all trees together, and each has its own.
        options = self.options | {"epsilon": runs * self.options["epsilon"]}
        return _plan(capacity=self.slots, n_trees=runs, **options)

    def __call__(self, table: AuditTable, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return classes, int64 (runs, 2)."""
        plan = self.plan(runs)
        shape = (len(QUERIES), runs)
        opening = Opening(ANSWERS, "analyst", shape, derived=plan.answers_derive_from())
        engine, ledger = engine_for([*plan.openings(), opening], DOMAIN, source)
        copies = plan.n_slots // self.slots
        trained = train_hidden(share_audit_table(engine, plan, table, copies), plan, ledger)
        labels = predict(trained, share_audit_queries(trained, QUERIES))
        index = (labels * np.arange(plan.n_classes)).sum(axis=-1)
        return join_answers(open_halves(engine, index, ANSWERS, "analyst")).T


class Votes(HiddenAnswers):
    """The same for voting trees: one noiseless model, asked once more for every run."""

    def plan(self, runs: int) -> HiddenPlan:
        """Return the plan of one model whose two answers of a run cost `EPSILON`."""
        q = len(QUERIES)
        once = _plan(capacity=self.slots, noise="votes", epsilon=EPSILON, queries=q)
        return replace(once, queries=runs * len(QUERIES))

    def __call__(self, table: AuditTable, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return classes, int64 (runs, 2)."""
        plan, n = self.plan(runs), runs * len(QUERIES)
        openings = [*plan.openings(), *votes.vote_openings(n)]
        engine, ledger = engine_for(openings, DOMAIN, source)
        trained = train_hidden(share_audit_table(engine, plan, table), plan, ledger)
        question = question_of(plan, audit_rows(plan.domain, np.tile(QUERIES, (runs, 1))))
        votes.spend_answers(ledger, n)
        (halves,) = open_answers(HIDDEN_TREE, trained, plan, [question], "class", ledger)
        return join_answers(halves).reshape(runs, len(QUERIES))


@dataclass(frozen=True)
class HeldOut:
    """Evaluate one exact tree on an audit table of one slot, and return the cells of the table."""

    ranges: int = 2

    def __call__(self, table: AuditTable, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return noisy cells, int64 (runs, classes * places)."""
        plan = _plan(capacity=241, noise="none")
        evaluation = plan_evaluation(HIDDEN_TREE, plan, 1, EPSILON, self.ranges)
        shape = (runs, *evaluation.shape)
        opening = Opening(TABLE, "analyst", shape, release=TABLE)
        engine, ledger = engine_for([*plan.openings(), opening], DOMAIN, source)
        _, trained_on, _ = counterexample()
        model = train_hidden(share_audit_table(engine, plan, trained_on), plan, ledger)
        held_out = replace(plan, capacity=1)
        rows = share_audit_table(engine, held_out, table)
        counts = cross_table(HIDDEN_TREE, model, plan, rows, evaluation)
        copies = counts.reshape(1, *evaluation.shape).broadcast_to(shape)
        noisy = noisy_table(copies, evaluation, ledger)
        return join_answers(open_halves(engine, noisy, TABLE, "analyst")).reshape(runs, -1)


def hidden_trees() -> list[AuditTarget]:
    """Targets for the sound modes, and for what the paper claims of the others."""
    noisy = HiddenAnswers({"noise": "splits+leaves", "epsilon": EPSILON}, slots=2 * max(TIES) + 1)
    leaves = HiddenAnswers({"noise": "leaves", "epsilon": EPSILON})
    sampled = HiddenAnswers(
        {
            "noise": "leaves",
            "random_splits": True,
            "epsilon": amplified(SAMPLED_EPSILON, 0.0, RATE)[0],
            "sampling": "poisson",
            "rate": RATE,
        },
        slots=1,
    )
    (each,) = sampled.plan(1).releases()
    alone = [one_record()]
    assert each.claimed is not None
    return [
        _target("splits+leaves", noisy, [small_tie(n) for n in TIES]),
        # A record that was alone decides both answers, by one vote for each class.
        _target("votes", Votes(slots=1), alone),
        _target("evaluation", HeldOut(), alone),
        _target("sampled", sampled, alone, each.epsilon, runs=SAMPLED_RUNS),
        _target("broken-leaves-alone", leaves, [counterexample()], runs=RUNS, sound=False),
        _target(
            "broken-sampled-as-claimed",
            sampled,
            alone,
            each.claimed,
            runs=SAMPLED_RUNS,
            proven=each.epsilon,
            sound=False,
        ),
    ]


def _plan(**options: Any) -> HiddenPlan:
    return plan_hidden(DOMAIN, depth=1, criterion="max", branching="wary", **options)


def _target(
    name: str,
    run: HiddenAnswers | HeldOut,
    pairs: Sequence[Pair],
    claimed: float = EPSILON,
    *,
    runs: int = SMALL_RUNS,
    **known: Any,
) -> AuditTarget:
    label = f"hidden-tree/{name}@{claimed:.3g}"
    # Finite precision: two answers, or one tree, each below 2**-60.
    return AuditTarget(
        label, run, pairs, claimed, delta=2.0**-58, kind="protocol", runs=runs, **known
    )


def engine_for(
    openings: Sequence[Opening], domain: Domain | None, source: NoiseSource
) -> tuple[ReplicatedEngine, Ledger]:
    """Return three servers, and an empty ledger."""
    ledger = Ledger(domain=domain)
    seed = None if source.private else source.bytes(SEED_BYTES).tobytes()
    leakage = Leakage(openings, ledger=ledger)
    return ReplicatedEngine(Simulator(SERVERS), leakage, insecure_seed=seed), ledger


def share_audit_table(
    engine: Engine, plan: ServerPlan, table: AuditTable, copies: int = 1
) -> SecretTable:
    """Share padded copies of an audit table; classes 0 and 1 are bounds of a numeric target."""
    layout, n = plan.layout, len(table.classes)
    slots = plan.n_slots // copies
    bins = np.zeros((slots, 2), dtype=np.uint8)
    codes = np.zeros(slots, dtype=np.uint8)
    bins[:n], codes[:n] = table.rows, table.classes
    target: NDArray[Any] = codes
    if plan.target_units is not None:
        target = np.array([plan.target_units.low, plan.target_units.high])[codes]
    encoded = Encoded(
        layout.domain,
        np.asfortranarray(np.tile(bins, (copies, 1))),
        np.tile(target, copies),
        np.tile(np.arange(slots) < n, copies),
    )
    uploads = horizontal_uploads(layout, [plan.n_slots])
    # A seeded audit is repeatable, down to the shares.
    entropy = os.urandom if engine.private else keyed(bytes(KEY_BYTES))
    held = deal_uploads(layout, uploads, {uploads[0].party: encoded}, entropy)
    return held_table(engine, layout, plan.ring, held, plan.target_units)


def share_audit_queries(model: SecretForest, bins: NDArray[Any]) -> Secret:
    """Share rows of bins as an analyst does: one-hot for every attribute."""
    layout = model.layout
    parts = deal_queries(layout, audit_rows(layout.domain, bins))
    return held_queries(model.engine, layout, model.ring, parts, len(bins))


def audit_rows(domain: Domain, bins: NDArray[Any]) -> Encoded:
    """Return rows of bins, without a target."""
    return Encoded(domain, np.asfortranarray(bins), None, np.ones(len(bins), dtype=np.bool_))
