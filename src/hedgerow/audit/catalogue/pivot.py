"""Audits of what peers see while they grow an exact tree, beside the tree.

The tree itself has no epsilon. All else that every peer but one sees, together, must say nothing of
the rows of the last: the claim is 0. Tables differ in one record of the last peer, and nothing of
what is opened does. The attackers have every message, which one of them sent or received, and their
own shares of the records; they look at what each message holds, and at differences that show what
was used twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.engine import AuditTarget
from hedgerow.net.network import Route
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, NoiseSource, Opening, Relation
from hedgerow.protocols.pivot.columns import PeerColumns, transfers
from hedgerow.protocols.pivot.growth import grow_trees
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.plan import Hide, PivotPlan
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.preprocessing import Items, Kind
from hedgerow.secure.additive.punctured import SUMS, PuncturedBins
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.ring import Ring
from hedgerow.secure.steps import Step
from hedgerow.tables import Attribute, Domain, Target

Array = NDArray[Any]
Ints = NDArray[np.int64]
Mistake = Literal["none", "triples reused", "addresses repeated", "key told"]

RUNS = 400
PEERS, LAST, N = 3, 2, 16
OWNERS = (LAST, 0, 1)
"""The last peer has the first attribute and the target, the others an attribute each."""
_SEED_BYTES = 32
_SAMPLED = 2
"""Of the messages of a step."""
_DOMAIN = Domain(
    attributes=tuple(Attribute(name=name, kind="numeric", bounds=(0, 2), bins=2) for name in "abc"),
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


def views(hide: Hide, mistake: Mistake, table: PeerRecords, runs: int, source: NoiseSource) -> Ints:
    """Grow a tree in every run, side by side; return what the attackers make of what they see."""
    options = PivotOptions(max_depth=2, min_samples_split=N - 2, hide=hide)
    plan = options.plan(_DOMAIN, N, owners=OWNERS, n_peers=PEERS, target_at=LAST)
    assert isinstance(plan, PivotPlan)
    plan = replace(plan, n_trees=runs)
    openings = [
        Opening(one.name, one.audience, one.shape, independent="an audit")
        for one in plan.openings()
    ]
    seed = None if source.private else source.bytes(_SEED_BYTES).tobytes()
    provider = ReusedTriples if mistake == "triples reused" else Transfers
    network = Wire()
    engine = AdditiveEngine(network, Leakage(openings), insecure_seed=seed, provider=provider)
    hot = (table.classes == np.arange(2)[:, None]).astype(np.int64)
    shape = (runs, *hot.shape)
    columns = engine.input(np.broadcast_to(hot, shape), LAST, shape, plan.ring)
    plant = RepeatedAddresses if mistake == "addresses repeated" else WatchedBins
    bins = dict(enumerate(table.bins.T))
    seeds = plant(transfers(engine), OWNERS, [2] * len(OWNERS), bins, N)
    grow_trees(PeerColumns(plan.layout, columns, seeds), plan)
    # With its key the share of the last peer follows; without it there is nothing to add.
    known = columns.data[..., -1] if mistake == "key told" else columns.data[:LAST, ..., -1]
    found = [*_samples(network, runs), *_products(network, runs)]
    found += _sums(network, seeds.held, runs)
    return np.column_stack([_signed(one) for one in (*found, known.sum(0, dtype=known.dtype))])


def _samples(network: Wire, runs: int) -> Iterator[Array]:
    """Return a byte of every run of what the last peer sent, of some messages of every step."""
    times = Counter[str]()
    for step, messages in network.seen:
        sent = [array for route, array in messages if route.source == LAST]
        if sent and not sent[0].size % runs and times[step] < _SAMPLED:
            times[step] += 1
            yield sent[0].reshape(runs, -1)[:, :1].astype(np.uint8)


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
    """Targets for what all peers but one see, in the two protocols of the paper, and mistakes."""
    plain = records()
    pairs = [
        ("a value of the last peer", plain, records(value=1)),
        ("a label of the last peer", plain, records(label=1)),
    ]
    sound: list[tuple[str, Hide]] = [("basic", "nothing"), ("enhanced", "thresholds")]
    mistakes: list[Mistake] = ["triples reused", "addresses repeated", "key told"]
    return [
        *(
            AuditTarget(
                f"pivot/{name}/view@0",
                partial(views, hide, "none"),
                pairs,
                claimed=0.0,
                kind="protocol",
                relation=Relation.REPLACE,
                runs=RUNS,
            )
            for name, hide in sound
        ),
        *(
            AuditTarget(
                f"pivot/broken-{mistake.replace(' ', '-')}@0",
                partial(views, "thresholds", mistake),
                pairs,
                claimed=0.0,
                sound=False,
                kind="protocol",
                relation=Relation.REPLACE,
                runs=RUNS,
            )
            for mistake in mistakes
        ),
    ]
