import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.tables import Attribute, Domain, encode, offsets, one_hot
from tests.tables.table_strategies import encodeds, relaxed

DOMAIN = Domain(
    attributes=(
        Attribute(name="n", kind="numeric", bounds=(0, 10), bins=2, missing="own bin"),
        Attribute(name="c", kind="categorical", categories=("x", "y")),
    )
)


def test_known_blocks():
    encoded = encode({"n": [1, None, 9], "c": ["y", "x", "x"]}, DOMAIN)
    assert offsets(DOMAIN).tolist() == [0, 3, 5]
    assert one_hot(encoded).tolist() == [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0], [0, 1, 0, 1, 0]]
    assert one_hot(encoded, ["c"]).tolist() == [[0, 1], [1, 0], [1, 0]]
    assert one_hot(encoded, [1, "n"]).shape == (3, 5)
    assert offsets(DOMAIN, ["c", "n"]).tolist() == [0, 2, 5]
    assert one_hot(encoded, []).shape == (3, 0)


@relaxed
@given(encodeds(), st.data())
def test_every_block_sums_to_the_presence_bit(encoded, data):
    columns = data.draw(st.none() | st.permutations(range(encoded.n_features)))
    blocks = one_hot(encoded, columns)
    starts = offsets(encoded.domain, columns)
    assert blocks.dtype == np.uint8
    assert blocks.shape == (encoded.n_slots, encoded.domain.n_bins.sum())
    assert set(np.unique(blocks)) <= {0, 1}
    index = encoded.domain.indices(columns)
    for j, start, stop in zip(index, starts[:-1], starts[1:], strict=True):
        block = blocks[:, start:stop]
        np.testing.assert_array_equal(block.sum(axis=1), encoded.present)
        np.testing.assert_array_equal(
            block.argmax(axis=1), np.where(encoded.present, encoded.bins[:, j], 0)
        )


@relaxed
@given(encodeds())
def test_counts_are_matrix_products(encoded):
    blocks = one_hot(encoded).astype(np.int64)
    starts = offsets(encoded.domain)
    counts = blocks.sum(axis=0)
    for j, n_bins in enumerate(encoded.domain.n_bins):
        expected = np.bincount(encoded.bins[encoded.present, j], minlength=n_bins)
        np.testing.assert_array_equal(counts[starts[j] : starts[j + 1]], expected)


def test_unknown_column():
    with pytest.raises(HedgerowError, match="H107"):
        offsets(DOMAIN, ["nope"])
