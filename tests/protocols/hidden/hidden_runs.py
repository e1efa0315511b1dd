"""Small tables, hidden trees trained and asked in one process, and slow oracles for both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.questions import join_answers, open_answers, question_of
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.table import SecretTable, horizontal_uploads
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.secret import Engine, Secret
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.growing.scoring import integer_scores_from_histogram
from hedgerow.trees.layout import SplitKind
from tests.protocols.sharing.shared_tables import shared_table
from tests.secure.engines import reveal

ENGINES = ("clear", "three servers")
OWNER = 3

ATTRIBUTES = (
    Attribute(name="x", kind="numeric", bounds=(0, 3), bins=3, missing="own bin"),
    Attribute(name="one", kind="categorical", categories=("only",)),
    Attribute(name="two", kind="categorical", categories=("a", "b")),
    Attribute(name="many", kind="categorical", categories=tuple(range(5))),
    Attribute(name="flat", kind="numeric", bounds=(0, 1), edges=()),
)
"""Bins 4 (one of them for missing values), 1, 2, 5 and 1."""


def domain(k: int = 3, capacity: int | None = None, attributes: Any = ATTRIBUTES) -> Domain:
    target = Target(name="y", classes=tuple(range(k)))
    return Domain(attributes=tuple(attributes), target=target, capacity=capacity)


def make_engine(
    name: str, leakage: Leakage | None = None, *, private: bool = False, network: Any = None
) -> Engine:
    """Return an engine, seeded unless `private`."""
    leakage = Leakage([]) if leakage is None else leakage
    if name == "clear":
        return ClearEngine(leakage, None if private else NoiseSource.insecure_seeded(11))
    seed = None if private else b"hidden trees in tests"
    network = Simulator(3) if network is None else network
    return ReplicatedEngine(network, leakage, insecure_seed=seed)


def make_slots(
    public: Domain, seed: int, n: int, *, filled: float = 0.85, skew: float = 2.0
) -> Encoded:
    """Fill n slots with records whose class depends on their attributes; some bins stay empty."""
    rng = np.random.default_rng(seed)
    k = len(public.target.classes)
    bins = (rng.random((n, len(public.attributes))) ** skew * public.n_bins).astype(np.int64)
    signal = bins @ rng.integers(0, 3, bins.shape[1]) + rng.integers(0, 2, n)
    present = rng.random(n) < filled
    target = np.where(present, signal % k, 0).astype(np.uint8)
    bins[~present] = 0
    return Encoded(public, np.asfortranarray(bins, dtype=public.dtype), target, present)


def make_rows(public: Domain, bins: NDArray[Any], target: NDArray[Any] | None = None) -> Encoded:
    """Return rows that are all present."""
    bins = np.asfortranarray(bins, dtype=public.dtype)
    labels = None if target is None else np.asarray(target, dtype=np.uint8)
    return Encoded(public, bins, labels, np.ones(len(bins), dtype=np.bool_))


def every_row(public: Domain) -> Encoded:
    """Return every possible record once."""
    grid = np.meshgrid(*[np.arange(b) for b in public.n_bins], indexing="ij")
    return make_rows(public, np.stack([axis.reshape(-1) for axis in grid], axis=1))


def look(x: Secret) -> NDArray[Any]:
    """Look at a secret as signed numbers, as only a test may."""
    return x.ring.signed(reveal(x))


def shared(engine: Engine, slots: Encoded, layout: Layout, ring: Any) -> SecretTable:
    uploads = horizontal_uploads(layout, [slots.n_slots], OWNER)
    return shared_table(engine, layout, ring, uploads, {OWNER: slots})


def answers_of(
    model: SecretForest, plan: HiddenPlan, queries: Encoded, what: str, ledger: Ledger
) -> NDArray[Any]:
    """Ask as an analyst, who deals the queries and joins both halves."""
    (halves,) = open_answers(HIDDEN_TREE, model, plan, [question_of(plan, queries)], what, ledger)
    return HIDDEN_TREE.read(plan, join_answers(halves), what)


@dataclass
class Run:
    """A hidden model that was trained and asked."""

    engine: Engine
    leakage: Leakage
    ledger: Ledger
    model: SecretForest
    answers: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def classes(self) -> NDArray[np.int64]:
        return self.answers["class"]


def run_hidden(
    name: str,
    slots: Encoded,
    plan: HiddenPlan,
    queries: Encoded | None = None,
    *,
    whats: Sequence[str] = ("class",),
    private: bool = False,
    network: Network | None = None,
) -> Run:
    """Share, train and answer; the training slots are the queries by default."""
    queries = slots if queries is None else queries
    ledger = Ledger(domain=plan.domain)
    openings = plan.openings()
    for what in whats:
        openings = openings + HIDDEN_TREE.answer_openings(plan, queries.n_slots, what)
    leakage = Leakage(openings, ledger=ledger)
    engine = make_engine(name, leakage, private=private, network=network)
    model = train_hidden(shared(engine, slots, plan.layout, plan.ring), plan, ledger)
    run = Run(engine, leakage, ledger, model)
    for what in whats:
        run.answers[what] = answers_of(model, plan, queries, what, ledger)
    return run


@dataclass
class Reference:
    """A tree grown in NumPy by the integer scores of the plan.

    Attributes
    ----------
    choices : list of int64 arrays, shape (nodes,)
    labels : int64 array, shape (leaves,)
    clear : bool
        Whether in every node that is not pure the best score leads over those of other partitions
        of the records by more than floors and floats can change.
    """

    layout: Layout
    choices: list[NDArray[np.int64]]
    labels: NDArray[np.int64]
    clear: bool

    def predict(self, bins: NDArray[Any]) -> NDArray[np.int64]:
        node = np.zeros(len(bins), dtype=np.int64)
        for chosen in self.choices:
            node = node * self.layout.arity + child_of(self.layout, bins, chosen[node])
        return self.labels[node]


def child_of(layout: Layout, bins: NDArray[Any], candidate: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which child the candidate of every row sends it to, int64 (n,)."""
    those = layout.candidates
    value = bins[np.arange(len(bins)), those.feature[candidate]].astype(np.int64)
    kind, cut = those.kind[candidate], those.cut[candidate]
    left = np.where(kind == SplitKind.THRESHOLD, value <= cut, value == cut)
    return np.where(kind == SplitKind.WARY, value, np.where(left, 0, 1))


