"""Peers whose requirements clash with ours run in an environment of their own.

`run_peer` makes ``.bench/NAME`` (a virtual environment) on first use, installs the pinned peer
there, runs a script of ``peers/`` in it and returns the JSON object that the script prints.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def run_peer(name: str, requirements: list[str], script: str, argument: object) -> Any:
    """Run ``bench/peers/SCRIPT`` in the environment NAME with a JSON argument on standard input."""
    folder = ROOT / ".bench" / name
    python = folder / "bin" / "python"
    stamp = folder / "requirements.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != requirements:
        print(
            f"making the environment .bench/{name} for {', '.join(requirements)}", file=sys.stderr
        )
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*install, *requirements], check=True, stdout=sys.stderr)
        stamp.write_text(json.dumps(requirements))
    done = subprocess.run(
        [str(python), str(Path(__file__).parent / "peers" / script)],
        input=json.dumps(argument),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{script} failed in .bench/{name}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
