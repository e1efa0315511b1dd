"""Constraint sets: figure 1 of the paper, and FormTransSet."""

import numpy as np
import pytest

from hedgerow.protocols.vertical_id3.site import ANY, Constraints

BINS = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=np.uint8)


def made() -> Constraints:
    return Constraints(BINS, np.array([2, 2, 2]))


def test_everything_satisfies_no_constraint() -> None:
    constraints = made()
    assert constraints.tuple.tolist() == [ANY] * 3
    assert constraints.form_trans_set().tolist() == [0, 1, 2, 3]
    assert constraints.remaining == [0, 1, 2]


def test_constraints_narrow_and_widen() -> None:
    constraints = made()
    constraints.set(0, 0)
    constraints.set(2, 1)
    assert constraints.tuple.tolist() == [0, ANY, 1]
    assert constraints.form_trans_set().tolist() == [1, 3]
    assert constraints.remaining == [1]
    # The next value of the same attribute takes the place of the last one.
    constraints.set(2, 0)
    assert constraints.form_trans_set().tolist() == [0]
    constraints.set(2, ANY)
    assert constraints.form_trans_set().tolist() == [0, 1, 3]
    constraints.set(0, ANY)
    assert constraints.form_trans_set().tolist() == [0, 1, 2, 3]


def test_only_the_latest_is_freed() -> None:
    constraints = made()
    constraints.set(0, 0)
    constraints.set(2, 1)
    with pytest.raises(AssertionError):
        constraints.set(0, ANY)


def test_rows_apart_by_label() -> None:
    constraints = made()
    constraints.set(1, 1)
    groups = constraints.by(np.array([2, 0, 0, 2]), 4)
    assert [group.tolist() for group in groups] == [[2], [], [0, 3], []]


def test_a_site_without_attributes_has_all_its_records() -> None:
    constraints = Constraints(np.zeros((3, 0), dtype=np.uint8), np.zeros(0, dtype=np.int64))
    assert constraints.form_trans_set().tolist() == [0, 1, 2]
    assert constraints.remaining == []
