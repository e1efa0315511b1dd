"""The benchmark of Pivot runs, with answers, on tiny tables."""

from bench.pivot import Case, rows_of


def test_a_tiny_case() -> None:
    (found,) = rows_of("tiny", Case(n=40, m=2, each=2, classes=2, depth=1, asked=3))
    assert found["nodes"] == 3
    assert found["offline_mb"] > found["online_mb"] > 0
    assert found["answers"] > 0
