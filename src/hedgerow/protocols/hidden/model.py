"""`SecretForest`: trees of which every server holds a share, and their public manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.growers.layout import Layout
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, concatenate

Shares = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SecretForest:
    """Complete trees with hidden splits and leaves; layout and depth are public.

    `splits` (trees, inner nodes, C): one-hot choices, levels one after the other. `values` (trees,
    leaves, v): v numbers that a leaf answers.
    """

    layout: Layout
    splits: Secret
    values: Secret
    depth: int

    @property
    def engine(self) -> Engine:
        """Keeper of the shares."""
        return self.splits.engine

    @property
    def ring(self) -> Ring:
        """Of splits and values."""
        return self.splits.ring

    @property
    def n_trees(self) -> int:
        """Trees t."""
        return self.splits.shape[0]

    def level(self, level: int) -> slice:
        """Return where the nodes of a level stand."""
        before = sum(self.layout.n_nodes(above) for above in range(level))
        return slice(before, before + self.layout.n_nodes(level))

    def shares(self) -> Shares:
        """Return the shares of the servers that live here."""
        return {"splits": self.splits.data, "values": self.values.data}

    @classmethod
    def from_shares(
        cls, engine: Engine, layout: Layout, depth: int, ring: Ring, shares: Mapping[str, Any]
    ) -> SecretForest:
        """Put a forest together from the shares of the servers that live here."""
        inner = sum(layout.n_nodes(level) for level in range(depth))
        splits, values = (np.asarray(shares[name]) for name in ("splits", "values"))
        trees = engine.share_axes
        fits = (
            splits.dtype == values.dtype == ring.dtype
            and splits.ndim == values.ndim == trees + 3
            and splits.shape[: trees + 1] == values.shape[: trees + 1]
            and splits.shape[trees + 1 :] == (inner, len(layout.candidates))
            and values.shape[trees + 1] == layout.n_nodes(depth)
        )
        if not fits:
            raise Code.MODEL_DAMAGED.error(
                expected=f"shares of trees of depth {depth} over Z_2^{ring.bits}",
                found=f"splits {splits.dtype} {splits.shape}, values {values.dtype} {values.shape}",
            )
        return cls(layout, Secret(engine, ring, splits), Secret(engine, ring, values), depth)


def forest(layout: Layout, choices: list[Secret], values: Secret) -> SecretForest:
    """Put choices (level by level) and leaf values together, over the ring of the values."""
    splits = concatenate(choices, axis=1)
    engine, ring = splits.engine, values.ring
    if splits.ring.bits < ring.bits:
        splits = engine.extend(splits, ring)
    elif splits.ring.bits > ring.bits:
        splits = engine.reduce(splits, ring)
    return SecretForest(layout, splits, values, len(choices))


def class_index(labels: Secret, ring: Ring) -> Secret:
    """Return the index of one-hot classes (..., k) as (..., 1), over a ring that is no larger."""
    index = (labels * np.arange(labels.shape[-1])).sum(axis=-1, keepdims=True)
    return index if index.ring.bits <= ring.bits else index.engine.reduce(index, ring)
