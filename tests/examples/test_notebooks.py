"""The notebooks of the examples run from the first cell to the last, and say what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

# What has to be read off each: the audience, and the largest epsilon that it may have.
PROMISES = {
    "four_banks": {"server 0": 1.0, "public": 1.0},
    "statistics_office": {"tree": 0.5, "boosting": 1.0},
    "two_hospitals": {"server 0": 0.0, "analyst": 2.0},
}


def test_every_notebook_has_a_promise() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(PROMISES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert not cell.metadata
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    # The kernel has the package of this checkout, whatever is installed.
    client.execute(env=os.environ | {"PYTHONPATH": str(ROOT / "src")})
    text = "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    shown = {
        match[1].strip(): float(match[2])
        for match in re.finditer(r"^(\w[\w ]*?) +epsilon ([\d.e+-]+)(?:,|$)", text, re.MULTILINE)
    }
    for audience, most in PROMISES[path.stem].items():
        assert 0 <= shown[audience] <= most
    assert "scikit-learn" in text


def test_three_peers() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "three_peers.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    for part in (
        "everybody else: epsilon 2",
        "telephone: epsilon 4",
        "scikit-learn",
        "epsilon inf",
    ):
        assert part in done.stdout
