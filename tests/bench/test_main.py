"""The benchmarks print the object that their readers expect."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import harness
from bench.__main__ import names
from bench.hidden import CASES, case_rows, growth_rows, hidden_plan
from bench.hidden_parties import table_of
from bench.peers.mpyc_id3 import in_the_clear
from bench.transfers import PARTS, Pair, cases, profiled
from hedgerow.crypto.oblivious_transfer import (
    BEGIN_RECEIVER,
    BEGIN_SENDER,
    PLANT,
    message_bytes,
)

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_json_is_one_object_with_ratios() -> None:
    done = bench("mechanisms", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result) == {"name", "machine", "rows"}
    assert result["name"] == "mechanisms"
    assert {"cpu", "cores", "python", "hedgerow"} <= set(result["machine"])
    for row in result["rows"]:
        assert {"case", "ours", "peer", "ratio", "unit"} <= set(row)
        assert row["ratio"] == pytest.approx(row["peer"] / row["ours"])


def test_an_unknown_benchmark_is_refused() -> None:
    done = bench("hedgehogs")
    assert done.returncode == 2
    assert "mechanisms" in done.stderr


def test_benchmarks_are_found_and_what_they_are_made_of_is_not() -> None:
    assert {"hidden", "secure", "trees"} <= set(names())
    assert not {"hidden_parties", "peers", "small_tables", "harness"} & set(names())


def test_hidden_cases_have_rows_of_their_own() -> None:
    answers = {"seconds": 0.1, "rounds": 10, "bytes": 9.0, "analyst_bytes": 8}
    figures = {"train_s": 2.0, "table_s": 1.0, "answers": answers}
    rows = [each for case in CASES for each in case_rows(case, figures)]
    assert len({each["case"] for each in rows}) == len(rows)
    assert rows[0] == harness.row(next(iter(CASES)), 2.0, table_s=1.0)
    # Seconds and bytes of the predictions of (b) and (c); (d) has the training alone.
    assert {each["unit"] for each in rows if each["case"].startswith("e: 1,000")} == {"s", "bytes"}
    assert len([each for each in rows if each["case"].startswith("e")]) == 2 * 5


def test_transfers_are_counted_on_both_sides() -> None:
    pair = Pair()
    assert pair.bytes == BEGIN_SENDER + BEGIN_RECEIVER + PLANT
    n, work = cases(pair)["a batch of 1,000"]
    before = pair.bytes
    work()
    assert pair.bytes - before == message_bytes(n)
    shares = profiled(work)
    assert set(shares) == set(PARTS)
    assert 0 < sum(shares.values()) <= 1


def test_growth_is_between_neighbours() -> None:
    seconds = {case: float(case[0].split()[1]) for case in CASES.values() if "synth" in case[0]}
    rows = growth_rows(seconds)
    assert [each["unit"] for each in rows] == ["exponent"] * 2 + ["times"] * 3
    assert [each["ours"] for each in rows] == pytest.approx([1.0] * 5)
    assert growth_rows({}) == []


def test_hidden_plans_follow_the_table() -> None:
    plan = hidden_plan("synthetic 64", 2, "binary")
    assert plan.capacity == 64 == table_of("synthetic 64").n_slots
    assert (plan.noise, plan.grower) == ("none", "masks")


def test_the_tree_that_peers_are_checked_with() -> None:
    rng = np.random.default_rng(0)
    bins, w = rng.integers(0, 3, (60, 4)), 3
    label = (bins[:, 2] == 1).astype(int)
    onehot = (bins[:, :, None] == np.arange(w)).reshape(60, -1).astype(int)
    choices, leaves = in_the_clear(onehot, np.eye(2, dtype=int)[label], w, 2)
    assert choices[0] == [2]
    assert [len(level) for level in choices] == [1, 3]
    assert leaves == [0] * 3 + [1] * 3 + [0] * 3
