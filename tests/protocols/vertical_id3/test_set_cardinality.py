"""Sizes of intersections, counted."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.cardinality import joint_sizes


def elements(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, dtype="<u8").reshape(-1, 1).view(np.uint8)


def test_all_choices_of_groups_are_counted() -> None:
    rng = np.random.default_rng(0)
    sets = []
    for n_groups in (3, 1, 2):
        label = rng.integers(-1, n_groups, 200)
        sets.append([np.flatnonzero(label == g).tolist() for g in range(n_groups)])
    found = joint_sizes([[elements(group) for group in groups] for groups in sets], (0, 1, 2))
    assert found.shape == (3, 1, 2)
    for i, first in enumerate(sets[0]):
        for j, second in enumerate(sets[1]):
            for k, third in enumerate(sets[2]):
                assert found[i, j, k] == len(set(first) & set(second) & set(third))
    assert found.sum() > 0


def test_empty_sets_intersect_in_nothing() -> None:
    found = joint_sizes([[elements([]), elements([1])], [elements([])]], (0, 1))
    assert found.tolist() == [[0], [0]]
    assert joint_sizes([[elements([])], [elements([])]], (0, 1)).tolist() == [[0]]


@pytest.mark.parametrize("groups", [[[1, 1], [2]], [[1], [1]]])
def test_an_element_twice_names_its_site(groups: list[list[int]]) -> None:
    sets = [[elements([1, 2])], [elements(group) for group in groups]]
    with pytest.raises(HedgerowError, match="site 4") as caught:
        joint_sizes(sets, (0, 4))
    assert caught.value.code is Code.SITE_CONTRADICTS
