"""What the auditor attacks in DP-TopDown: each implementation of PrivateSplit, from two views.

``messages`` is the view of the coordinator: every answer of every owner, from which the tree
follows too. It knows both tables that the attacked owner may have, the plan, and the nodes that it
asks about. So it computes what each number would be without noise on either table, and how much
likelier it is on one of them. Numbers of one node depend on each other only through the choice of a
split, which is one of them: all answers come down to their likelihood ratio.

``tree`` is the view of the public, with tables of its own (`topdown_tree`). Most targets draw many
trees of one split side by side with the functions that owners and coordinator call; those named
``run`` carry real messages between them, one tree after another, two levels deep. A second owner,
where there is one, has rows that are the same on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.catalogue.curated import EPSILON, domain_of, target_of
from hedgerow.audit.catalogue.topdown_tree import (
    COUNTS_BY_SPLIT,
    DECISIVE,
    ENTROPY,
    NOT_SPLIT,
    Decisive,
    table_of,
)
from hedgerow.audit.engine import AuditTarget
from hedgerow.audit.evidence import of_choice, of_counts, outcome
from hedgerow.audit.tables import AuditTable, Side, families, sides
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.topdown.answers import (
    cells_of,
    count_candidates,
    label,
    n_histograms_of,
    recount,
    weigh_and_split,
)
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.growth import NodeEstimates, NodeQuestion, TreeShape
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.owner import Owner, charge_plan
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.scores import exact_scores, node_scores
from hedgerow.protocols.topdown.secure_splits import SecureSplits
from hedgerow.protocols.topdown.splits import node_estimates, private_split
from hedgerow.protocols.topdown.wire import Arrays, Ask, TopDownAnswer
from hedgerow.secure.clear import ClearEngine
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.trees.counts.leaves import LeafCounts

RUNS = 40_000
# On one pair of tables in place of seven.
TREE_RUNS = {
    "single-machine": 100_000,
    "noisy-counts": 100_000,
    "secure-counts": 100_000,
    "local-rnm": 50_000,
}
WHOLE_RUNS = 1_600
# Too little noise shows soon.
BROKEN_RUNS = 10_000
# Trees that are drawn side by side at a time, for the sake of memory.
TOGETHER = 4_000

HARDEST = tuple(f"between two pure sides, its own the {size}" for size in ("larger", "smaller"))

Seen = Literal["messages", "tree"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Known(NamedTuple):
    """Counts of the two tables that an owner may have."""

    first: LeafCounts
    second: LeafCounts

    def after(self, splits: Sequence[tuple[int, int]]) -> Known:
        """Make splits (node, candidate)."""
        if not splits:
            return self
        nodes, choices = zip(*splits, strict=True)
        return Known(*(each.after(nodes, choices) for each in self))


@dataclass
class TopDownViews:
    """Draw trees of one split on an audit table and return what somebody sees of each.

    Noise `drawn_at` another epsilon than the claim is broken on purpose.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    seen: Seen = "messages"
    owners: int = 1
    drawn_at: float = EPSILON

    def plan(self, domain: Domain, epsilon: float) -> TopDownPlan:
        """Return the plan of these parameters."""
        options = {"max_depth": 1, "n_splits": 1, "min_gain": 0.0, "error": 0.0}
        made = TopDownOptions(epsilon=epsilon, **(options | self.parameters))
        plan = made.plan(domain, n_owners=self.owners)
        exact = plan.method in ("single-machine", "secure-counts")
        return replace(plan, min_gain=self._worth(plan)) if self.seen == "tree" and exact else plan

    def _worth(self, plan: TopDownPlan) -> float:
        """Return what the first split is worth without the canary, per record of all owners."""
        tables = self.tables(self.decisive.pair[1], plan.domain)
        counts = [LeafCounts(each, plan.candidates) for each in tables]
        histogram = np.sum([each.histogram([0]) for each in counts], axis=0)
        classes = np.sum([each.class_counts([0]) for each in counts], axis=0)
        gained = int(exact_scores(plan, histogram)[0, 0] - node_scores(plan, classes)[0])
        return gained / 2.0**plan.shift / int(classes.sum())

    def ledger(self, table: AuditTable | Side) -> Ledger:
        """Return the ledger of one tree; it is the same for every table of a domain."""
        domain = domain_of(table.table if isinstance(table, Side) else table)
        ledger = Ledger(domain=domain)
        several = self.owners > 1
        charge_plan(self.plan(domain, EPSILON), ledger, NoiseSource.system(), joint=several)
        return ledger

    def tables(self, table: AuditTable | Side, domain: Domain) -> list[Encoded]:
        """Return the tables of all owners."""
        if isinstance(table, Side):
            # What the others have is the same on both sides, and much like what this one has.
            own, first = table.table, table.first
            other = first._replace(rows=first.rows[::12], classes=first.classes[::12])
        else:
            own, other = table, table_of(self.decisive.others)
        others = [other] * (self.owners - 1)
        return [encode(each.rows, domain, each.classes) for each in (own, *others)]

    @property
    def decisive(self) -> Decisive:
        """The tables that the public's attack needs."""
        if self.parameters.get("criterion") == "entropy":
            return ENTROPY
        if self.parameters["method"] == "noisy-counts" and "histograms" in self.parameters:
            return COUNTS_BY_SPLIT
        return DECISIVE[self.parameters["method"]]

    def __call__(self, table: AuditTable | Side, runs: int, source: NoiseSource) -> Ints:
        """Return what is seen, as integers, one row per tree."""
        domain = domain_of(table.table if isinstance(table, Side) else table)
        plan = self.plan(domain, self.drawn_at)
        counts = [LeafCounts(each, plan.candidates) for each in self.tables(table, domain)]
        known = self._knowledge(plan, table) if isinstance(table, Side) else None
        parts = [min(TOGETHER, runs - at) for at in range(0, runs, TOGETHER)]
        return np.concatenate([self._side_by_side(plan, counts, known, n, source) for n in parts])

    def _knowledge(self, plan: TopDownPlan, side: Side) -> Known:
        """Return what the coordinator knows of the attacked owner."""
        return Known(*(self._counts(plan, each) for each in (side.first, side.second)))

    def _counts(self, plan: TopDownPlan, table: AuditTable) -> LeafCounts:
        return LeafCounts(encode(table.rows, plan.domain, table.classes), plan.candidates)

    def _side_by_side(
        self,
        plan: TopDownPlan,
        counts: list[LeafCounts],
        known: Known | None,
        n: int,
        source: NoiseSource,
    ) -> Ints:
        """Draw the root n times, each time as if it were a tree of its own."""
        split, shape, nodes = private_split(plan), TreeShape(plan), (0,) * n
        depths, valid = shape.depths(nodes), shape.undecided(nodes)
        rounds = split.rounds(NodeQuestion((), nodes), shape, 0)
        ask = next(rounds)
        evidence = np.zeros(n)
        while True:
            answers = {}
            for i, each in enumerate(counts):
                if ask.phase == "nodes":
                    drawn = weigh_and_split(each, plan, nodes, depths, valid, source)
                else:
                    drawn = recount(each, plan, nodes, depths, ask.among, source)
                answers[str(i)] = drawn
            if known is not None:
                evidence += _log_ratios_of_nodes(plan, known, ask, answers["0"], depths, valid)
            try:
                ask = rounds.send(split.join(ask, answers))
            except StopIteration as end:
                found: NodeEstimates = end.value
                break
        made = _splits_made(plan, found) if self.seen == "tree" else found.choice
        labels = [_draw_labels(each, plan, made, source) for each in counts]
        if known is None:
            return self.decisive.evidence(np.column_stack([made, sum(labels)]), self.owners)
        return outcome(evidence + _log_ratios_of_labels(plan, known, made, labels[0]))[:, None]


