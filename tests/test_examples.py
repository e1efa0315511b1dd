"""The examples run, also where only the core is installed."""

import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
# What `make demo` does not install must not be needed, by the processes that it starts neither.
WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "onnx", "onnxruntime", "matplotlib", "polars"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
"""


def run(example: str, folder: Path, *arguments: str) -> str:
    """Run an example without the extras, with a folder of its own for temporary files."""
    (folder / "sitecustomize.py").write_text(WITHOUT_EXTRAS)
    scratch = Path(tempfile.mkdtemp(dir=folder))
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env=os.environ | {"PYTHONPATH": str(folder), "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(scratch.iterdir()) == []
    return done.stdout


def test_the_extras_are_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_EXTRAS)
    done = subprocess.run(
        [sys.executable, "-c", "import pandas"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert b"ModuleNotFoundError" in done.stderr


@pytest.mark.long
def test_demo_is_a_consortium(tmp_path: Path) -> None:
    kept = tmp_path / "trial"
    text = run("demo.py", tmp_path, "--keep", str(kept))
    # What is kept is whole, and names no file outside of it.
    assert "domain.toml" in (kept / "job.toml").read_text()
    names = {"domain.toml", "job.toml", "north.csv", "south.csv", "rows.csv", "align.key", "wards"}
    assert {path.name for path in kept.iterdir()} == {*names, "demo-report.html"}
    page = (kept / "demo-report.html").read_text()
    assert "a hidden decision tree that answers" in page
    assert '<abbr title="epsilon">ε</abbr> 1</span>' in page
    assert (kept / "wards" / "zoe" / "keys" / "party.pem").exists()
    for part in (
        "three servers up",
        "hidden, on three servers",
        "CARTClassifier (no privacy)",
        "nothing that depends on a row",
        "noisy max",
        "add/remove",
        "rounds among the servers",
        f"as a page, to open in a browser: {kept}/demo-report.html",
        f"cd {kept}",
        "hedgerow query diagnosis-1 rows.csv wards/zoe",
    ):
        assert part in text


def test_demo_ends_with_pages_that_are_there() -> None:
    said = runpy.run_path(str(EXAMPLES / "demo.py"))["next_step"](None)
    pages = re.findall(r"docs/\S+\.md", said)
    assert pages == ["docs/tutorial/start.md"]
    assert (EXAMPLES.parent / pages[0]).exists()


def test_private_tree_runs(tmp_path: Path) -> None:
    text = run("private_tree.py", tmp_path)
    for part in ("CARTClassifier (no privacy)", "DPTreeClassifier", "noisy max", "add/remove"):
        assert part in text
