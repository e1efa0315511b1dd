"""``python -m reproduce [SEED]``: run a paper's experiments, or all, again and draw the figures.

A paper has a number of three digits; `PAPERS` names the module with its experiments, whose
``run(quick=, out=, redraw=)`` returns ``rows`` as `reproduce.report.row` makes them, ``findings``
in sentences, perhaps ``claims`` with a verdict each (`reproduce.report.claim`), and whatever else
is its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from bench.data import folder
from bench.harness import machine
from hedgerow.errors import HedgerowError
from reproduce.report import print_result

PAPERS = {
    "000": "reproduce.paper_000.run",
    "001": "reproduce.paper_001.run",
    "002": "reproduce.paper_002.run",
    "003": "reproduce.paper_003.run",
    "004": "reproduce.paper_004.run",
}


def main() -> None:
    """Parse the command line, run the experiments, print an object or a table for each paper."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    parser.add_argument(
        "seed", nargs="?", choices=sorted(PAPERS), help="number of the paper (all, one by one)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller experiments")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each paper")
    parser.add_argument(
        "--out", type=Path, help="folder of the figures (reproduced/SEED); of all papers' folders"
    )
    parser.add_argument(
        "--redraw", action="store_true", help="draw the figures from the runs in that folder"
    )
    arguments = parser.parse_args()
    for seed in [arguments.seed] if arguments.seed else sorted(PAPERS):
        within = Path("reproduced") if arguments.out is None else arguments.out
        own = arguments.seed is not None and arguments.out is not None
        out = within if own else within / (seed + "-quick" * arguments.quick)
        try:
            module = importlib.import_module(PAPERS[seed])
            found = module.run(quick=arguments.quick, out=out, redraw=arguments.redraw)
        except HedgerowError as error:
            parser.exit(2, f"{error}\nData sets are read from $HEDGEROW_DATA, now {folder()}.\n")
        result = {"seed": seed, "quick": arguments.quick, "machine": machine()} | found
        if arguments.json:
            print(json.dumps(result), flush=True)
        else:
            print_result(result)


if __name__ == "__main__":
    main()
