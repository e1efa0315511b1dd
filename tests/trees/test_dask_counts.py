"""Counts over Dask: those of the rows in memory, also when a worker is killed."""

import os
import signal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Attribute, Domain, Ledger, Target
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.median_forest import grow_median_forest
from hedgerow.protocols.median_plan import plan_median
from hedgerow.tables import encode
from hedgerow.trees import Forest
from hedgerow.trees.dask_counts import FAN_IN, DaskCounts
from hedgerow.trees.forest_counts import ForestCounts, LocalCounts, Splits

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

N, PARTS = 1200, 10
DOMAIN = Domain(
    attributes=(
        *(Attribute(name=f"x{i}", kind="numeric", bounds=(0, 1), bins=30) for i in range(3)),
        Attribute(name="c", kind="categorical", categories=("a", "b", "c")),
    ),
    target=Target(name="y", classes=(0, 1)),
    capacity=2000,
)
PLAN = plan_median(DOMAIN, epsilon=3.0, n_trees=3, depth=4, candidates=3)


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    rows = pd.DataFrame(rng.random((N, 3)), columns=["x0", "x1", "x2"])
    rows["c"] = np.array(["a", "b", "c"])[rng.integers(0, 3, N)]
    rows["y"] = (rows.x0 > 0.5).astype(int)
    return rows


def grown(counts: ForestCounts) -> Forest:
    source = NoiseSource.insecure_seeded(4)
    return grow_median_forest(counts, PLAN, ledger=Ledger(), source=source)


def in_memory(parts: list[pd.DataFrame]) -> Forest:
    encoded = [encode(part, DOMAIN, "y") for part in parts]
    return grown(LocalCounts([PLAN.batch(part, i) for i, part in enumerate(encoded)]))


def code_of(function, *args) -> HedgerowError:
    with pytest.raises(HedgerowError) as caught:
        function(*args)
    return caught.value


def test_the_forest_is_that_of_the_partitions_in_memory() -> None:
    rows = frame()
    collection = dd.from_pandas(rows, npartitions=PARTS, sort=False)
    # So many that sums are added up in two steps.
    assert collection.npartitions > FAN_IN
    parts = [part.compute() for part in collection.partitions]
    counts = DaskCounts(collection, "y", DOMAIN, PLAN.batch)
    assert isinstance(counts, ForestCounts)
    assert counts.n_records == N
    expected = in_memory(parts)
    assert grown(counts) == expected
    assert grown(counts) == expected, "a second forest over the same partitions"
    beside = DaskCounts(collection.drop(columns="y"), collection["y"], DOMAIN, PLAN.batch)
    assert grown(beside) == expected


def test_arrays_are_read_by_position_and_empty_partitions_count_nothing() -> None:
    rows = frame()
    domain = DOMAIN.select(["x0", "x1", "x2"])
    plan = plan_median(domain, epsilon=3.0, n_trees=3, depth=2, candidates=3)
    X = da.from_array(rows[["x0", "x1", "x2"]].to_numpy(), chunks=(400, 2))
    y = da.from_array(rows.y.to_numpy(), chunks=400)
    counts = DaskCounts(X, y, domain, plan.batch)
    assert counts.n_records == N
    counts.begin(plan.shape, bytes(16))
    assert counts.channels().sum(axis=0).tolist() == np.bincount(rows.y).tolist()
    collection = dd.from_pandas(rows, npartitions=4, sort=False)
    few = collection[collection.x0 > 2]
    assert code_of(lambda: DaskCounts(few, "y", DOMAIN, PLAN.batch).n_records).code is (
        Code.EMPTY_TABLE
    )
    some = dd.concat([few, collection])
    assert DaskCounts(some, "y", DOMAIN, PLAN.batch).n_records == N


def test_refusals_name_the_partition() -> None:
    collection = dd.from_pandas(frame(), npartitions=4, sort=False)
    error = code_of(DaskCounts, collection, frame().y, DOMAIN, PLAN.batch)
    assert error.code is Code.WRONG_TYPE
    other = collection["y"].repartition(npartitions=2)
    error = code_of(DaskCounts, collection, other, DOMAIN, PLAN.batch)
    assert error.code is Code.WRONG_SHAPE
    bad = frame()
    bad.loc[N - 1, "c"] = "z"
    error = code_of(
        lambda: (
            DaskCounts(
                dd.from_pandas(bad, npartitions=4, sort=False), "y", DOMAIN, PLAN.batch
            ).n_records
        )
    )
    assert error.code is Code.UNKNOWN_CATEGORY
    assert error.found.startswith("partition 3: ")
    assert "'c'" in error.found


class Murderous(DaskCounts):
    """Kills a worker with SIGKILL when the third level is asked for."""

    victim: int | None = None
    levels = 0

    def advance(self, splits: Splits) -> None:
        super().advance(splits)
        self.levels += 1

    def histogram(self, *ask: Any) -> tuple[Any, Any]:
        if self.levels == 2 and self.victim is not None:
            os.kill(self.victim, signal.SIGKILL)
            self.victim = None
        return super().histogram(*ask)


def test_a_killed_worker_changes_nothing() -> None:
    rows = frame()
    collection = dd.from_pandas(rows, npartitions=PARTS, sort=False)
    expected = in_memory([part.compute() for part in collection.partitions])
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid)
        assert len(set(pids.values()) | {os.getpid()}) == 3
        counts = Murderous(collection, "y", DOMAIN, PLAN.batch)
        assert counts.n_records == N
        # Both workers hold rows, so that some are lost.
        holders = {address for where in client.who_has(counts._parts).values() for address in where}
        assert holders == set(pids)
        counts.victim = next(iter(pids.values()))
        assert grown(counts) == expected
        assert counts.victim is None
        assert set(client.run(os.getpid).values()) != set(pids.values())
