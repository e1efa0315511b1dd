"""Openings: only the share that a server lacks travels, and only to those who may see it.

Who is outside the servers gets halves instead, see `outside.open_halves`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.secure.replicated.core import SERVERS, Core

Array = NDArray[Any]


def reveal(
    core: Core, x: Array, servers: Sequence[int], *, purpose: str, xor: bool
) -> Array | None:
    """Open shares to servers.

    Server i gets x_{i-1} from server i-1.
    Cost: 1 round; per receiver one element from server i-1.

    All servers must agree on `purpose`, name and audience of the opening. Returns None where no
    receiver lives.
    """
    add = np.bitwise_xor if xor else np.add
    step = core.step("open", purpose)
    messages = {}
    for i in servers:
        at = core.at(i - 1)
        payload = None if at is None else x[at, 0, ...]
        messages[i] = step.send((i - 1) % SERVERS, i, x.shape[2:], x.dtype, payload)
    step.exchange()
    for i, message in messages.items():
        at = core.at(i)
        if at is not None:
            assert message.content is not None
            found: Array = reduce(add, (message.content, x[at, 0, ...], x[at, 1, ...]))
            return found
    return None
