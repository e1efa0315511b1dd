"""Fixtures that every room may use."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from scipy import stats

# Examples do not change from run to run, and the first call of a kernel compiles it, so that a
# deadline would measure the compiler.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

ROOT = Path(__file__).resolve().parents[1]

ChiSquare = Callable[..., float]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have each worker begin with tests that take long: of all tests each is given a run."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        mine = long[worker::workers]
        # Its run ends where a share of all does.
        upto = len(items) * (worker + 1) // workers - len(ordered) - len(mine)
        ordered += mine + others[:upto]
        others = others[upto:]
    items[:] = ordered


def data_folder() -> Path:
    """Folder with the real data sets: $HEDGEROW_DATA, else shared/datasets beside the project."""
    given = os.environ.get("HEDGEROW_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "datasets"


@pytest.fixture(scope="session")
def dataset() -> Callable[[str], pa.Table]:
    """Read a real data set by the name of its Parquet file; skip the test where it is absent."""

    def read(name: str) -> pa.Table:
        path = data_folder() / f"{name}.parquet"
        if not path.is_file():
            pytest.skip(
                f"data set {name!r} not found: set HEDGEROW_DATA to the folder with {path.name}"
            )
        return pq.read_table(path)

    return read


def _merge(order_by: NDArray, least: float) -> NDArray:
    """Label the cells so that every label's sum of `order_by` is at least `least`."""
    order = np.argsort(order_by)
    labels = np.empty(order_by.size, dtype=np.int64)
    label, total = 0, 0.0
    for cell in order:
        labels[cell] = label
        total += order_by[cell]
        if total >= least:
            label, total = label + 1, 0.0
    # The largest cells come last, so a rest can only be left over when all are small.
    labels[labels == label] = max(label - 1, 0)
    return labels


@pytest.fixture
def chi_square() -> ChiSquare:
    """P-value of counts (k,) against probabilities (k,); cells expected below 5 are merged."""

    def p_value(counts: NDArray, probabilities: NDArray) -> float:
        counts = np.asarray(counts, dtype=np.float64)
        expected = np.asarray(probabilities) * counts.sum()
        assert np.isclose(expected.sum(), counts.sum(), rtol=1e-9)
        assert (counts[expected == 0] == 0).all()
        labels = _merge(expected, 5.0)
        seen, wanted = np.bincount(labels, counts), np.bincount(labels, expected)
        if wanted.size == 1:
            return 1.0
        return float(stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), wanted.size - 1))

    return p_value


@pytest.fixture
def chi_square_two() -> ChiSquare:
    """P-value of two count vectors (k,) having one law.

    Cells are merged up to 50 expected counts in the smaller sample, so that the approximation
    holds far out in the tail, where tests that cannot be seeded place their bound.
    """

    def p_value(first: NDArray, second: NDArray) -> float:
        a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        pooled = (a + b) * min(a.sum(), b.sum()) / (a.sum() + b.sum())
        labels = _merge(pooled, 50.0)
        a, b = np.bincount(labels, a), np.bincount(labels, b)
        ratio = np.sqrt(b.sum() / a.sum())
        statistic = ((a * ratio - b / ratio) ** 2 / (a + b)).sum()
        return float(stats.chi2.sf(statistic, a.size - 1))

    return p_value
