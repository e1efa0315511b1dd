import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Attribute, Domain
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.layout import SplitKind

T, V, W = SplitKind.THRESHOLD, SplitKind.VALUE, SplitKind.WARY

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 90), bins=3, missing="own bin"),
        Attribute(name="sex", kind="categorical", categories=("f", "m")),
        Attribute(name="town", kind="categorical", categories=("a", "b", "c")),
        Attribute(name="country", kind="categorical", categories=("x",)),
    )
)


def listed(candidates):
    return list(
        zip(
            candidates.feature.tolist(),
            candidates.kind.tolist(),
            candidates.cut.tolist(),
            strict=True,
        )
    )


def test_binary_candidates_in_order():
    """Thresholds include "everything but missing"; two categories need one question."""
    candidates = Candidates.from_domain(DOMAIN)
    assert listed(candidates) == [
        (0, T, 0),
        (0, T, 1),
        (0, T, 2),
        (1, V, 0),
        (2, V, 0),
        (2, V, 1),
        (2, V, 2),
    ]
    assert candidates.first.tolist() == [0, 3, 4, 7, 7]
    assert candidates.offset.tolist() == [0, 4, 6, 9, 10]
    assert candidates.n_children.tolist() == [2] * 7
    assert (len(candidates), candidates.n_features, candidates.total_bins) == (7, 4, 10)


def test_wary_candidates_are_the_attributes():
    candidates = Candidates.from_domain(DOMAIN, "wary")
    assert listed(candidates) == [(0, W, 0), (1, W, 0), (2, W, 0), (3, W, 0)]
    assert candidates.n_children.tolist() == [4, 2, 3, 1]


def test_types_and_read_only():
    candidates = Candidates.from_bins([3, 2], [True, False])
    for name, dtype in (
        ("n_bins", np.int32),
        ("kinds", np.uint8),
        ("feature", np.int32),
        ("kind", np.uint8),
        ("cut", np.int32),
        ("first", np.int64),
        ("offset", np.int64),
        ("n_children", np.int32),
    ):
        assert getattr(candidates, name).dtype == dtype, name
    with pytest.raises(ValueError, match="read-only"):
        candidates.n_bins[0] = 9


@pytest.mark.parametrize("branching", ["w-ary", "", None, True, ["wary"]])
def test_branching_is_one_of_two(branching):
    with pytest.raises(HedgerowError, match=r"branching as one of 'binary', 'wary'") as caught:
        Candidates.from_domain(DOMAIN, branching)
    assert caught.value.code is Code.BAD_PARAMETER


def test_no_candidates():
    assert len(Candidates.from_bins([1, 1], [True, False])) == 0
