"""Secret queries that are well formed whatever an analyst sends.

An analyst deals the bits of bin numbers, and the servers turn them into one-hot rows. Any bits are
some row, and servers compare what they were given in common, so no message of an analyst can be a
row with two values in one attribute or with a value counted a thousand times; what the ledger says
about answers holds for those as well who do not keep to the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.protocols.growers.layout import Layout
from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated.outside import Dealt, bits_of_parts, deal
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits, pack, stack
from hedgerow.tables import Encoded


def deal_queries(layout: Layout, queries: Encoded) -> dict[int, Dealt]:
    """Deal the bits of queries (`query_planes`), outside of the network: a part for each server."""
    return dict(enumerate(deal(pack(query_planes(layout, queries)), xor=True)))


def query_planes(layout: Layout, queries: Encoded) -> NDArray[np.bool_]:
    """Return the bits of the bins of queries, bool `planes_shape`, highest bit first.

    H117 for queries of another domain: their bins would mean something else.
    """
    if queries.domain.attributes != layout.domain.attributes:
        raise Code.BAD_DOMAIN.error(
            expected=f"attributes {', '.join(layout.domain.names)} as all parties declared them",
            found=f"attributes {', '.join(queries.domain.names)} in the queries",
        )
    shifts = np.arange(_planes(layout))[::-1, None, None]
    bits: NDArray[np.bool_] = (queries.bins.T[None].astype(np.int64) >> shifts) & 1 != 0
    return bits


def planes_shape(layout: Layout, n: int) -> tuple[int, int, int]:
    """Return the shape of the bits of n queries, (b, attributes, n), for up to 2^b bins each."""
    return _planes(layout), layout.n_features, n


def expand_queries(layout: Layout, ring: Ring, shared: SecretBits) -> Secret:
    """Turn bits of bins, whoever shared them, into rows (n, B), one-hot for every attribute.

    1. Bit by bit, highest first, all attributes and queries at once: with a bit c every entry h of
       the one-hot vectors so far becomes (h - h c, h c).
    2. A number beyond the bins of its attribute counts as the last of them.
    3. The columns of bins that exist become numbers of the ring.

    Reveals: nothing but the number of queries. Cost: `cost_queries`; b + 1 rounds.
    H108 for bits of another shape than `planes_shape`.
    """
    wanted = planes_shape(layout, shared.n)
    if shared.shape != wanted:
        raise Code.WRONG_SHAPE.error(
            expected=f"bits of queries of shape {wanted}", found=f"{shared.shape}"
        )
    hot = one_hot_bits(shared, layout.candidates.n_bins)[_entries(layout)]
    return shared.engine.b2a(hot, ring).transpose()


def held_queries(
    engine: Engine, layout: Layout, ring: Ring, parts: Mapping[int, Dealt], n: int
) -> Secret:
    """Make rows of what servers hold of n dealt queries, by server; see `expand_queries`."""
    bits = bits_of_parts(engine, parts, planes_shape(layout, n))
    return expand_queries(layout, ring, bits)


def cost_queries(engine: Engine, layout: Layout, ring: Ring, n: int) -> Cost:
    """State the cost of `expand_queries`; that queries are dealt costs the servers nothing."""
    planes, m = _planes(layout), layout.n_features
    total = engine.cost("b2a", shape=(layout.n_columns, n), ring=ring)
    for level in range(1, planes):
        total += engine.cost("and_", shape=(m, 1 << level, n))
    return total


def _planes(layout: Layout) -> int:
    return max(1, (layout.width - 1).bit_length())


def one_hot_bits(planes: SecretBits, sizes: ArrayLike) -> SecretBits:
    """Turn numbers into one-hot bits; one beyond the values there are counts as the last.

    Of m numbers in n rows, planes (b, m, n) from the highest bit on, one-hot (m * 2^b, n): exactly
    one is set for every number, among its first `sizes`, which are 2^b at most.
    """
    bits, m, _ = planes.shape
    hot = _merged(stack([~planes[0], planes[0]], axis=1), (m, 2))
    for plane in range(1, bits):
        right = hot & planes[plane][:, None]
        hot = _merged(stack([hot ^ right, right], axis=2), (m, 2 << plane))
    data = hot.data.copy()
    for number, size in enumerate(np.asarray(sizes)):
        values = data[..., number, :, :]
        # One entry of all is set, so that the sum of those beyond is one bit: local.
        values[..., size - 1, :] = np.bitwise_xor.reduce(values[..., size - 1 :, :], axis=-2)
        values[..., size:, :] = 0
    return _merged(hot.like(data), (m << bits,))


def _merged(x: SecretBits, lead: tuple[int, ...]) -> SecretBits:
    shape = (*x.data.shape[: x.engine.share_axes], *lead, x.data.shape[-1])
    return x.like(x.data.reshape(shape))


def _entries(layout: Layout) -> NDArray[np.int64]:
    """Return, for every column of the table, its place among all one-hot entries."""
    size = 1 << _planes(layout)
    owner = np.repeat(np.arange(layout.n_features), layout.widths(range(layout.n_features)))
    bin_ = np.arange(layout.n_columns) - layout.first_column[owner]
    places: NDArray[np.int64] = owner * size + bin_
    return places
