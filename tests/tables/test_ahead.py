"""Work ahead of its use: order, errors, and how much is under way."""

import threading

import pytest

from hedgerow import threads
from hedgerow.tables.ahead import ahead


def test_results_come_in_order_and_few_items_are_drawn_ahead() -> None:
    drawn = []

    def items():
        for i in range(50):
            drawn.append(i)
            yield i

    for used, result in enumerate(ahead(lambda i: i * i, items())):
        assert result == used**2
        assert len(drawn) <= used + threads.available() + 1
    assert used == 49


def test_an_error_comes_in_its_place_and_ends_the_work() -> None:
    done = []

    def task(i: int) -> int:
        if i == 3:
            raise ValueError("three")
        done.append(i)
        return i

    results = ahead(task, range(1000))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert len(done) < 50


def test_a_closed_iterator_leaves_no_thread_behind() -> None:
    results = ahead(lambda i: i, range(100))
    assert next(results) == 0
    results.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("hedgerow-ahead")]