class SecretViews(TopDownViews):
    """Numbers that the three servers open, computed on plain arrays; all else seen is sealed."""

    def _knowledge(self, plan: TopDownPlan, side: Side) -> Known:
        """Return what is known of all owners together: their counts are added up in secret."""
        found = []
        for each in (side.first, side.second):
            tables = self.tables(side._replace(table=each), plan.domain)
            rows = np.concatenate([np.asarray(one.bins) for one in tables])
            classes = np.concatenate([np.asarray(one.target) for one in tables])
            table = AuditTable(rows, classes, each.n_bins, each.n_classes)
            found.append(self._counts(plan, table))
        return Known(*found)

    def _side_by_side(
        self,
        plan: TopDownPlan,
        counts: list[LeafCounts],
        known: Known | None,
        n: int,
        source: NoiseSource,
    ) -> Ints:
        engine, splits = ClearEngine(Leakage([]), source), SecureSplits(plan)
        histogram = np.sum([each.histogram([0]) for each in counts], axis=0)
        every = np.repeat(histogram.transpose(0, 2, 1), n, axis=0)
        valid = TreeShape(plan).undecided((0,) * n)
        numbers = splits.numbers(engine.public(every, splits.ring), [1] * n, valid)
        opened = splits.wide.signed(numbers.data).astype(np.int64).reshape(n, 3)
        made, worth, weight = opened.T
        if self.seen == "tree":
            heard = {"choice": made, "worth": worth, "weight": weight}
            made = _splits_made(plan, node_estimates(plan, heard))
        leaves = np.zeros((n, 2, plan.n_classes), dtype=np.int64)
        for candidate in np.unique(made):
            split = [
                after.class_counts(at) for after, at in (_leaves(c, candidate) for c in counts)
            ]
            leaves[made == candidate, : len(split[0])] = np.sum(split, axis=0)
        secret = engine.public(leaves.reshape(2 * n, -1), splits.leaf_ring)
        labels = splits.leaf_ring.signed(splits.leaf_numbers(secret).data).astype(np.int64)
        labels = labels.reshape(n, -1)
        if known is None:
            return self.decisive.evidence(np.column_stack([made, labels]), self.owners)
        ask = Ask(plan.digest, 0, "nodes", (), (0,) * n)
        heard = {"choice": made, "worth": worth, "weight": weight}
        evidence = _log_ratios_of_nodes(plan, known, ask, heard, np.ones(n, dtype=np.int64), valid)
        return outcome(evidence + _log_ratios_of_labels(plan, known, made, labels))[:, None]


