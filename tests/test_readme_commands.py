"""The commands of the README for a consortium, as printed, in a shell of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.parties.free_ports import free_ports

ROOT = Path(__file__).parents[1]
DOMAIN = """\
capacity = 600
[target]
name = "readmitted"
classes = ["no", "yes"]
[[attributes]]
name = "age"
kind = "numeric"
bounds = [0, 100]
bins = 4
[[attributes]]
name = "ward"
kind = "categorical"
categories = ["a", "b"]
"""


def commands() -> str:
    """Return the block of the README that begins a consortium."""
    blocks = re.findall(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    (block,) = [block for block in blocks if "consortium new" in block]
    return block


def write_tables(folder: Path) -> None:
    """Write what the commands need: two tables, rows to ask about, the domain and the job."""
    rng = np.random.default_rng(7)
    for owner in ("north", "south"):
        ages = rng.integers(0, 100, 250)
        rows = [f"{age},{'ab'[age % 2]},{'yes' if age > 49 else 'no'}" for age in ages]
        (folder / f"{owner}.csv").write_text("age,ward,readmitted\n" + "\n".join(rows) + "\n")
    (folder / "rows.csv").write_text("age,ward\n10,a\n90,b\n")
    (folder / "domain.toml").write_text(DOMAIN)
    page = (ROOT / "docs" / "reference" / "jobs.md").read_text()
    job = re.search(r"^```toml\n(.*?)^```", page, re.M | re.S)
    assert job is not None
    (folder / "job.toml").write_text(job[1])


@pytest.mark.slow
def test_the_commands_of_a_consortium_run_as_printed(tmp_path: Path) -> None:
    write_tables(tmp_path)
    program = tmp_path / "bin" / "hedgerow"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hedgerow.cli "$@"\n')
    program.chmod(0o700)
    # Other consortia on this machine may have the usual ports.
    ports = f"consortium new wards --first-port {free_ports()} "
    script = commands().replace("consortium new wards ", ports)
    done = subprocess.run(
        ["bash", "-e", "-c", f"trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{script}"],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("alder serves wards", "north-1: 300 slots", "readmission-", ": done"):
        assert part in done.stdout + done.stderr
    answers = re.findall(r"│ (\d) +│ (no|yes) +│", done.stdout)
    assert [row for row, _ in answers] == ["0", "1"]
