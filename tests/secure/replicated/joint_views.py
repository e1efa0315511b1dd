"""All that one server sees in runs of several primitives, as columns, and tests on pairs of them.

A run is a *lane*: arrays have shape (3, lanes), so that the three rows are the thirds over which
roles rotate, and every lane has masks of its own. Several engines with fresh keys give the lanes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import bits_of_parts, deal, secret_of_parts
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Secret, SecretBits, pack, unpack
from tests.secure.replicated.wires import Recorder, everything

LANES = 128
SERVERS = 3
Columns = NDArray[np.uint64]


class Tap:
    """Keeps what is drawn from a key."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.drawn = stream, []

    def fill(self, address: str, shape: tuple[int, ...], dtype: Any) -> Any:
        self.drawn.append(self.stream.fill(address, shape, dtype))
        return self.drawn[-1]

    def forget(self) -> None:
        self.stream.forget()


def program(
    engine: ReplicatedEngine, server: int, number: int, bit: bool
) -> list[Secret | SecretBits]:
    """Call the primitives on inputs that a server does not give: multiples of a number, and a bit.

    Rows differ, so that a mask which two of them share does not go unnoticed.
    """
    before, after = (server - 1) % SERVERS, (server + 1) % SERVERS
    shape = (SERVERS, LANES)
    rows = np.arange(1, SERVERS + 1, dtype=np.uint64)[:, None]
    numbers = np.broadcast_to(rows * np.uint64(number), shape)
    bits = np.broadcast_to((rows != 2) & bit, shape)
    x = engine.input(numbers, before, shape, Z64)
    outside = dict(enumerate(deal(np.ascontiguousarray(numbers))))
    y = secret_of_parts(engine, outside, shape, Z64)
    z = engine.input(numbers >> np.uint64(36), after, shape, Z32)
    b = engine.input_bits(bits, after, shape)
    c = bits_of_parts(engine, dict(enumerate(deal(pack(bits), xor=True))), shape)
    permutation = engine.permutation(SERVERS)
    mixed = engine.shuffle(x, permutation)
    return [
        x,
        y,
        z,
        b,
        c,
        x * y,
        x * x,
        b & c,
        engine.b2a(b ^ c, Z64),
        engine.extend(z, Z64),
        engine.truncate(x, 7),
        mixed,
        engine.unshuffle(mixed * 3, permutation),
        engine.shuffle(b ^ c, permutation),
        *engine.addends(x, 4),
    ]


def view(server: int, number: int, bit: bool, seeds: int) -> Columns:
    """Return what a server sees, shape (words, seeds * lanes): what it holds, receives and draws.

    The first twelve are its shares of the factors x and y.
    """
    found = []
    for seed in range(seeds):
        network = Recorder()
        key = f"joint view {number} {seed}".encode()
        engine: Any = ReplicatedEngine(network, everything(), insecure_seed=key)
        taps = engine.core._streams = {j: Tap(s) for j, s in engine.core._streams.items()}
        held = [secret.data[server] for secret in program(engine, server, number, bit)]
        drawn = taps[server].drawn + taps[(server + 1) % SERVERS].drawn
        arrays = held + network.views[server] + drawn
        found.append(np.concatenate([columns(array) for array in arrays]))
    return np.concatenate(found, axis=1)


