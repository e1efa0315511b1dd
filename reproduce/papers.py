"""The five papers, and one of them run in a process of its own, for so many minutes at most."""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.data import folder
from bench.harness import machine
from hedgerow.errors import HedgerowError
from reproduce.report import print_result

PAPERS = {
    "000": ("trees hidden on three servers", "hiddentrees"),
    "001": ("forests of private medians", "consul2021diprime"),
    "002": ("ID3 among sites, by set intersections", "vaidya2005vertical"),
    "003": ("trees among peers", "wu2020pivot"),
    "004": ("best-first trees of several owners", "wang2020topdown"),
}
"""By number: what a paper is about, and its key in ``src/hedgerow/references.bib``."""

NO_DATA, STOPPED = 2, 3


def module_of(paper: str) -> str:
    """Return the module with a paper's experiments.

    Its ``run(quick=, out=, redraw=)`` returns what `reproduce.report.write_result` does.
    """
    return f"reproduce.paper_{paper}.run"


def run_paper(paper: str, out: Path, quick: bool, redraw: bool, as_json: bool) -> None:
    """Run one paper's experiments and print what came out."""
    try:
        run = importlib.import_module(module_of(paper)).run
        found = run(quick=quick, out=out, redraw=redraw)
    except HedgerowError as error:
        print(f"{error}\nData sets are read from $HEDGEROW_DATA, now {folder()}.", file=sys.stderr)
        sys.exit(NO_DATA)
    result = {"seed": paper, "quick": quick, "machine": machine()} | found
    if as_json:
        print(json.dumps(result), flush=True)
    else:
        print_result(result)


def run_within(minutes: float, work: Callable[..., None], *words: Any) -> int:
    """Call `work` in a process of its own; returns its exit status, STOPPED if it took too long.

    Every process that it has started is stopped with it.
    """
    process = multiprocessing.get_context("spawn").Process(target=_apart, args=(work, words))
    process.start()
    try:
        process.join(60 * minutes)
        return STOPPED if process.exitcode is None else abs(process.exitcode)
    finally:
        if process.exitcode is None and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # It may not have come to have a group of its own yet.
            process.kill()
            process.join()


def _apart(work: Callable[..., None], words: tuple[Any, ...]) -> None:
    os.setsid()
    work(*words)
