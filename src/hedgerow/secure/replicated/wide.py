"""From 64 bits to 128: the shares stay the low words, and the servers count how often they wrap.

The shares of x as integers add up to x + 2**64 w with w in {0, 1, 2}. So they become shares of x
modulo ``2**128`` by the high words of shares of -w, which need a ring of 64 bits only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.limbs import LIMBS
from hedgerow.secure.replicated.core import Core
from hedgerow.secure.replicated.sharing import Deal, Join, length, thirds, write

Array = NDArray[Any]

_TOP = np.uint64(63)


def extend(core: Core, x: Array) -> Array:
    """Lift 0 <= x < 2**63 to 128 bits.

    Parameters
    ----------
    core : Core
    x : uint64, shape (servers here, 2, n)

    Returns
    -------
    uint64 array, shape (servers here, 2, n, 2)

    Notes
    -----
    With a = x_t + x_{t+1}, which server t knows, and b = x_{t+2}: w is the carry out of a, plus the
    carry out of a + b. As x < 2**63, the latter is set exactly when a or b has its top bit set.

    1. Server t deals (carry out of a) + (top bit of a), and the top bit of a.
    2. Servers t+1 and t+2 multiply the top bit by that of b and join the products, to be taken off:
       p | q = p + q - p q.

    Reveals: nothing. Cost: 2 rounds; 8 bytes per element from every server, and over a third of the
    batch 8 more from server t.
    """
    n = x.shape[-1]
    step = core.step("extend wide")
    out = core.shares((n, LIMBS), np.uint64)
    out[..., 0] = x
    high = out[..., 1]
    runs, deals, joins = thirds(n), [], []
    for t, run in enumerate(runs):
        at, shape = core.at(t), (length(run),)
        known = top = None
        if at is not None:
            a = x[at, 0, run] + x[at, 1, run]
            top = a >> _TOP
            known = top + (a < x[at, 0, run])
        deals.append(
            (
                Deal(step, f"w{t}", t, shape, np.uint64, known),
                Deal(step, f"m{t}", t, shape, np.uint64, top),
            )
        )
    step.exchange()
    for t, (run, (known_deal, top_deal)) in enumerate(zip(runs, deals, strict=True)):
        write(core, known_deal, high[..., run])
        terms: list[Array | None] = [None, None]
        for number, server, side in ((0, t + 1, 1), (1, t + 2, 0)):
            at = core.at(server)
            if at is None:
                continue
            top = x[at, side, run] >> _TOP
            high[at, side, run] += top
            factor = top_deal.got if number == 0 else top_deal.mask
            assert factor is not None
            terms[number] = factor * top
        joins.append(Join(step, f"j{t}", t, (length(run),), np.uint64, *terms))
    step.exchange()
    for run, join in zip(runs, joins, strict=True):
        for at, server in enumerate(core.servers):
            for side, share in enumerate(join.shares(server)):
                assert share is not None
                np.subtract(share, high[at, side, run], out=high[at, side, run])
    return out
