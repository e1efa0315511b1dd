"""Presence bits: records in random slots of a public number, so that their number is secret."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables.encode import Encoded


def pad(
    encoded: Encoded,
    capacity: int | None = None,
    *,
    entropy: Callable[[int], bytes] = os.urandom,
) -> Encoded:
    """Place the records of a table uniformly at random among `capacity` slots.

    A record's slot says nothing about the other records or their number, so removing a record
    clears one presence bit and moves nothing. Whoever sees the slots but not the presence bits
    knows the capacity alone, which is the domain's by default. Only tests pass an `entropy`. Absent
    slots have bins 0, target 0 and an empty id. H112 for more records than slots, H208 without a
    capacity.
    """
    capacity = encoded.domain.capacity if capacity is None else capacity
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(found="neither capacity= nor domain.capacity")
    records = np.flatnonzero(encoded.present)
    check_capacity(records.size, capacity)
    slots = random_order(capacity, entropy)[: records.size]

    def place(values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Put (n_slots, ...) values into their new slots."""
        placed = np.zeros((capacity, *values.shape[1:]), dtype=values.dtype, order="F")
        placed[slots] = values[records]
        return placed

    present = np.zeros(capacity, dtype=np.bool_)
    present[slots] = True
    return Encoded(
        domain=encoded.domain,
        bins=place(encoded.bins),
        target=None if encoded.target is None else place(encoded.target),
        present=present,
        ids=None if encoded.ids is None else place(encoded.ids),
    )


def check_capacity(n_records: int, capacity: int) -> None:
    """Raise H112 if there are more records than the public capacity."""
    if n_records > capacity:
        raise Code.CAPACITY_EXCEEDED.error(
            expected=f"at most {capacity:,} rows, the public capacity", found=f"{n_records:,} rows"
        )


def random_order(n: int, entropy: Callable[[int], bytes] = os.urandom) -> NDArray[np.intp]:
    """Return a permutation of 0 ... n - 1, exactly uniform if `entropy` is; intp (n,)."""
    while True:
        keys = np.frombuffer(entropy(8 * n), dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        # Distinct keys are equally likely in every order; equal ones would keep theirs.
        if np.all(keys[order[1:]] != keys[order[:-1]]):
            return order
