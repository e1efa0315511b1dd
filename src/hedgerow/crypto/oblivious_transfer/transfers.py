"""What rows of a batch are good for: random, correlated and chosen transfers, and one of many.

Papers: asharov2013extension, naor2005transfer.

Rows are hashed to pads (`hashing`): the sender knows H(q_j) and H(q_j ^ Delta), the receiver the
one of its choice b. Each function uses its rows up. All messages go from sender to receiver.

- Random: the pads themselves, of 128 bits.
- Correlated: with pads k0 and k1 and the sender's x, d = k0 + x - k1 is sent; y0 = k0, and the
  receiver has k_b + b d = y0 + b x. Of bits with exclusive or.
- Chosen: m0 ^ k0 and m1 ^ k1 are sent.
- One of B: record j has log2 B transfers, whose choices are the bits of its index. Message v is
  sent under the exclusive or, over the bits l of v, of the hash of the row (l, v_l), with v in the
  tweak; who knows one row of each pair can make one of these pads.

The receiver learns nothing but what is named here; the sender learns nothing. A sender that
deviates can spoil what the receiver gets, as in every protocol of semi-honest parties above.

Values are uint16, uint32 or uint64, or bool for bits, which are packed in messages.

Cost: one round; nothing for random transfers, one value for correlated, two or B for chosen ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.crypto.oblivious_transfer.hashing import Words, as_bytes
from hedgerow.crypto.oblivious_transfer.messages import checked
from hedgerow.crypto.oblivious_transfer.rows import ReceivedRows, SentRows

Values = NDArray[Any]
MOST = 256
"""Largest number of values of which one, or all but one, are transferred."""
# Pads that are made at a time, where a record has many.
_CHUNK = 1 << 14
_ONCE = np.zeros(1, dtype=np.uint64)


def send_random(rows: SentRows) -> Words:
    """Return both keys of every transfer, shape (2, n, 2)."""
    q = rows.take()
    return np.stack([_hashed(rows, q, _ONCE)[:, 0], _hashed(rows, q ^ rows.delta, _ONCE)[:, 0]])


def receive_random(rows: ReceivedRows) -> Words:
    """Return the key chosen of every transfer, shape (n, 2)."""
    return _hashed(rows, rows.take(), _ONCE)[:, 0]


def send_correlated(rows: SentRows, x: Values, *, xor: bool = False) -> tuple[Values, Values]:
    """Return y0, like x, and the message; x has shape (n,) or (n, width).

    With `xor`, numbers are words of bits.
    """
    width = _width(rows, x)
    q = rows.take()
    y0, y1 = (_pads(rows, row, x.dtype, width) for row in (q, q ^ rows.delta))
    return y0, _message(y0 ^ x ^ y1 if xor or x.dtype == np.bool_ else y0 + x - y1)


def receive_correlated(
    rows: ReceivedRows,
    message: Values,
    dtype: type | np.dtype[Any],
    width: int | None = None,
    *,
    xor: bool = False,
) -> Values:
    """Return y0 + b x of the sender's y0 and x, or y0 ^ b x, shape (n,) or (n, width)."""
    d = _values(message, (len(rows),) if width is None else (len(rows), width), dtype)
    y = _pads(rows, rows.take(), d.dtype, width)
    b = rows.choices.astype(d.dtype).reshape(-1, *[1] * (d.ndim - 1))
    chosen: Values = b & d if d.dtype == np.bool_ else b * d
    return y ^ chosen if xor or d.dtype == np.bool_ else y + chosen


def send_chosen(rows: SentRows, m0: Values, m1: Values) -> Values:
    """Return the message; m0 and m1 have the same type and shape, (n,) or (n, width)."""
    if m0.shape != m1.shape or m0.dtype != m1.dtype:
        raise ValueError("both values of a transfer must have the same shape and type")
    width = _width(rows, m0)
    q = rows.take()
    pads = (_pads(rows, row, m0.dtype, width) for row in (q, q ^ rows.delta))
    return _message(np.stack([m ^ pad for m, pad in zip((m0, m1), pads, strict=True)]))


def receive_chosen(
    rows: ReceivedRows, message: Values, dtype: type | np.dtype[Any], width: int | None = None
) -> Values:
    """Return m0 where the choice is 0, m1 where it is 1."""
    shape = (2, len(rows)) if width is None else (2, len(rows), width)
    hidden = _values(message, shape, dtype)
    mine = hidden[rows.choices, np.arange(len(rows))]
    return mine ^ _pads(rows, rows.take(), mine.dtype, width)


def index_bits(index: ArrayLike, of: int) -> NDArray[np.uint8]:
    """Return the choices that get value `index`, shape (n,), of `of` values: (depth(of) n,)."""
    levels = np.arange(depth(of))[:, None]
    return (checked_index(index, of) >> levels & 1).astype(np.uint8).reshape(-1)


