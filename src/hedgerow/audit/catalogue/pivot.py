"""Audits of what peers see while they grow an exact tree, or answer from it, beside the tree.

The tree itself has no epsilon. All else that every peer but one sees, together, must say nothing of
the rows of the last: the claim is 0. Tables differ at the last peer alone, in one record where the
tree is opened, and nothing of what is opened differs: where cuts and leaves are hidden, these may.
The attackers have every message, which one of them sent or received, and their own shares of the
records; they look at what each message holds, and at differences that show what was used twice.

Of boosting the attackers have the labels: what they must not learn is which rows are where, on
which the labels of later rounds depend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.engine import AuditTarget, Pair, Run
from hedgerow.net.network import Route
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, NoiseSource, Opening, Relation
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, no_progress
from hedgerow.protocols.pivot.boosting import PEER_BOOSTING
from hedgerow.protocols.pivot.boosting_plan import HideAll, PivotBoostingPlan
from hedgerow.protocols.pivot.columns import PeerColumns, transfers
from hedgerow.protocols.pivot.growth import PeerTrees, grow_trees
from hedgerow.protocols.pivot.options import PivotBoostingOptions, PivotOptions
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import Hide, PivotPlan
from hedgerow.protocols.pivot.predict import answer
from hedgerow.protocols.pivot.protocol import ANSWERS, PeerData
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.preprocessing import Items, Kind
from hedgerow.secure.additive.punctured import SUMS, PuncturedBins
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret, unpack, words
from hedgerow.secure.steps import Step
from hedgerow.tables import Attribute, Domain, Target

Array = NDArray[Any]
Ints = NDArray[np.int64]
Mistake = Literal["none", "triples reused", "addresses repeated", "key told"]

RUNS = 400
PEERS, LAST, N, BINS = 3, 2, 16, 3
OWNERS = (LAST, 0, 1)
"""The last peer has the first attribute and the target, the others an attribute each."""
_SEED_BYTES = 32
_SAMPLED = 2
"""Of the messages of a step."""
_DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=name, kind="numeric", bounds=(0, BINS), bins=BINS) for name in "abc"
    ),
    target=Target(name="y", classes=("n", "p")),
)


class PeerRecords(NamedTuple):
    """Bins (n, 3) and classes (n,) of all records."""

    bins: Ints
    classes: Ints


class Wire(Simulator):
    """Keeps every message, by step."""

    def __init__(self) -> None:
        super().__init__(PEERS)
        self.seen: list[tuple[str, list[tuple[Route, Array]]]] = []

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        received = super()._move(step, plan, outbox)
        self.seen.append((step, [(plan[k], array.copy()) for k, array in received.items()]))
        return received


class WatchedBins(PuncturedBins):
    """Keeps what the attackers hold of the numbers that are summed up."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.held: list[Array] = []

    def sums(self, x: Array, ring: Ring, records: slice | None = None) -> Array:
        """See `PuncturedBins.sums`."""
        self.held.append(x[:LAST].sum(axis=0, dtype=x.dtype))
        return super().sums(x, ring, records)


class RepeatedAddresses(WatchedBins):
    """Expands seeds at the same address in every step."""

    def _step(self, name: str, purpose: str) -> Step:
        step = super()._step(name, purpose)
        step.number = 0
        return step


class ReusedTriples(Transfers):
    """Gives the same items out again and again."""

    def __init__(self, core: Any) -> None:
        super().__init__(core)
        self._first: dict[Kind, Items] = {}

    def take(self, kind: Kind, first: int, n: int) -> Items:
        """Return the first n items that were ever made, or more."""
        known = self._first.get(kind)
        if known is None or known[0].shape[1] < n:
            known = self._first[kind] = super().take(kind, first, n)
        return tuple(part[:, :n] for part in known)


def records(*, value: int = 0, label: int = 0) -> PeerRecords:
    """Return a table: what the last record has at the last peer, its bin and class, differs.

    The second attribute tells the class of nearly all; both its children have too few records to
    be split, whatever is in them.
    """
    half = np.arange(N) // (N // 2)
    bins = np.stack([np.zeros(N, np.int64), half, np.arange(N) % 2], axis=1)
    classes = half.copy()
    classes[[0, 1, -2]] = 1 - classes[[0, 1, -2]]
    bins[-1, 0], classes[-1] = value, label
    return PeerRecords(bins, classes)


def thirds(cut: int = 0, *, swapped: bool = False) -> PeerRecords:
    """Return a table whose tree has one split, at a cut of the second attribute: by its classes.

    `swapped`: its leaves have the other class.
    """
    third = np.arange(N) * BINS // N
    bins = np.stack([np.zeros(N, np.int64), third, np.zeros(N, np.int64)], axis=1)
    return PeerRecords(bins, ((third > cut) ^ swapped).astype(np.int64))


