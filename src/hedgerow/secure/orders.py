"""Permutations of rows in parts: each follows from a key, and no party holds the keys of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.kernels import order as uniform_order
from hedgerow.secure.secret import Engine, Permutation
from hedgerow.secure.steps import Holders

Array = NDArray[Any]

_SPARE: Final = 64
"""Words beyond one per row, for the few that rejection throws away."""


@dataclass(frozen=True, eq=False, repr=False)
class JointPermutation(Permutation):
    """Orders of the parts whose keys are held here: row r of pi_j x is x[orders[j][r]]."""

    engine: Engine
    n: int
    orders: Mapping[int, NDArray[np.int64]]


def draw_orders(core: Holders, n: int) -> dict[int, NDArray[np.int64]]:
    """Draw pi_j of n rows for every part j whose key is held here; no message."""
    step = core.step("permutation")
    keys = {j: key for party in core.here for j, key in core.parts(party).items()}
    return {
        j: uniform_order(step.mask(key, "order", (n + _SPARE,), np.uint64), n)
        for j, key in keys.items()
    }


def moved(rows: Array, order: NDArray[np.int64], *, inverse: bool) -> Array:
    """Return rows in an order, or undo it."""
    if not inverse:
        return rows.take(order, axis=0)
    back = np.empty_like(rows)
    back[order] = rows
    return back
