"""The commands of the README and of the newcomer's page, as printed, in a shell of their own."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.parties.free_ports import free_ports
from tests.postgres import ESCAPED, PASSWORD, serving_postgres

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


def run_commands(script: str, folder: Path, **variables: str) -> str:
    """Run a script as a newcomer types it, in a folder; return all that it printed."""
    program = folder / "bin" / "hedgerow"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hedgerow.cli "$@"\n')
    program.chmod(0o700)
    # Other consortia on this machine may have the usual ports.
    ports = f"consortium new wards --first-port {free_ports()} "
    script = script.replace("consortium new wards ", ports)
    path = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n{script}"],
        cwd=folder,
        env=os.environ | path | variables,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_answers(text: str) -> None:
    for part in ("alder serves wards", "readmission-", ": done"):
        assert part in text
    answers = re.findall(r"│ (\d) +│ (no|yes) +│", text)
    assert [row for row, _ in answers] == ["0", "1"]


@pytest.mark.slow
def test_the_commands_of_a_consortium_run_as_printed(tmp_path: Path) -> None:
    write_tables(tmp_path)
    text = run_commands(commands(), tmp_path)
    assert "north-1: 300 slots" in text
    check_answers(text)


def blocks_of(tutorial: str, language: str) -> list[str]:
    """Return the blocks of a tutorial in a language, in their order."""
    page = (ROOT / "docs/tutorial" / f"{tutorial}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)


@pytest.mark.slow
def test_a_table_of_ones_own_is_trained_on_three_servers(tmp_path: Path) -> None:
    (table,), (job,), blocks = (blocks_of("start", one) for one in ("python", "toml", "console"))
    subprocess.run([sys.executable, "-c", table], cwd=tmp_path, check=True)
    (tmp_path / "job.toml").write_text(job)
    text = run_commands("".join(blocks[:-1]), tmp_path)
    assert "north-1: 3,000 slots" in text
    assert "All that is needed works." in text
    check_answers(text)


@pytest.mark.slow
def test_three_organisations_train_each_with_its_own_keys(tmp_path: Path) -> None:
    page = "three-machines"
    (tables,), (job,), blocks = (blocks_of(page, one) for one in ("python", "toml", "console"))
    subprocess.run([sys.executable, "-c", tables], cwd=tmp_path, check=True)
    (tmp_path / "agreed" / "job.toml").write_text(job)
    text = run_commands("".join(blocks), tmp_path)
    assert "south-1: 1,000 slots" in text
    check_answers(text)
    # No machine has a key of another one, and what is sent to everybody has none.
    keys = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("party.key")}
    homes = {"hospital": ("alder", "north"), "clinic": ("birch", "south")}
    homes["university"] = ("cedar", "zoe")
    assert keys == {f"{at}/{name}/keys/party.key" for at in homes for name in homes[at]}
    assert "runs_per_poster = 20\n" in text
    assert (tmp_path / "university" / "readmission-1.report.html").exists()


@pytest.mark.long
def test_a_table_in_postgresql_is_fitted_as_printed(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with serving_postgres() as server:
        text = run_commands(blocks_of("start", "console")[-1], tmp_path, DATABASE=server.uri())
    assert PASSWORD not in text
    assert ESCAPED not in text
    assert re.search(r"spent: epsilon 1, delta 1e-08 of epsilon 3", text)
    with (tmp_path / "answers.csv").open(newline="") as file:
        said = [row["class"] for row in csv.DictReader(file)]
    # Whoever is old and has many conditions comes back: somebody is told so, and not everybody.
    assert 100 < said.count("yes") < 2500
    assert said.count("yes") + said.count("no") == 5000
    assert (tmp_path / "readmission/report.html").exists()
