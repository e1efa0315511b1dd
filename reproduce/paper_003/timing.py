"""Paper 003's clocks: trees, forests and answers among processes over TLS, and CART beside them.

Cases of as many peers run one after the other in the same processes, behind some small ones of
every kind, so that no case pays for what is compiled or loaded. Processor seconds of all peers are
what other work on the machine changes least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

import numpy as np

from bench.pivot import Case, measure_each
from hedgerow.tables import Encoded
from hedgerow.trees import Limits, grow_cart

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "basic": ("basic", {}),
    "enhanced": ("enhanced", {"hide": "thresholds"}),
    "baseline": ("all on shares (SPDZ-DT)", {"linear": "products"}),
    "paillier": ("basic, Paillier", {"linear": "paillier"}),
    "paillier enhanced": (
        "enhanced, Paillier",
        {"linear": "paillier", "hide": "thresholds"},
    ),
    "forest of classes": ("random forest, classes", {}),
    "forest of numbers": ("random forest, numbers", {"classes": 0}),
    "boosting of classes": ("boosting, classes", {}),
    "boosting of numbers": ("boosting, numbers", {"classes": 0}),
    "hidden forest of classes": ("forest, classes, enhanced", {"hide": "thresholds"}),
    "hidden forest of numbers": (
        "forest, numbers, enhanced",
        {"hide": "thresholds", "classes": 0},
    ),
    "hidden boosting of classes": ("boosting, classes, hidden", {"hide": "everything"}),
    "hidden boosting of numbers": (
        "boosting, numbers, hidden",
        {"hide": "everything", "classes": 0},
    ),
}
"""Names of the paper's algorithms, with what is different from the basic one of a tree."""
MANY = {name: "rounds" if "boosting" in name else "trees" for name in METHODS if " of " in name}
"""Those of several trees, and what counts them in a case."""
SHORT = 10.0
"""Seconds: what takes no longer is measured `REPEATS` times."""
REPEATS = 3
WARM = {"n": 40, "each": 1, "bins": 2, "depth": 1}

Record = dict[str, Any]


def case_of(base: dict[str, int], method: str, **at: Any) -> Case:
    """Return the case of a method, where some numbers of the base are others."""
    return replace(Case(**(base | at)), **METHODS[method][1])


def measured(
    wanted: Sequence[tuple[dict[str, Any], Case]], tell: Callable[[int], None], *, warm_up: bool
) -> list[Record]:
    """Measure cases, those of as many peers together; each comes with what is noted of it.

    A case that is wanted several times is measured once; one that does not take `SHORT` seconds
    `REPEATS` times, in other processes each time, and every figure is the median. `tell` is told
    how many are done. `warm_up`: run small cases of every kind before, and repeat.
    """
    every = list(dict.fromkeys(case for _, case in wanted))
    found: dict[Case, list[dict[str, float]]] = {case: [] for case in every}
    done = 0
    for m in sorted({case.m for case in every}):
        mine = [case for case in every if case.m == m]
        # Every kind of number is compiled apart; under Paillier nothing is.
        warm = {
            replace(of, **WARM, asked=min(of.asked, 2))
            for of in mine
            if warm_up and not of.linear.startswith("paillier")
        }
        done += len(mine)
        for _ in range(REPEATS if warm_up else 1):
            figures = measure_each([*warm, *mine])[len(warm) :] if mine else []
            for case, one in zip(mine, figures, strict=True):
                found[case].append(one)
            mine = [case for case in mine if found[case][0]["seconds"] <= SHORT]
        tell(done)
    return [note | asdict(case) | _median(found[case]) for note, case in wanted]


def _median(found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the median of every figure, how many there are, and how far seconds are apart."""
    spent = [one["cpu"] for one in found]
    figures = {name: median(one[name] for one in found) for name in found[0]}
    return {"measured": figures, "repeats": len(found), "apart": max(spent) / min(spent)}


def in_the_clear(case: Case) -> dict[str, float]:
    """Grow the same tree by CART on the joined table, which nobody may have: NPD-DT.

    Returns seconds of training, and of one answer.
    """
    rows = Encoded(
        case.plan().domain,
        case.joined(),
        case.target().astype(np.uint16),
        np.ones(case.n, dtype=np.bool_),
    )
    times = []
    for _ in range(2):
        begin = time.process_time()
        tree = grow_cart(rows, limits=Limits(case.depth))
        times.append(time.process_time() - begin)
    begin = time.process_time()
    tree.predict_class(rows.bins)
    return {"cpu": times[-1], "answer": (time.process_time() - begin) / case.n}
