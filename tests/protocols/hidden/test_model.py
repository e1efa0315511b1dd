from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError
from hedgerow.protocols.growers.layout import Layout, as_one_hot
from hedgerow.protocols.hidden.model import SecretForest, class_index, forest
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.protocols.hidden.hidden_runs import ENGINES, domain, look, make_engine

TREES, DEPTH = 2, 3


def choices(layout: Layout, seed: int = 0) -> list[NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    return [
        as_one_hot(
            rng.integers(0, len(layout.candidates), (TREES, layout.n_nodes(level))),
            len(layout.candidates),
        )
        for level in range(DEPTH)
    ]


def made(engine: Engine, layout: Layout, ring: Ring = Z16, own: Ring = Z16) -> SecretForest:
    hidden = [engine.input(choice, 0, choice.shape, own) for choice in choices(layout)]
    values = np.random.default_rng(1).integers(-9, 9, (TREES, layout.n_nodes(DEPTH), 2))
    return forest(layout, hidden, engine.input(values, 0, values.shape, ring))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize(("own", "ring"), [(Z16, Z16), (Z16, Z64), (Z32, Z16)])
def test_levels_lie_one_after_the_other_over_the_ring_of_the_values(
    name: str, branching: Any, own: Ring, ring: Ring
) -> None:
    layout = Layout(domain(), branching)
    model = made(make_engine(name), layout, ring, own)
    assert (model.n_trees, model.depth, model.ring) == (TREES, DEPTH, ring)
    assert model.splits.ring == model.values.ring == ring
    splits = look(model.splits)
    for level, choice in enumerate(choices(layout)):
        np.testing.assert_array_equal(splits[:, model.level(level)], choice)
    arity = layout.arity
    assert [model.level(level) for level in range(3)] == [
        slice(0, 1),
        slice(1, 1 + arity),
        slice(1 + arity, 1 + arity + arity**2),
    ]
    assert splits.shape[1] == 1 + arity + arity**2


@pytest.mark.parametrize("name", ENGINES)
def test_shares_make_the_same_forest_again(name: str) -> None:
    layout = Layout(domain(), "binary")
    engine = make_engine(name)
    model = made(engine, layout, Z32)
    again = SecretForest.from_shares(engine, layout, DEPTH, Z32, model.shares())
    np.testing.assert_array_equal(look(again.splits), look(model.splits))
    np.testing.assert_array_equal(look(again.values), look(model.values))
    if name == "three servers":
        # No share is the secret itself.
        assert all((model.shares()["splits"][i, 0] > 1).any() for i in range(3))


@pytest.mark.parametrize("name", ENGINES)
def test_shares_that_do_not_fit_are_refused(name: str) -> None:
    layout, engine = Layout(domain(), "binary"), make_engine(name)
    good = made(engine, layout).shares()
    splits, values = good["splits"], good["values"]
    bad = [
        (DEPTH, Z32, good),
        (DEPTH + 1, Z16, good),
        (DEPTH, Z16, {**good, "values": values.astype(np.uint32)}),
        (DEPTH, Z16, {**good, "values": values[..., :-1, :]}),
        (DEPTH, Z16, {**good, "values": values[..., 0]}),
        (DEPTH, Z16, {**good, "values": values[..., :1, :, :]}),
        (DEPTH, Z16, {**good, "splits": splits[..., :-1]}),
        (DEPTH, Z16, {**good, "splits": splits[..., 0]}),
        (DEPTH, Z16, {"splits": np.uint16(1), "values": np.uint16(1)}),
    ]
    for depth, ring, shares in bad:
        with pytest.raises(HedgerowError, match="H409"):
            SecretForest.from_shares(engine, layout, depth, ring, shares)


@pytest.mark.parametrize("name", ENGINES)
def test_index_of_a_class(name: str) -> None:
    engine = make_engine(name)
    hot = as_one_hot(np.array([[3, 0, 2], [1, 1, 3]]), 4)
    labels = engine.input(hot, 0, hot.shape, Z32)
    for ring in (Z16, Z32):
        index = class_index(labels, ring)
        assert index.ring == ring
        assert look(index).tolist() == [[[3], [0], [2]], [[1], [1], [3]]]
