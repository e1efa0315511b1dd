"""The benchmarks print the object that their readers expect."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
