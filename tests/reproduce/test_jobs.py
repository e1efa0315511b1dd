"""Experiments as jobs: the same records, in the order of the jobs, wherever they run."""

import operator

import pytest

from reproduce.jobs import run_jobs


@pytest.mark.parametrize("here", [True, False])
def test_records_come_in_the_order_of_the_jobs(here: bool) -> None:
    told: list[tuple[int, int]] = []
    jobs = [["a"], ["b"], ["c"]]
    found = run_jobs(operator.mul, jobs, 2, lambda done, of: told.append((done, of)), here=here)
    assert found == ["a", "a", "b", "b", "c", "c"]
    assert told == [(1, 3), (2, 3), (3, 3)]
