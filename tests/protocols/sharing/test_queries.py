"""Queries: one-hot whatever bits come, and at the declared cost."""

from itertools import product

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.sharing.queries import (
    cost_queries,
    deal_queries,
    expand_queries,
    held_queries,
    planes_shape,
    query_planes,
)
from hedgerow.secure.replicated.outside import deal
from hedgerow.secure.ring import Z16, Z32
from hedgerow.secure.secret import Engine, pack
from hedgerow.tables import Attribute, Domain, Target, encode
from tests.protocols.sharing.shared_tables import columns_at, one_hot
from tests.secure.engines import ENGINES, metered, reveal

SIZES = (3, 1, 8, 2)
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(size)))
        for i, size in enumerate(SIZES)
    ),
    target=Target(name="y", classes=(0, 1)),
)
ROWS = np.array(list(product(*(range(size) for size in SIZES))))
BRANCHINGS = ("binary", "wary")


@pytest.fixture(params=["clear", "three servers"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]()


@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("ring", [Z16, Z32], ids=lambda ring: str(ring.bits))
def test_rows_arrive_as_one_hot(engine: Engine, branching, ring) -> None:
    layout, queries = Layout(DOMAIN, branching), encode(ROWS, DOMAIN)
    shared = held_queries(engine, layout, ring, deal_queries(layout, queries), len(ROWS))
    assert shared.ring == ring
    np.testing.assert_array_equal(reveal(shared), one_hot(layout, queries))


@pytest.mark.parametrize("branching", BRANCHINGS)
def test_no_bits_make_more_than_one_value(engine: Engine, branching) -> None:
    """An analyst that does not keep to the protocol can deal any bits, and nothing else."""
    layout, n = Layout(DOMAIN, branching), 400
    bits = np.random.default_rng(0).integers(0, 2, (3, len(SIZES), n)).astype(bool)
    parts = dict(enumerate(deal(pack(bits), xor=True)))
    cells = reveal(held_queries(engine, layout, Z16, parts, n))
    number = (bits * np.array([4, 2, 1])[:, None, None]).sum(axis=0)
    for feature, size in enumerate(layout.widths(range(len(SIZES)))):
        block = cells[:, columns_at(layout, [feature])]
        wanted = np.minimum(number[feature], SIZES[feature] - 1)
        np.testing.assert_array_equal(block, wanted[:, None] == np.arange(size))


@pytest.mark.parametrize("branching", BRANCHINGS)
def test_cost(branching) -> None:
    engine, layout = ENGINES["three servers"](), Layout(DOMAIN, branching)
    queries = encode(ROWS, DOMAIN)
    parts, n = deal_queries(layout, queries), len(ROWS)
    spent = metered(engine, lambda: held_queries(engine, layout, Z32, parts, n))
    assert spent == cost_queries(engine, layout, Z32, n)
    assert spent.rounds == planes_shape(layout, n)[0] + 1


@pytest.mark.parametrize("branching", BRANCHINGS)
def test_bits_that_were_shared_before_become_the_same_rows(engine: Engine, branching) -> None:
    layout, queries = Layout(DOMAIN, branching), encode(ROWS, DOMAIN)
    bits = query_planes(layout, queries)
    assert bits.shape == planes_shape(layout, len(ROWS)) == (3, len(SIZES), len(ROWS))
    shared = engine.input_bits(bits, 0, bits.shape)
    np.testing.assert_array_equal(
        reveal(expand_queries(layout, Z16, shared)), one_hot(layout, queries)
    )
    with pytest.raises(InputError, match="H108"):
        expand_queries(layout, Z16, shared[1:])
