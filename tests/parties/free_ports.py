"""Ports for consortia of tests: no two of them, at the same time, in whatever process of tests."""

import os
import random
import socket
from contextlib import ExitStack

# Below the ports that outgoing connections are given; examples and benchmarks take some above.
_FIRST, _LAST, _SPAN = 20_000, 28_000, 100
_WORKERS = 4


def _mine() -> list[int]:
    """Return the first ports of the blocks of this process of tests, in an order of its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    blocks = list(range(_FIRST, _LAST, _SPAN))[worker::_WORKERS]
    random.SystemRandom().shuffle(blocks)
    return blocks


_blocks: list[int] = []


def free_ports() -> int:
    """Return a port such that it and the 99 after it are free, and nobody else is given them.

    A block is given again when all have been: what used it before has ended by then, or still
    listens, and is passed over.
    """
    while True:
        if not _blocks:
            _blocks.extend(_mine())
        first = _blocks.pop()
        with ExitStack() as stack:
            try:
                for port in range(first, first + _SPAN):
                    door = stack.enter_context(socket.socket())
                    # As whoever listens later does: connections that have ended do not matter.
                    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    door.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