class WholeViews(TopDownViews):
    """The same with real owners and a real coordinator, two levels deep."""

    def plan(self, domain: Domain, epsilon: float) -> TopDownPlan:
        """Return the plan of these parameters."""
        # Nearly all for the first level: below it the attacked record leaves nothing to choose.
        deeper: dict[str, Any] = {
            "max_depth": 2,
            "n_splits": 3,
            "min_gain": 0.0,
            "error": 0.0,
            "budget": (9, 1),
        }
        made = TopDownOptions(epsilon=epsilon, **(deeper | self.parameters))
        return made.plan(domain, n_owners=self.owners)

    def __call__(self, table: AuditTable | Side, runs: int, source: NoiseSource) -> Ints:
        """Return what is seen, as integers, one row per tree."""
        assert isinstance(table, Side)
        domain = domain_of(table.table)
        plan = self.plan(domain, self.drawn_at)
        tables, known = self.tables(table, domain), self._knowledge(plan, table)
        evidence = [self._grown(plan, tables, known, source) for _ in range(runs)]
        return outcome(np.array(evidence))[:, None]

    def _grown(
        self, plan: TopDownPlan, tables: list[Encoded], known: Known, source: NoiseSource
    ) -> float:
        """Grow one tree, and return what the attacked owner's messages tell."""
        owners = {
            str(i): Owner(each, plan, name=str(i), source=source) for i, each in enumerate(tables)
        }
        coordinator = Coordinator(plan, tuple(owners))
        shape, evidence = TreeShape(plan), 0.0
        while asks := coordinator.asks():
            for name, ask in asks.items():
                answer = owners[name].answer(ask)
                coordinator.hear(name, answer)
                if name == "0":
                    asked, read = Ask.from_bytes(ask), TopDownAnswer.from_bytes(answer)
                    shape.expand(asked.expand)
                    known = known.after(asked.expand)
                    evidence += _log_ratio_of_answer(plan, known, asked, read.arrays, shape)
        return evidence


