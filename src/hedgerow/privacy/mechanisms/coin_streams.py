"""Feeding the kernels: bytes in order, more when they run short, one stream per lane of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.privacy.mechanisms import coins as coin_tables
from hedgerow.privacy.mechanisms.coin_kernels import DONE, MORE_BYTES
from hedgerow.privacy.mechanisms.coins import CoinTable
from hedgerow.privacy.source import NoiseSource

# Work per lane (coins) below which a thread costs more than it brings, and the most lanes. The
# number of lanes depends on the shape alone, never on the machine, so that seeded draws repeat.
_LANE_COINS = 2**19
_MAX_LANES = 8
# Variables per block: its bytes and noise stay in the processor's cache.
BLOCK = 2**14
_FIRST_BYTES = 2**16


def in_lanes(
    rows: int,
    coins_per_row: int,
    source: NoiseSource,
    work: Callable[[int, int, NoiseSource], None],
) -> None:
    """Call ``work(start, stop, stream)`` on contiguous parts of the rows, in threads if worth it.

    Each part draws from its own child of the source; kernels release the interpreter's lock.
    """
    lanes = max(1, min(rows, _MAX_LANES, rows * coins_per_row // _LANE_COINS))
    if lanes == 1:
        work(0, rows, source)
        return
    edges = [rows * k // lanes for k in range(lanes + 1)]
    streams = [source.spawn() for _ in range(lanes)]
    threads.each(lambda k: work(edges[k], edges[k + 1], streams[k]), range(lanes))


def feed_block(
    source: NoiseSource,
    table: CoinTable,
    variables: int,
    kernel: Callable[[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]], int],
) -> None:
    """Run ``kernel(main, tail, constants)`` on fresh bytes until it has all it needs.

    `main` has L rows, one per coin of the table. The kernel returns DONE, MORE_BYTES (of the tail)
    or MORE_DIGITS (of the constants).
    """
    main = source.bytes(table.count * variables).reshape(table.count, variables)
    # One coin in 256 needs a tail; twice the mean and some more hardly ever run out.
    tail = source.bytes(64 + table.count * variables // 128)
    constants = table.prefix(coin_tables.PREFIX_BYTES)
    while (status := kernel(main, tail, constants)) != DONE:
        if status == MORE_BYTES:
            tail = np.concatenate([tail, source.bytes(tail.size)])
        else:
            constants = table.prefix(2 * constants.shape[1])


def feed_rows(
    source: NoiseSource,
    table: CoinTable,
    rows: int,
    kernel: Callable[[int, NDArray[np.uint8], NDArray[np.uint8]], tuple[int, int, int]],
) -> None:
    """Run ``kernel(row, stream, constants)`` from row to row until all are done.

    The kernel returns the row it has come to, the position of that row's first byte, and the
    status. The bytes from that position on are kept and read again.
    """
    constants = table.prefix(coin_tables.PREFIX_BYTES)
    stream = source.bytes(_FIRST_BYTES)
    row, used, status = kernel(0, stream, constants)
    while row < rows:
        stream = stream[used:]
        if status == MORE_BYTES:
            stream = np.concatenate([stream, source.bytes(max(stream.size, _FIRST_BYTES))])
        else:
            constants = table.prefix(2 * constants.shape[1])
        row, used, status = kernel(row, stream, constants)
