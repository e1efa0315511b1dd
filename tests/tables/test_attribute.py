import math

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Attribute, Target
from hedgerow.tables.attribute import family
from tests.tables.table_strategies import attributes, relaxed


def numeric(**given_):
    return Attribute(**({"name": "a", "kind": "numeric", "bounds": (0, 10)} | given_))


def categorical(**given_):
    return Attribute(**({"name": "a", "kind": "categorical", "categories": ("x", "y")} | given_))


def test_numeric_defaults():
    attribute = numeric()
    assert attribute.bins == 32
    assert attribute.n_values == attribute.n_bins == 32
    assert attribute.outside == "clip"
    assert attribute == numeric(bins=32, outside="clip")
    assert hash(attribute) == hash(numeric(bins=32))


def test_equal_width_cuts():
    attribute = numeric(bins=4)
    assert attribute.cuts.tolist() == [2.5, 5.0, 7.5]
    assert attribute.labels() == ["<= 2.5", "(2.5, 5]", "(5, 7.5]", "> 7.5"]


def test_edges():
    attribute = numeric(edges=(0, 3.5, 7), missing="own bin")
    assert attribute.cuts.dtype == np.float64
    assert attribute.n_values == 4
    assert attribute.n_bins == 5
    assert attribute.labels() == ["<= 0", "(0, 3.5]", "(3.5, 7]", "> 7", "missing"]


def test_single_bin():
    attribute = numeric(edges=())
    assert attribute.n_bins == 1
    assert attribute.labels() == ["any value"]


def test_close_cuts_have_different_labels():
    edges = (1.0000001, 1.0000002, 1.0000003)
    labels = numeric(edges=edges).labels()
    assert len(set(labels)) == 4
    assert labels[0] == "<= 1.0000001"


def test_categorical():
    attribute = categorical(missing="own bin")
    assert attribute.n_values == 2
    assert attribute.outside == "error"
    assert attribute.labels() == ["x", "y", "missing"]
    assert attribute.cuts.size == 0
    open_ended = categorical(outside="clip", missing="own bin")
    assert open_ended.n_values == 3
    assert open_ended.n_bins == 4
    assert open_ended.labels() == ["x", "y", "other", "missing"]


def test_labels_of_categories_with_special_names():
    attribute = categorical(categories=("other", "missing"), outside="clip", missing="own bin")
    assert attribute.labels() == ["other", "missing", "(other)", "(missing)"]


def test_numpy_values_become_python_values():
    attribute = categorical(categories=np.array([3, 1, 2]))
    assert attribute.categories == (3, 1, 2)
    assert {type(value) for value in attribute.categories} == {int}
    assert categorical(categories=(np.str_("u"), "v")).categories == ("u", "v")
    assert numeric(bounds=(np.int64(0), np.float32(2)), bins=np.int16(2)).cuts.tolist() == [1.0]


def test_categories_keep_their_type():
    assert [family(c) for c in categorical(categories=(True, False)).categories] == ["bool"] * 2
    assert categorical(categories=(1, 2.5)).categories == (1, 2.5)
    assert categorical(categories=("1", "2")).categories == ("1", "2")


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "ordinal"},
        {"name": ""},
        {"name": 3},
        {"bounds": None},
        {"bounds": (1, 1)},
        {"bounds": (2, 1)},
        {"bounds": (0, math.inf)},
        {"bounds": (math.nan, 1)},
        {"bounds": ("0", "1")},
        {"bounds": (0,)},
        {"bins": 1},
        {"bins": 65_536},
        {"bins": 2.5},
        {"bins": True},
        {"bins": 4, "edges": (1.0,)},
        {"edges": (2.0, 1.0)},
        {"edges": (1.0, 1.0)},
        {"edges": (-1.0,)},
        {"edges": (10.0,)},
        {"edges": (math.nan,)},
        {"bounds": (1.0, math.nextafter(1.0, 2.0))},
        {"bounds": (-1.7e308, 1.7e308)},
        {"categories": ("x",)},
        {"missing": "drop"},
        {"outside": "ignore"},
        {"colour": "red"},
    ],
)
def test_bad_numeric(bad):
    with pytest.raises(HedgerowError, match="H113") as caught:
        numeric(**bad)
    assert caught.value.code is Code.BAD_ATTRIBUTE
    assert "pydantic" not in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"categories": None},
        {"categories": ()},
        {"categories": ("x", "x")},
        {"categories": (1, 1.0)},
        {"categories": (1, "1")},
        {"categories": (True, 1)},
        {"categories": (math.nan,)},
        {"categories": (b"x",)},
        {"categories": (None,)},
        {"categories": "xy"},
        {"bounds": (0, 1)},
        {"bins": 3},
        {"edges": (1.0,)},
    ],
)
def test_bad_categorical(bad):
    with pytest.raises(HedgerowError, match="H113"):
        categorical(**bad)


def test_message_names_the_attribute_and_the_missing_argument():
    with pytest.raises(HedgerowError, match=r"'age': bounds=\(lo, hi\) are required"):
        Attribute(name="age", kind="numeric")


def test_too_many_bins():
    assert numeric(bins=65_535, missing="own bin").n_bins == 65_536
    many = tuple(range(65_536))
    assert categorical(categories=many).n_bins == 65_536
    with pytest.raises(HedgerowError, match="H118"):
        categorical(categories=many, missing="own bin")


def test_frozen():
    with pytest.raises(ValueError, match="frozen"):
        numeric().bins = 3
    with pytest.raises(ValueError, match="read-only"):
        numeric().cuts[0] = 0


@relaxed
@given(attributes())
def test_one_label_per_bin(attribute):
    labels = attribute.labels()
    assert len(labels) == attribute.n_bins
    assert len(attribute.cuts) == (attribute.n_values - 1 if attribute.kind == "numeric" else 0)


def test_target():
    assert Target(classes=("a", "b")).n_classes == 2
    assert Target(bounds=(0, 1)).n_classes is None
    assert Target(classes=("a",)).name == "target"


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"classes": ("a",), "bounds": (0, 1)},
        {"classes": ()},
        {"classes": ("a", "a")},
        {"classes": ("a", 1)},
        {"bounds": (1, 0)},
        {"bounds": (0, math.inf)},
        {"bounds": (0, 1), "outside": "ignore"},
        {"classes": tuple(range(65_537))},
        {"classes": ("a",), "colour": 1},
    ],
)
def test_bad_target(bad):
    with pytest.raises(HedgerowError, match="H116"):
        Target(**bad)
