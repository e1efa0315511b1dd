"""Tables dealt as bits become one-hot columns, classes and whole units."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.sharing import uploaded
from hedgerow.protocols.sharing.table import (
    Upload,
    horizontal_uploads,
)
from hedgerow.protocols.sharing.uploaded import (
    GRID_PLANES,
    deal_uploads,
    expand_table,
    held_table,
    n_planes,
    planes_of,
)
from hedgerow.secure.ring import Z16, Z32
from hedgerow.tables import Attribute, Domain, Encoded, Target
from tests.protocols.sharing.shared_tables import columns_at, one_hot, target_columns
from tests.secure.engines import ENGINES, reveal

SIZES, CLASSES, N = (3, 1, 9, 2), 3, 150
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(size)))
        for i, size in enumerate(SIZES)
    ),
    target=Target(name="y", classes=tuple(range(CLASSES))),
)


def table(n: int = N, seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    bins = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    return Encoded(
        DOMAIN,
        np.asfortranarray(bins.astype(DOMAIN.dtype)),
        rng.integers(0, CLASSES, n).astype(np.uint8),
        rng.random(n) < 0.8,
    )


@pytest.mark.parametrize("engine", ["clear", "three servers"])
@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("block", [1 << 24, 100])
@pytest.mark.parametrize("target", [True, False], ids=["classes", "no target"])
def test_dealt_bits_become_the_table(
    engine: str, branching, block: int, target: bool, monkeypatch
) -> None:
    monkeypatch.setattr(uploaded, "_BLOCK", block)
    first, second = (t.select(DOMAIN.names, target=target) for t in (table(), table(70, seed=1)))
    keeper, layout = ENGINES[engine](), Layout(first.domain, branching)
    for uploads, parts in (
        (horizontal_uploads(layout, [N], 0), {0: first}),
        (horizontal_uploads(layout, [N, 70], 0), {0: first, 1: second}),
    ):
        held = deal_uploads(layout, uploads, parts)
        for part, one in zip(parts.values(), held, strict=True):
            assert planes_of(part).shape == one.shape == (n_planes(part.domain), part.n_slots)
        found = held_table(keeper, layout, Z16, held)
        whole = [first] if len(found.onehot) == N else [first, second]
        onehot = np.concatenate([one_hot(layout, part) for part in whole])
        columns = np.concatenate([target_columns(part, CLASSES) for part in whole])
        np.testing.assert_array_equal(reveal(found.onehot), onehot)
        np.testing.assert_array_equal(reveal(found.columns), columns)
        # One column per class: a class without one would vanish.
        assert found.columns.shape[1] == (CLASSES if target else 1)
    records = np.concatenate([first.present, second.present])
    assert np.array_equal(reveal(found.columns).sum(axis=1), records)


@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_any_bits_are_at_most_one_row(branching) -> None:
    engine, layout = ENGINES["three servers"](), Layout(DOMAIN, branching)
    planes = n_planes(DOMAIN)
    bits = np.random.default_rng(0).integers(0, 2, (planes, 500)).astype(bool)
    shared = {0: engine.input_bits(bits, 0, bits.shape)}
    uploads = horizontal_uploads(layout, [500], 0)
    found = expand_table(engine, layout, Z32, uploads, shared)
    classes = reveal(found.columns)
    assert set(np.unique(classes)) == {0, 1}
    np.testing.assert_array_equal(classes.sum(axis=1), bits[0])
    for feature in range(len(SIZES)):
        block = reveal(found.onehot)[:, columns_at(layout, [feature])]
        assert set(np.unique(block)) <= {0, 1}
        np.testing.assert_array_equal(block.sum(axis=1), bits[0])


NUMERIC = DOMAIN.model_copy(update={"target": Target(name="y", bounds=(-3.0, 5.0))})


def numbers(n: int = N, seed: int = 0) -> Encoded:
    """Return a table with both bounds, values beside the grid, and rubbish in empty slots."""
    of = table(n, seed)
    y = np.random.default_rng(seed).uniform(-3, 5, n)
    y[:2] = NUMERIC.target.bounds
    present = of.present.copy()
    present[:2] = True
    return Encoded(NUMERIC, of.bins, np.where(present, y, np.nan), present)


@pytest.mark.parametrize("engine", ["clear", "three servers"])
@pytest.mark.parametrize("bits", [4, 10, 19, 20])
@pytest.mark.parametrize("block", [1 << 24, 100])
def test_dealt_bits_become_whole_units(engine: str, bits: int, block: int, monkeypatch) -> None:
    monkeypatch.setattr(uploaded, "_BLOCK", block)
    keeper, layout, units = ENGINES[engine](), Layout(NUMERIC, "binary"), Units(-3.0, 5.0, bits)
    for uploads, parts in (
        (horizontal_uploads(layout, [N], 0), {0: numbers()}),
        (horizontal_uploads(layout, [N, 70], 0), {0: numbers(), 1: numbers(70, seed=1)}),
    ):
        held = deal_uploads(layout, uploads, parts)
        for part, one in zip(parts.values(), held, strict=True):
            assert planes_of(part).shape == one.shape == (n_planes(part.domain), part.n_slots)
        found = held_table(keeper, layout, Z32, held, units)
        whole = [numbers()] if len(found.onehot) == N else [numbers(), numbers(70, seed=1)]
        onehot = np.concatenate([one_hot(layout, part) for part in whole])
        columns = np.concatenate([target_columns(units.count(part), 2) for part in whole])
        np.testing.assert_array_equal(reveal(found.onehot), onehot)
        np.testing.assert_array_equal(Z32.signed(reveal(found.columns)), columns)
        # Both bounds are among them.
        signed = Z32.signed(reveal(found.columns)[:2, 1])
        assert signed.tolist() == [-units.most, units.most]


@pytest.mark.parametrize("bits", [4, 13, 20])
def test_any_bits_are_a_target_within_the_bounds(bits: int) -> None:
    """Whatever a hostile owner shares, a record moves no sum by more than the ledger assumes."""
    engine, layout, units = (
        ENGINES["three servers"](),
        Layout(NUMERIC, "binary"),
        Units(-3, 5, bits),
    )
    shared = np.random.default_rng(0).integers(0, 2, (n_planes(NUMERIC), 500)) != 0
    # All bits set: without a bound it would be almost twice the upper one.
    shared[:, 0], shared[0, 1], shared[1:, 1] = True, False, True
    uploads = horizontal_uploads(layout, [500], 0)
    planes = {0: engine.input_bits(shared, 0, shared.shape)}
    found = expand_table(engine, layout, Z32, uploads, planes, units)
    present, target = reveal(found.columns)[:, 0], Z32.signed(reveal(found.columns)[:, 1])
    np.testing.assert_array_equal(present, shared[0])
    assert np.abs(target).max() <= units.most
    assert target[:2].tolist() == [units.most, 0]
    assert np.all(target[~shared[0]] == 0)
    top = shared[0] & shared[-GRID_PLANES]
    assert top.sum() > 100
    assert np.all(target[top] == units.most)


def test_planes_that_do_not_fit() -> None:
    engine, layout = ENGINES["clear"](), Layout(DOMAIN, "binary")
    bits = np.zeros((3, N), dtype=bool)
    with pytest.raises(HedgerowError) as caught:
        expand_table(
            engine,
            layout,
            Z16,
            [Upload(0, 0, N, (0, 1, 2, 3), True)],
            {0: engine.input_bits(bits, 0, bits.shape)},
        )
    assert caught.value.code is Code.WRONG_SHAPE
