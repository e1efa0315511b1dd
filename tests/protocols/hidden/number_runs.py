"""Small tables of numbers and classes, and hidden models trained and asked on them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.network import Array, Route
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Ledger
from hedgerow.protocols.contract import Context
from hedgerow.protocols.hidden.programs import Terms, server
from hedgerow.protocols.run import MEMBERS, EngineName, Run, ask, train
from hedgerow.protocols.sharing.integrate import by_rows
from hedgerow.protocols.sharing.uploaded import deal_uploads
from hedgerow.tables import Attribute, Domain, Encoded, Target

BINS = (6, 4, 3, 9)
CAPACITY = 200
ENGINES: tuple[EngineName, ...] = ("clear", "simulate")


def domain(target: Target, capacity: int = CAPACITY) -> Domain:
    numeric = [
        Attribute(name=f"x{i}", kind="numeric", bounds=(0, b), bins=b) for i, b in enumerate(BINS)
    ]
    numeric[2] = Attribute(name="v", kind="categorical", categories=tuple(range(BINS[2])))
    return Domain(attributes=tuple(numeric), target=target, capacity=capacity)


def rows(seed: int, n: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return bins (n, 4) and a number between about -8 and 20 that depends on them."""
    rng = np.random.default_rng(seed)
    bins = (rng.random((n, len(BINS))) ** 1.3 * BINS).astype(np.uint8)
    noise = rng.normal(0, 1.5, n)
    signal = 2.0 * bins[:, 0] - bins[:, 3] * (bins[:, 2] == 1) + bins[:, 1] * bins[:, 3] / 4 + noise
    return np.asfortranarray(bins), signal


def numbers(seed: int = 0, n: int = 150, capacity: int = CAPACITY) -> Encoded:
    """Return a table whose targets are whole: learners in floating point see ties as ties then."""
    bins, y = rows(seed, n)
    public = domain(Target(name="y", bounds=(-10.0, 22.0)), capacity)
    return Encoded(public, bins, np.clip(np.rint(y), -10, 22), np.ones(n, dtype=np.bool_))


def classes(seed: int = 0, n: int = 150, k: int = 2, capacity: int = CAPACITY) -> Encoded:
    bins, y = rows(seed, n)
    public = domain(Target(name="y", classes=tuple(range(k))), capacity)
    edges = np.linspace(2, 8, k - 1) if k > 2 else [5.0]
    return Encoded(
        public, bins, np.searchsorted(edges, y).astype(np.uint8), np.ones(n, dtype=np.bool_)
    )


@dataclass
class Fitted:
    """A hidden model with the record of its training."""

    plan: Any
    trained: Any
    run: Run

    @property
    def ledger(self) -> Ledger:
        return self.trained.ledger

    def ask(self, bins: NDArray[Any], what: str = "value") -> NDArray[Any]:
        answers, run = ask(self.trained, self.plan, bins, what)
        assert all(row["equal"] for row in run.leakage.compare())
        return answers


def fit(
    protocol: str, plan: Any, table: Encoded, engine: EngineName, seed: int | None = None
) -> Fitted:
    owners = by_rows(plan.layout, [table], [plan.n_slots])
    trained, run = train(protocol, plan, owners, engine, seed=seed)
    assert all(row["equal"] for row in run.leakage.compare())
    return Fitted(plan, trained, run)


class Recorder(Simulator):
    """A simulator that keeps the shape of every message."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.plans: list[tuple[str, tuple[Route, ...]]] = []

    def _move(self, step: str, plan: Any, outbox: Any) -> dict[int, Array]:
        self.plans.append((step, tuple(plan)))
        return super()._move(step, plan, outbox)


def transcript(protocol: str, plan: Any, table: Encoded) -> list[tuple[str, tuple[Route, ...]]]:
    """Train and return the shapes of all messages."""
    owners = by_rows(plan.layout, [table], [plan.n_slots])
    held = deal_uploads(plan.layout, owners.uploads, owners.tables)
    ledger = Ledger(domain=plan.domain)
    with Recorder(3) as network:
        server(Context(network, MEMBERS, plan, Terms(protocol), held, ledger))
        return network.plans
