"""The pages of what came out: made of the results that are kept, complete, small."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

from hedgerow.cli.papers import known_papers
from reproduce.page import FOLDER, KEPT, keep, kept_results, pages
from reproduce.papers import PAPERS
from reproduce.report import VERDICTS, table
from reproduce.svg import luminance, save_svg
from tests.reproduce.small_version import ROOT, check_figure

RESULTS = kept_results()


def test_the_pages_are_made_of_the_results_that_are_kept() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert written == pages(RESULTS), "run `python -m reproduce page`"


@pytest.mark.parametrize("paper", PAPERS)
def test_a_run_of_every_paper_is_kept(paper: str) -> None:
    made = RESULTS[paper]["made"]
    # Where no full run has come to its end yet, the page says so.
    page = (FOLDER / f"{paper}.md").read_text(encoding="utf-8")
    assert ("A small version" in page) == made["quick"]
    assert re.fullmatch(r"[0-9a-f]{10}", made["commit"])
    assert RESULTS[paper]["claims"]
    assert (FOLDER / paper / "result.json").stat().st_size < 60_000


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_are_complete_in_themselves_and_name_their_commit(paper: str) -> None:
    named = {figure["name"] for figure in RESULTS[paper]["figures"]}
    files = sorted((FOLDER / paper).glob("*.svg"))
    assert {file.stem for file in files} == named
    for file in files:
        check_figure(file, RESULTS[paper]["made"])
        assert f"({paper}/{file.name})" in (FOLDER / f"{paper}.md").read_text(encoding="utf-8")


def test_papers_are_cited_in_full_with_what_runs_them_again() -> None:
    made, known = pages(RESULTS), {one.key: one for one in known_papers()}
    for paper, (_, key) in PAPERS.items():
        assert known[key].title
        for text in (made["README.md"], made[f"{paper}.md"]):
            assert known[key].citation in text
            assert f"`{key}`" in text
            assert f"`make reproduce SEED={paper}`" in text


def test_all_that_is_kept_is_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.rglob("*.*")]
    assert sum(sizes) < 1_500_000


def test_a_verdict_for_every_claim_of_a_full_run_is_on_the_first_page() -> None:
    """A small version says little, so that its verdicts are on its own page alone."""
    results = RESULTS | {"000": RESULTS["000"] | {"made": RESULTS["000"]["made"] | {"quick": True}}}
    for made in (RESULTS, results):
        first, full = pages(made)["README.md"], 0
        for paper, result in made.items():
            counts = Counter(claim["verdict"] for claim in result["claims"])
            small = result["made"]["quick"]
            full += 0 if small else len(result["claims"])
            cells = " | ".join("" if small else str(counts[verdict]) for verdict in VERDICTS)
            assert re.search(rf"\[{paper}: .*\) \| {re.escape(cells)} \|", first)
            assert (f"No full run has been kept yet. [Its page]({paper}.md)" in first) == small
        shown = re.findall(r"\| [✓◐✗○] [a-z ]+ \|$", first, re.M)
        assert len(shown) == full


def test_new_results_take_the_place_of_those_that_are_kept(tmp_path: Path) -> None:
    results, folder = tmp_path / "reproduced", tmp_path / "kept"
    keep(FOLDER, folder)
    assert kept_results(folder) == RESULTS
    for path in FOLDER.glob("*/*"):
        assert (folder / path.relative_to(FOLDER)).read_bytes() == path.read_bytes()
    (results / "002").mkdir(parents=True)
    new = RESULTS["002"] | {"figures": [], "rows": ["for the console"]}
    (results / "002/result.json").write_text(json.dumps(new))
    assert keep(results, folder) == ["002"]
    assert [path.name for path in (folder / "002").iterdir()] == ["result.json"]
    assert list(kept_results(folder)["002"]) == list(KEPT)
    assert kept_results(folder)["003"] == RESULTS["003"]


def test_a_text_is_no_markdown() -> None:
    result = RESULTS["002"] | {"tables": [table("t", ["a|b"], [["<b>*x*_y_ [2, 2] `a_b`"]])]}
    page = pages({"002": result})["002.md"]
    assert "| a\\|b |" in page
    assert "| &lt;b>\\*x\\*\\_y\\_ \\[2, 2\\] `a_b` |" in page


def test_a_paper_without_results_is_named() -> None:
    some = {paper: RESULTS[paper] for paper in ("000", "001", "002")}
    assert "No full run of 003, 004 has been kept yet." in pages(some)["README.md"]
    quick = RESULTS["002"] | {"made": RESULTS["002"]["made"] | {"quick": True}}
    assert "A small version" in pages({"002": quick})["002.md"]


def test_set_ups_are_where_the_pages_say() -> None:
    page = (ROOT / "docs/how-to/reproduce.md").read_text(encoding="utf-8")
    references = (ROOT / "src/hedgerow/references.bib").read_text(encoding="utf-8")
    for paper, (title, key) in PAPERS.items():
        assert f"\n## {paper}: {title}\n" in page
        assert f"{{{key}," in references


def test_figures_are_the_same_again_and_readable_on_a_dark_page(tmp_path: Path) -> None:
    written = []
    for name in ("one.svg", "two.svg"):
        drawn, axes = plt.subplots()
        axes.plot([1, 2, 3], [1, 4, 9], "o-", color="#332288", label="squares & more")
        axes.legend()
        save_svg(drawn, tmp_path / name, "A title", "Runs of commit 0123456789, 2026-11-18.")
        plt.close(drawn)
        written.append((tmp_path / name).read_text(encoding="utf-8"))
    assert written[0] == written[1]
    made = {"commit": "0123456789", "date": "2026-11-18"}
    check_figure(tmp_path / "one.svg", made)
    light, dark = written[0].split("@media (prefers-color-scheme:dark)")
    name = re.search(r"--(c\d+):#332288", light)
    assert name is not None
    there = re.search(rf"--{name[1]}:(#[0-9a-f]{{6}})", dark)
    assert there is not None
    assert luminance("#332288") < 0.05
    assert luminance(there[1]) >= 0.25
