"""The benchmark of DP-TopDown measures what it says, on small tables."""

import numpy as np
import pytest

from bench import topdown
from bench.__main__ import names


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topdown, "REPEATS", 1)


def test_it_is_found() -> None:
    assert "topdown" in names()


def test_without_noise_all_splits_are_made() -> None:
    table = topdown.uniform(3_000, 6)
    plan = topdown.planned(table, "single-machine", epsilon=None, max_depth=512)
    found = topdown.case("random", plan, [table], peer=3.0)
    assert found["ratio"] == pytest.approx(3.0 / found["ours"])
    assert found["leaves"] == topdown.SPLITS + 1
    # Few records for each leaf: they are fitted, noise and all.
    assert found["accuracy"] > 0.9


def test_growth_is_between_neighbours() -> None:
    rows = topdown.by_rows("random", lambda n: topdown.uniform(n, 4), (1_000, 2_000, 4_000))
    assert [each["unit"] for each in rows] == ["s"] * 3 + ["exponent"] * 2
    first = np.log(rows[1]["ours"] / rows[0]["ours"]) / np.log(2)
    assert rows[3]["ours"] == pytest.approx(first)


def test_rows_of_owners_have_rounds_and_bytes() -> None:
    table = topdown.uniform(2_000, 4)
    rows = topdown.by_owners("random", table, (1, 3), (2,))
    assert len({each["case"] for each in rows}) == len(rows) == 5
    assert all(each["rounds"] >= 2 and each["bytes_per_owner"] > 100 for each in rows)
    # Histograms of 4 attributes, 16 bins and 2 classes, for one node at least.
    assert rows[0]["bytes_per_owner"] > 8 * 4 * 16 * 2


def test_rows_are_drawn_and_dealt() -> None:
    table = topdown.uniform(1_000, 3)
    assert topdown.resampled(table, 2_500).n_slots == 2_500
    parts = topdown.dealt(table, 3)
    assert sorted(part.n_slots for part in parts) == [333, 333, 334]
    joined = np.concatenate([np.column_stack([p.bins, p.target]) for p in parts])
    whole = np.column_stack([table.bins, table.target])
    np.testing.assert_array_equal(np.sort(joined, axis=0), np.sort(whole, axis=0))


def test_kddcup_has_the_classes_of_the_paper(dataset) -> None:
    dataset("kddcup99_10percent")
    frame, label, domain = topdown.kddcup()
    assert frame.num_rows == domain.capacity == 494_021
    assert label.sum() == 494_021 - 97_278
    assert len(domain.attributes) == 41
