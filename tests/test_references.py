"""Every paper that a docstring names is in src/hedgerow/references.bib."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEYS = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "src/hedgerow/references.bib").read_text(), re.M))
CITATION = re.compile(
    r"Papers?: ([\w, ]+?)(?:[,;.]? (?:algorithm|section|theorem|proposition|lemma)|[.;]|$)", re.M
)


def cited(text: str) -> set[str]:
    """Keys after ``Paper:``, up to the place inside the paper."""
    return {
        key.strip() for found in CITATION.findall(text) for key in found.split(",") if key.strip()
    }


def test_the_pattern_finds_keys() -> None:
    assert cited("Paper: breiman1984cart, section 2.") == {"breiman1984cart"}
    assert cited("Papers: a2000b, c2001d.") == {"a2000b", "c2001d"}


def test_every_cited_paper_is_listed() -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {key}"
        for path in (ROOT / "src").rglob("*.py")
        for key in cited(path.read_text())
        if key not in KEYS
    }
    assert unknown == set()


def test_the_sources_cite_papers() -> None:
    keys = {key for path in (ROOT / "src").rglob("*.py") for key in cited(path.read_text())}
    assert {"quinlan1986id3", "breiman1984cart", "mckenna2020permute"} <= keys