def halves(*, exchanged: bool = False) -> PeerRecords:
    """Return a table whose tree has one split, at the first attribute, the last peer's.

    `exchanged`: of two records of a class, and alike elsewhere, each is on the other's side.
    """
    half = np.arange(N) // (N // 2)
    classes = half.copy()
    classes[[0, 1, -2]] = 1 - classes[[0, 1, -2]]
    if exchanged:
        half[[2, -2]] = half[[-2, 2]]
    return PeerRecords(np.stack([half, np.zeros(N, np.int64), np.arange(N) % 2], axis=1), classes)


def alike() -> PeerRecords:
    """Return a table whose tree has one split, at the last peer's attribute, and one class."""
    half = np.arange(N) // (N // 2)
    classes = np.ones(N, dtype=np.int64)
    classes[[0, -1, -2, -3]] = 0
    return PeerRecords(np.stack([half, *np.zeros((2, N), np.int64)], axis=1), classes)


def views(hide: Hide, mistake: Mistake, table: PeerRecords, runs: int, source: NoiseSource) -> Ints:
    """Grow a tree in every run, side by side; return what the attackers make of what they see."""
    plan = _plan(hide, runs)
    provider = ReusedTriples if mistake == "triples reused" else Transfers
    network, engine = _observed(plan, source, provider)
    plant = RepeatedAddresses if mistake == "addresses repeated" else WatchedBins
    columns, seeds, _ = _grown(engine, plan, table, plant)
    # With its key the share of the last peer follows; without it there is nothing to add.
    known = columns.data[..., -1] if mistake == "key told" else columns.data[:LAST, ..., -1]
    found = [*_samples(network, runs), *_products(network, runs)]
    found += _sums(network, seeds.held, runs)
    return np.column_stack([_signed(one) for one in (*found, known.sum(0, dtype=known.dtype))])


def answer_views(hide: Hide, value: int, runs: int, source: NoiseSource) -> Ints:
    """Answer a row in every run, all at once; return what the attackers see of each.

    The row has `value` at the last peer, which leads it to one leaf or another of the same class;
    the first peer asks.
    """
    plan = _plan(hide, 1)
    network, engine = _observed(plan, source, asked=runs)
    _, _, trees = _grown(engine, plan, alike(), WatchedBins)
    network.seen.clear()
    own = (value, 0, 0)
    bins = {j: np.full(runs, one, dtype=np.int64) for j, one in enumerate(own)}
    engine.open(answer(engine, plan, trees, bins, runs), ANSWERS, "peer 0")
    return np.column_stack([_signed(one) for one in _by_row(network, runs)])


def boosting_views(hide: HideAll, table: PeerRecords, runs: int, source: NoiseSource) -> Ints:
    """Boost two trees in every run, side by side, of labels that the first attacker has.

    Each run is a booster of one class against the rest.
    """
    many = Target(name="y", classes=tuple(map(str, range(runs))))
    plan = PivotBoostingOptions(n_estimators=2, max_depth=1, loss="one-vs-rest", hide=hide).plan(
        _DOMAIN.model_copy(update={"target": many}), N, owners=OWNERS, n_peers=PEERS, target_at=0
    )
    assert isinstance(plan, PivotBoostingPlan)
    network, engine = _observed(plan, source)
    shape = (runs, N)
    columns = engine.input(np.broadcast_to(table.classes, shape), 0, shape, plan.ring)
    seeds = WatchedBins(transfers(engine), OWNERS, [BINS] * len(OWNERS), _held(table), N)
    data = PeerData(engine, columns, lambda x: PeerColumns(plan.layout, x, seeds), seeds)
    PEER_BOOSTING.train(data, plan, no_progress, NOTHING_KEPT)
    return np.column_stack([_signed(one) for one in _samples(network, runs)])


def _plan(hide: Hide, trees: int) -> PivotPlan:
    options = PivotOptions(max_depth=2, min_samples_split=N - 2, hide=hide)
    plan = options.plan(_DOMAIN, N, owners=OWNERS, n_peers=PEERS, target_at=LAST)
    assert isinstance(plan, PivotPlan)
    return replace(plan, n_trees=trees)


def _observed(
    plan: PeerPlan, source: NoiseSource, provider: type[Transfers] = Transfers, asked: int = 0
) -> tuple[Wire, AdditiveEngine]:
    """Return the network, which keeps what is sent, and an engine on it."""
    openings = [
        Opening(one.name, one.audience, one.shape, independent="an audit")
        for one in plan.openings()
    ]
    if asked:
        openings.append(Opening(ANSWERS, "peer 0", (asked,), independent="an audit"))
    seed = None if source.private else source.bytes(_SEED_BYTES).tobytes()
    network = Wire()
    leakage = Leakage(openings)
    return network, AdditiveEngine(network, leakage, insecure_seed=seed, provider=provider)


def _held(table: PeerRecords) -> dict[int, Ints]:
    return dict(enumerate(table.bins.T))


