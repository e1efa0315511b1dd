"""Paper 000, decision trees hidden on three servers: table 1 and figures 2 to 6, run again.

Writes each figure as SVG and JSON, all runs as ``runs.json`` and what came out as ``result.json``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from reproduce.jobs import progress_of
from reproduce.paper_000.checks import checks
from reproduce.paper_000.claims import claims
from reproduce.paper_000.costs import costs
from reproduce.paper_000.figures import figures
from reproduce.paper_000.findings import beside_the_paper, findings
from reproduce.paper_000.plots import draw
from reproduce.paper_000.study import FULL, QUICK, Extent, run_all
from reproduce.paper_000.tables import sizes, tables
from reproduce.report import runs_in, write_result

NOTES = {
    "engine": "Accuracy is that of the protocols' own code on the clear engine: the same steps and "
    "laws as on three servers, in one process; spot checks run on three simulated servers.",
    "seeds": "Noise and splits are seeded, so that the figures can be drawn again.",
    "spread": "sd is over all runs (splits times draws of noise), split_sd over the means of the "
    "splits. Bars in the figures are sd.",
    "auc": "The paper's prediction protocol answers with a class, so that its ROC AUC is that of "
    "classes (the mean of both classes' recall); `auc` is the same here. `auc_counts` is that of "
    "noisy counts, for modes whose counts may be shown.",
    "votes": "Votes are charged per answer: `votes` has ε for ONE answer, Q answers cost Q ε. The "
    "other methods' ε is for the model, that is for all answers.",
    "proven": "Epsilon that the ledger holds against whoever gets the answers or the opened tree; "
    "null is infinity. The paper's Laplace and exponential mechanisms are approximate and have "
    "none, in opened trees too.",
    "seconds": "Three server processes and an owner over mutual TLS on the loopback of this "
    "machine, one training each, so that other work on the machine shows in them; bytes are the "
    "payload that one server sends, a mean over the three.",
}


def run(*, quick: bool = False, out: Path, redraw: bool = False) -> dict[str, Any]:
    """Run everything and write it to a folder.

    `quick`: a small part: heart alone, two splits. `out`: is made if it is not there. `redraw`:
    take the runs of an earlier call from `out` and draw the figures anew. Returns what
    `write_result` does.
    """
    extent = QUICK if quick else FULL
    done = runs_in(out, lambda: _everything(extent, quick=quick), redraw=redraw)
    drawn = figures(done["records"], done["costs"], extent)
    below = {name: _caption(figure, done["records"]) for name, figure in drawn.items()}
    found = {
        "rows": sizes(extent) + beside_the_paper(drawn["figure_2"]),
        "claims": claims(drawn, done["checks"]),
        "findings": findings(drawn, done["checks"]),
        "checks": done["checks"],
        "notes": NOTES,
        "tables": tables(extent, drawn["figure_2"], done["checks"]),
    }
    return write_result(out, done, found, drawn, below, draw, quick=quick)


def _everything(extent: Extent, *, quick: bool) -> dict[str, Any]:
    start = time.perf_counter()
    # Timed, so before other work of this call, whose processes could still be ending.
    with progress_of("costs"):
        measured = costs(extent)
    with progress_of("accuracy") as tell:
        records = run_all(extent, tell)
    with progress_of("spot checks on three servers"):
        agreement = checks(quick=quick)
    seconds = time.perf_counter() - start
    return {"records": records, "checks": agreement, "costs": measured, "seconds": seconds}


def _caption(figure: dict[str, Any], records: list[dict[str, Any]]) -> str:
    splits = len({record["split"] for record in records})
    if figure["figure"] == 5:
        return (
            "Seconds: three server processes over TLS on one machine, after the upload, one "
            "training each.\nBytes: payload that one server sends in training, by the meter of "
            "three simulated servers."
        )
    counts = {
        panel["data"]: point["runs"]
        for panel in figure["panels"]
        for curve in panel["curves"]
        if curve["method"] != "none"
        for point in curve["points"]
    }
    runs = ", ".join(f"{name} {count}" for name, count in counts.items())
    text = f"Means over {splits} seeded 80-20 splits (runs at each point: {runs})"
    spread = "" if figure["figure"] == 6 else "; bars: standard deviation over the runs"
    dashed = "Dashed: no finite ε holds against those who ask, whatever ε the noise was drawn with."
    if figure["figure"] != 6:
        dashed += " Dash-dotted: ε would hold if the paper's mechanisms were exact."
    votes = "\nε of votes is for one answer, that of all others for all answers."
    return f"{text}{spread}.\n{dashed}" + (votes if figure["figure"] == 2 else "")