def send_one_of(rows: SentRows, messages: Values) -> Values:
    """Return the message; messages (n, B), and the rows are those of `index_bits`."""
    n, of = messages.shape
    q = take_levels(rows, n, of)
    hidden = np.empty_like(messages)
    step = max(1, _CHUNK // of)
    for at in range(0, n, step):
        part = slice(at, min(at + step, n))
        hidden[part] = messages[part] ^ _pads_of_all(rows, q[:, part], at, n, messages[part])
    return _message(hidden)


def _pads_of_all(rows: SentRows, q: Words, at: int, n: int, like: Values) -> Values:
    """Return the pads of all values of records at, at + 1, ... whose rows are q (depth, k, 2)."""
    values = np.arange(like.shape[1], dtype=np.uint64)
    blocks = np.zeros((*like.shape, 2), dtype=np.uint64)
    for level, row in enumerate(q):
        ones = values >> np.uint64(level) & np.uint64(1)
        x = row[:, None] ^ ones[:, None] * rows.delta
        blocks ^= rows.hash(x, rows.counter, rows.first + level * n + at, values)
    return _truncated(blocks.reshape(-1, 1, 2), like.dtype, None).reshape(like.shape)


def receive_one_of(
    rows: ReceivedRows, index: ArrayLike, message: Values, of: int, dtype: type | np.dtype[Any]
) -> Values:
    """Return messages[j, index[j]], shape (n,)."""
    chosen = checked_index(index, of)
    n = chosen.size
    hidden = _values(message, (n, of), dtype)
    pads = np.zeros((n, 1, 2), dtype=np.uint64)
    for level, x in enumerate(take_levels(rows, n, of)):
        pads ^= _hashed(rows, x, chosen[:, None], level * n)
    return hidden[np.arange(n), chosen] ^ _truncated(pads, hidden.dtype, None)


def depth(of: int) -> int:
    """Return the number of transfers for one of, or all but one of, `of` values, 2 to 256."""
    if not 2 <= of <= MOST:
        raise ValueError(f"number of values must be from 2 to {MOST}; found {of}")
    return (of - 1).bit_length()


def checked_index(index: ArrayLike, of: int) -> NDArray[np.int64]:
    """Return indices below `of` along one axis."""
    array = np.asarray(index)
    if array.ndim != 1 or array.dtype.kind not in "iu" or ((array < 0) | (array >= of)).any():
        raise ValueError(f"indices must be numbers below {of} along one axis")
    return array.astype(np.int64)


def take_levels(rows: SentRows | ReceivedRows, n: int, of: int) -> Words:
    """Take the rows of n records, shape (depth, n, 2)."""
    levels = depth(of)
    if len(rows) != levels * n:
        raise ValueError(f"{n} records need {levels} rows each; found {len(rows)} rows")
    return rows.take().reshape(levels, n, 2)


def _hashed(
    rows: SentRows | ReceivedRows, x: Words, nodes: NDArray[Any], skipped: int = 0
) -> Words:
    return rows.hash(x[:, None], rows.counter, rows.first + skipped, nodes)


def _pads(
    rows: SentRows | ReceivedRows, x: Words, dtype: np.dtype[Any], width: int | None
) -> Values:
    bits = (1 if dtype == np.bool_ else 8 * dtype.itemsize) * (1 if width is None else width)
    return _truncated(_hashed(rows, x, np.arange(-(-bits // 128))), dtype, width)


def _truncated(blocks: Words, dtype: np.dtype[Any], width: int | None) -> Values:
    """Read values from the beginning of blocks (n, k, 2)."""
    if dtype == np.bool_ and width is None:
        return (blocks[:, 0, 0] & np.uint64(1)).astype(np.bool_)
    data = as_bytes(blocks).reshape(len(blocks), blocks[0:1].nbytes)
    if dtype == np.bool_:
        return np.unpackbits(data, axis=1, count=width, bitorder="little").view(np.bool_)
    words = data.view(dtype.newbyteorder("<"))[:, : 1 if width is None else width]
    native = np.ascontiguousarray(words.astype(dtype, copy=False))
    return native[:, 0] if width is None else native


def _width(rows: SentRows, values: Values) -> int | None:
    if values.dtype.kind not in "ub" or values.ndim not in (1, 2) or len(values) != len(rows):
        raise ValueError(
            f"values must be unsigned or bits, shape ({len(rows)},) or ({len(rows)}, width); "
            f"found {values.dtype.name} of shape {values.shape}"
        )
    return None if values.ndim == 1 else values.shape[1]


def _message(values: Values) -> Values:
    flat = values.reshape(-1)
    return np.packbits(flat, bitorder="little") if values.dtype == np.bool_ else flat


def _values(message: Values, shape: tuple[int, ...], dtype: type | np.dtype[Any]) -> Values:
    kind, size = np.dtype(dtype), int(np.prod(shape))
    if kind != np.bool_:
        return checked(message, size, kind, "values of transfers").reshape(shape)
    packed = checked(message, -(-size // 8), np.uint8, "bits of transfers")
    return np.unpackbits(packed, count=size, bitorder="little").view(np.bool_).reshape(shape)