def _splits_made(plan: TopDownPlan, found: NodeEstimates) -> Ints:
    """Return the split that each tree gets, or `NOT_SPLIT`, as `Growth` decides."""
    least = plan.error / plan.n_splits * np.maximum(found.weight, 0.0)
    worth_it = (found.weight >= least) & (found.worth > plan.min_gain)
    return np.where(worth_it, found.choice, NOT_SPLIT)


def _leaves(counts: LeafCounts, candidate: int) -> tuple[LeafCounts, list[int]]:
    """Make a split, if any; return the counts after it and the numbers of the leaves."""
    return (counts, [0]) if candidate == NOT_SPLIT else (counts.after([0], [candidate]), [1, 2])


def _draw_labels(counts: LeafCounts, plan: TopDownPlan, made: Ints, source: NoiseSource) -> Ints:
    """Label the leaves of each tree, as owners do."""
    out = np.zeros((len(made), 2 * plan.n_classes), dtype=np.int64)
    for candidate in np.unique(made):
        here = np.flatnonzero(made == candidate)
        after, leaves = _leaves(counts, candidate)
        drawn = label(after, plan, leaves * len(here), source)["classes"].reshape(len(here), -1)
        out[here, : drawn.shape[1]] = drawn
    return out


def _log_ratios_of_labels(plan: TopDownPlan, known: Known, made: Ints, labels: Ints) -> Floats:
    """Return what the leaves of each tree of one split tell."""
    evidence = np.zeros(len(made))
    for candidate in np.unique(made):
        here = made == candidate
        after = known.after([(0, int(candidate))])
        drawn = labels[here].reshape(-1, plan.n_classes)
        leaves = np.tile([1, 2], int(here.sum()))
        ratios = _log_ratios_of_leaves(plan, after, leaves, drawn)
        evidence[here] = ratios.reshape(-1, 2).sum(axis=1)
    return evidence


def _log_ratio_of_answer(
    plan: TopDownPlan, known: Known, ask: Ask, arrays: Arrays, shape: TreeShape
) -> float:
    """Return the log likelihood ratio of one answer, with the splits of the question made."""
    if ask.phase == "leaves":
        leaves = np.array(ask.nodes)
        return float(_log_ratios_of_leaves(plan, known, leaves, arrays["classes"]).sum())
    depths, valid = shape.depths(ask.nodes), shape.undecided(ask.nodes)
    return float(_log_ratios_of_nodes(plan, known, ask, arrays, depths, valid).sum())


def _log_ratios_of_nodes(
    plan: TopDownPlan,
    known: Known,
    ask: Ask,
    arrays: Arrays,
    depths: Ints,
    valid: NDArray[np.bool_],
) -> Floats:
    """Return the log likelihood ratio of what was said about each node, (m,)."""
    if ask.phase == "recount":
        return _log_ratios_of_recounts(plan, known, ask, arrays["cells"], depths)
    evidence = np.zeros(len(ask.nodes))
    nodes, which = np.unique(np.array(ask.nodes), return_inverse=True)
    for i, node in enumerate(nodes.tolist()):
        here = np.flatnonzero(which == i)
        depth, allowed = int(depths[here[0]]), valid[here[0]]
        classes = [each.class_counts([node]) for each in known]
        histograms = [each.histogram([node]) for each in known]
        weights = (of_class.sum() for of_class in classes)
        evidence[here] += of_counts(plan.weigh(depth), arrays["weight"][here], *weights)
        if plan.method == "noisy-counts":
            cells = [cells_of(plan, histogram) for histogram in histograms]
            ratios = of_counts(plan.counts(depth), arrays["cells"][here], *cells)
            evidence[here] += ratios.reshape(len(here), -1).sum(axis=1)
            continue
        first, second = (exact_scores(plan, histogram)[0] for histogram in histograms)
        choice = arrays["choice"][here]
        evidence[here] += of_choice(plan.choose(depth), choice, first, second, allowed)
        if plan.method != "local-rnm":
            scores = zip((first, second), classes, strict=True)
            worth = [score[choice] - node_scores(plan, before) for score, before in scores]
            evidence[here] += of_counts(plan.value(depth), arrays["worth"][here], *worth)
    return evidence


