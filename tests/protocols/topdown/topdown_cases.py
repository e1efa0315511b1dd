"""Small tables for the tests of DP-TopDown."""

from collections.abc import Mapping

import numpy as np

from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator, CoordinatorTraffic
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.tree import Tree

METHODS = ("single-machine", "noisy-counts", "local-rnm")


def domain(classes: int = 2, capacity: int | None = 5000) -> Domain:
    numeric = tuple(
        Attribute(name=f"x{i}", kind="numeric", bounds=(0, 8), bins=8) for i in range(3)
    )
    colour = Attribute(name="colour", kind="categorical", categories=("red", "green", "blue"))
    target = Target(name="y", classes=tuple(range(classes)))
    return Domain(attributes=(*numeric, colour), target=target, capacity=capacity)


def table(n: int = 1200, seed: int = 0, classes: int = 2) -> Encoded:
    rng = np.random.default_rng(seed)
    described = domain(classes)
    bins = np.column_stack([rng.integers(0, k, n) for k in described.n_bins]).astype(np.uint8)
    label = ((bins[:, 0] > 4) + (bins[:, 3] == 1) * (bins[:, 1] > 2)) % classes
    label = np.where(rng.random(n) < 0.1, rng.integers(0, classes, n), label)
    return Encoded(
        described, np.asfortranarray(bins), label.astype(np.uint8), np.ones(n, dtype=np.bool_)
    )


def rows(whole: Encoded, chosen: np.ndarray) -> Encoded:
    assert whole.target is not None
    bins = np.asfortranarray(whole.bins[chosen])
    return Encoded(whole.domain, bins, whole.target[chosen], whole.present[chosen])


def parts(whole: Encoded, k: int) -> list[Encoded]:
    return [rows(whole, np.arange(i, whole.n_slots, k)) for i in range(k)]


def plan(method: str = "noisy-counts", owners: int = 3, **options: object) -> TopDownPlan:
    defaults: dict[str, object] = {"epsilon": 2.0, "n_splits": 12, "max_depth": 4}
    k = 1 if method == "single-machine" else owners
    made = TopDownOptions(method=method, **(defaults | options))  # type: ignore[arg-type]
    return made.plan(domain(), n_owners=k)


def owners(made: TopDownPlan, whole: Encoded | None = None, seed: int = 5) -> dict[str, Owner]:
    whole = table() if whole is None else whole
    tables = [whole] if made.needs_curator else parts(whole, made.n_owners)
    return {
        f"owner {i}": Owner(
            each, made, name=f"owner {i}", source=NoiseSource.insecure_seeded(seed + i)
        )
        for i, each in enumerate(tables)
    }


def run(coordinator: Coordinator, parties: Mapping[str, Owner], rounds: int | None = None) -> None:
    """Carry messages, for some rounds or until the tree is ready."""
    last = None if rounds is None else coordinator.round + rounds
    while asks := coordinator.asks():
        if last is not None and coordinator.round >= last:
            return
        for name, ask in asks.items():
            coordinator.hear(name, parties[name].answer(ask))


def grow_topdown(
    made: TopDownPlan, parties: Mapping[str, Owner]
) -> tuple[Tree, CoordinatorTraffic]:
    """Carry messages without a network until the tree is ready."""
    coordinator = Coordinator(made, tuple(parties))
    run(coordinator, parties)
    return coordinator.tree(), coordinator.traffic
