"""What the auditor attacks besides hidden classifiers: regression, boosting, and opened trees.

All targets run on three servers in the simulator, which computes the real shares; none uses the
clear engine. One run of the servers makes as many independent models of one shared table as the
auditor wants (`hedgerow.audit.catalogue.copies`).

The record that makes the difference is at one bound of the target, where all its neighbours are at
the other. It breaks a tie between two splits by nearly the whole sensitivity of squared error, and
moves sum and count of its leaf by all of theirs. From the values of four queries the attacker reads
which were in one leaf, that is the split, and about where each value lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit import Pair, Table, Target, neighbours, register
from hedgerow.audit.catalogue.copies import boosters, opened_trees, regressions
from hedgerow.audit.catalogue.hidden import ANALYST, OWNER, SEED_BYTES
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource, Opening, TwoSidedGeometric
from hedgerow.protocols.growers.choices import split_reason
from hedgerow.protocols.growers.means import NoisyQuotient
from hedgerow.protocols.hidden import boosting as hidden_boosting
from hedgerow.protocols.hidden import open_id3
from hedgerow.protocols.hidden import regression as hidden_regression
from hedgerow.protocols.hidden.boosting_plan import RATE_BITS, plan_boosting
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.plan import HiddenPlan, plan_hidden
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.regression_plan import FRACTION, plan_regression
from hedgerow.protocols.kinds import Plan
from hedgerow.protocols.sharing.queries import share_queries
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads, share_table
from hedgerow.secure.engine import Engine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.secret import Secret
from hedgerow.tables import Attribute, Domain, Encoded
from hedgerow.tables import Target as DomainTarget

EPSILON = 1.0
RUNS = 20_000
OPEN_RUNS = 40_000
SLOTS = 16
DELTA = 2.0**-56
"""More than the finite precision of all releases of a model, each below 2**-60."""
CELLS = 8
"""Cells, on each side of 0, in which an attacker counts values."""
ANSWERS = "value of each query in each model"

_ATTRIBUTES = tuple(
    Attribute(name=name, kind="numeric", bounds=(0, 1), edges=(0.5,)) for name in ("a1", "a2")
)
NUMBERS = Domain(
    attributes=_ATTRIBUTES, target=DomainTarget(name="y", bounds=(-1.0, 1.0)), capacity=SLOTS
)
CLASSES = Domain(
    attributes=_ATTRIBUTES, target=DomainTarget(name="y", classes=(0, 1)), capacity=SLOTS
)
QUERIES = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.uint8)


def flips_the_split() -> Pair:
    """Return a tie between both attributes, and one record more for which only a2 is as good."""
    return _pair("a record breaks a tie", {(0, 0, 0): 13, (1, 1, 1): 2}, (0, 1, 1))


def alone_in_its_leaf() -> Pair:
    """Return records in one leaf of either attribute, and one more at the other bound.

    If a2 is chosen, the record is alone in its leaf; if a1, it is the only one that differs.
    """
    return _pair("a record at the other bound, alone in its leaf", {(0, 0, 0): 15}, (0, 1, 1))


def first_record() -> Pair:
    """Return no record, and one at the upper bound."""
    return _pair("no record and one at the bound", {}, (0, 0, 1))


@dataclass(frozen=True)
class Regression:
    """Hidden regression trees; what an analyst reads from four answers of each.

    Parameters
    ----------
    options
        Of `plan_regression`.
    leaves : type
        What puts values into leaves.
    slots : int
        Of the table; public.
    """

    options: dict[str, Any] = field(default_factory=dict)
    leaves: type[NoisyQuotient] = NoisyQuotient
    slots: int = SLOTS

    def plan(self) -> Any:
        """Return the plan of one model."""
        options = {"depth": 1, "epsilon": EPSILON, "capacity": self.slots} | self.options
        return plan_regression(NUMBERS, **options)

    def rest_on(self, plan: Any) -> tuple[str, ...]:
        """Return the reasons of the releases behind an answer."""
        return hidden_regression.answers_rest_on(plan)

    def largest(self, plan: Any) -> int:
        """Return the magnitude of the largest answer."""
        return 1 << FRACTION

    def train(self, table: SecretTable, plan: Any, ledger: Ledger, runs: int) -> SecretForest:
        """Train `runs` models, each a tree of the forest."""
        return regressions(table, plan, ledger, runs, self.leaves)

    def answers(self, found: Secret, plan: Any) -> Secret:
        """Return answers (queries, runs) from leaf values (queries, trees)."""
        return found

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return which queries were in one leaf, and the cell of each value: (runs, 5)."""
        plan = self.plan()
        opening = Opening(ANSWERS, "analyst", (len(QUERIES), runs), derived=self.rest_on(plan))
        engine, ledger = engine_for([opening], plan.domain, source)
        model = self.train(shared(engine, plan, table), plan, ledger, runs)
        asked = Encoded(
            plan.domain, np.asfortranarray(QUERIES), None, np.ones(len(QUERIES), dtype=np.bool_)
        )
        queries = share_queries(engine, plan.layout, model.ring, asked, len(QUERIES), ANALYST)
        found = self.answers(predict(model, queries)[:, :, 0], plan)
        opened = engine.open(found, ANSWERS, "analyst")
        assert opened is not None
        return _read(model.ring.signed(opened).astype(np.int64), self.largest(plan))