def _log_ratios_of_leaves(plan: TopDownPlan, known: Known, leaves: Ints, drawn: Ints) -> Floats:
    """Return the log likelihood ratio of the class counts of each leaf, (m,)."""
    exact = (each.class_counts(leaves) for each in known)
    return np.asarray(of_counts(plan.label, drawn, *exact).sum(axis=1))


def _log_ratios_of_recounts(
    plan: TopDownPlan, known: Known, ask: Ask, cells: Ints, depths: Ints
) -> Floats:
    evidence = np.zeros(len(ask.nodes))
    alike: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for i, some in enumerate(ask.among):
        alike.setdefault((ask.nodes[i], int(depths[i]), some), []).append(i)
    sizes = np.zeros(len(ask.nodes), dtype=np.int64)
    exact = {}
    for key, where in alike.items():
        node, _, some = key
        exact[key] = [count_candidates(plan, each.histogram([node])[0], some) for each in known]
        sizes[where] = len(exact[key][0])
    ends = np.cumsum(sizes)
    for key, where in alike.items():
        _, depth, some = key
        size = len(exact[key][0])
        drawn = cells[ends[where][:, None] - size + np.arange(size)]
        mechanism = plan.recounts(depth, n_histograms_of(plan, some))
        evidence[where] = of_counts(mechanism, drawn, *exact[key]).sum(axis=1)
    return evidence


def topdown_trees() -> list[AuditTarget]:
    """Targets of DP-TopDown, and some broken on purpose."""
    found: list[AuditTarget] = []
    for name, parameters, owners in _CASES:
        kind = SecretViews if parameters["method"] == "secure-counts" else TopDownViews
        messages = kind(parameters, "messages", owners)
        found.append(_message_target(f"topdown/{name}/messages", messages, RUNS))
        alone = owners if parameters["method"] != "noisy-counts" else 1
        found.append(_tree_target(f"topdown/{name}/tree", kind(parameters, "tree", alone)))
        if kind is TopDownViews and not ("histograms" in parameters or "criterion" in parameters):
            whole = WholeViews(parameters, "messages", owners)
            found.append(_message_target(f"topdown/{name}/messages/run", whole, WHOLE_RUNS))
    for name in ("single-machine", "noisy-counts", "local-rnm", "secure-counts"):
        kind = SecretViews if name == "secure-counts" else TopDownViews
        owners = 1 if name == "single-machine" else 2
        broken = f"topdown/{name}/broken-third-of-the-noise"
        third = kind({"method": name}, "messages", owners, drawn_at=3 * EPSILON)
        found.append(_message_target(broken, third, BROKEN_RUNS, sound=False))
        alone = owners if name != "noisy-counts" else 1
        tree = kind({"method": name}, "tree", alone, drawn_at=3 * EPSILON)
        found.append(_tree_target(f"{broken}/tree", tree, sound=False))
    return found


def _message_target(
    name: str, views: TopDownViews, runs: int, *, sound: bool = True
) -> AuditTarget:
    kept = (
        HARDEST[:1] if runs == WHOLE_RUNS else (*HARDEST, "tie of 240 records", "nearly empty leaf")
    )
    pairs = sides(pair for pair in families() if pair[0] in kept)
    return target_of(name, views, sound=sound, runs=runs, pairs=pairs)


def _tree_target(name: str, views: TopDownViews, *, sound: bool = True) -> AuditTarget:
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
