import numpy as np
import pytest

from hedgerow.audit.engine import AuditTarget, audit
from hedgerow.audit.tables import AuditTable, families, neighbours
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.accounting import Relation
from hedgerow.privacy.mechanisms import NoisyMax
from hedgerow.privacy.source import NoiseSource

LABELS = [
    "tie of 240 records",
    "tie of ten records",
    "nearly empty leaf",
    "single record",
    "outlier at the bound",
    "all records alike",
    "class with one record",
    "a tie above another",
    "between two pure sides, its own the larger",
    "between two pure sides, its own the smaller",
]


def as_table(records: list[tuple[int, ...]], n_bins: tuple[int, ...] = (2,)) -> AuditTable:
    array = np.array(records, np.int64).reshape(-1, len(n_bins) + 1)
    return AuditTable(array[:, :-1], array[:, -1], n_bins, 2)


def class_counts(table: AuditTable, attribute: int) -> np.ndarray:
    counts = np.zeros((table.n_bins[attribute], table.n_classes), int)
    np.add.at(counts, (table.rows[:, attribute], table.classes), 1)
    return counts


def max_operator(table: AuditTable, attribute: int) -> int:
    return int(class_counts(table, attribute).max(axis=1).sum())


def stump(table: AuditTable, runs: int, source: NoiseSource, *, noisy_split: bool) -> np.ndarray:
    """Answers to the queries (0, 0) and (0, 1) of a tree of depth 1 on two attributes.

    Epsilon is 1: all of it for the labels of the leaves, or half for them and half for the split.
    """
    scores = np.array([max_operator(table, a) for a in (0, 1)])
    labeller = NoisyMax(0.5 if noisy_split else 1.0, monotone=True)
    split = np.full(runs, scores.argmax())
    if noisy_split:
        split = NoisyMax(0.5, monotone=True)(np.tile(scores, (runs, 1)), source)
    counts = np.stack([class_counts(table, a) for a in (0, 1)])
    labels = labeller(counts[split], source)
    return np.column_stack([labels[:, 0], np.where(split == 0, labels[:, 0], labels[:, 1])])


@pytest.mark.parametrize("relation", list(Relation))
def test_families(relation: Relation) -> None:
    pairs = families(relation)
    assert [label for label, _, _ in pairs] == LABELS
    for _, table, neighbour in pairs:
        grown = 1 if relation is Relation.ADD_REMOVE else 0
        assert neighbour.classes.size == table.classes.size + grown
        for side in (table, neighbour):
            assert side.rows.dtype == side.classes.dtype == np.int64
            assert side.rows.shape == (side.classes.size, len(side.n_bins))


def test_the_counterexample_breaks_a_tie() -> None:
    _, table, neighbour = families()[0]
    assert table.classes.size == 240
    assert [max_operator(table, a) for a in (0, 1)] == [220, 220]
    assert [max_operator(neighbour, a) for a in (0, 1)] == [220, 221]


def test_the_small_tie() -> None:
    _, table, neighbour = families()[1]
    assert [max_operator(table, a) for a in (0, 1)] == [10, 10]
    assert [max_operator(neighbour, a) for a in (0, 1)] == [10, 11]


def test_what_the_families_promise() -> None:
    pairs = {label: (table, neighbour) for label, table, neighbour in families()}
    table, neighbour = pairs["nearly empty leaf"]
    assert [int((side.rows[:, 0] == 1).sum()) for side in (table, neighbour)] == [0, 1]
    table, neighbour = pairs["single record"]
    assert table.classes.size == 1
    table, neighbour = pairs["outlier at the bound"]
    assert table.rows.max() < 3
    assert neighbour.rows.max() == neighbour.n_bins[0] - 1
    table, neighbour = pairs["all records alike"]
    assert np.unique(neighbour.rows, axis=0).shape[0] == 1
    table, neighbour = pairs["class with one record"]
    assert np.bincount(neighbour.classes).tolist()[-1] == 1
    assert table.classes.max() == 1


def test_order_of_records_does_not_matter() -> None:
    first = as_table([(0, 0), (1, 1)])
    second = as_table([(1, 1), (1, 0), (0, 0)])
    assert neighbours("mine", first, second) == ("mine", first, second)
    assert neighbours("mine", second, first)[1] is second


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ([(0, 0)], [(0, 0)], Relation.ADD_REMOVE),
        ([(0, 0)], [(0, 0), (0, 0), (0, 0)], Relation.ADD_REMOVE),
        ([(0, 0)], [(0, 1)], Relation.ADD_REMOVE),
        ([(0, 0)], [(0, 0), (1, 1)], Relation.REPLACE),
        ([(0, 0), (0, 0)], [(0, 1), (1, 1)], Relation.REPLACE),
    ],
)
def test_tables_that_are_no_neighbours(
    first: list[tuple[int, ...]], second: list[tuple[int, ...]], relation: Relation
) -> None:
    with pytest.raises(HedgerowError, match="records only in the first") as caught:
        neighbours("mine", as_table(first), as_table(second), relation)
    assert caught.value.code is Code.BAD_AUDIT


def test_an_empty_table_has_neighbours() -> None:
    assert neighbours("mine", as_table([]), as_table([(0, 1)]))


@pytest.mark.parametrize(
    ("second", "found"),
    [
        (as_table([(0, 0), (2, 0)]), "outside the domain"),
        (as_table([(0, 0), (0, 2)]), "outside the domain"),
        (as_table([(0, 0), (-1, 0)]), "outside the domain"),
        (as_table([(0, 0), (0, 0)], (3,)), "two domains"),
        (AuditTable(np.zeros((2, 1), int), np.zeros(1, int), (2,), 2), "shape"),
    ],
)
def test_tables_that_do_not_fit_their_domain(second: AuditTable, found: str) -> None:
    with pytest.raises(HedgerowError, match=found) as caught:
        neighbours("mine", as_table([(0, 0)]), second)
    assert caught.value.code is Code.BAD_AUDIT


def on_two_attributes(pairs: list) -> list:
    return [pair for pair in pairs if pair[1].n_bins == (2, 2)]


def test_noise_at_the_leaves_alone_is_caught() -> None:
    """The split is a noiseless function of the data: two answers tell which attribute it was."""

    def run(table: AuditTable, runs: int, source: NoiseSource) -> np.ndarray:
        return stump(table, runs, source, noisy_split=False)

    target = AuditTarget("stump", run, on_two_attributes(families()), 1.0, sound=False)
    result = audit(target, 20_000, NoiseSource.insecure_seeded(3))
    assert result.pair.startswith("tie")
    assert result.attacked > 6


def test_noise_at_the_split_as_well_is_not_refuted() -> None:
    def run(table: AuditTable, runs: int, source: NoiseSource) -> np.ndarray:
        return stump(table, runs, source, noisy_split=True)

    target = AuditTarget("stump", run, on_two_attributes(families()), 1.0)
    result = audit(target, 20_000, NoiseSource.insecure_seeded(3))
    assert 0.1 < result.attacked <= 1.0
