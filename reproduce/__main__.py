"""``python -m reproduce [SEED]``: run a paper's experiments, or all, again and draw the figures.

``python -m reproduce page`` makes ``docs/reproduction/`` of the results of the last runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reproduce.page import keep, write_pages
from reproduce.papers import PAPERS, STOPPED, run_paper, run_within

MINUTES = 45.0
"""Most that a paper may take by default: three times what the longest takes on two cores."""


def main() -> None:
    """Parse the command line, run the experiments, print an object or a table for each paper."""
    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    parser.add_argument(
        "seed",
        nargs="?",
        choices=[*PAPERS, "page"],
        help="number of the paper (all, one by one), or page: write docs/reproduction/",
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller experiments")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each paper")
    parser.add_argument(
        "--out", type=Path, help="folder of the figures (reproduced/SEED); of all papers' folders"
    )
    parser.add_argument(
        "--redraw", action="store_true", help="draw the figures from the runs in that folder"
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="stop a paper after so many (%(default)g)"
    )
    given = parser.parse_args()
    within = Path("reproduced") if given.out is None else given.out
    if given.seed == "page":
        taken = keep(within)
        write_pages()
        print(f"docs/reproduction/: results of {', '.join(taken) or 'no paper'} taken over")
        return
    ends = []
    for seed in [given.seed] if given.seed else PAPERS:
        own = given.seed is not None and given.out is not None
        out = within if own else within / (seed + "-quick" * given.quick)
        words = (seed, out, given.quick, given.redraw, given.json)
        ends.append(run_within(given.minutes, run_paper, *words))
        if ends[-1] == STOPPED:
            said = f"{seed} was stopped after {given.minutes:g} minutes and left no new result."
            print(said, file=sys.stderr)
        elif ends[-1]:
            break
    sys.exit(max(ends))


if __name__ == "__main__":
    main()
