"""Paper 003, trees among peers: its table 1, figures 4 and 5 in shape, and its claims.

Writes each figure as SVG and JSON, all runs as ``runs.json`` and what came out as ``result.json``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from reproduce.jobs import progress_of
from reproduce.paper_003.claims import claims
from reproduce.paper_003.figures import captions, figures
from reproduce.paper_003.findings import findings, rows
from reproduce.paper_003.plots import draw
from reproduce.paper_003.study import FULL, QUICK, Extent, run_all
from reproduce.paper_003.tables import tables
from reproduce.paper_003.timing import REPEATS, SHORT
from reproduce.report import runs_in, write_result

NOTES = {
    "seconds": "Peers are processes over TLS on this machine. Processor seconds are of all peers, "
    "divided by their number; other work on the machine changes them little. The paper shows "
    "seconds on the wall of machines of their own, online alone.",
    "offline": "Base transfers, triples and seeds of bins need no target: offline. Those of the "
    "seeds need the bins.",
    "paillier": "linear='paillier': threshold Paillier of 2,048 bits, packed, as published but for "
    "the key, which peer 0 deals. The paper has 1,024 bits, and 512 in table 1.",
    "baseline": "linear='products': everything on shares, triples made by transfers. The paper's "
    "SPDZ-DT is the same idea in MP-SPDZ, of which it counts the online phase.",
    "clear": "CART in one process on the joined table stands for NPD-DT, without its messages.",
    "tables": "Table 1: five seeded 80-20 splits, columns of all kinds as ordered numbers in at "
    "most 8 bins by quantiles; scikit-learn is given the numbers of the bins. Single trees, and "
    "all models of bank, are trained among peers on all splits, the others on the first.",
    "repeats": f"What does not take {SHORT:g} seconds is measured {REPEATS} times, in processes of "
    "its own; every figure is the median.",
    "attacks": "Views are attacked as by `hedgerow audit`, with seeded randomness: epsilon of what "
    "all peers but one see of the last one's rows, beside what is opened. An attack could have "
    "found up to its ceiling, and does where a protocol is broken on purpose.",
    "synthetic": "Uniform columns; the target follows from the first attribute of every peer, a "
    "tenth is random.",
}


def run(*, quick: bool = False, out: Path, redraw: bool = False) -> dict[str, Any]:
    """Run everything and write it to a folder.

    `quick`: tiny tables and one data set. `out`: is made if it is not there. `redraw`: take the
    runs of an earlier call from `out` and draw the figures anew. Returns what
    `write_result` does.
    """
    extent = QUICK if quick else FULL
    done = runs_in(out, lambda: _everything(extent, quick=quick), redraw=redraw)
    records = done["records"]
    found = {
        "rows": rows(records),
        "claims": claims(records),
        "findings": findings(records),
        "notes": NOTES,
        "tables": tables(records),
    }
    return write_result(
        out, done, found, figures(records, extent), captions(extent), draw, quick=quick
    )


def _everything(extent: Extent, *, quick: bool) -> dict[str, Any]:
    start = time.perf_counter()
    with progress_of("cases") as tell:
        # Other processes would take longer to start than the small version takes.
        records = run_all(extent, tell, here=quick)
    return {"records": records, "seconds": time.perf_counter() - start}
