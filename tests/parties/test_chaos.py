"""Parties that are killed and cut off at random moments: all seeded runs of the benchmark."""

import pytest

from bench.consortium.parts import chaos_rows

pytestmark = pytest.mark.slow

RUNS = 30


def test_every_run_ends_as_an_undisturbed_one_or_with_a_number() -> None:
    rows = chaos_rows(runs=RUNS)
    assert [wrong for found in rows for wrong in found["wrong"]] == []
    assert sum(found["runs"] for found in rows) == RUNS
    for found in rows:
        ended = sum(found["ended_with_a_number"].values())
        assert found["finished_as_undisturbed"] + ended == found["runs"]
        assert "nothing" not in found["ended_with_a_number"]
