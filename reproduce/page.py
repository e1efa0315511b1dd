"""The pages of what came out: every table and figure beside the paper's, a verdict per claim.

`keep` takes the results of the last runs into ``docs/reproduction/``, one folder for each paper:
``result.json``, cut down to what the pages say, and the figures. `pages` makes the pages of these,
of `PAPERS` and of the references, and of nothing else: they are the same wherever they are made.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from hedgerow.cli.papers import known_papers
from reproduce.papers import PAPERS
from reproduce.report import VERDICTS

FOLDER = Path(__file__).parents[1] / "docs/reproduction"
KEPT = ("made", "seconds", "claims", "tables", "figures", "findings", "notes")
"""What a page says of a result."""

MARKS = dict(zip(VERDICTS, "✓◐✗○", strict=True))
LONG = 14
"""Lines of a table, or sentences, beyond which they are folded."""

Result = dict[str, Any]


def keep(results: Path, folder: Path = FOLDER) -> list[str]:
    """Take over the results in a folder of `python -m reproduce`; returns the papers taken."""
    taken = []
    for paper in PAPERS:
        source = results / paper
        if not (source / "result.json").exists():
            continue
        result = json.loads((source / "result.json").read_text(encoding="utf-8"))
        # An earlier version left less: `--redraw` makes it anew.
        if not set(KEPT) <= set(result):
            continue
        target = folder / paper
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        kept = json.dumps({key: result[key] for key in KEPT}, indent=1, ensure_ascii=False)
        (target / "result.json").write_text(kept + "\n", encoding="utf-8")
        for figure in result["figures"]:
            shutil.copy(source / f"{figure['name']}.svg", target)
        taken.append(paper)
    return taken


def kept_results(folder: Path = FOLDER) -> dict[str, Result]:
    """Return the results that are kept, by paper."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*/result.json"))
    }


def pages(results: dict[str, Result]) -> dict[str, str]:
    """Return all pages by the names of their files."""
    made = {"README.md": "\n".join(_overview(results)) + "\n"}
    return made | {f"{p}.md": "\n".join(_paper(p, one)) + "\n" for p, one in results.items()}


def write_pages(folder: Path = FOLDER) -> None:
    """Write the pages of what is kept."""
    for name, text in pages(kept_results(folder)).items():
        (folder / name).write_text(text, encoding="utf-8")


def _overview(results: dict[str, Result]) -> Iterator[str]:
    yield "# What came out of the papers' experiments\n"
    yield (
        "All tables and figures of the five papers as they come out here, beside what the papers\n"
        "print, with a verdict on each claim. These pages are made of the results of the last full "
        "runs\n(`make reproduce`); nothing on them is typed. "
        "[How to reproduce](../how-to/reproduce.md) says\nwhat is run and "
        "[how claims are judged](../how-to/reproduce.md#how-claims-are-judged),\n"
        "[what the papers claim, and what holds](../explanation/papers.md) what follows from it.\n"
    )
    marks = [f"{mark} {verdict}" for verdict, mark in MARKS.items()]
    rows = []
    for paper, one in results.items():
        counts = Counter(claim["verdict"] for claim in one["claims"])
        made = one["made"]
        rows.append(
            [
                f"[{paper}: {PAPERS[paper][0]}]({paper}.md)",
                *("" if made["quick"] else str(counts[verdict]) for verdict in VERDICTS),
                _minutes(one),
                made["date"] or "",
                f"`{made['commit']}`" + " (small version)" * made["quick"],
            ]
        )
    yield from _table(("paper", *marks, "minutes", "run on", "of commit"), rows, raw=True)
    missing = [paper for paper in PAPERS if paper not in results]
    if missing:
        yield f"\nNo full run of {', '.join(missing)} has been kept yet."
    total = sum(one["seconds"] for one in results.values())
    yield f"\nTogether {total / 60:.0f} minutes. {_machines(results)}"
    yield "\n## The papers\n"
    for paper in PAPERS:
        yield f"- {paper}: {_citation(paper)}  \n  {_command(paper)}"
    yield "\n## All verdicts"
    for paper, one in results.items():
        yield f"\n### {paper}: {PAPERS[paper][0]}\n"
        if one["made"]["quick"]:
            yield f"No full run has been kept yet. [Its page]({paper}.md) has a small version."
            continue
        yield f"[What was measured]({paper}.md#claims), or a counterexample, stands beside each.\n"
        yield from _table(
            ("where", "claim", "verdict"),
            [[c["where"], c["claim"], _verdict(c)] for c in one["claims"]],
        )


