"""A small table, and hidden forests trained and asked on it in one process."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource, Opening
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.table import horizontal_uploads
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.secret import Engine, Secret
from hedgerow.tables import Attribute, Domain, Encoded, Target
from tests.protocols.hidden.hidden_runs import answers_of
from tests.protocols.sharing.shared_tables import shared_queries, shared_table

BINS = (3, 5, 2, 4)
CLASSES = 3
CAPACITY = 420
OWNER = 3
ENGINES = ("clear", "three servers")


def domain() -> Domain:
    attributes = [
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(b)))
        for i, b in enumerate(BINS[:-1])
    ]
    attributes.append(Attribute(name="x", kind="numeric", bounds=(0, 4), bins=BINS[-1]))
    return Domain(
        attributes=tuple(attributes),
        target=Target(name="y", classes=tuple(range(CLASSES))),
        capacity=CAPACITY,
    )


def slots(n: int = CAPACITY, seed: int = 0, filled: float = 0.9) -> Encoded:
    """Return n slots, most of them filled, whose class depends on the attributes."""
    rng = np.random.default_rng(seed)
    bins = np.stack([rng.integers(0, b, n) for b in BINS], axis=1)
    signal = bins[:, 0] + bins[:, 1] * bins[:, 2] + rng.integers(0, 3, n)
    target = np.minimum(signal // 2, CLASSES - 1)
    present = rng.random(n) < filled
    public = domain()
    return Encoded(
        public,
        np.asfortranarray(bins * present[:, None], dtype=public.dtype),
        (target * present).astype(np.uint8),
        present,
    )


def part_of(table: Encoded, rows: slice) -> Encoded:
    return Encoded(
        table.domain,
        np.asfortranarray(table.bins[rows]),
        table.target[rows],
        table.present[rows],
    )


def asked(n: int = 60, seed: int = 1) -> Encoded:
    rng = np.random.default_rng(seed)
    public = domain()
    bins = np.stack([rng.integers(0, b, n) for b in BINS], axis=1)
    return Encoded(
        public, np.asfortranarray(bins, dtype=public.dtype), None, np.ones(n, dtype=np.bool_)
    )


def planned(**options: Any) -> HiddenPlan:
    return plan_hidden(domain(), **{"depth": 2, **options})


@dataclass
class Forest:
    """A forest trained by a plan, and what is needed to ask it."""

    plan: HiddenPlan
    ledger: Ledger
    leakage: Leakage
    engine: Engine
    model: SecretForest

    def share(self, queries: Encoded) -> Secret:
        return shared_queries(self.engine, self.plan.layout, self.model.ring, queries)

    def ask(self, queries: Encoded, what: str = "class") -> NDArray[np.int64]:
        HIDDEN_TREE.spend(self.plan, queries.n_slots, self.ledger)
        return answers_of(self.model, self.plan, queries, what, self.ledger)


def trained(
    plan: HiddenPlan,
    table: Encoded,
    engine: str = "clear",
    *,
    openings: list[Opening] | None = None,
    n: int = 60,
    seed: int = 5,
    network: Simulator | None = None,
) -> Forest:
    """Share a table of ``plan.n_slots`` slots as it is, and train."""
    if openings is None:
        openings = HIDDEN_TREE.answer_openings(plan, n)
    ledger = Ledger(domain=plan.domain)
    leakage = Leakage([*plan.openings(), *openings], ledger=ledger)
    made: Engine
    if engine == "clear":
        made = ClearEngine(leakage, NoiseSource.insecure_seeded(seed))
    else:
        network = network or Simulator(3)
        made = ReplicatedEngine(network, leakage, insecure_seed=b"forests in tests %d" % seed)
    uploads = horizontal_uploads(plan.layout, [plan.n_slots], OWNER)
    shared = shared_table(made, plan.layout, plan.ring, uploads, {OWNER: table})
    return Forest(plan, ledger, leakage, made, train_hidden(shared, plan, ledger))
