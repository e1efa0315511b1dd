import pytest

from hedgerow.secure.cost import NOTHING, Cost


def test_costs_add_up_and_repeat() -> None:
    one, other = Cost(2, (4, 0, 2)), Cost.equal(1, 8)
    assert one + other == Cost(3, (12, 8, 10))
    assert one * 3 == 3 * one == Cost(6, (12, 0, 6))
    assert one + NOTHING == one
    assert one.mean_bytes == pytest.approx(2.0)