def _paper(paper: str, one: Result) -> Iterator[str]:
    title, _ = PAPERS[paper]
    made = one["made"]
    yield f"# {paper}: {title}\n"
    if made["quick"]:
        yield (
            "**A small version of the experiments, since no full run has been kept yet: its "
            "numbers\nand verdicts say little.**\n"
        )
    yield f"{_citation(paper)}\n"
    yield (
        f"{_command(paper)} runs it again. What stands here was run at commit `{made['commit']}`, "
        f"{_day(made)}: {_minutes(one)} minutes{_load(made)} on {_machine(made)}.\n"
        f"[How it is set up](../how-to/reproduce.md#{_anchor(paper)}); the results as "
        f"[JSON]({paper}/result.json).\n"
    )
    yield "## Claims\n"
    for claim in one["claims"]:
        yield f"- **{_verdict(claim)}**: {_text(claim['claim'])} ({_text(claim['where'])})  "
        yield f"  {_text(claim['evidence'])}"
    if one["tables"]:
        yield "\n## Tables"
    for table in one["tables"]:
        yield f"\n### {_text(table['title'])}\n"
        lines = [*_table(table["head"], table["rows"])]
        yield from _folded(lines, f"{len(table['rows'])} rows")
        if table["note"]:
            yield f"\n{_text(table['note'])}"
    yield "\n## Figures"
    for figure in one["figures"]:
        title = f"Figure {figure['figure']}: {figure['title']}"
        file = f"{paper}/{figure['name']}.svg"
        yield f"\n### {_text(title)}\n"
        yield '<div class="figure" tabindex="0" markdown="1">\n'
        yield f"[![{_text(title)}]({file})]({file})\n\n</div>\n"
        yield _text(figure["caption"].replace("\n", " "))
    yield "\n## In sentences\n"
    said = [f"- {_text(sentence)}" for sentence in one["findings"]]
    yield from _folded(said, f"{len(said)} sentences")
    yield "\n## How to read it\n"
    yield from (f"- **{_text(key)}**: {_text(said)}" for key, said in one["notes"].items())


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, raw: bool = False
) -> Iterator[str]:
    """Write a table; numbers stand at the right. `raw`: cells are Markdown."""
    right = [
        all(not row[i] or row[i].lstrip("+-−")[:1].isdigit() for row in rows)
        for i in range(len(head))
    ]
    yield f"| {' | '.join(head if raw else map(_text, head))} |"
    yield f"|{'|'.join('---:' if at_right else '---' for at_right in right)}|"
    for row in rows:
        cells = row if raw else [_unbroken(_text(cell)) for cell in row]
        yield f"| {' | '.join(cells)} |"


def _unbroken(cell: str) -> str:
    """Keep a number and its spread on one line."""
    for sign in ("±", "≠"):
        cell = cell.replace(f" {sign}", f"&nbsp;{sign}").replace(f"{sign} ", f"{sign}&nbsp;")
    return cell


def _folded(lines: Sequence[str], what: str) -> Iterator[str]:
    """Fold what is long: the rest of the page is found without scrolling past it."""
    if len(lines) <= LONG:
        yield from lines
    else:
        yield f'<details markdown="1"><summary>{what}</summary>\n'
        yield from lines
        yield "\n</details>"


def _citation(paper: str) -> str:
    """Return who wrote a paper, its title, where it appeared, and its key."""
    _, key = PAPERS[paper]
    return f"{_text(_citations()[key])} (`{key}` in the [references](../reference/papers.md))."


@cache
def _citations() -> dict[str, str]:
    return {one.key: one.citation for one in known_papers()}


def _command(paper: str) -> str:
    return f"`make reproduce SEED={paper}`"


def _verdict(claim: dict[str, Any]) -> str:
    return f"{MARKS[claim['verdict']]} {claim['verdict']}"


def _minutes(one: Result) -> str:
    return f"{one['seconds'] / 60:.1f}"


def _day(made: dict[str, Any]) -> str:
    if made["date"] is None:
        return "unknown day"
    day = date.fromisoformat(made["date"])
    return f"{day.day} {day:%B %Y}"


def _load(made: dict[str, Any]) -> str:
    """Say what else the machine did, which shows in seconds on the wall."""
    if made["load"] is None:
        return ""
    before, after = made["load"]
    return f" (load {before:.1f} before, {after:.1f} after)"


def _machine(made: dict[str, Any]) -> str:
    found = made["machine"]
    memory = f"{found['memory_bytes'] / 2**30:.0f} GiB, " if found["memory_bytes"] else ""
    names = ("python", "hedgerow", "numpy", "numba", "scikit-learn")
    versions = ", ".join(f"{name} {found[name]}" for name in names)
    return f"{found['cores']} cores ({found['cpu']}, {memory}{versions})"


def _machines(results: dict[str, Result]) -> str:
    found = list(dict.fromkeys(_machine(one["made"]) for one in results.values()))
    return f"Machine{'s' * (len(found) > 1)}: {'; '.join(found)}." if found else ""


def _anchor(paper: str) -> str:
    """Return the place of a heading, as GitHub and the site name it."""
    heading = f"{paper}: {PAPERS[paper][0]}".lower()
    return "".join(c for c in heading if c.isalnum() or c in " -").replace(" ", "-")


def _text(said: str) -> str:
    """Keep what a text has in it, apart from code, from being read as Markdown."""
    escapes = {ord(c): f"\\{c}" for c in "\\|*_[]"} | {ord("<"): "&lt;", ord("&"): "&amp;"}
    parts = said.replace("\n", " ").split("`")
    return "`".join(one if i % 2 else one.translate(escapes) for i, one in enumerate(parts))
