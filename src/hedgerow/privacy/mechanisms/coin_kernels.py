"""The inner loops of the mechanisms, compiled.

Every kernel reads random bytes that were drawn before, and returns a status. When the bytes or
the digits of the constants do not suffice, the caller adds some *behind* those already there and
runs the same work again: bytes that were read once are read again in the same order, so running
out never changes the law. (New bytes for a row that ran out would favour the outcomes that need
few.) Bytes, digits and constants are uint8.

All kernels live in one file because the on-disk cache of a compiled function notices changes of
its own file only.
"""

from __future__ import annotations

import math

import numpy as np

from hedgerow.compiled import A, jit
from hedgerow.privacy.mechanisms.coins import MAX_DIGITS

DONE = 0
TAILS = 0
HEADS = 1
MORE_BYTES = -1
MORE_DIGITS = -2
_LIMIT = 2**MAX_DIGITS


@jit
def flip(stream: A, at: int, probability: A) -> tuple[int, int]:
    """Flip one coin; return the new position in the stream and HEADS, TAILS or what is short."""
    for k in range(probability.size):
        if at >= stream.size:
            return at, MORE_BYTES
        byte = stream[at]
        at += 1
        if byte != probability[k]:
            return at, HEADS if byte < probability[k] else TAILS
    return at, MORE_DIGITS


@jit
def below(stream: A, at: int, bound: int) -> tuple[int, int]:
    """Draw uniformly from 0, ..., bound - 1; return the new position and the value, or MORE_BYTES.

    Lemire's method: the high half of bound times a 32-bit word, rejecting the low halves that
    would make some values more likely than others. 1 <= bound <= 2**32.
    """
    unfair = (2**32 - bound) % bound
    while True:
        if at + 4 > stream.size:
            return at, MORE_BYTES
        word = np.uint64(0)
        for k in range(4):
            word = (word << np.uint64(8)) | np.uint64(stream[at + k])
        at += 4
        product = word * np.uint64(bound)
        if (product & np.uint64(0xFFFFFFFF)) >= np.uint64(unfair):
            return at, int(np.int64(product >> np.uint64(32)))


@jit
def geometric(
    main: A,
    tail: A,
    coins: A,
    out: A,
) -> int:
    """Draw geometric variables, one coin per binary digit.

    Coin i of variable j compares ``main[i, j]`` with the first byte of ``coins[i]``; ties go on
    with bytes of ``tail``.
    """
    n = out.size
    at = 0
    tied = np.empty(n, np.int64)
    out[:] = 0
    for i in range(coins.shape[0]):
        first = coins[i, 0]
        rest = coins[i, 1:]
        digit = np.int64(1) << i
        row = main[i]
        # Two loops without branches, which the compiler turns into vector code, and a short one
        # over the one coin in 256 that the first byte leaves open.
        for j in range(n):
            out[j] += digit * int(row[j] < first)
        ties = 0
        for j in range(n):
            tied[ties] = j
            ties += int(row[j] == first)
        for k in range(ties):
            at, side = flip(tail, at, rest)
            if side < 0:
                return side
            out[tied[k]] += digit * side
    return DONE


@jit
def two_sided(
    values: A,
    out: A,
    main: A,
    tail: A,
    coins: A,
) -> int:
    """Add G1 - G2 to each value, clamped; ``main`` has 2 n columns for n values."""
    n = values.size
    noise = np.empty(2 * n, np.int64)
    status = geometric(main, tail, coins, noise)
    if status == DONE:
        for j in range(n):
            value = min(max(values[j], -_LIMIT), _LIMIT)
            out[j] = value + noise[j] - noise[n + j]
    return status


@jit
def noisy_argmax(
    scores: A,
    valid: A,
    out: A,
    main: A,
    tail: A,
    coins: A,
) -> int:
    """Return per row the candidate with the largest score plus noise, lowest index first.

    Scores are (n, c), and so is ``valid``, or (0, 0) if all are; ``main`` has n c columns.
    """
    n, c = scores.shape
    noise = np.empty(n * c, np.int64)
    status = geometric(main, tail, coins, noise)
    if status == DONE:
        for r in range(n):
            best = -1
            top = np.int64(0)
            for j in range(c):
                if valid.size > 0 and not valid[r, j]:
                    continue
                value = min(max(scores[r, j], -_LIMIT), _LIMIT) + noise[r * c + j]
                if best < 0 or value > top:
                    best, top = j, value
            out[r] = best
    return status


