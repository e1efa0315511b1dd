"""Products: each server multiplies what it holds and sends one element.

From x = x_0 + x_1 + x_2 and y alike, server i computes z_i = x_i y_i + x_i y_{i+1} + x_{i+1} y_i
plus a share of zero, a_i = F(k_i) - F(k_{i+1}), and sends z_i to server i-1.
Paper: araki2016high.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.secure.kernels import WORTH_A_THREAD, add_product
from hedgerow.secure.replicated.core import SERVERS, Core
from hedgerow.secure.steps import Step

Array = NDArray[Any]
Kernel = Callable[[str], Any]


def mul(core: Core, x: Array, y: Array, name: str, kernel: Kernel) -> Array:
    """Multiply element by element.

    Shares (servers here, 2, *shape) broadcast, with equally many axes. The kernel is
    `kernels.multiply` for rings, `kernels.conjoin` for words of bits.

    Reveals: nothing. Cost: 1 round, one element from every server.
    """
    shape = np.broadcast_shapes(x.shape[2:], y.shape[2:])
    size = prod(shape)
    step = core.step(name)
    out = core.shares(shape, x.dtype)
    flat = out.reshape(len(core.here), 2, size)

    rows = [(_row(x[at], shape), _row(y[at], shape)) for at in range(len(core.here))]
    zeros = [
        tuple(step.mask(key, "zero", (size,), x.dtype) for key in (server, server + 1))
        for server in core.here
    ]
    compiled = kernel(x.dtype.name)

    def work(chunk: tuple[int, slice]) -> None:
        at, part = chunk
        inputs = [share[part] for pair in (*rows[at], zeros[at]) for share in pair]
        compiled(*inputs, flat[at, 0, part])

    parts = threads.available() if size >= WORTH_A_THREAD else 1
    ends = [size * p // parts for p in range(parts + 1)]
    cuts = [slice(*pair) for pair in pairwise(ends)]
    for at in range(len(core.here)):
        threads.run(work, [(at, cut) for cut in cuts])
    return reshare(step, out)


def matmul(core: Core, x: Array, y: Array) -> Array:
    """Multiply matrices (..., m, k) @ (..., k, n).

    Shares have equally many axes, behind (servers here, 2).

    Reveals: nothing. Cost: 1 round, one element per element of the result from every server.
    """
    shape = (*np.broadcast_shapes(x.shape[2:-2], y.shape[2:-2]), x.shape[-2], y.shape[-1])
    step = core.step("matmul")
    core.network.note_work("products", SERVERS * prod(shape) * x.shape[-1])
    out = core.shares(shape, x.dtype)
    for at, server in enumerate(core.here):
        a, b = (step.mask(key, "zero", shape, x.dtype) for key in (server, server + 1))
        np.subtract(a, b, out=out[at, 0])
        add_product(x[at, 0], y[at, 0], out[at, 0], y[at, 1])
        add_product(x[at, 1], y[at, 0], out[at, 0])
    return reshare(step, out)


def reshare(step: Step, out: Array) -> Array:
    """Send z_i in ``out[:, 0]`` to server i-1 and complete the shares: one round."""
    core, shape = step.core, out.shape[2:]
    messages = []
    for i in range(SERVERS):
        at = core.at(i)
        payload = None if at is None else out[at, 0, ...]
        messages.append(step.send(i, (i - 1) % SERVERS, shape, out.dtype, payload))
    step.exchange()
    for at, server in enumerate(core.here):
        out[at, 1] = messages[(server + 1) % SERVERS].content
    return out


def _row(share: Array, shape: tuple[int, ...]) -> Array:
    """Return the two shares of a server as (2, size), without a copy where they lie so already."""
    return np.ascontiguousarray(np.broadcast_to(share, (2, *shape))).reshape(2, prod(shape))
