"""The small version of a reproduction, run as users run it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def small_version(paper: str, out: Path, *more: str) -> dict[str, Any]:
    """Run it once; returns the printed object, and its folder as ``out``."""
    ended = subprocess.run(
        [sys.executable, "-m", "reproduce", paper, "--quick", "--json", "--out", str(out), *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout) | {"out": out}
