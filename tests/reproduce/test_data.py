"""The data sets of the reproductions: their sizes, their public domains, and what a tree makes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hedgerow.errors import InputError
from hedgerow.estimators import ID3Classifier
from hedgerow.tables import encode
from reproduce import data
from reproduce.paper_000 import data as data_000

ROOT = Path(__file__).parents[2]
Read = Callable[[str], pa.Table]

FILES = {
    "titanic": "titanic_887",
    "heart": "heart_cleveland",
    "adult": "adult_train",
    "mushroom": "mushroom",
    "car": "car_evaluation",
}
READERS = {**data_000.DATA, "mushroom": data.mushroom, "car": data.car}
# Rows, attributes, largest number of values (missing counted).
SIZES = {
    "titanic": (887, 6, 5),
    "heart": (297, 13, 5),
    "adult": (32_561, 13, 7),
    "mushroom": (8_124, 22, 12),
    "car": (1_728, 6, 4),
}


@pytest.fixture
def read(dataset: Read) -> Callable[[str], data.DataSet]:
    """Read a data set under its domain; skip with a reason where the file is absent."""

    def read_one(name: str) -> data.DataSet:
        dataset(FILES[name])
        return READERS[name]()

    return read_one


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_encoding(name: str, read: Callable[[str], data.DataSet]) -> None:
    frame, target, domain = read(name)
    n_rows, n_attributes, n_values = SIZES[name]
    encoded = encode(frame, domain, target)
    assert encoded.bins.shape == (n_rows, n_attributes) == frame.shape
    assert domain.n_bins.max() == n_values
    assert (encoded.bins < domain.n_bins).all()
    assert set(np.unique(encoded.target)) == set(range(domain.target.n_classes))
    missing_allowed = [a.missing == "own bin" for a in domain.attributes]
    assert [frame[a].null_count > 0 for a in domain.names] == missing_allowed
    assert domain.provenance == "declared"
    assert domain.is_public
    assert n_rows <= domain.capacity <= 1.1 * n_rows


def test_the_paper_counts_the_class_of_heart_and_misprints_adult() -> None:
    assert data_000.TABLE_1["titanic"] == SIZES["titanic"]
    assert data_000.TABLE_1["heart"] == (297, 13 + 1, 5)
    assert data_000.TABLE_1["adult"] == (32_651, 13, 7)


def test_heart_is_sick_where_num_is_above_zero(
    read: Callable[[str], data.DataSet], dataset: Read
) -> None:
    complete = dataset("heart_cleveland").drop_null()
    expected = np.array(complete["num"].to_pylist()) > 0
    np.testing.assert_array_equal(read("heart").target == 1, expected)


def test_every_category_of_adult_is_in_one_group(dataset: Read) -> None:
    table = dataset("adult_train")
    for name, groups in data_000.ADULT_GROUPS.items():
        members = [member for listed in groups.values() for member in listed]
        assert len(members) == len(set(members))
        assert set(table[name].drop_null().unique().to_pylist()) <= set(members)


def test_a_category_that_no_group_lists_is_refused() -> None:
    table = pa.table({"workclass": ["Private", "Robot", None]})
    grouped = data.regroup(table, {"workclass": data_000.ADULT_GROUPS["workclass"]})
    assert grouped["workclass"].to_pylist() == ["Private", "Robot", None]
    with pytest.raises(InputError, match="Robot"):
        encode(grouped, data_000.ADULT.select(["workclass"], target=False))


@pytest.mark.parametrize("n_rows", [5, 297, 887])
def test_splits_are_seeded_and_part_the_rows(n_rows: int) -> None:
    parts = [data.split(n_rows, seed) for seed in range(data.SPLITS)]
    for seed, (train, test) in enumerate(parts):
        assert len(test) == -(-n_rows // 5)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n_rows))
        np.testing.assert_array_equal(data.split(n_rows, seed)[0], train)
    if n_rows > 5:
        assert len({tuple(test) for _, test in parts}) == data.SPLITS


# Five splits of a few hundred rows vary by some hundredths: only a broken table falls below.
@pytest.mark.parametrize(("name", "least"), [("titanic", 0.75), ("heart", 0.6), ("adult", 0.82)])
def test_a_tree_without_noise_predicts_plausibly(
    name: str, least: float, read: Callable[[str], data.DataSet]
) -> None:
    accuracies, majorities = [], []
    for train, test in data.splits(read(name)):
        tree = ID3Classifier(criterion="max", max_depth=data_000.DEPTH[name], domain=train.domain)
        predicted = tree.fit(train.frame, train.target).predict(test.frame)
        accuracies.append(np.mean(predicted.tolist() == test.target))
        counts = [np.mean(test.target == c) for c in train.domain.target.classes]
        majorities.append(max(counts))
    assert np.mean(accuracies) > least
    assert np.mean(accuracies) > np.mean(majorities) + 0.05
