"""What an install takes: seconds and megabytes of the core, and of the core with each extra.

Each is installed into a virtual environment of its own in a temporary folder, from this checkout
and with the versions of ``constraints.txt``, without pip's cache. The seconds are mostly those of
the network and the disk.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path
from typing import Any

from bench.harness import row

ROOT = Path(__file__).parents[1]


def run() -> list[dict[str, Any]]:
    """Megabytes of each install, with its seconds and its number of packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = sorted(project["optional-dependencies"])
    return [_installed("core", "."), *(_installed(one, f".[{one}]") for one in extras)]


def _installed(case: str, what: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hedgerow-install-") as folder:
        venv.create(folder, with_pip=True)
        empty, _ = _size(Path(folder))
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--no-cache-dir", "-q"]
        start = time.perf_counter()
        subprocess.run(
            [*pip, "-c", "constraints.txt", what], cwd=ROOT, check=True, stdout=sys.stderr
        )
        seconds = time.perf_counter() - start
        size, packages = _size(Path(folder))
        return row(case, (size - empty) / 1e6, None, "MB", s=round(seconds), packages=packages - 1)


def _size(folder: Path) -> tuple[int, int]:
    """Return bytes of all files, and how many packages there are."""
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    return size, len(list(folder.glob("lib/python*/site-packages/*.dist-info")))
