"""What the auditor attacks besides hidden classifiers: regression, boosting, and opened trees.

All targets run on three servers in the simulator, which computes the real shares. An attack needs
thousands of models, each with noise of its own: `regressions`, `boosters` and `opened_trees` take
the steps of `train_regression`, `train_boosting` and `train_open` with an axis for the models, on
all rows of one shared table. One copy is bit for bit what training makes. Ledgers have the charges
of one model, which is all that an attacker gets to see.

The record that makes the difference is at one bound of the target, where all its neighbours are at
the other. It breaks a tie between two splits by nearly the whole sensitivity of squared error, and
moves sum and count of its leaf by all of theirs. From the values of four queries the attacker reads
which were in one leaf, that is the split, and about where each value lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.catalogue.hidden import (
    engine_for,
    share_audit_queries,
    share_audit_table,
)
from hedgerow.audit.engine import AuditTarget, Pair
from hedgerow.audit.tables import AuditTable, neighbours
from hedgerow.privacy import Ledger, NoiseSource, Opening, TwoSidedGeometric
from hedgerow.protocols.growers.choices import Noisy, split_reason
from hedgerow.protocols.growers.gradients import gradients, labels_of, prior
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.means import NoisyQuotient, lift_sums
from hedgerow.protocols.hidden import (
    boosting as hidden_boosting,
)
from hedgerow.protocols.hidden import (
    regression as hidden_regression,
)
from hedgerow.protocols.hidden.boosting_plan import (
    RATE_BITS,
    VALUE_BITS,
    BoostingPlan,
    round_scope,
    tree_scope,
)
from hedgerow.protocols.hidden.id3 import GrownTrees, branch_sums, grow, node_totals
from hedgerow.protocols.hidden.model import SecretForest, forest
from hedgerow.protocols.hidden.options import plan_boosting, plan_hidden, plan_regression
from hedgerow.protocols.hidden.plan import LEAF, OpenPlan, split_name
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.questions import join_answers
from hedgerow.protocols.hidden.regression_plan import FRACTION, RegressionPlan
from hedgerow.protocols.hidden.training import leaf_update_of, score_of, splits_of
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.fixed.fixed_point import rescale
from hedgerow.secure.noise.releases import Payer
from hedgerow.secure.replicated import EVERYONE
from hedgerow.secure.replicated.outside import open_halves
from hedgerow.secure.secret import Secret, concatenate, stack
from hedgerow.tables import Attribute, Domain, Target

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
    attributes=_ATTRIBUTES, target=Target(name="y", bounds=(-1.0, 1.0)), capacity=SLOTS
)
CLASSES = Domain(attributes=_ATTRIBUTES, target=Target(name="y", classes=(0, 1)), capacity=SLOTS)
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


def regressions(
    table: SecretTable, plan: RegressionPlan, ledger: Ledger, runs: int
) -> SecretForest:
    """Train `runs` regression trees on one table; see `train_regression`."""
    for release in plan.releases():
        if release.mechanism == "exact":
            ledger.charge(release)
    rows = Masks(_for_each_model(table, runs), member=hidden_regression.MEMBER)
    return hidden_regression.train_rows(rows, plan, ledger)


def boosters(table: SecretTable, plan: BoostingPlan, ledger: Ledger, runs: int) -> SecretForest:
    """Train `runs` boosters as `train_boosting` does; trees stand round by round, side by side."""
    labels = labels_of(table, plan)
    scores = prior(labels, plan).broadcast_to((runs, table.n_rows))
    score = hidden_boosting._score(plan)
    shift = VALUE_BITS + RATE_BITS - plan.widening - plan.fraction
    choices: list[list[Secret]] = []
    steps: list[Secret] = []
    for turn in range(plan.n_rounds):
        scope = tree_scope(round_scope(turn), 0)
        gradient, weight = gradients(labels, scores, plan)
        columns = stack([labels.present.broadcast_to(gradient.shape), gradient], axis=2)
        rows = Masks(
            SecretTable(table.layout, table.onehot, columns), member=hidden_regression.MEMBER
        )
        choose = Noisy(plan.split_mechanism, ledger, scope=scope)
        grown = grow(rows, plan.depth, score, choose)
        inside = rows.leaves(grown.choices[-1])
        sums = lift_sums(grown.leaves, plan.capacity << plan.unit_bits)
        weights = sums[..., 0]
        if weight is not None:
            weights = lift_sums(inside.sums(weight), 0)
        noisy = NoisyQuotient(
            plan.quotient,
            plan.sum_epsilon,
            plan.weight_epsilon,
            ledger,
            scope=scope,
            least=plan.least_weight,
        )
        values = noisy(sums[..., 1].reshape(-1), weights.reshape(-1)).reshape(runs, -1)
        value = values.engine.reduce(rescale(values * plan.rate, shift), plan.ring)
        if turn + 1 < plan.n_rounds:
            scores = scores + inside.spread(value)
        choices.append(grown.choices)
        steps.append(value)
    levels = [concatenate([found[level] for found in choices]) for level in range(plan.depth)]
    return forest(table.layout, levels, concatenate(steps)[:, :, None])


def opened_trees(
    table: SecretTable, plan: OpenPlan, ledger: Ledger, runs: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Open `runs` trees as `train_open` does: splits (runs,) and counts (runs, 2, classes)."""
    layout, score, choose = plan.layout, score_of(plan), splits_of(plan, ledger)
    hist = Masks(_for_each_model(table, runs)).histogram()
    chosen = choose(0, score(hist), score.bound, None)
    index = (chosen * np.arange(chosen.shape[-1])).sum(axis=-1)
    split = table.engine.open_to_all(index, split_name(0))
    public = np.asarray(split)[..., None] == np.arange(chosen.shape[-1])
    choice = table.engine.public(public, table.ring)
    sums = branch_sums(hist, choice, layout)
    grown = GrownTrees([choice], [node_totals(hist, layout)], sums, [np.zeros(2, dtype=np.int64)])
    counts = leaf_update_of(plan, ledger)(grown, plan.tree_rows).counts
    assert counts is not None
    opened = table.engine.open_to_all(counts, LEAF)
    return split[:, 0].astype(np.int64), counts.ring.signed(opened).astype(np.int64)


