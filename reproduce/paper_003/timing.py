"""Paper 003's clocks: trees, forests and answers among processes over TLS, and CART beside them.

Cases of as many peers run one after the other in the same processes, behind some small ones of
every kind, so that no case pays for what is compiled or loaded. Processor seconds of all peers are
what other work on the machine changes least.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
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
}
"""Names of the paper's algorithms, with what is different from the basic one of a tree."""
MANY = {
    "forest of classes": "trees",
    "forest of numbers": "trees",
    "boosting of classes": "rounds",
    "boosting of numbers": "rounds",
}
"""Those of several trees, and what counts them in a case."""
WARM = {"n": 40, "each": 1, "bins": 2, "depth": 1}

Record = dict[str, Any]


def case_of(base: dict[str, int], method: str, **at: Any) -> Case:
    """Return the case of a method, where some numbers of the base are others."""
    return replace(Case(**(base | at)), **METHODS[method][1])


def measured(
    wanted: Sequence[tuple[dict[str, Any], Case]], tell: Callable[[int], None], *, warm_up: bool
) -> list[Record]:
    """Measure cases, those of as many peers together; each comes with what is noted of it.

    A case that is wanted several times is measured once. `tell` is told how many are done.
    `warm_up`: run small cases of every kind before.
    """
    every = list(dict.fromkeys(case for _, case in wanted))
    found: dict[Case, dict[str, float]] = {}
    for m in sorted({case.m for case in every}):
        mine = [case for case in every if case.m == m]
        # Every kind of number is compiled apart; under Paillier nothing is.
        warm = {
            replace(of, **WARM, asked=min(of.asked, 2))
            for of in mine
            if warm_up and not of.linear.startswith("paillier")
        }
        figures = measure_each([*warm, *mine])[len(warm) :]
        found |= dict(zip(mine, figures, strict=True))
        tell(len(found))
    return [note | asdict(case) | {"measured": found[case]} for note, case in wanted]


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
