"""The runs behind paper 004's figures: which settings, how often, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from reproduce.jobs import run_jobs
from reproduce.paper_004.checks import checked
from reproduce.paper_004.methods import METHODS, PAPERS, SPLITS, How, Method, Setting, run

Record = dict[str, Any]

ALPHAS = tuple(2.0**i for i in range(-3, 10))
BUDGETS = ("decay", "uniform")
HOWS: dict[How, tuple[Method, ...]] = {"published": PAPERS, "strict": METHODS, "ours": METHODS}
"""Methods of figure 2."""


@dataclass(frozen=True)
class Extent:
    """How much is run.

    `runs`: of every point: split, division among owners and noise are new in each. `data`: data
    sets of figure 2, those that take longest first. `lpf_data`, `size_data`: of figures 1 and 3.
    `alphas`, `lpf_alphas`, `size_alphas`: of figures 2, 1 and 3. `secure_alphas`: of secret counts
    with the paper's parameters; their noise is long at budgets that halve. `lpfs`: shares of the
    leaves, of figure 1. `shares`: of the training records, of figure 3. `check_runs`,
    `check_alphas`, `check_splits`: of the runs on three servers: how many, where, and M.
    """

    runs: int
    splits: int
    data: tuple[str, ...]
    alphas: tuple[float, ...] = ALPHAS
    secure_alphas: tuple[float, ...] = ALPHAS[::3]
    lpf_data: tuple[str, ...] = ("adult", "bank")
    lpf_alphas: tuple[float, ...] = (0.125, 1.0, 8.0)
    lpfs: tuple[float, ...] = (0.05, 0.2, 0.5, 0.8, 0.95)
    size_data: tuple[str, ...] = ("adult", "bank")
    size_alphas: tuple[float, ...] = ALPHAS[::3]
    shares: tuple[float, ...] = (0.01, 0.05, 0.1, 0.5, 1.0)
    check_runs: int = 10
    check_alphas: tuple[float, ...] = (0.5, 8.0)
    check_splits: int = 32


FULL = Extent(runs=10, splits=SPLITS, data=("mnist", "kddcup", "bank", "adult", "credit", "skin"))

QUICK = Extent(
    runs=2,
    splits=64,
    data=("credit",),
    alphas=(1.0, 64.0),
    secure_alphas=(64.0,),
    lpf_data=("credit",),
    lpf_alphas=(1.0,),
    lpfs=(0.1, 0.9),
    size_data=("credit",),
    size_alphas=(8.0,),
    shares=(0.05, 1.0),
    check_runs=2,
    check_alphas=(8.0,),
    check_splits=8,
)


def figure_2(name: str, number: int, extent: Extent) -> Iterator[Record]:
    """Accuracy over alpha, and without noise."""
    for how in ("published", "ours"):
        for method in PAPERS:
            yield run(Setting(method, how, splits=extent.splits), name, number)
    for alpha in extent.alphas:
        for how, methods in HOWS.items():
            for method in methods:
                if (how, method) != ("strict", "secure-counts") or alpha in extent.secure_alphas:
                    yield run(Setting(method, how, alpha, splits=extent.splits), name, number)


def figure_1(name: str, number: int, extent: Extent) -> Iterator[Record]:
    """Accuracy over the share of the leaves, for both budgets."""
    for alpha in extent.lpf_alphas:
        for budget in BUDGETS:
            for lpf in extent.lpfs:
                for how in ("published", "ours"):
                    for method in PAPERS:
                        shares = {"leaf_share": lpf, "budget": budget, "splits": extent.splits}
                        yield run(Setting(method, how, alpha, **shares), name, number)


def figure_3(name: str, number: int, extent: Extent) -> Iterator[Record]:
    """Accuracy over alpha, for training parts of several sizes."""
    for share in extent.shares:
        for how in ("published", "ours"):
            for method in PAPERS:
                for alpha in (0.0, *extent.size_alphas):
                    sized = Setting(method, how, alpha, share=share, splits=extent.splits)
                    yield run(sized, name, number)


def check(name: str, number: int, extent: Extent) -> Iterator[Record]:
    """Run secret counts on three servers and beside them the same on plain numbers."""
    for alpha in extent.check_alphas:
        yield from checked(name, number, alpha, extent.check_splits)


JOBS: dict[str, Callable[[str, int, Extent], Iterator[Record]]] = {
    "figure 1": figure_1,
    "figure 2": figure_2,
    "figure 3": figure_3,
    "check": check,
}

Job = tuple[str, str, int]


def jobs_of(extent: Extent, missing: frozenset[str] = frozenset()) -> list[Job]:
    """List all jobs, the largest first; data sets that are missing are left out."""
    wanted: list[tuple[str, tuple[str, ...], int]] = [
        ("figure 2", extent.data, extent.runs),
        ("figure 1", extent.lpf_data, extent.runs),
        ("figure 3", extent.size_data, extent.runs),
        ("check", extent.data, extent.check_runs),
    ]
    return [
        (kind, name, number)
        for kind, names, runs in wanted
        for name in names
        if name not in missing
        for number in range(runs)
    ]


def run_job(job: Job, extent: Extent) -> list[Record]:
    """Run one job, in whatever process."""
    kind, name, number = job
    return [{"what": kind} | record for record in JOBS[kind](name, number, extent)]


def run_all(
    extent: Extent,
    missing: frozenset[str] = frozenset(),
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> list[Record]:
    """Run all jobs; see `run_jobs`."""
    return run_jobs(run_job, jobs_of(extent, missing), extent, tell)
