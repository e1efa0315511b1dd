"""What an owner's secret counts must satisfy before they are added to those of others.

Scores are exact, and their sensitivity is what the ledger says, for counts from 0 up to a public
number. An owner that shares anything else could push a sum to where a comparison wraps around: one
record of another owner would then move a score by more than the noise covers. So the servers check
every owner's counts by themselves, before they are added: what an owner that follows the protocol
shares always passes, and one that does not is left out.

What is left to a hostile owner is to lie within the range: to claim records that it does not have,
up to the capacity, or histograms of two attributes that do not agree. That spoils the tree. It
costs the other owners no privacy, because the sensitivities hold for any such counts
(`hedgerow.protocols.topdown.numbers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import Opening
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated import EVERYONE
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from hedgerow.trees.growing.candidates import Candidates

_BLOCK: Final = 1 << 21  # numbers that are compared at once, at about 300 bytes in the simulator
OUT_OF_RANGE = "counts out of range"
AUDIENCE = EVERYONE


def range_opening(owners: int) -> Opening:
    """Declare what the check of so many owners' counts opens."""
    return Opening(
        OUT_OF_RANGE,
        AUDIENCE,
        (owners,),
        independent="0 for every owner that follows the protocol, whatever its records are",
    )


def within_range(counts: Secret, candidates: Candidates, capacity: int) -> NDArray[np.bool_]:
    """Tell whose counts could be those of a table within the capacity.

    1. For every count c, and every attribute with n records in a node: the top bits of c, of
       capacity - c and of capacity - n. The first two say that c is from 0 to the capacity; then
       no n wraps around, and the third says that it is no more than the capacity.
    2. Add them up for every owner, and open the sum.

    Reveals: to the servers, how many numbers of an owner are out of range: 0, where it follows
    the protocol.
    Cost: `cost_within_range`; nodes are compared in blocks, public, that cost their rounds anew.

    Parameters
    ----------
    counts : Secret, shape (owners, nodes, classes, total bins)
        Over a ring in which the cells of an attribute times the capacity stay below half.
    candidates : Candidates
        Where the bins of each attribute stand.
    capacity : int

    Returns
    -------
    bool array, shape (owners,)
    """
    owners, nodes = counts.shape[:2]
    each = _numbers_of_node(counts.shape[2:], candidates)
    wrong = stack(
        [
            less_than(_tested(counts[:, block], candidates, capacity), 0).sum(axis=1)
            for block in _blocks(nodes, owners * each)
        ]
    ).sum(axis=0)
    opened = counts.engine.open(wrong, OUT_OF_RANGE, AUDIENCE)
    assert opened is not None
    found: NDArray[np.bool_] = opened == 0
    return found


def cost_within_range(
    engine: Engine, shape: tuple[int, int, int, int], candidates: Candidates, ring: Ring
) -> Cost:
    """State the cost of `within_range` for counts of a shape."""
    owners, nodes = shape[:2]
    each = owners * _numbers_of_node(shape[2:], candidates)
    total = engine.cost("open", shape=(owners,), ring=ring, to=AUDIENCE)
    for block in _blocks(nodes, each):
        total += cost_less_than(engine, each * (block.stop - block.start), ring)
    return total


def _tested(counts: Secret, candidates: Candidates, capacity: int) -> Secret:
    """Return the numbers whose top bits must be 0, (owners, numbers)."""
    by_bin = counts.sum(axis=2).cumsum(axis=-1)
    ends = by_bin[..., candidates.offset[1:] - 1]
    totals = concatenate([ends[..., :1], ends[..., 1:] - ends[..., :-1]], axis=-1)
    parts = (counts, capacity - counts, capacity - totals)
    return concatenate([part.reshape(len(counts), -1) for part in parts], axis=1)


def _numbers_of_node(shape: tuple[int, ...], candidates: Candidates) -> int:
    classes, bins = shape
    return 2 * classes * bins + candidates.n_features


def _blocks(nodes: int, numbers: int) -> Iterator[slice]:
    step = max(1, _BLOCK // numbers)
    return (slice(at, min(at + step, nodes)) for at in range(0, nodes, step))
