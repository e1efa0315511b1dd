"""Paper 001, forests of private medians: tables 1 and 2 and figures 1 to 4, run again.

Writes each table as JSON, each figure as SVG and JSON, all runs as ``runs.json`` and what came out
as ``result.json``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from reproduce.jobs import progress_of
from reproduce.paper_001.checks import explained
from reproduce.paper_001.claims import claims
from reproduce.paper_001.data import STAND_INS
from reproduce.paper_001.figures import figures, table_1, table_2
from reproduce.paper_001.findings import captions, findings, rows
from reproduce.paper_001.plots import draw
from reproduce.paper_001.study import FULL, QUICK, Extent, run_all
from reproduce.paper_001.tables import sizes, tables
from reproduce.report import runs_in, write_result

NOTES = {
    "data": "Stand-ins: " + "; ".join(f"{name}: {what}" for name, what in STAND_INS.items()) + ".",
    "bounds": "Bounds of attributes and targets are the range of each file, as the paper has it; "
    "of a private table they would be a release.",
    "grid": "Cuts lie on 1,024 bins of equal width, the paper's anywhere between records; DP-RF "
    "and DP-DF have 5 bins, as in the paper. RF and ERT see categories as numbers.",
    "paper": "Accounting 'paper' trains as published; `claimed` is the paper's ε and `proven` what "
    "the ledger holds, null for none: K medians of one node cost K times what is claimed, noise "
    "scaled by the records of a node has no finite ε, a bootstrap sample costs more than its rows.",
    "strict": "Accounting 'strict' has the same depth, trees and ε, and ε holds. Trees of DP-RF "
    "and DP-DF then have disjoint records, and leaves of median forests are drawn towards the "
    "nodes above them, which the paper does not do.",
    "shared": "DP-ERT and Median see all records in every tree, DiPriMe a tenth of them, as the "
    "paper's depths have it; DP-ERT's trees share ε.",
    "spread": "sd is over the splits. What the paper has behind ± it does not say; in the authors' "
    "notebook it is half of the 95% interval of the mean, `half_width` here.",
    "verdict": "'within': at most two of the paper's spreads away.",
    "table 2": "Beside it stand the figures of the authors' notebook at ε = 2 (DP-DF at 1).",
    "seeds": "Noise and splits are seeded, so that the figures come out the same again.",
}


def run(*, quick: bool = False, out: Path, redraw: bool = False) -> dict[str, Any]:
    """Run everything and write it to a folder.

    `quick`: a small part: Parkinson's and banknote, two splits. `out`: is made if it is not there.
    `redraw`: take the runs of an earlier call from `out` and draw the figures anew. Returns
    ``rows`` for the table, ``claims``, ``findings``, ``notes`` and ``files``.
    """
    extent = QUICK if quick else FULL
    done = runs_in(out, lambda: _everything(extent), redraw=redraw)
    first, second = table_1(done["records"]), table_2(done["records"])
    drawn = figures(done["records"], extent)
    below = captions((extent.splits, extent.figure_splits))
    written = {"table_1": first, "table_2": second, **drawn}
    found = {
        "rows": sizes(extent) + rows(first, second),
        "claims": claims(first, second, drawn),
        "findings": findings(first, second, drawn) + explained(done["records"]),
        "notes": NOTES,
        "tables": tables(extent, first, second, drawn["figure_3"]),
    }
    return write_result(out, done, found, written, below, draw, quick=quick)


def _everything(extent: Extent) -> dict[str, Any]:
    start = time.perf_counter()
    with progress_of("runs") as tell:
        records = run_all(extent, tell)
    return {"records": records, "seconds": time.perf_counter() - start}
