"""The runs behind paper 003's verdicts: which cases are clocked, which data sets are learned."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bench.pivot import Case
from reproduce.data import SPLITS, split
from reproduce.jobs import run_jobs
from reproduce.paper_003 import data, learned, models, timing
from reproduce.paper_003.attacks import all_attacks
from reproduce.paper_003.noise import choice_of_a_split

Record = dict[str, Any]
Axes = dict[str, tuple[int, ...]]

BASE = {"n": 1_000, "m": 3, "each": 2, "bins": 8, "classes": 4, "depth": 3}
"""What stays where one number grows; the paper has 50,000 rows, 15 attributes each, depth 4."""
SMALL = {"n": 100, "m": 3, "each": 1, "bins": 4, "classes": 2, "depth": 2}
"""The same beside Paillier."""
OURS = ("basic", "enhanced")
PUBLISHED = ("paillier", "paillier enhanced")
PREDICTED = ("m", "depth")
"""Axes on which rows are answered, too: figures 4g and 4h."""
BASELINE = ("m", "n")
"""Axes on which the baselines are measured, too: figure 5."""


@dataclass(frozen=True)
class Extent:
    """How much is run.

    `axes`: what grows from `base`; `small_axes` from `small`, where Paillier is beside it;
    `trees`: numbers of trees. `most_baseline`: rows up to which the baseline is run. `asked`: rows
    that are answered. `tables` and `models`: of table 1, with so many `rows` at most; single trees,
    and all models of the tables `whole`, are learned on so many splits as there are `trials`,
    the others on the first. `audits`: what is attacked, so often. `warm_up`: what is compiled and
    loaded is not clocked, and what is short is clocked several times.
    """

    base: dict[str, int] = field(default_factory=lambda: dict(BASE))
    axes: Axes = field(
        default_factory=lambda: {
            "m": (2, 3, 4, 5),
            "n": (500, 2_000, 8_000, 32_000),
            "each": (1, 2, 4, 8),
            "bins": (2, 4, 8, 16),
            "depth": (1, 2, 3, 4),
        }
    )
    small: dict[str, int] = field(default_factory=lambda: dict(SMALL))
    small_axes: Axes = field(default_factory=lambda: {"m": (2, 3, 4), "n": (50, 100, 200)})
    of_trees: dict[str, int] = field(default_factory=lambda: dict(BASE))
    trees: tuple[int, ...] = (2, 4, 8)
    most_baseline: int = 8_000
    asked: int = 50
    tables: tuple[str, ...] = ("bank", "credit", "appliances", "rv2")
    models: tuple[str, ...] = tuple(models.MODELS)
    rows: int | None = None
    whole: tuple[str, ...] = ("bank",)
    trials: int = SPLITS
    audits: tuple[str, ...] = learned.EVERY
    audit_runs: int | None = None
    warm_up: bool = True


FULL = Extent()
_TINY = {"n": 60, "m": 2, "each": 1, "bins": 4, "classes": 2, "depth": 1}
QUICK = Extent(
    base=_TINY,
    axes={"m": (2, 3), "n": (60, 240), "each": (1, 2), "bins": (2, 4), "depth": (1, 2)},
    small=_TINY | {"n": 20},
    small_axes={"m": (2,), "n": (10, 20)},
    of_trees=_TINY,
    trees=(1, 2),
    asked=10,
    tables=("bank",),
    models=("tree",),
    rows=400,
    whole=(),
    trials=2,
    audits=(
        "pivot/basic/answers@0",
        "pivot/enhanced/answers@0",
        "pivot/boosting/view@0",
        "pivot/broken-key-told@0",
        "pivot-tree/mostly-splits@1",
    ),
    audit_runs=100,
    warm_up=False,
)


def clocked(extent: Extent) -> list[tuple[Record, Case]]:
    """List what is measured over TLS, with what it is for."""
    found: list[tuple[Record, Case]] = []

    def want(what: str, base: dict[str, int], axis: str, x: int, method: str, **more: Any) -> None:
        note = {"what": what, "axis": axis, "x": x, "method": method}
        name = timing.MANY.get(method, axis)
        found.append((note, timing.case_of(base, method, **{name: x}, **more)))

    for axis, xs in extent.axes.items():
        for x in xs:
            asked = extent.asked if axis in PREDICTED else 0
            for method in OURS:
                want("training", extent.base, axis, x, method, asked=asked)
            if axis in BASELINE and (axis != "n" or x <= extent.most_baseline):
                want("training", extent.base, axis, x, "baseline")
    for axis, xs in extent.small_axes.items():
        for x in xs:
            for method in (*OURS, "baseline", *PUBLISHED):
                want("small", extent.small, axis, x, method)
    for trees in extent.trees:
        for method in timing.MANY:
            want("trees", extent.of_trees, "trees", trees, method)
    return found


Job = tuple[str, str, str]
ALONE: dict[str, Callable[[], list[Record]]] = {
    "attacks": all_attacks,
    "noise": lambda: [choice_of_a_split()],
    "opened": learned.opened,
    "deviation": learned.deviations,
    "ledger": lambda: [learned.charged()],
}
"""What is run once, of whatever extent."""


def jobs_of(extent: Extent) -> list[Job]:
    """List what is not clocked: what, a data set, and a model; the largest first."""
    found = [
        ("accuracy", table, model)
        for model in reversed(extent.models)
        for table in reversed(extent.tables)
    ]
    audits = [("audit", name, "") for name in extent.audits]
    return [*found, *audits, *((what, "", "") for what in (*ALONE, "clear"))]


def run_job(job: Job, extent: Extent) -> list[Record]:
    """Run one job, in whatever process."""
    what, table, model = job
    if what in ALONE:
        return [{"what": what} | one for one in ALONE[what]()]
    if what == "audit":
        return [{"what": what} | learned.attacked(table, extent.audit_runs)]
    if what == "clear":
        return [
            {"what": what, "axis": axis, "x": x} | timing.in_the_clear(case)
            for axis in BASELINE
            for x in extent.axes[axis]
            for case in [timing.case_of(extent.base, "basic", **{axis: x})]
        ]
    return [accuracy(table, model, extent)]


def accuracy(name: str, model: str, extent: Extent) -> Record:
    """Learn a data set of table 1: among peers, and by scikit-learn on the same splits."""
    table = data.READ[name]()
    if extent.rows is not None:
        table = data.rows_of(table, np.arange(min(extent.rows, table.n_slots)))
    peers, sklearn, constant = [], [], []
    for seed in range(extent.trials if name in extent.whole or model == "tree" else 1):
        train_rows, test_rows = models.parts(table, *split(table.n_slots, seed))
        sklearn.append(models.sklearn_trial(model, train_rows, test_rows, seed))
        constant.append(models.constant_score(train_rows, test_rows))
        peers.append(models.among_peers(model, train_rows, test_rows))
    return {
        "what": "accuracy",
        "table": name,
        "model": model,
        "rows": table.n_slots,
        "columns": table.n_features,
        "ours": [one["score"] for one in peers],
        "sklearn": sklearn,
        "constant": constant,
        "peers": {
            "splits": len(peers),
            "trees": peers[0]["trees"],
            "same": sum(one["same"] for one in peers),
            "answers": sum(one["answers"] for one in peers),
        },
    }


def run_all(
    extent: Extent, tell: Callable[[int, int], None] = lambda done, of: None, *, here: bool = False
) -> list[Record]:
    """Run everything: what is clocked first, by itself; then the rest, on all cores."""
    wanted, jobs = clocked(extent), jobs_of(extent)
    cases, total = len({case for _, case in wanted}), len(jobs)
    before = os.getloadavg()[0]
    found = timing.measured(wanted, lambda done: tell(done, cases + total), warm_up=extent.warm_up)
    found.append(
        {"what": "load", "before": before, "after": os.getloadavg()[0], "cases": cases}
        | {"base": asdict(extent)}
    )
    return found + run_jobs(
        run_job, jobs, extent, lambda done, _: tell(cases + done, cases + total), here=here
    )


def chosen(records: list[Record], **wanted: Any) -> list[Record]:
    """Return the records with these values."""
    return [r for r in records if all(r.get(key) == value for key, value in wanted.items())]
