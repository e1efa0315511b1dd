import pytest

from hedgerow.secure.cost import NOTHING, Cost


def test_costs_add_up_and_repeat() -> None:
    one, other = Cost(2, (4, 0, 2)), Cost.equal(1, 8, 3)
    assert one + other == Cost(3, (12, 8, 10))
    assert one * 3 == 3 * one == Cost(6, (12, 0, 6))
    assert one + NOTHING == NOTHING + one == one
    assert one.mean_bytes == pytest.approx(2.0)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_there_is_one_cost_per_party(n: int) -> None:
    each = Cost.equal(1, 8, n)
    assert each.bytes == (8,) * n
    assert (each + each).mean_bytes == pytest.approx(16.0)
    assert Cost.equal(0, 0, n) == NOTHING
    with pytest.raises(ValueError, match="zip"):
        each + Cost.equal(1, 8, n + 1)


def test_what_is_sent_ahead_is_counted_apart() -> None:
    triple = Cost(1, (4, 4), (96, 32), 2, {"triples": 5})
    twice = triple * 2 + Cost(1, (1, 0), demand={"bits": 1})
    assert twice == Cost(3, (9, 8), (192, 64), 4)
    assert twice.demand == {"triples": 10, "bits": 1}
    assert triple.mean_bytes == pytest.approx(4.0)
    assert Cost(preprocessing=(0, 0)) == NOTHING
