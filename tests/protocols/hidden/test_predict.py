from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.protocols.growers.layout import Layout, as_one_hot
from hedgerow.protocols.hidden.model import SecretForest, forest
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.sharing.queries import deal_queries, held_queries
from hedgerow.secure.ring import Z16, Z32
from hedgerow.secure.secret import WORD, Engine
from tests.protocols.hidden.hidden_runs import (
    ENGINES,
    child_of,
    domain,
    every_row,
    look,
    make_engine,
    make_rows,
)
from tests.protocols.sharing.shared_tables import one_hot, shared_queries

BRANCHINGS = ("binary", "wary")


def random_forest(
    engine: Engine, layout: Layout, trees: int, depth: int, width: int = 2
) -> tuple[SecretForest, list[NDArray[np.int64]], NDArray[np.int64]]:
    rng = np.random.default_rng(depth)
    c = len(layout.candidates)
    chosen = [rng.integers(0, c, (trees, layout.n_nodes(level))) for level in range(depth)]
    values = rng.integers(-999, 999, (trees, layout.n_nodes(depth), width))
    hidden = [engine.input(as_one_hot(x, c), 0, (*x.shape, c), Z32) for x in chosen]
    return forest(layout, hidden, engine.input(values, 0, values.shape, Z32)), chosen, values


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize(("trees", "depth"), [(1, 1), (1, 3), (3, 2)])
def test_every_possible_query_gets_the_value_of_its_leaf(
    name: str, branching: Any, trees: int, depth: int
) -> None:
    layout, engine = Layout(domain(), branching), make_engine(name)
    model, chosen, values = random_forest(engine, layout, trees, depth)
    queries = every_row(domain())
    asked = shared_queries(engine, layout, model.ring, queries)
    np.testing.assert_array_equal(look(asked), one_hot(layout, queries))
    found = look(predict(model, asked))
    assert found.shape == (queries.n_slots, trees, 2)
    for tree in range(trees):
        node = np.zeros(queries.n_slots, dtype=np.int64)
        for level in chosen:
            node = node * layout.arity + child_of(layout, queries.bins, level[tree][node])
        np.testing.assert_array_equal(found[:, tree], values[tree][node])


@pytest.mark.parametrize("branching", BRANCHINGS)
def test_a_product_and_one_round_per_level(branching: Any) -> None:
    engine = make_engine("three servers", network=Simulator(3))
    layout, meter = Layout(domain(), branching), engine.network.meter
    queries = every_row(domain())
    for trees, depth, n in ((1, 2, 5), (1, 3, 5), (2, 3, 40), (1, 4, 40)):
        model, _, _ = random_forest(engine, layout, trees, depth)
        some = make_rows(domain(), queries.bins[:n])
        asked = shared_queries(engine, layout, model.ring, some)
        before = meter.snapshot()
        predict(model, asked)
        assert (meter.snapshot() - before).rounds == depth + 1


@pytest.mark.parametrize("name", ENGINES)
def test_queries_of_another_domain_or_number_are_refused(name: str) -> None:
    layout, engine = Layout(domain(), "wary"), make_engine(name)
    queries = every_row(domain())
    swapped = queries.select((0, 1, 2, 4, 3))
    with pytest.raises(HedgerowError, match="H117"):
        shared_queries(engine, layout, Z16, swapped)
    with pytest.raises(HedgerowError, match="H108"):
        held_queries(engine, layout, Z16, deal_queries(layout, queries), queries.n_slots + WORD)
