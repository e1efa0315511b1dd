"""Small tables and plans for tests of the party programs."""

from typing import Any

import numpy as np

from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.sharing.integrate import Integrated, dealt
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode

SIZES = (3, 4, 2)
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(n)))
        for i, n in enumerate(SIZES)
    ),
    target=Target(name="y", classes=(0, 1)),
    capacity=60,
)


def rows(n: int = 48, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a table that a tree can learn, and its classes."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    return X, ((X[:, 0] + X[:, 1] * X[:, 2] + rng.integers(0, 2, n)) > 2).astype(int)


def encoded(n: int = 48, seed: int = 0) -> Encoded:
    X, y = rows(n, seed)
    return encode(X, DOMAIN, y)


def plan(**parameters: Any) -> HiddenPlan:
    return plan_hidden(DOMAIN, **{"noise": "none", "depth": 2, **parameters})


def owners(of: HiddenPlan, table: Encoded, n: int = 1, partition: Any = "horizontal") -> Integrated:
    return dealt(of.layout, table, of.n_slots, n, partition)
