import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.secure.axes import axes_used, data_axis, lift, take


@given(st.data())
def test_shares_are_indexed_as_values_are(data: st.DataObject) -> None:
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=3, max_side=4))
    value = np.arange(np.prod(shape)).reshape(shape)
    shares = np.stack([[value, value + 100], [value + 200, value + 300]])
    index = data.draw(
        st.one_of(
            npst.basic_indices(shape, allow_newaxis=True),
            npst.integer_array_indices(shape),
            npst.integer_array_indices(shape[:1]),
            npst.arrays(np.bool_, shape),
            st.just(True),
            st.just([0, 0]),
        )
    )
    got = take(shares, 2, index)
    for i, j in np.ndindex(2, 2):
        assert np.array_equal(got[i, j], shares[i, j][index])


@pytest.mark.parametrize("first", [np.array([0, 1, 1]), 1, slice(None)])
def test_arrays_apart_do_not_reach_the_shares(first: object) -> None:
    value = np.arange(24).reshape(2, 3, 4)
    index = (first, slice(1, None), np.array([3, 0, 2]))
    got = take(np.stack([value, value + 100]), 1, index)
    assert np.array_equal(got, np.stack([value[index], value[index] + 100]))


def test_new_axes_stand_behind_the_shares() -> None:
    data = np.zeros((3, 2, 4, 5))
    assert lift(data, 2, 4).shape == (3, 2, 1, 1, 4, 5)
    assert lift(data, 2, 1).shape == data.shape
    assert lift(np.zeros(()), 0, 0).shape == ()


def test_axes_count_within_the_value() -> None:
    assert [data_axis(a, 2, 2) for a in (0, 1, -1, -2)] == [2, 3, 3, 2]
    for axis in (2, -3):
        with pytest.raises(np.exceptions.AxisError):
            data_axis(axis, 2, 2)


@pytest.mark.parametrize(
    ("index", "axes"),
    [
        (0, 1),
        ((0, slice(2)), 2),
        ((None, 1), 1),
        (np.zeros((2, 3), dtype=bool), 2),
        (([0, 1], None), 1),
        (np.int64(3), 1),
        (..., np.inf),
    ],
)
def test_axes_that_an_index_uses_up(index: object, axes: float) -> None:
    assert axes_used(index) == axes