def columns(array: NDArray[Any]) -> Columns:
    """Return words as (words, lanes), packed bits one by one; nothing of what has no lanes."""
    if array.dtype == np.uint8 or (64 * array.size) % LANES:
        # The words that permutations are made of.
        return np.empty((0, LANES), np.uint64)
    if array.size % LANES == 0:
        return array.reshape(-1, LANES).astype(np.uint64)
    return unpack(array.reshape(-1, LANES // 64), LANES).astype(np.uint64)


def smallest_p_value(one: Columns, other: Columns) -> float:
    """Compare sums, differences and XORs of all pairs of columns under two inputs.

    Of each, the lowest and the highest four bits have one law if views do not depend on inputs.
    A column that stands there twice is looked at once. Most columns are single bits: how these go
    with the lowest four bits of all columns is counted by one product of matrices.
    """
    one, other = np.split(np.unique(np.concatenate([one, other], axis=1), axis=0), 2, axis=1)
    are_bits = np.maximum(one.max(axis=1), other.max(axis=1)) <= 1
    sides = one, other
    numbers = [side[~are_bits] for side in sides]
    least = [_two_samples(*(_histograms(side >> np.uint64(60)) for side in sides))]
    operations: list[Callable[..., Any]] = [np.add, np.subtract, np.bitwise_xor]
    for i in range(len(numbers[0])):
        for operation in operations:
            pairs = [operation(side[i], side[i:]) for side in numbers]
            for shift in (0, 60):
                counts = [_histograms(pair >> np.uint64(shift)) for pair in pairs]
                least.append(_two_samples(*counts))
    clear, raised = zip(*(_beside_bits(side, side[are_bits]) for side in sides), strict=True)
    for operation in operations:
        # A number of four bits and a bit that is set: where the result of an operation is counted.
        source = np.argsort(operation(np.arange(16), 1) % 16)
        least.append(_two_samples(*(c + r[source] for c, r in zip(clear, raised, strict=True))))
    return min(least)


def _histograms(words: Columns) -> NDArray[Any]:
    """Count the lowest four bits of every row: (16, rows)."""
    rows = len(words)
    flat = ((words & np.uint64(15)) + 16 * np.arange(rows, dtype=np.uint64)[:, None]).astype(
        np.int64
    )
    return np.bincount(flat.reshape(-1), minlength=16 * rows).reshape(rows, 16).T


def _beside_bits(words: Columns, bits: Columns) -> tuple[NDArray[Any], NDArray[Any]]:
    """Count the lowest four bits of rows where bits are clear and set: twice (16, rows, bits)."""
    hot = ((words & np.uint64(15)) == np.arange(16)[:, None, None]).astype(np.float32)
    raised = hot @ bits.T.astype(np.float32)
    return hot.sum(axis=2)[:, :, None] - raised, raised


def _two_samples(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Smallest p-value over columns of cells of two samples of one size having one law."""
    total = a + b
    statistic = ((a - b) ** 2 / np.maximum(total, 1)).sum(axis=0)
    freedom = (total > 0).sum(axis=0) - 1
    found = [stats.chi2.sf(statistic[freedom == f].max(), f) for f in np.unique(freedom) if f]
    return float(min(found, default=1.0))


def same_relations(one: Columns, other: Columns) -> bool:
    """Return whether the lowest bits satisfy the same equations under two inputs.

    An equation sets the XOR of any number of lowest bits to a constant: so it finds every sum and
    difference of words that does not vary, of whatever length. Products of the server's shares of
    the factors stand beside its words, as a message of `mul` without its mask is a sum of such.
    """
    columns = [_with_products(side & np.uint64(1)) for side in (one, other)]
    both = np.concatenate(columns, axis=1)
    ranks = {_rank(side) for side in (*columns, both)}
    return len(ranks) == 1


def _with_products(bits: Columns) -> Columns:
    """Add a constant, and the products of shares of x with shares of x and y."""
    shares = bits[: 4 * SERVERS]
    left, right = np.triu_indices(len(shares))
    return np.concatenate(
        [np.ones((1, bits.shape[1]), np.uint64), bits, shares[left] & shares[right]]
    )


def _rank(bits: Columns) -> int:
    """Rank over GF(2); rows become Python's integers, whose XOR takes all samples at once."""
    rows = [int.from_bytes(np.packbits(row.astype(np.uint8)).tobytes()) for row in bits]
    rank, pivots = 0, {}
    for row in rows:
        while row and (top := row.bit_length()) in pivots:
            row ^= pivots[top]
        if row:
            pivots[top] = row
            rank += 1
    return rank
