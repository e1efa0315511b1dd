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
from hedgerow.protocols.boosting.options import BoostOptions
from hedgerow.protocols.boosting.rounds import boost
from hedgerow.protocols.median.forest import grow_median_forest
from hedgerow.tables import encode
from hedgerow.trees import Forest
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.counts.boosting import BoostCounts, LocalBoostCounts
from hedgerow.trees.counts.dask import FAN_IN, DaskBoostCounts, DaskCounts
from hedgerow.trees.counts.forest import ForestCounts, LocalCounts
from tests.protocols.median.plans import median_plan

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
PLAN = median_plan(DOMAIN, epsilon=3.0, n_trees=3, depth=4, candidates=3)


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
    plan = median_plan(domain, epsilon=3.0, n_trees=3, depth=2, candidates=3)
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


BOOST = BoostOptions(epsilon=3.0, n_estimators=8, subsample=0.5).plan(DOMAIN)


def boosted(counts: BoostCounts) -> Boosted:
    source = NoiseSource.insecure_seeded(4)
    return boost(counts, BOOST, ledger=Ledger(delta=1e-6), source=source)


def boosted_in_memory(parts: list[pd.DataFrame]) -> Boosted:
    encoded = [encode(part, DOMAIN, "y") for part in parts]
    return boosted(LocalBoostCounts([BOOST.batch(part, i) for i, part in enumerate(encoded)]))


def test_boosting_is_that_of_the_partitions_in_memory() -> None:
    collection = dd.from_pandas(frame(), npartitions=PARTS, sort=False)
    counts = DaskBoostCounts(collection, "y", DOMAIN, BOOST.batch)
    assert counts.n_records == N
    expected = boosted_in_memory([part.compute() for part in collection.partitions])
    assert boosted(counts).to_json() == expected.to_json()
    assert boosted(counts).to_json() == expected.to_json(), "a second model, same partitions"


class Murderous:
    """Kills a worker with SIGKILL when rows are to move on for the third time."""

    victim: int | None = None
    moves = 0

    def _move(self, *question: Any) -> None:
        self.moves += 1
        if self.moves == 3 and self.victim is not None:
            os.kill(self.victim, signal.SIGKILL)
            self.victim = None
        super()._move(*question)  # type: ignore[misc]


class MurderousForest(Murderous, DaskCounts):
    pass


class MurderousBoosting(Murderous, DaskBoostCounts):
    pass


def test_a_killed_worker_changes_nothing() -> None:
    rows = frame()
    collection = dd.from_pandas(rows, npartitions=PARTS, sort=False)
    parts = [part.compute() for part in collection.partitions]
    cases = (
        (MurderousForest, PLAN.batch, grown, in_memory(parts)),
        (MurderousBoosting, BOOST.batch, boosted, boosted_in_memory(parts)),
    )
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for kind, batch, train, expected in cases:
            client.wait_for_workers(2)
            pids = client.run(os.getpid)
            assert len(set(pids.values()) | {os.getpid()}) == 3
            counts = kind(collection, "y", DOMAIN, batch)
            assert counts.n_records == N
            # Both workers hold rows, so that some are lost.
            who_has = client.who_has(counts._parts).values()
            assert {address for where in who_has for address in where} == set(pids)
            counts.victim = next(iter(pids.values()))
            assert train(counts).to_json() == expected.to_json()
            assert counts.victim is None
            assert set(client.run(os.getpid).values()) != set(pids.values())
