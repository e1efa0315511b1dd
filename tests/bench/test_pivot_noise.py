"""The benchmark of noise among peers, on a tiny table."""

import numpy as np
import pyarrow as pa
import pytest

from bench.one_table import OneTable
from bench.pivot_noise import PEERS, rows_of
from hedgerow.tables import Attribute, Domain, Target

pytestmark = pytest.mark.slow


def test_a_tiny_table() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    y = ((X[:, 0] > 0.5) ^ (rng.random(600) < 0.1)).astype(np.int64)
    domain = Domain(
        attributes=tuple(
            Attribute(name=name, kind="numeric", bounds=(0, 1), bins=4) for name in "ab"
        ),
        target=Target(name="y", classes=(0, 1)),
        capacity=600,
    )
    table = OneTable(pa.table({"a": X[:, 0], "b": X[:, 1]}), y, domain)
    exact, *noisy = rows_of("tiny", table, (10.0,))
    assert 0.05 < exact["ours"] < 0.15
    assert len(noisy) == len(PEERS)
    for error in (noisy[0]["ours"], noisy[0]["peer"], noisy[0]["open_tree"]):
        assert abs(error - exact["ours"]) < 0.05
