"""Trees among two peers beside a general engine: SPU's Cheetah, in an environment of its own.

The same table, and a tree that both sides open as it grows, checked to be CART's. Ours runs over
TLS, SPU without; seconds are on the wall and of the processor, both with everything that could be
made ahead and without the connecting, SPU's without the compiling of its programs too. They run one
after the other. `peer_set_up_before` is SPU's figure for the same tree once more, in a runtime that
has its keys and transfers; ours has its own set-up in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.environment import run_peer
from bench.harness import row
from bench.pivot import Case, measure
from hedgerow.tables import Encoded
from hedgerow.trees import Limits, grow_cart
from hedgerow.trees.tree import Tree

PEER = ["spu==0.9.5"]
CASES = [
    *(Case(n=n, m=2, each=3, classes=c, depth=2) for n in (1_000, 5_000) for c in (2, 4)),
    Case(n=10_000, m=2),
]


def in_the_clear(case: Case) -> Tree:
    """Grow the tree of `CARTClassifier` on the table of all peers."""
    bins = np.array([case.column(j, case.n) for j in range(case.m * case.each)]).T
    target, present = case.target().astype(np.uint8), np.ones(case.n, np.bool_)
    rows = Encoded(case.plan().domain, bins, target, present)
    return grow_cart(rows, limits=Limits(case.depth))


def choices(tree: Tree, case: Case) -> dict[str, list[Any]]:
    """Return the splits by level and the classes of the leaves, as the peer prints them."""
    nodes, levels = np.zeros(1, np.int64), []
    for _ in range(case.depth):
        levels.append((tree.feature[nodes] * (case.bins - 1) + tree.cut[nodes]).tolist())
        nodes = (tree.first_child[nodes][:, None] + np.arange(2)).ravel()
    return {"levels": levels, "leaves": tree.value[nodes].argmax(1).tolist()}


def peer(case: Case) -> dict[str, Any]:
    """Grow the tree of a case in SPU; an error if it is not CART's."""
    columns = [case.column(j, case.n).tolist() for j in range(case.m * case.each)]
    job = {
        "bins": [columns[: case.each], columns[case.each :]],
        "n_bins": case.bins,
        "labels": case.target().tolist(),
        "classes": case.classes,
        "depth": case.depth,
    }
    found: dict[str, Any] = run_peer("spu", PEER, "spu_tree.py", job)
    clear = choices(in_the_clear(case), case)
    if clear != {name: found[name] for name in clear}:
        raise RuntimeError(f"SPU's tree differs from CART's {clear}: {found}")
    return found


def compared(case: Case) -> list[dict[str, Any]]:
    """Measure a case at both: seconds on the wall, of the processor, and what is sent."""
    theirs, ours = peer(case), measure(case)
    figures = {
        "seconds": (ours["seconds"], theirs["seconds"], "s"),
        "processor seconds of both": (ours["cpu"], theirs["cpu"], "s"),
        "sent by the busier": (ours["offline_mb"] + ours["online_mb"], theirs["mb"], "MB"),
    }
    return [
        row(f"{name}: {case}", mine, first, unit, peer_set_up_before=round(again, 2))
        for name, (mine, (first, again), unit) in figures.items()
    ]


def run() -> list[dict[str, Any]]:
    """Measure all cases, after one to warm up ours."""
    measure(Case(n=500, m=2, each=3, depth=2))
    return [found for case in CASES for found in compared(case)]
