"""What the auditor attacks in DP-TopDown: each implementation of PrivateSplit, from two views.

``messages`` is the view of the coordinator: every answer of every owner, from which the tree
follows too. ``tree`` is the view of the public, with tables of its own
(`hedgerow.estimators.audit_topdown_tree`). Most targets draw many trees of one split side by side
with the functions that owners and coordinator call; those named ``run`` carry real messages between
them, one tree after another, two levels deep.

Two owners take part where there are several: one has the audited table, the other rows that are the
same on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.estimators.audit_targets import EPSILON, domain_of, target_of
from hedgerow.estimators.audit_topdown_tree import DECISIVE, NOT_SPLIT, Decisive, table_of
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.privacy.audit import Table, Target, register
from hedgerow.protocols.topdown import Coordinator, private_split
from hedgerow.protocols.topdown_answers import groups_of, label, recount, weigh_and_split
from hedgerow.protocols.topdown_growth import Found, Question
from hedgerow.protocols.topdown_numbers import SecureSplits
from hedgerow.protocols.topdown_owner import Owner, charge
from hedgerow.protocols.topdown_plan import TopDownPlan, plan_topdown
from hedgerow.protocols.topdown_shape import Shape
from hedgerow.protocols.topdown_splits import worth_of
from hedgerow.protocols.topdown_wire import Answer, Arrays, Ask
from hedgerow.secure.clear import ClearEngine
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.trees.leaf_counts import LeafCounts

RUNS = 20_000
# On one pair of tables in place of seven.
TREE_RUNS = {
    "single-machine": 100_000,
    "noisy-counts": 100_000,
    "secure-counts": 100_000,
    "local-rnm": 50_000,
}
WHOLE_RUNS = 1_000
# Trees that are drawn side by side at a time, for the sake of memory.
TOGETHER = 4_000
_NOTHING = np.iinfo(np.int32).min

Seen = Literal["messages", "tree"]
Rows = NDArray[np.int64]


@dataclass
class Views:
    """Draw trees of one split on an audit table and return what somebody sees of each.

    Parameters
    ----------
    parameters
        Of `plan_topdown`.
    seen
        By whom.
    owners
        Owners that take part.
    drawn_at
        Epsilon of the noise; another figure than the claim is broken on purpose.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    seen: Seen = "messages"
    owners: int = 1
    drawn_at: float = EPSILON

    def plan(self, domain: Domain, epsilon: float) -> TopDownPlan:
        """Return the plan of these parameters."""
        options = {"max_depth": 1, "n_splits": 1, "min_gain": 0.0, "error": 0.0}
        return plan_topdown(
            domain, epsilon=epsilon, n_owners=self.owners, **(options | self.parameters)
        )

    def ledger(self, table: Table) -> Ledger:
        """Return the ledger of one tree; it is the same for every table of a domain."""
        domain = domain_of(table)
        ledger = Ledger(domain=domain)
        several = self.owners > 1
        charge(self.plan(domain, EPSILON), ledger, NoiseSource.system(), joint=several)
        return ledger

    def tables(self, table: Table, domain: Domain) -> list[Encoded]:
        """Return the tables of all owners."""
        return [encode(table.rows, domain, table.classes), *self._others(table, domain)]

    @property
    def decisive(self) -> Decisive:
        """The tables that the public's attack needs."""
        return DECISIVE[self.parameters["method"]]

    def _others(self, table: Table, domain: Domain) -> list[Encoded]:
        """Return the tables of the owners who are not attacked."""
        if self.seen == "tree":
            other = table_of(self.decisive.others)
            return [encode(other.rows, domain, other.classes)] * (self.owners - 1)
        i = np.arange(24)
        rows = np.column_stack([(i + j) % n for j, n in enumerate(table.n_bins)])
        return [encode(rows, domain, i % table.n_classes)] * (self.owners - 1)

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> Rows:
        """Return what is seen, as integers, one row per tree."""
        domain = domain_of(table)
        plan = self.plan(domain, self.drawn_at)
        counts = [LeafCounts(each, plan.candidates) for each in self.tables(table, domain)]
        parts = [min(TOGETHER, runs - at) for at in range(0, runs, TOGETHER)]
        return np.concatenate([self._side_by_side(plan, counts, n, source) for n in parts])

    def _side_by_side(
        self, plan: TopDownPlan, counts: list[LeafCounts], n: int, source: NoiseSource
    ) -> Rows:
        """Draw the root n times, each time as if it were a tree of its own."""
        split, shape, nodes = private_split(plan), Shape(plan), (0,) * n
        depths, valid = shape.depths(nodes), shape.undecided(nodes)
        rounds = split.rounds(Question((), nodes), shape, 0)
        ask = next(rounds)
        heard: list[Rows] = []
        while True:
            answers = {}
            for i, each in enumerate(counts):
                if ask.phase == "nodes":
                    drawn = weigh_and_split(each, plan, nodes, depths, valid, source)
                else:
                    drawn = recount(each, plan, nodes, depths, ask.among, source)
                answers[str(i)] = drawn
            heard += [_flat(plan, ask, arrays) for arrays in answers.values()]
            try:
                ask = rounds.send(split.join(ask, answers))
            except StopIteration as end:
                found: Found = end.value
                break
        made = _made(plan, found) if self.seen == "tree" else found.choice
        labels = [_labelled(each, plan, made, source) for each in counts]
        if self.seen == "tree":
            return self.decisive.evidence(np.column_stack([made, sum(labels)]), self.owners)
        return np.column_stack([*heard, *labels])


