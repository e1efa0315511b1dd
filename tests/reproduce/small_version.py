"""The small version of a reproduction, run as users run it."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
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


def check_figure(path: Path, made: dict[str, Any]) -> None:
    """Check that a figure is a small SVG with text, complete in itself, that says what made it."""
    root = ET.parse(path).getroot()
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert {"title", "desc", "text", "path"} <= tags
    assert not tags & {"script", "image", "foreignObject"}
    places = {element.get("id") for element in root.iter()}
    said = [(key.rpartition("}")[2], value) for e in root.iter() for key, value in e.items()]
    assert all(value[0] == "#" and value[1:] in places for key, value in said if key == "href")
    style = "".join(e.text or "" for e in root.iter() if e.tag.endswith("style"))
    assert "@import" not in style
    assert "url(" not in style + "".join(value for _, value in said)
    description = next(e.text or "" for e in root if e.tag.endswith("desc"))
    assert f"commit {made['commit']}, {made['date']}" in description
    assert path.stat().st_size < 80_000