@dataclass(frozen=True)
class Boosting(Regression):
    """The same of hidden boosters; options are those of `plan_boosting`."""

    domain: Domain = NUMBERS

    def plan(self) -> Any:
        """Return the plan of one model."""
        options = {"depth": 1, "epsilon": EPSILON, "capacity": self.slots} | self.options
        return plan_boosting(self.domain, **options)

    def rest_on(self, plan: Any) -> tuple[str, ...]:
        """Return the reasons of the releases behind an answer."""
        return hidden_boosting.answers_rest_on(plan)

    def largest(self, plan: Any) -> int:
        """Return the magnitude of the largest answer: a full step of every round."""
        reach = plan.n_rounds * plan.rate << (plan.quotient.reach + plan.fraction)
        return int(reach >> RATE_BITS)

    def train(self, table: SecretTable, plan: Any, ledger: Ledger, runs: int) -> SecretForest:
        """Train `runs` models, round by round."""
        return boosters(table, plan, ledger, runs)

    def answers(self, found: Secret, plan: Any) -> Secret:
        """Add up the rounds."""
        return found.reshape(found.shape[0], plan.n_rounds, -1).sum(axis=1)


@dataclass(frozen=True)
class OpenTrees:
    """Trees that are opened: the public sees the split and the noisy counts of each."""

    options: dict[str, Any] = field(default_factory=dict)

    def plan(self) -> HiddenPlan:
        """Return the plan of one tree."""
        return plan_hidden(CLASSES, depth=1, epsilon=EPSILON, **self.options)

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return the split and the counts of both leaves, (runs, 5)."""
        plan = self.plan()
        servers, leaves = open_id3.SERVERS, (runs, 2, plan.n_classes)
        openings = [
            Opening(open_id3.split_name(0), servers, (runs, 1), release=split_reason(0)),
            Opening(open_id3.LEAF, servers, leaves, release=open_id3.leaf_reason(plan)),
        ]
        engine, ledger = engine_for(openings, plan.domain, source)
        split, counts = opened_trees(shared(engine, plan, table), plan, ledger, runs)
        return np.hstack([split[:, None], counts.reshape(runs, -1)])


class HalfSensitivity(NoisyQuotient):
    """Broken on purpose: a record is thought to move a sum by half of what it can."""

    @property
    def sum_mechanism(self) -> TwoSidedGeometric:
        """Noise of the sums, too small."""
        return TwoSidedGeometric(self.sum_epsilon, 1 << (self.quotient.unit_bits - 1))


@register
def numbers_and_opened_trees() -> list[Target]:
    """Targets for regression, boosting and opened trees, and two broken on purpose."""
    ties = [flips_the_split(), alone_in_its_leaf()]
    first = [first_record(), alone_in_its_leaf()]
    # Sums get nearly all, because an answer shows the sign of a sum and hardly a count.
    sums: dict[str, Any] = {"split_share": 0.1, "sum_share": 0.9}
    leaves: dict[str, Any] = {"noise": "leaves"}
    squared: dict[str, Any] = {"n_rounds": 2}
    # A first gradient is half of what it might become, and the loss as small.
    logistic: dict[str, Any] = sums | {"n_rounds": 1}
    half = Regression(sums, HalfSensitivity)
    plan = half.plan()
    return [
        _target("hidden-regression", Regression(), ties),
        _target("hidden-regression/mostly-leaves", Regression(sums), first),
        _target("hidden-boosting/squared", Boosting(squared), ties),
        _target(
            "hidden-boosting/logistic",
            Boosting(logistic, slots=1, domain=CLASSES),
            [first_record()],
        ),
        _target("open-tree/max", OpenTrees({"criterion": "max"}), ties, runs=OPEN_RUNS),
        _target("open-tree/gini", OpenTrees({"criterion": "gini"}), ties, runs=OPEN_RUNS),
        _target("hidden-regression/broken-leaves-alone", Regression(leaves), ties, sound=False),
        replace(
            _target("hidden-regression/broken-half-sensitivity", half, first, sound=False),
            proven=plan.split_epsilon + 2 * plan.sum_epsilon + plan.count_epsilon,
        ),
    ]


def engine_for(
    openings: Sequence[Opening], domain: Domain, source: NoiseSource
) -> tuple[ReplicatedEngine, Ledger]:
    """Return three servers with an owner and an analyst, and an empty ledger."""
    ledger = Ledger(domain=domain)
    seed = None if source.private else source.bytes(SEED_BYTES).tobytes()
    network = Simulator(ANALYST + 1)
    return ReplicatedEngine(network, Leakage(openings, ledger=ledger), insecure_seed=seed), ledger


def shared(engine: Engine, plan: Plan, table: Table) -> SecretTable:
    """Share an audit table; classes 0 and 1 are the bounds of a numeric target."""
    n = len(table.classes)
    slots = plan.n_slots
    bins = np.zeros((slots, 2), dtype=np.uint8)
    codes = np.zeros(slots, dtype=np.uint8)
    bins[:n], codes[:n] = table.rows, table.classes
    layout = plan.layout
    target: NDArray[Any] = codes
    if layout.domain == NUMBERS:
        target = np.where(codes == 1, 1, -1) * float(plan.units.most)  # type: ignore[attr-defined]
    encoded = Encoded(layout.domain, np.asfortranarray(bins), target, np.arange(slots) < n)
    uploads = horizontal_uploads(layout, [slots], OWNER)
    return share_table(engine, layout, plan.ring, uploads, {OWNER: encoded}, 2)


def _pair(label: str, counts: dict[tuple[int, int, int], int], extra: tuple[int, int, int]) -> Pair:
    rows = np.array([*counts, extra], dtype=np.int64)
    without = np.repeat(rows, [*counts.values(), 0], axis=0)
    within = np.repeat(rows, [*counts.values(), 1], axis=0)
    first, second = (Table(side[:, :2], side[:, 2], (2, 2), 2) for side in (without, within))
    return neighbours(label, first, second)


def _target(
    name: str,
    run: Regression | OpenTrees,
    pairs: Sequence[Pair],
    *,
    sound: bool = True,
    runs: int = RUNS,
) -> Target:
    return Target(
        f"{name}@{EPSILON:g}",
        run,
        pairs,
        claimed=EPSILON,
        delta=DELTA,
        sound=sound,
        kind="protocol",
        runs=runs,
    )


def _read(values: NDArray[np.int64], largest: int) -> NDArray[np.int64]:
    """Read answers (4, runs) as an attacker does: (runs, 5)."""
    same = values[:, None] == values[None]
    by_first = same[0, 1] & same[2, 3]
    by_second = same[0, 2] & same[1, 3]
    cells = np.clip(values * CELLS // largest, -CELLS, CELLS - 1)
    return np.vstack([by_first + 2 * by_second, cells]).T