class SecretViews(Views):
    """Numbers that the three servers open; what they compute is computed on plain arrays here.

    All that the coordinator sees besides is sealed.
    """

    def _side_by_side(
        self, plan: TopDownPlan, counts: list[LeafCounts], n: int, source: NoiseSource
    ) -> Rows:
        engine, splits = ClearEngine(Leakage([]), source), SecureSplits(plan)
        histogram = np.sum([each.histogram([0]) for each in counts], axis=0)
        every = np.repeat(histogram.transpose(0, 2, 1), n, axis=0)
        valid = Shape(plan).undecided((0,) * n)
        numbers = splits.numbers(engine.public(every, splits.ring), [1] * n, valid)
        opened = splits.wide.signed(numbers.data).astype(np.int64).reshape(n, 3)
        made, worth, weight = opened.T
        if self.seen == "tree":
            heard = {"choice": made, "worth": worth, "weight": weight}
            made = _made(plan, worth_of(plan, heard))
        leaves = np.zeros((n, 2, plan.n_classes), dtype=np.int64)
        for candidate in np.unique(made):
            split = [
                after.class_counts(at) for after, at in (_leaves(c, candidate) for c in counts)
            ]
            leaves[made == candidate, : len(split[0])] = np.sum(split, axis=0)
        secret = engine.public(leaves.reshape(2 * n, -1), splits.leaf_ring)
        labels = splits.leaf_ring.signed(splits.leaf_numbers(secret).data).astype(np.int64)
        if self.seen == "tree":
            trees = np.column_stack([made, labels.reshape(n, -1)])
            return self.decisive.evidence(trees, self.owners)
        return np.column_stack([opened, labels.reshape(n, -1)])


class WholeViews(Views):
    """The same with real owners and a real coordinator, two levels deep."""

    def plan(self, domain: Domain, epsilon: float) -> TopDownPlan:
        """Return the plan of these parameters."""
        deeper = {"max_depth": 2, "n_splits": 3, "min_gain": 0.0, "error": 0.0}
        return plan_topdown(
            domain, epsilon=epsilon, n_owners=self.owners, **(deeper | self.parameters)
        )

    def __call__(self, table: Table, runs: int, source: NoiseSource) -> Rows:
        """Return what is seen, as integers, one row per tree."""
        domain = domain_of(table)
        plan = self.plan(domain, self.drawn_at)
        tables = self.tables(table, domain)
        rows = [self._grown(plan, tables, source) for _ in range(runs)]
        out = np.full((runs, _longest(plan)), _NOTHING, dtype=np.int64)
        for i, row in enumerate(rows):
            out[i, : len(row)] = row
        return out

    def _grown(self, plan: TopDownPlan, tables: list[Encoded], source: NoiseSource) -> Rows:
        owners = {
            str(i): Owner(each, plan, name=str(i), source=source) for i, each in enumerate(tables)
        }
        coordinator = Coordinator(plan, tuple(owners))
        messages: list[Rows] = []
        while asks := coordinator.asks():
            for name, ask in asks.items():
                answer = owners[name].answer(ask)
                coordinator.hear(name, answer)
                read, asked = Answer.from_bytes(answer), Ask.from_bytes(ask)
                messages += [np.array(asked.nodes), *(a.ravel() for a in read.arrays.values())]
        if self.seen == "messages":
            return np.concatenate(messages)
        tree = coordinator.tree()
        return np.concatenate([tree.feature, tree.cut, tree.value.ravel()]).astype(np.int64)


