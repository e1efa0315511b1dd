"""Write the reference page of the papers behind the code; `make docs` calls it with the path."""

from __future__ import annotations

import sys
from pathlib import Path

from hedgerow.cli.papers import Paper, known_papers

HEAD = """# Papers

What the code is after, by the keys that docstrings name. This page is made of
`src/hedgerow/references.bib` and the sources (`make docs`); `hedgerow papers` prints the same, and
`hedgerow papers KEY` every file that names one. How well the code keeps to the five that it began
with, and where it departs from them, is a page of [its own](../explanation/papers.md).

| key | paper | estimators | below `hedgerow/` |
|---|---|---|---|
"""


def row(paper: Paper) -> str:
    """Return the line of a paper."""
    used = " | ".join(", ".join(names) for names in (paper.estimators, paper.rooms))
    return f"| `{paper.key}` | {paper.citation} | {used} |\n"


def page() -> str:
    """Return the page."""
    return HEAD + "".join(map(row, known_papers()))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
