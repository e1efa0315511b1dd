"""`hedgerow doctor` reads this machine as it is, and says what a worse one lacks."""

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.doctor import machine
from hedgerow.cli.main import app

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_machine_of_the_tests_is_well() -> None:
    result = CliRunner().invoke(app, ["doctor", "--format", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = {row["what"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["packages"]["gravity"] == "well"
    assert rows["python"]["found"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert rows["cores and memory"]["found"].startswith(f"{cores} cores, ")
    assert all(row["fix"] for row in rows.values() if row["gravity"] != "well")


def test_all_requirements_of_the_project_are_looked_at() -> None:
    found = machine.requirements()
    core = sorted(name.lower() for name, _, extra in found if not extra)
    wanted = [line.split(">")[0].split("[")[0] for line in PROJECT["dependencies"]]
    assert core == sorted(wanted)
    # Extras for work on Hedgerow itself are not told of; every other one is.
    assert set(PROJECT["optional-dependencies"]) - set(machine.EXTRAS) == {"docs", "bench", "test"}


@pytest.mark.parametrize(
    ("found", "bounds", "within"),
    [
        ("2.0", ">=2.0", True),
        ("2", ">=2.0.0", True),
        ("1.26.4", ">=2.0", False),
        ("8.4.1", ">=8.1,<8.5", True),
        ("8.5", "<8.5,>=8.1", False),
        ("0.61.0rc1", ">=0.61", True),
        ("10.2", ">=9.5", True),
        ("3.1", "", True),
    ],
)
def test_versions_are_compared_as_numbers(found: str, bounds: str, within: bool) -> None:
    assert machine._within(found, bounds) is within


def test_what_is_missing_is_told_with_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [("no-such-package", ">=1", ""), ("numpy", ">=99", ""), ("no-driver", "", "sql")]
    monkeypatch.setattr(machine, "requirements", lambda: wanted)
    core, *extras = machine.package_symptoms()
    assert core.gravity == "ill"
    assert core.found.startswith("no-such-package is not installed; numpy 2")
    assert core.found.endswith("not >=99")
    sql = next(one for one in extras if one.what == "extra sql")
    assert (sql.gravity, sql.found) == ("note", "no-driver is not installed")
    assert sql.fix.endswith("pip install '.[sql]'")
    assert {one.gravity for one in extras if one is not sql} == {"well"}


def test_a_clock_before_the_install_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.0)
    assert machine.clock_symptom().gravity == "ill"


def test_processors_and_memory_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cpu, memory = tmp_path / "cpuinfo", tmp_path / "meminfo"
    monkeypatch.setattr(machine, "_CPU", cpu)
    monkeypatch.setattr(machine, "_MEMORY", memory)
    cpu.write_text("model name\t: aes\nflags\t\t: fpu sse2\n")
    memory.write_text("MemTotal:       8000000 kB\nMemAvailable:   1048576 kB\n")
    assert machine.aes_symptom().gravity == "note"
    assert machine.cores_symptom().gravity == "note"
    assert machine.cores_symptom().found.endswith("1.0 GiB of memory free")
    cpu.write_text("Features\t: fp asimd aes sha2\n")
    memory.write_text("MemAvailable:   4194304 kB\n")
    assert machine.aes_symptom().gravity == "well"
    assert machine.cores_symptom().gravity == "well"


def test_kernels_are_kept_where_numba_is_told(tmp_path: Path) -> None:
    """In a process of its own: Numba looks once, when it is loaded."""
    program = "from hedgerow.cli.doctor import machine\nprint(machine.kernel_symptom().found)"
    home = tmp_path / "cache"
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"NUMBA_CACHE_DIR": str(home)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "1 kept compiled" in told
    assert str(home) in told
