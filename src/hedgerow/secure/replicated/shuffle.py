"""Three-party shuffle: each pair of servers permutes in turn, the third does not see how.

The permutation is pi_2 after pi_1 after pi_0, where pi_j follows from key k_j and is known to the
servers j-1 and j. Whoever holds two of three does not know the third.
Paper: laur2011oblivious.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from hedgerow.secure.orders import JointPermutation, moved
from hedgerow.secure.replicated.core import SERVERS, Core
from hedgerow.secure.replicated.sharing import Join, write
from hedgerow.secure.steps import sums

Array = NDArray[Any]


def apply(core: Core, x: Array, by: JointPermutation, *, inverse: bool, xor: bool = False) -> Array:
    """Permute rows, or undo it; `xor` for rows of shared bits.

    1. The first pair, servers j-1 and j, holds x as u + v: u = x_{j-1} + x_j, v = x_{j+1}.
    2. It permutes u and v by pi_j and moves a mask of k_j from one to the other.
    3. The one that is not in the next pair hands its part to the server that is.
    4. After the third permutation, the last pair joins its parts into shares for all (`Join`).

    Rows are those of shares (servers here, 2, n, ...).

    Reveals: nothing; every part that is handed over carries a mask which its receiver does not
    know.
    Cost: 3 rounds; one element per element from two servers and two from server 2.
    """
    shape, dtype = x.shape[2:], x.dtype
    step = core.step("unshuffle" if inverse else "shuffle")
    order = (2, 1, 0) if inverse else (0, 1, 2)
    add, subtract = sums(xor=xor)
    parts = _split(core, x, order[0], add)
    for j, following in pairwise(order):
        pair, after = _pair(j), _pair(following)
        for server in pair:
            if server in parts:
                part = moved(parts[server], by.orders[j], inverse=inverse)
                mask = step.mask(j, f"pass {j}", shape, dtype)
                parts[server] = (subtract if server == j else add)(part, mask)
        leaving = next(server for server in pair if server not in after)
        entering = next(server for server in after if server not in pair)
        message = step.send(leaving, entering, shape, dtype, parts.pop(leaving, None))
        step.exchange()
        if message.content is not None:
            parts[entering] = message.content
    last = order[-1]
    idle = (last + 1) % SERVERS
    terms = (
        moved(parts[server], by.orders[last], inverse=inverse) if server in parts else None
        for server in ((idle + 1) % SERVERS, (idle + 2) % SERVERS)
    )
    join = Join(step, "join", idle, shape, dtype, *terms, xor=xor)
    step.exchange()
    out = core.shares(shape, dtype)
    write(core, join, out)
    return out


def _pair(j: int) -> tuple[int, int]:
    return (j - 1) % SERVERS, j


def _split(core: Core, x: Array, j: int, add: Any) -> dict[int, Array]:
    """Turn three shares into the two parts of the pair that knows pi_j."""
    before, after = core.at(j - 1), core.at(j)
    parts = {}
    if before is not None:
        parts[(j - 1) % SERVERS] = add(x[before, 0], x[before, 1])
    if after is not None:
        parts[j] = x[after, 1]
    return parts
