"""Paper 002, ID3 among several sites: its worked example, its cost formulas, and its claims.

Writes each figure as SVG and JSON, all runs as ``runs.json`` and what came out as ``result.json``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from reproduce.jobs import progress_of
from reproduce.paper_002.claims import claims
from reproduce.paper_002.figures import captions, figures
from reproduce.paper_002.findings import findings, rows
from reproduce.paper_002.plots import draw
from reproduce.paper_002.study import FULL, QUICK, Extent, run_all
from reproduce.paper_002.tables import tables
from reproduce.report import runs_in, write_result

NOTES = {
    "sites": "All sites, and the servers of secret counts, are in one process and exchange the "
    "real messages. Keys are drawn from the operating system; what is counted does not depend on "
    "them.",
    "ring": "As published: all sites in every intersection. One pass of the ring gives the counts "
    "of all values and classes of an attribute, where the paper has a protocol for each.",
    "needed": "The default of VerticalID3Classifier: a site takes part only if its constraints, "
    "its attribute or the class matter.",
    "secret": "cardinality='secret': counts on shares of three servers, gains compared there.",
    "formulas": "q counts leaves as well. The paper's bitsize is 256, of points of Curve25519.",
    "counted": "From a table and its finished tree: what the algorithms would cost with one "
    "protocol for every intersection.",
    "tables": "The paper's example is the weather table. It has no experiments: tables of growing "
    "size are random, car evaluation and mushroom are real.",
}


def run(*, quick: bool = False, out: Path, redraw: bool = False) -> dict[str, Any]:
    """Run everything and write it to a folder.

    `quick`: the example and tables of 40 records. `out`: is made if it is not there. `redraw`:
    take the runs of an earlier call from `out` and draw the figures anew. Returns what
    `write_result` does.
    """
    extent = QUICK if quick else FULL
    done = runs_in(out, lambda: _everything(extent, quick=quick), redraw=redraw)
    records = done["records"]
    drawn = figures(records, extent)
    found = {
        "rows": rows(records),
        "claims": claims(records),
        "findings": findings(records),
        "notes": NOTES,
        "tables": tables(records),
    }
    return write_result(out, done, found, drawn, captions(extent.base), draw, quick=quick)


def _everything(extent: Extent, *, quick: bool) -> dict[str, Any]:
    start = time.perf_counter()
    with progress_of("trees") as tell:
        # Other processes would take longer to start than the small version takes.
        records = run_all(extent, tell, here=quick)
    return {"records": records, "seconds": time.perf_counter() - start}