def _longest(plan: TopDownPlan) -> int:
    """Return how many numbers all answers have at most, for three splits of a node each."""
    k, those = plan.n_classes, plan.candidates
    node = 4 + k * max(those.total_bins, 2 * len(those))
    return plan.n_owners * (3 * (node + 1 + 2 * plan.n_owners * k) + 4 * (1 + k))


def _made(plan: TopDownPlan, found: Found) -> NDArray[np.int64]:
    """Return the split that each tree gets, or `NOT_SPLIT`, as `Growth` decides."""
    least = plan.error / plan.n_splits * np.maximum(found.weight, 0.0)
    worth_it = (found.weight >= least) & (found.worth > plan.min_gain)
    return np.where(worth_it, found.choice, NOT_SPLIT)


def _leaves(counts: LeafCounts, candidate: int) -> tuple[LeafCounts, list[int]]:
    """Make a split, if any; return the counts after it and the numbers of the leaves."""
    return (counts, [0]) if candidate == NOT_SPLIT else (counts.after([0], [candidate]), [1, 2])


def _labelled(
    counts: LeafCounts, plan: TopDownPlan, made: NDArray[np.int64], source: NoiseSource
) -> Rows:
    """Label the leaves of each tree, as owners do."""
    out = np.zeros((len(made), 2 * plan.n_classes), dtype=np.int64)
    for candidate in np.unique(made):
        here = np.flatnonzero(made == candidate)
        after, leaves = _leaves(counts, candidate)
        drawn = label(after, plan, leaves * len(here), source)["classes"].reshape(len(here), -1)
        out[here, : drawn.shape[1]] = drawn
    return out


def _flat(plan: TopDownPlan, ask: Ask, arrays: Arrays) -> Rows:
    """Put the answers about each root into a row of its own."""
    n = len(ask.nodes)
    if ask.phase == "nodes":
        return np.column_stack([array.reshape(n, -1) for array in arrays.values()])
    # Owners who chose different splits are asked to count more of them.
    sizes = [
        plan.n_classes * sum(len(group) + 1 for group in groups_of(plan, some))
        for some in ask.among
    ]
    out = np.full((n, 2 * plan.n_owners * plan.n_classes), _NOTHING, dtype=np.int64)
    out[np.arange(out.shape[1]) < np.array(sizes)[:, None]] = arrays["cells"]
    return np.column_stack([out, sizes])


@register
def topdown_trees() -> list[Target]:
    """Targets of DP-TopDown, and some broken on purpose."""
    found: list[Target] = []
    for name, parameters, owners in _CASES:
        kind = SecretViews if parameters["method"] == "secure-counts" else Views
        messages = kind(parameters, "messages", owners)
        found.append(target_of(f"topdown/{name}/messages", messages, runs=RUNS))
        found.append(_tree_target(f"topdown/{name}/tree", kind(parameters, "tree", owners)))
        if kind is Views and not ("histograms" in parameters or "criterion" in parameters):
            whole = WholeViews(parameters, "messages", owners)
            found.append(target_of(f"topdown/{name}/messages/run", whole, runs=WHOLE_RUNS))
    for name in ("single-machine", "noisy-counts", "local-rnm", "secure-counts"):
        kind = SecretViews if name == "secure-counts" else Views
        owners = 1 if name == "single-machine" else 2
        broken = f"topdown/{name}/broken-third-of-the-noise"
        third = kind({"method": name}, "messages", owners, drawn_at=3 * EPSILON)
        found.append(target_of(broken, third, sound=False, runs=RUNS))
        tree = kind({"method": name}, "tree", owners, drawn_at=3 * EPSILON)
        found.append(_tree_target(f"{broken}/tree", tree, sound=False))
    return found


def _tree_target(name: str, views: Views, *, sound: bool = True) -> Target:
    return target_of(
        name,
        views,
        sound=sound,
        runs=TREE_RUNS[views.parameters["method"]],
        pairs=[views.decisive.pair],
    )


_CASES: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("single-machine", {"method": "single-machine"}, 1),
    ("single-machine-entropy", {"method": "single-machine", "criterion": "entropy"}, 1),
    ("noisy-counts", {"method": "noisy-counts"}, 2),
    ("noisy-counts-split", {"method": "noisy-counts", "histograms": "split"}, 2),
    ("local-rnm", {"method": "local-rnm"}, 2),
    ("local-rnm-split", {"method": "local-rnm", "histograms": "split"}, 2),
    ("secure-counts", {"method": "secure-counts"}, 2),
    ("secure-counts-max", {"method": "secure-counts", "criterion": "max"}, 2),
)