def grow_reference(slots: Encoded, plan: HiddenPlan) -> Reference:
    """Grow node by node: the lowest index of equal scores, no empty child if it can be avoided."""
    layout, k = plan.layout, plan.n_classes
    bins, target = slots.bins[slots.present], slots.target[slots.present]
    nodes: list[tuple[NDArray[Any], int, frozenset[int]]] = [
        (np.arange(len(target)), 0, frozenset())
    ]
    choices, clear = [], True
    for _ in range(plan.depth):
        chosen, children = [], []
        for rows, label, used in nodes:
            best, safe = _best(bins[rows], target[rows], plan, used)
            clear &= safe
            chosen.append(best)
            here = int(np.bincount(target[rows], minlength=k).argmax()) if len(rows) else label
            side = child_of(layout, bins[rows], np.full(len(rows), best))
            wary = layout.branching == "wary"
            path = used | {int(layout.candidates.feature[best])} if wary else used
            children += [(rows[side == c], here, path) for c in range(layout.arity)]
        choices.append(np.array(chosen))
        nodes = children
    labels = [
        int(np.bincount(target[rows], minlength=k).argmax()) if len(rows) else label
        for rows, label, _ in nodes
    ]
    return Reference(layout, choices, np.array(labels), bool(clear))


def _best(
    bins: NDArray[Any], target: NDArray[Any], plan: HiddenPlan, used: frozenset[int]
) -> tuple[int, bool]:
    those, k = plan.layout.candidates, plan.n_classes
    hist = np.zeros((1, those.total_bins, k), dtype=np.int64)
    for a in range(those.n_features):
        np.add.at(hist[0], (those.offset[a] + bins[:, a].astype(np.int64), target), 1)
    scores = integer_scores_from_histogram(hist, those, plan.score, plan.public, plan.shift)[0]
    allowed = ~np.isin(those.feature, list(used))
    sides = np.stack(
        [child_of(plan.layout, bins, np.full(len(bins), c)) for c in range(len(those))]
    )
    if plan.branching == "binary" and len(bins):
        divides = (sides == 0).any(axis=1) & (sides == 1).any(axis=1)
        allowed = divides if divides.any() else allowed
    best = int(np.where(allowed, scores, np.iinfo(np.int64).min).argmax())
    if plan.shift == 0 or np.unique(target).size < 2:
        return best, True
    same = (sides == sides[best]).all(axis=1) | (sides == 1 - sides[best]).all(axis=1)
    return best, bool(np.all(scores[allowed & ~same] < scores[best] - 2))
