"""The runs behind paper 002's verdicts: which trees, of which sizes, on all cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reproduce.jobs import run_jobs
from reproduce.paper_002.leaks import all_leaks
from reproduce.paper_002.methods import COUNTINGS, Counting, Setting, count_whole, run

Record = dict[str, Any]

BASE = {"n": 200, "k": 3, "r": 6, "p": 3, "c": 2, "depth": 2}
"""What stays where one number grows: records, sites, attributes, their values, classes, depth."""
_AXES: dict[str, tuple[int, ...]] = {
    "n": (50, 100, 200, 400, 800, 1600),
    "k": (2, 3, 4, 5, 6),
    "r": (3, 6, 9, 12),
    "p": (2, 3, 4, 5, 6),
    "c": (2, 3, 4, 5),
    "depth": (1, 2, 3),
}


@dataclass(frozen=True)
class Extent:
    """How much is run.

    `axes`: what grows, over which values. `example_sites`: among how many sites the example is
    also grown. `car_every`: each so-manyth record of car is in a tree without a limit of depth;
    absent without one. `whole`: tables whose whole trees are counted, and not grown among sites.
    `sum_runs`: of the example, to look at masked sums.
    """

    axes: dict[str, tuple[int, ...]] = field(default_factory=lambda: dict(_AXES))
    base: dict[str, int] = field(default_factory=lambda: dict(BASE))
    example_sites: tuple[int, ...] = (2, 3, 4)
    car_every: int | None = 2
    whole: tuple[str, ...] = ("car", "mushroom")
    sum_runs: int = 100


FULL = Extent()
QUICK = Extent(
    axes={"n": (20, 40), "k": (2, 3), "r": (3, 4), "depth": (1, 2)},
    base={"n": 40, "k": 3, "r": 3, "p": 3, "c": 2, "depth": 1},
    example_sites=(2, 3),
    car_every=None,
    whole=(),
    sum_runs=5,
)

Job = tuple[str, str, Any]


def grown_setting(base: dict[str, int], axis: str, x: int, counting: Counting) -> Setting:
    """Return the setting in which one number is x and all others are the base's."""
    at = base | {axis: x}
    sizes = at["n"], at["r"], at["p"], at["c"]
    return Setting("random", sizes, at["k"], "last", counting, at["depth"])


def jobs_of(extent: Extent) -> list[Job]:
    """List all jobs, the largest first; what a tree is for, what grows, and its setting."""
    found: list[Job] = []
    if extent.car_every is not None:
        found += [
            ("car", "", Setting("car", (extent.car_every,), 3, counting=counting))
            for counting in COUNTINGS
        ]
    found += [
        ("growth", axis, grown_setting(extent.base, axis, x, counting))
        for axis, xs in extent.axes.items()
        for x in reversed(xs)
        for counting in COUNTINGS
    ]
    found += [("whole", "", Setting(name, (), 3)) for name in extent.whole]
    for k in extent.example_sites:
        # The paper has the class with outlook and temperature, at its first site.
        where = "first" if k == 2 else "last"
        found += [
            ("example", "", Setting("weather", (), k, at, counting))
            for counting in COUNTINGS
            for at in (where, "all")
        ]
    return [*found, ("leaks", "", extent.sum_runs)]


def run_job(job: Job, extent: Extent) -> list[Record]:
    """Run one job, in whatever process."""
    what, axis, of = job
    if what == "leaks":
        return [{"what": what} | all_leaks(of)]
    record = count_whole(of) if what == "whole" else run(of)
    if axis:
        record |= {"axis": axis, "x": _at(record, axis)}
    return [{"what": what} | record]


def _at(record: Record, axis: str) -> int:
    if axis == "p":
        return int(record["values"] // record["r"])
    return int(record["max_depth"] if axis == "depth" else record[axis])


def run_all(
    extent: Extent, tell: Callable[[int, int], None] = lambda done, of: None, *, here: bool = False
) -> list[Record]:
    """Run all jobs; see `run_jobs`."""
    return run_jobs(run_job, jobs_of(extent), extent, tell, here=here)


def chosen(records: list[Record], **wanted: Any) -> list[Record]:
    """Return the records with these values."""
    return [r for r in records if all(r.get(key) == value for key, value in wanted.items())]