@jit
def rejecting_choice(
    scores: A,
    valid: A,
    replace: bool,
    out: A,
    row: int,
    stream: A,
    coins: A,
) -> tuple[int, int, int]:
    """Propose candidates in random order until the coin exp(-a gap) of one lands heads.

    Without replacement this is permute-and-flip, with replacement the exponential mechanism.
    Starts at `row`; returns the row it has come to, the position of that row's first byte in the
    stream, and a status. ``coins`` (63, T): powers exp(-a 2^i).
    """
    n, c = scores.shape
    order = np.empty(c, np.int64)
    at = 0
    for r in range(row, n):
        begin = at
        size = 0
        top = -_LIMIT
        for j in range(c):
            if valid.size == 0 or valid[r, j]:
                order[size] = j
                size += 1
                top = max(top, min(int(scores[r, j]), _LIMIT))
        left = 0
        while True:
            at, step = below(stream, at, size - left)
            if step < 0:
                return r, begin, MORE_BYTES
            pick = left + step
            candidate = order[pick]
            gap = top - max(min(int(scores[r, candidate]), _LIMIT), -_LIMIT)
            side = HEADS
            # The highest digit is the likeliest to land tails: it saves the others.
            i = 62
            while gap > 0 and side == HEADS:
                if gap >> i:
                    at, side = flip(stream, at, coins[i])
                    gap -= 1 << i
                i -= 1
            if side < 0:
                return r, begin, side
            if side == HEADS:
                out[r] = candidate
                break
            if not replace:
                order[pick] = order[left]
                left += 1
    return n, at, DONE


@jit
def gaussian(
    values: A,
    out: A,
    row: int,
    words: A,
    floors: A,
    guide: A,
    shift: int,
    bucket: int,
    digits: int,
    x: float,
) -> tuple[int, int, int]:
    """Add discrete Gaussian noise to each value from `row` on.

    One word per try: its lowest bit is the sign, the word shifted right by `shift` finds h in
    ``floors`` (uint64, see `gaussian_tables`); ``guide`` (int64) says, by that number shifted by
    `bucket`, where the search starts. With ``digits`` b > 0 two more words: b bits for the low
    digits l of the noise 2^b h + l, and a coin that keeps it with probability exp(-x l (l + 2^(b+1)
    h)), which a float decides unless it comes closer than 2^-40. Returns the row it has come to,
    the position of that row's first word, and a status: MORE_DIGITS where the try that starts there
    needs more bits than its words have.
    """
    n = values.size
    taken = 1 if digits == 0 else 3
    mask = (np.uint64(1) << np.uint64(digits)) - np.uint64(1)
    at = 0
    while row < n:
        if at + taken > words.size:
            return row, at, MORE_BYTES
        word = words[at]
        u = word >> np.uint64(shift)
        h = guide[int(u >> np.uint64(bucket))]
        while floors[h] < u:
            h += 1
        if floors[h] == u:
            return row, at, MORE_DIGITS
        noise = h
        kept = True
        if digits > 0:
            low = np.int64(words[at + 1] & mask)
            noise = (h << digits) + low
            keep = math.exp(-x * float(low * (low + (h << (digits + 1)))))
            coin = float(words[at + 2]) * 2.0**-64
            if abs(coin - keep) <= 2.0**-40:
                return row, at, MORE_DIGITS
            # With a sign for each, 0 would come twice: one of the two is not kept.
            kept = coin < keep and (noise > 0 or (word & np.uint64(1)) == 0)
        at += taken
        if kept:
            value = min(max(values[row], -_LIMIT), _LIMIT)
            out[row] = value - noise if word & np.uint64(1) else value + noise
            row += 1
    return n, at, DONE
