"""Counts over batches: those of the table in memory, whatever is kept and read again."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow import Attribute, Batches, Domain, Ledger, Target
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.median.forest import grow_median_forest
from hedgerow.protocols.median.plan import MedianPlan
from hedgerow.tables import encode
from hedgerow.trees import Forest
from hedgerow.trees.counts.batches import BatchCounts
from hedgerow.trees.counts.forest import ForestCounts, ForestSplits, LocalCounts
from hedgerow.trees.layout import SplitKind
from tests.protocols.median.plans import median_plan

ATTRIBUTES = (
    *(Attribute(name=f"x{i}", kind="numeric", bounds=(0, 1), bins=40) for i in range(3)),
    Attribute(name="c", kind="categorical", categories=tuple("abcdef")),
)
CLASSES = Domain(attributes=ATTRIBUTES, target=Target(name="y", classes=(0, 1)), capacity=2000)
NUMBERS = Domain(attributes=ATTRIBUTES, target=Target(name="z", bounds=(-1, 2)), capacity=2000)
N = 1500


def table() -> pa.Table:
    rng = np.random.default_rng(8)
    x = rng.random((3, N))
    letters = np.array(list("abcdef"))[rng.integers(0, 6, N)]
    columns = {f"x{i}": column for i, column in enumerate(x)} | {"c": letters}
    return pa.table(columns | {"y": (x[0] > 0.6).astype(np.int8), "z": x[1] - x[2]})


def plan_of(domain: Domain, partition: bool = True) -> MedianPlan:
    return median_plan(domain, epsilon=3.0, n_trees=3, depth=4, candidates=3, partition=partition)


def grown(counts: ForestCounts, plan: MedianPlan) -> Forest:
    source = NoiseSource.insecure_seeded(11)
    return grow_median_forest(counts, plan, ledger=Ledger(), source=source)


def local(plan: MedianPlan, rows: int) -> LocalCounts:
    assert plan.domain.target is not None
    parts = [table().slice(at, rows) for at in range(0, N, rows)]
    encoded = [encode(part, plan.domain, plan.domain.target.name) for part in parts]
    return LocalCounts([plan.batch(part, number) for number, part in enumerate(encoded)])


@pytest.mark.parametrize("domain", [CLASSES, NUMBERS], ids=["classes", "numbers"])
@pytest.mark.parametrize("partition", [True, False], ids=["partitioned", "whole"])
@pytest.mark.parametrize("rows", [2000, 200], ids=["one batch", "eight batches"])
def test_the_forest_is_that_of_the_table_in_memory(
    tmp_path: Path, domain: Domain, partition: bool, rows: int
) -> None:
    pq.write_table(table(), tmp_path / "t.parquet", row_group_size=200)
    plan = plan_of(domain, partition)
    expected = grown(local(plan, rows), plan)
    # Nothing kept; some rows and places; everything.
    for cache_bytes, kept_bytes in ((0, 0), (4000, 2000), (1 << 20, 1 << 20)):
        batches = Batches(tmp_path, domain, rows=rows, cache_bytes=cache_bytes)
        counts = BatchCounts(batches, plan.batch)
        counts.kept_bytes = kept_bytes
        assert isinstance(counts, ForestCounts)
        assert counts.n_records == N
        assert grown(counts, plan) == expected
        assert len(counts._kept) == len(batches._known) if cache_bytes > 4000 else True
        assert sum(placed.where.nbytes for _, placed in counts._kept.values()) <= kept_bytes


def test_blocks_of_asks_decide_nothing_but_the_order_of_noise(tmp_path: Path) -> None:
    plan = plan_of(CLASSES)
    counts = [BatchCounts(Batches([table()], CLASSES), plan.batch), local(plan, N)]
    for each in counts:
        each.most_cells = 200
    assert grown(counts[0], plan) == grown(counts[1], plan)


def test_other_batches_have_other_coins_and_the_same_rows() -> None:
    plan, answers = plan_of(CLASSES), []
    for rows in (1500, 500, 77):
        parts = [table().slice(at, rows) for at in range(0, N, rows)]
        counts = BatchCounts(Batches(parts, CLASSES), plan.batch)
        counts.begin(plan.shape, b"0123456789abcdef")
        nodes, features = np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)
        flat, offsets = counts.histogram(nodes, features)
        per_tree = [flat[offsets[4 * t] : offsets[4 * t + 4]] for t in range(3)]
        assert np.abs(counts.channels().sum(axis=1) - N / 3).max() < 5 * np.sqrt(N * 2 / 9)
        answers.append((np.sum(per_tree, axis=0).tolist(), counts.channels().sum(axis=0).tolist()))
        coins = per_tree[0].tolist()
        assert coins not in [a[2] for a in answers if len(a) > 2]
        answers[-1] = (*answers[-1], coins)
    assert [a[:2] for a in answers[1:]] == [answers[0][:2]] * 2


def test_rows_that_change_end_the_growth() -> None:
    plan, passes = plan_of(CLASSES), []

    def source() -> list[pa.Table]:
        passes.append(1)
        return [table() if len(passes) < 4 else table().take(list(range(N))[::-1])]

    counts = BatchCounts(Batches(source, CLASSES, cache_bytes=0), plan.batch)
    ledger = Ledger()
    with pytest.raises(HedgerowError) as caught:
        grow_median_forest(counts, plan, ledger=ledger, source=NoiseSource.insecure_seeded(0))
    assert caught.value.code is Code.TABLE_CHANGED
    assert len(passes) == 4
    assert ledger.formal_total("public").epsilon == pytest.approx(3.0)


def test_wrong_use_is_refused() -> None:
    plan = plan_of(CLASSES)
    counts = BatchCounts(Batches([table()], CLASSES), plan.batch)
    for ask in (counts.channels, lambda: counts.advance(leaves(3))):
        with pytest.raises(HedgerowError) as caught:
            ask()
        assert caught.value.code is Code.BAD_PARAMETER
    other = CLASSES.select(["x0", "x1"])
    with pytest.raises(HedgerowError) as caught:
        BatchCounts(Batches([table()], other), plan.batch).begin(plan.shape, bytes(16))
    assert caught.value.code is Code.BAD_DOMAIN
    counts.begin(plan.shape, bytes(16))
    with pytest.raises(HedgerowError) as caught:
        counts.advance(leaves(2))
    assert caught.value.code is Code.WRONG_SHAPE


def leaves(n: int) -> ForestSplits:
    none = np.full(n, -1, dtype=np.int32)
    return ForestSplits(none, np.full(n, SplitKind.LEAF, dtype=np.uint8), none)