def _grown(
    engine: AdditiveEngine, plan: PivotPlan, table: PeerRecords, plant: type[WatchedBins]
) -> tuple[Secret, WatchedBins, PeerTrees]:
    """Grow the trees of a plan, all of the same records."""
    hot = (table.classes == np.arange(2)[:, None]).astype(np.int64)
    shape = (plan.n_trees, *hot.shape)
    columns = engine.input(np.broadcast_to(hot, shape), LAST, shape, plan.ring)
    seeds = plant(transfers(engine), OWNERS, [BINS] * len(OWNERS), _held(table), N)
    return columns, seeds, grow_trees(PeerColumns(plan.layout, columns, seeds), plan)


def _samples(network: Wire, runs: int) -> Iterator[Array]:
    """Return a byte of every run of what the last peer sent, of some messages of every step."""
    times = Counter[str]()
    for step, messages in network.seen:
        sent = [array for route, array in messages if route.source == LAST]
        if sent and not sent[0].size % runs and times[step] < _SAMPLED:
            times[step] += 1
            yield sent[0].reshape(runs, -1)[:, :1].astype(np.uint8)


def _by_row(network: Wire, runs: int) -> Iterator[Array]:
    """Return a byte, or a bit where rows are packed, of every row in what the last peer sent."""
    for _, messages in network.seen:
        for sent in (array for route, array in messages if route.source == LAST):
            flat = np.ascontiguousarray(sent).reshape(-1)
            if flat.size and not flat.size % runs:
                yield flat.reshape(-1, runs)[:_SAMPLED].T.astype(np.uint8)
            elif sent.ndim and sent.shape[-1] == words(runs):
                yield unpack(sent.reshape(-1, words(runs)), runs)[:_SAMPLED].T.astype(np.uint8)


def _products(network: Wire, runs: int) -> Iterator[Array]:
    """Return what was opened for products, masked by triples: how one differs from the next."""
    before: dict[tuple[Any, ...], Array] = {}
    for step, messages in network.seen:
        if step == "mul":
            each = {route.source: array for route, array in messages}
            opened = np.sum([*each.values()], axis=0, dtype=each[0].dtype)
            if opened.size % (2 * runs):
                continue
            key = opened.shape, opened.dtype
            if key in before:
                yield (opened - before[key]).reshape(2, runs, -1)[:, :, 0].T
            before[key] = opened


def _sums(network: Wire, held: Sequence[Array], runs: int) -> Iterator[Array]:
    """Return how what the last peer sent of the last record differs between two histograms.

    With the attackers' own shares that is how the record's numbers differ, where one mask hid both.
    """
    sent = [
        next(array[0, -1] for route, array in messages if route.source == LAST)
        for step, messages in network.seen
        if step == SUMS
    ]
    first, second = (theirs + mine[:, -1] for theirs, mine in zip(sent[:2], held[:2], strict=True))
    yield (first - second).reshape(runs, -1)


def _signed(array: Array) -> Ints:
    """Return numbers of a ring as small ones where they are."""
    return array.view(f"i{array.dtype.itemsize}").astype(np.int64)


def peer_views() -> list[AuditTarget]:
    """Targets for what all peers but one see, in the two protocols of the paper, and mistakes.

    Of the enhanced one, cuts and what leaves hold differ, too, which peers do not see.
    """
    plain = records()
    pairs = [
        ("a value of the last peer", plain, records(value=1)),
        ("a label of the last peer", plain, records(label=1)),
    ]
    hidden = [
        ("the cut of the root", thirds(), thirds(1)),
        ("what the leaves hold", thirds(), thirds(swapped=True)),
    ]
    row = [("a value of the row that is asked about", 0, 1)]
    sides = [("which of two records is on which side", halves(), halves(exchanged=True))]
    mistakes: list[Mistake] = ["triples reused", "addresses repeated", "key told"]
    return [
        _target("basic/view", partial(views, "nothing", "none"), pairs),
        _target("enhanced/view", partial(views, "thresholds", "none"), [*pairs, *hidden]),
        _target("basic/answers", partial(answer_views, "nothing"), row),
        _target("enhanced/answers", partial(answer_views, "thresholds"), row),
        _target("boosting/view", partial(boosting_views, "nothing"), sides),
        _target("hidden-boosting/view", partial(boosting_views, "everything"), sides),
        *(
            _target(
                f"broken-{mistake.replace(' ', '-')}",
                partial(views, "thresholds", mistake),
                pairs,
                sound=False,
            )
            for mistake in mistakes
        ),
    ]


def _target(name: str, run: Run, pairs: Sequence[Pair], *, sound: bool = True) -> AuditTarget:
    return AuditTarget(
        f"pivot/{name}@0",
        run,
        pairs,
        claimed=0.0,
        sound=sound,
        kind="protocol",
        relation=Relation.REPLACE,
        runs=RUNS,
    )
