"""The examples run, also where only the core is installed."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
# What `make demo` does not install must not be needed.
WITHOUT_EXTRAS = """
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pandas", "onnx", "onnxruntime", "matplotlib", "polars"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_demo_runs_on_the_core_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, str(EXAMPLES / "demo.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for text in ("CARTClassifier (no privacy)", "DPTreeClassifier", "noisy max", "add/remove"):
        assert text in done.stdout
