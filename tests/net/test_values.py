"""Values between a launcher and its processes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.net.values import read_value, write_value

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(min_size=1), inner),
    max_leaves=8,
)


@given(value=values.filter(lambda v: "__" not in repr(v)))
@settings(max_examples=30)
def test_plain_values_come_back(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "value.json"
    write_value(path, value)
    assert read_value(path) == value


def test_arrays_come_back(tmp_path: Path) -> None:
    value = {"a": [np.arange(6, dtype=np.uint16).reshape(2, 3)], "b": np.float64(2.5), "c": (1, 2)}
    write_value(tmp_path / "v.json", value)
    again = read_value(tmp_path / "v.json")
    np.testing.assert_array_equal(again["a"][0], value["a"][0])
    assert again["a"][0].dtype == np.uint16
    assert again["b"] == 2.5
    assert again["c"] == [1, 2]


def test_no_objects(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pickle"):
        write_value(tmp_path / "v.json", np.array([{}], dtype=object))
    with pytest.raises(TypeError):
        write_value(tmp_path / "w.json", {1j})
