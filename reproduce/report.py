"""Results for a person: our figure beside the paper's, and a verdict on each of its claims."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal, cast, get_args

from rich.console import Console
from rich.table import Table

from bench.harness import machine


def row(case: str, ours: float, paper: float | None = None, **more: Any) -> dict[str, Any]:
    """One result; `paper` is what the paper prints, absent where it shows a curve without figures.

    `**more`: notes, printed as they are.
    """
    result: dict[str, Any] = {"case": case, "ours": ours}
    if paper is not None:
        result["paper"] = paper
    return result | more


def table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> dict[str, Any]:
    """One table for ``tables`` of the result, of texts; `note` stands below it."""
    return {"title": title, "head": [*head], "rows": [[*cells] for cells in rows], "note": note}


def number(value: float, digits: int = 4) -> str:
    """Write a number for people: so many digits, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


Verdict = Literal["holds", "holds in part", "does not hold", "not tested"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The last is for claims about what is not built, or that this machine cannot show."""


def claim(where: str, said: str, verdict: Verdict, evidence: str) -> dict[str, Any]:
    """One claim of the paper, for ``claims`` of the result.

    `where` is its place in the paper, `said` the claim in few words, `evidence` a sentence of what
    was measured or a counterexample.
    """
    return {"where": where, "claim": said, "verdict": verdict, "evidence": evidence}


def verdict_of(whole: bool, part: bool = False) -> Verdict:
    """Return the verdict on a claim that holds as it stands, or else at least in part."""
    return "holds" if whole else "holds in part" if part else "does not hold"


def verdict_on(settings: Sequence[bool]) -> Verdict:
    """Judge a claim by the settings it was tried in, each with whether it came out there.

    All: it holds. More than half: in part. Otherwise, and if there are none, it does not hold. A
    claim of two quantities has the settings of both.
    """
    held = sum(map(bool, settings))
    return verdict_of(0 < held == len(settings), part=2 * held > len(settings))


WORDS = (
    *("run", "claims", "findings", "tables", "figures", "plots", "svg"),
    *("report", "page", "papers", "__main__"),
)
"""Modules that say and draw what came out; they change no run."""


def runs_in(out: Path, make: Callable[[], dict[str, Any]], *, redraw: bool) -> dict[str, Any]:
    """Make all runs and keep them in ``runs.json`` of a folder, or take those of an earlier call.

    The folder is made if it is not there. Beside what `make` returns stands what made the runs: the
    commit, the machine, the day, and the load before and after.
    """
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "runs.json"
    if redraw:
        return cast(dict[str, Any], json.loads(kept.read_text()))
    load = [os.getloadavg()[0]]
    made = {"commit": commit(), "machine": machine(), "date": f"{date.today()}", "load": load}
    made |= make()
    load.append(os.getloadavg()[0])
    kept.write_text(json.dumps(made))
    return made


def commit() -> str:
    """Return the last commit that changed what is run, with "+" if files differ from it.

    Commits of documents, tests, and of what is said about finished runs change no result.
    "unknown" outside of a checkout.
    """
    said = [f":(exclude,glob)reproduce/**/{word}.py" for word in WORDS]

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[1]), *words]
        command += ["--", "src", "bench", "reproduce", *said]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("log", "-1", "--abbrev=10", "--format=%h") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write_result(
    out: Path,
    done: Mapping[str, Any],
    said: Mapping[str, Any],
    drawn: Mapping[str, dict[str, Any]],
    captions: Mapping[str, str],
    draw: Callable[[dict[str, Any], Path, str], None],
    *,
    quick: bool,
) -> dict[str, Any]:
    """Write ``result.json``, each figure or table as JSON, and those with a caption as SVG.

    `done`: the runs. `said`: ``rows``, ``claims``, ``findings``, ``tables``, ``notes`` and what
    else came out of them. Returns these with ``made`` (what made the runs), ``seconds`` that they
    took, ``figures`` and ``files``.
    """
    made = {"quick": quick} | {key: done.get(key) for key in ("commit", "machine", "date", "load")}
    by = f"Runs of commit {made['commit']}, {made['date']}."
    files, figures = [], []
    for name, found in drawn.items():
        files.append(out / f"{name}.json")
        files[-1].write_text(json.dumps(found | {"notes": said["notes"]}, indent=1))
        if name in captions:
            files.append(out / f"{name}.svg")
            draw(found, files[-1], f"{captions[name]} {by}".replace("\n", " "))
            figure = {key: f"{found[key]}" for key in ("figure", "title")}
            figures.append({"name": name} | figure | {"caption": captions[name]})
    result = dict(said) | {
        "made": made,
        "seconds": done["seconds"],
        "figures": figures,
        "files": [str(file) for file in files],
    }
    (out / "result.json").write_text(json.dumps(result, indent=1))
    return result


def print_result(result: dict[str, Any]) -> None:
    """Print the machine, the rows, the claims, the findings and where the figures are."""
    console = Console()
    console.print(", ".join(f"{key} {value}" for key, value in result["machine"].items()))
    kind = " (quick)" if result["quick"] else ""
    table = Table(title=f"reproduction of {result['seed']}{kind}")
    for column in ("case", "ours", "paper", "notes"):
        table.add_column(column, justify="right" if column in ("ours", "paper") else "left")
    for item in result["rows"]:
        figures = [f"{item[k]:.4g}" if k in item else "" for k in ("ours", "paper")]
        notes = ", ".join(f"{k} {v}" for k, v in item.items() if k not in ("case", "ours", "paper"))
        table.add_row(item["case"], *figures, notes)
    console.print(table)
    for one in result.get("claims", ()):
        console.print(f"{one['where']}: {one['claim']}")
        console.print(f"  {one['verdict'].upper()}: {one['evidence']}")
    for check in result.get("checks", ()):
        console.print(
            f"{check['case']}, {check['data']}: clear engine {check['clear']:.3f}, three servers "
            f"{check['servers']:.3f}, {'agree' if check['same'] else 'DIFFER'}"
        )
    for text in (*result.get("notes", {}).values(), *result.get("findings", ())):
        console.print(f"- {text}")
    console.print(f"{result['seconds']:.0f} s. " + " ".join(result.get("files", ())))
