"""Tables shared as bits become the tables that are shared as numbers."""

import numpy as np
import pytest
from engines import ENGINES, reveal

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols import uploaded
from hedgerow.protocols.layout import Layout
from hedgerow.protocols.table import Upload, horizontal_uploads, share_table, vertical_uploads
from hedgerow.protocols.uploaded import expand_table, n_planes, planes_of
from hedgerow.secure.ring import Z16, Z32
from hedgerow.tables import Attribute, Domain, Encoded, Target

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
def test_the_same_table_either_way(engine: str, branching, block: int, monkeypatch) -> None:
    monkeypatch.setattr(uploaded, "_BLOCK", block)
    keeper, layout = ENGINES[engine](), Layout(DOMAIN, branching)
    for uploads, parts in (
        (horizontal_uploads(layout, [N], 0), {0: table()}),
        (
            vertical_uploads(layout, N, [(0, 2), (1, 3)], 1, 0),
            {0: table().select([0, 2], target=False), 1: table().select([1, 3])},
        ),
        (
            horizontal_uploads(layout, [N, 70], 0),
            {0: table(), 1: table(70, seed=1)},
        ),
    ):
        wanted = share_table(keeper, layout, Z16, uploads, parts, CLASSES)
        planes = {}
        for party, part in parts.items():
            bits = planes_of(part)
            assert len(bits) == n_planes(part.domain, target=part.target is not None)
            planes[party] = keeper.input_bits(bits, party, bits.shape)
        found = expand_table(keeper, layout, Z16, uploads, planes, CLASSES)
        np.testing.assert_array_equal(reveal(found.onehot), reveal(wanted.onehot))
        np.testing.assert_array_equal(reveal(found.columns), reveal(wanted.columns))


@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_any_bits_are_at_most_one_row(branching) -> None:
    engine, layout = ENGINES["three servers"](), Layout(DOMAIN, branching)
    planes = n_planes(DOMAIN, target=True)
    bits = np.random.default_rng(0).integers(0, 2, (planes, 500)).astype(bool)
    shared = {0: engine.input_bits(bits, 0, bits.shape)}
    uploads = horizontal_uploads(layout, [500], 0)
    found = expand_table(engine, layout, Z32, uploads, shared, CLASSES)
    classes = reveal(found.columns)
    assert set(np.unique(classes)) == {0, 1}
    np.testing.assert_array_equal(classes.sum(axis=1), bits[0])
    for feature in range(len(SIZES)):
        block = reveal(found.onehot)[:, layout.columns_of([feature])]
        assert set(np.unique(block)) <= {0, 1}
        np.testing.assert_array_equal(block.sum(axis=1), bits[0])


def test_planes_that_do_not_fit_and_targets_without_classes() -> None:
    engine, layout = ENGINES["clear"](), Layout(DOMAIN, "binary")
    bits = np.zeros((3, N), dtype=bool)
    with pytest.raises(HedgerowError) as caught:
        expand_table(
            engine,
            layout,
            Z16,
            [Upload(0, 0, N, (0, 1, 2, 3), True)],
            {0: engine.input_bits(bits, 0, bits.shape)},
            CLASSES,
        )
    assert caught.value.code is Code.WRONG_SHAPE
    numeric = DOMAIN.model_copy(update={"target": Target(name="y", bounds=(0.0, 1.0))})
    with pytest.raises(HedgerowError) as caught:
        n_planes(numeric, target=True)
    assert caught.value.code is Code.BAD_TARGET