def _for_each_model(table: SecretTable, runs: int) -> SecretTable:
    """Return a table whose columns every model has for itself."""
    columns = table.columns.broadcast_to((runs, *table.columns.shape))
    return SecretTable(table.layout, table.onehot, columns)


@dataclass(frozen=True)
class Regression:
    """Hidden regression trees; what an analyst reads from four answers of each."""

    options: dict[str, Any] = field(default_factory=dict)
    slots: int = SLOTS
    kind: type[RegressionPlan] = RegressionPlan

    def plan(self) -> Any:
        """Return the plan of one model."""
        options = {"depth": 1, "epsilon": EPSILON, "capacity": self.slots} | self.options
        return self.kind.from_dict(plan_regression(NUMBERS, **options).to_dict())

    def largest(self, plan: Any) -> int:
        """Return the magnitude of the largest answer."""
        return 1 << FRACTION

    def train(self, table: SecretTable, plan: Any, ledger: Ledger, runs: int) -> SecretForest:
        """Train `runs` models, each a tree of the forest."""
        return regressions(table, plan, ledger, runs)

    def answers(self, found: Secret, plan: Any) -> Secret:
        """Return answers (queries, runs) from leaf values (queries, trees)."""
        return found

    def __call__(self, table: AuditTable, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return which queries were in one leaf, and the cell of each value: (runs, 5)."""
        plan = self.plan()
        reasons = plan.answers_derive_from()
        opening = Opening(ANSWERS, "analyst", (len(QUERIES), runs), derived=reasons)
        engine, ledger = engine_for([opening], plan.domain, source)
        model = self.train(share_audit_table(engine, plan, table), plan, ledger, runs)
        queries = share_audit_queries(model, QUERIES)
        found = self.answers(predict(model, queries)[:, :, 0], plan)
        opened = join_answers(open_halves(engine, found, ANSWERS, "analyst"))
        return _read(opened, self.largest(plan))


@dataclass(frozen=True)
class Boosting(Regression):
    """The same of hidden boosters; options are those of `plan_boosting`."""

    domain: Domain = NUMBERS

    def plan(self) -> Any:
        """Return the plan of one model."""
        options = {"depth": 1, "epsilon": EPSILON, "capacity": self.slots} | self.options
        return plan_boosting(self.domain, **options)

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

    def plan(self) -> OpenPlan:
        """Return the plan of one tree."""
        return plan_hidden(CLASSES, depth=1, epsilon=EPSILON, **self.options).opened()

    def __call__(self, table: AuditTable, runs: int, source: NoiseSource) -> NDArray[np.int64]:
        """Return the split and the counts of both leaves, (runs, 5)."""
        plan = self.plan()
        leaves = (runs, 2, plan.n_classes)
        openings = [
            Opening(split_name(0), EVERYONE, (runs, 1), release=split_reason(0)),
            Opening(LEAF, EVERYONE, leaves, release=plan.leaf_reason),
        ]
        engine, ledger = engine_for(openings, plan.domain, source)
        split, counts = opened_trees(share_audit_table(engine, plan, table), plan, ledger, runs)
        return np.hstack([split[:, None], counts.reshape(runs, -1)])


class HalfSensitivity(NoisyQuotient):
    """Broken on purpose: a record is thought to move a sum by half of what it can."""

    @property
    def sum_mechanism(self) -> TwoSidedGeometric:
        """Noise of the sums, too small."""
        return TwoSidedGeometric(self.sum_epsilon, 1 << (self.quotient.unit_bits - 1))


class HalfSensitivePlan(RegressionPlan):
    """One whose leaves are broken on purpose."""

    def noisy_quotient(self, ledger: Payer) -> HalfSensitivity:
        """Return noisy means with too little noise."""
        return HalfSensitivity(self.quotient, self.sum_epsilon, self.count_epsilon, ledger)


def numbers_and_opened_trees() -> list[AuditTarget]:
    """Targets for regression, boosting and opened trees, and two broken on purpose."""
    ties = [flips_the_split(), alone_in_its_leaf()]
    first = [first_record(), alone_in_its_leaf()]
    # Sums get nearly all, because an answer shows the sign of a sum and hardly a count.
    sums: dict[str, Any] = {"split_share": 0.1, "sum_share": 0.9}
    leaves: dict[str, Any] = {"noise": "leaves"}
    squared: dict[str, Any] = {"n_rounds": 2}
    # A first gradient is half of what it might become, and the loss as small.
    logistic: dict[str, Any] = sums | {"n_rounds": 1}
    half = Regression(sums, kind=HalfSensitivePlan)
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
        _target(
            "hidden-regression/broken-half-sensitivity",
            half,
            first,
            sound=False,
            proven=plan.split_epsilon + 2 * plan.sum_epsilon + plan.count_epsilon,
        ),
    ]


def _pair(label: str, counts: dict[tuple[int, int, int], int], extra: tuple[int, int, int]) -> Pair:
    rows = np.array([*counts, extra], dtype=np.int64)
    without = np.repeat(rows, [*counts.values(), 0], axis=0)
    within = np.repeat(rows, [*counts.values(), 1], axis=0)
    first, second = (AuditTable(side[:, :2], side[:, 2], (2, 2), 2) for side in (without, within))
    return neighbours(label, first, second)


def _target(
    name: str, run: Regression | OpenTrees, pairs: Sequence[Pair], runs: int = RUNS, **known: Any
) -> AuditTarget:
    label = f"{name}@{EPSILON:g}"
    return AuditTarget(label, run, pairs, EPSILON, delta=DELTA, kind="protocol", runs=runs, **known)


def _read(values: NDArray[np.int64], largest: int) -> NDArray[np.int64]:
    """Read answers (4, runs) as an attacker does: (runs, 5)."""
    same = values[:, None] == values[None]
    by_first = same[0, 1] & same[2, 3]
    by_second = same[0, 2] & same[1, 3]
    cells = np.clip(values * CELLS // largest, -CELLS, CELLS - 1)
    return np.vstack([by_first + 2 * by_second, cells]).T
