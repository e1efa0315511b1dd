"""DP-TopDown: time to grow 512 splits, with rows and with owners; bytes and rounds; peers.

KDD Cup 1999 (494,021 rows, normal against attack) and tables of random numbers, in which hardly two
rows are equal: equal rows are counted together, so that logs such as KDD Cup's are the easy case.
All parties are in one process, on all cores; times of several owners are of all of them together.
Nothing stops growth but M and the depth: leaves of any weight and worth are split.

scikit-learn grows a best-first tree of as many leaves without privacy, on the same bins, which it
gets ready-made. diffprivlib's random tree has the same epsilon and the depth of our rule.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.tree import DecisionTreeClassifier

from bench.data import load
from bench.environment import run_peer
from bench.harness import row, seconds
from hedgerow.protocols.topdown.coordinator import CoordinatorTraffic
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.run import run_topdown
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from hedgerow.trees.tree import Tree

SPLITS = 512
EPSILON = 1.0
BINS = 11
ROWS = (10_000, 100_000, 1_000_000)
OWNERS = (1, 4, 16, 64)
SECURE_OWNERS = (4, 16)
"""Of secret counts, whose servers are in this process too, on plain numbers."""
REPEATS = 3
PEER = ["diffprivlib==0.6.6", "scikit-learn<1.9"]


def kddcup() -> tuple[pa.Table, np.ndarray, Domain]:
    """KDD Cup with 11 bins over the range of each number; categories as they are listed."""
    table = load("kddcup99_10percent")
    label = pc.not_equal(table["label"], "normal.").to_numpy().astype(np.int64)
    frame = table.drop_columns(["label"])
    attributes = []
    for name in frame.column_names:
        if pa.types.is_string(frame[name].type):
            found = tuple(sorted(pc.unique(frame[name]).to_pylist()))
            attributes.append(Attribute(name=name, kind="categorical", categories=found))
        else:
            high = max(pc.max(frame[name]).as_py(), 1)
            attributes.append(Attribute(name=name, kind="numeric", bounds=(0, high), bins=BINS))
    return frame, label, _domain(attributes, len(label))


def uniform(n: int, columns: int = 20) -> Encoded:
    """Rows of independent numbers in 16 bins, and a class that three of them decide, with noise."""
    rng = np.random.default_rng(7)
    bins = np.asfortranarray(rng.integers(0, 16, (n, columns), dtype=np.uint8))
    score = bins[:, 0] + bins[:, 1] * (bins[:, 2] > 7) + rng.normal(0, 4, n)
    attributes = [
        Attribute(name=f"x{i}", kind="numeric", bounds=(0, 16), bins=16) for i in range(columns)
    ]
    domain = _domain(attributes, n)
    return Encoded(domain, bins, (score > 12).astype(np.uint8), np.ones(n, dtype=np.bool_))


def _domain(attributes: list[Attribute], capacity: int) -> Domain:
    return Domain(
        attributes=tuple(attributes),
        target=Target(name="class", classes=(0, 1)),
        capacity=capacity,
        provenance="confirmed public",
    )


def planned(table: Encoded, method: str, owners: int = 1, **more: Any) -> TopDownPlan:
    """Plan a tree that M alone bounds, and the depth."""
    common = {"epsilon": EPSILON, "n_splits": SPLITS, "min_gain": 0.0, "error": 0.0}
    return TopDownOptions(method=method, **(common | more)).plan(table.domain, n_owners=owners)


def grown(plan: TopDownPlan, tables: list[Encoded]) -> tuple[Tree, CoordinatorTraffic]:
    """Grow a tree from the encoded tables, merging of rows included."""
    names = [f"owner {i}" for i in range(len(tables))]
    secure = plan.method == "secure-counts"
    done = run_topdown(
        plan, dict(zip(names, tables, strict=True)), "clear", seed=1 if secure else 0
    )
    return done.tree, done.traffic


def dealt(table: Encoded, owners: int) -> list[Encoded]:
    """Give every owner every so-manieth row of a shuffled table."""
    order = np.random.default_rng(3).permutation(table.n_slots)
    return [table.rows(np.sort(order[i::owners])) for i in range(owners)]


def case(
    name: str, plan: TopDownPlan, tables: list[Encoded], peer: float | None = None, **more: Any
) -> dict[str, Any]:
    """Time one tree, and say what it is like and what went over the wire."""
    taken = seconds(lambda: grown(plan, tables), REPEATS)
    tree, traffic = grown(plan, tables)
    right = sum(int((tree.predict_class(part.bins) == part.target).sum()) for part in tables)
    return row(
        name,
        taken,
        peer,
        leaves=tree.n_leaves,
        depth=tree.depth,
        accuracy=round(right / sum(part.n_slots for part in tables), 4),
        rounds=traffic.rounds,
        bytes_per_owner=round((traffic.sent + traffic.received) / len(tables)),
        **more,
    )


def run() -> list[dict[str, Any]]:
    """Return seconds, beside those of scikit-learn and diffprivlib, and exponents of growth."""
    frame, label, domain = kddcup()
    encoding = seconds(lambda: encode(frame, domain, label), REPEATS)
    table = encode(frame, domain, label)
    return [
        row(f"kddcup99, {table.n_slots:,} rows: encoding", encoding),
        *beside_peers("kddcup99", table),
        *by_rows("kddcup99, drawn again", lambda n: resampled(table, n), ROWS),
        *by_rows("random numbers", uniform, ROWS),
        *by_owners("kddcup99", table, OWNERS, SECURE_OWNERS),
    ]


def beside_peers(name: str, table: Encoded) -> list[dict[str, Any]]:
    """Grow one tree without noise beside scikit-learn's, and one with beside diffprivlib's."""
    data, label = table.bins.astype(np.float32, order="F"), table.target
    peer = DecisionTreeClassifier(max_leaf_nodes=SPLITS + 1, random_state=0)
    theirs = seconds(lambda: peer.fit(data, label), REPEATS)
    score = round(float(peer.score(data, label)), 4)
    clear = planned(table, "single-machine", epsilon=None, max_depth=SPLITS)
    private = planned(table, "single-machine")
    found = random_tree(table, private.max_depth)
    return [
        case(f"{name}: {SPLITS} splits without noise, scikit-learn", clear, [table], theirs)
        | {"peer_accuracy": score},
        case(f"{name}: epsilon {EPSILON:g}, scikit-learn without noise", private, [table], theirs)
        | {"peer_accuracy": score},
        case(f"{name}: epsilon {EPSILON:g}, diffprivlib", private, [table], found["seconds"])
        | {"peer_accuracy": round(found["accuracy"], 4)},
    ]


def random_tree(table: Encoded, depth: int) -> dict[str, float]:
    """Fit diffprivlib's random tree on the bins, in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.npz"
        every = np.arange(table.n_slots)
        low = np.zeros(table.n_features)
        high = np.maximum(table.domain.n_bins - 1, 1).astype(float)
        data = {"X": table.bins.astype(np.float64), "y": table.target, "low": low, "high": high}
        np.savez(file, **data, train0=every, test0=every)
        setting = {"n_estimators": 1, "max_depth": depth}
        job = {"file": str(file), "epsilons": [EPSILON], "splits": 1, "settings": [setting]}
        found = run_peer("diffprivlib", PEER, "private_forest.py", job)
    return dict(found[0]["default"])


def resampled(table: Encoded, n: int) -> Encoded:
    """Draw rows with replacement."""
    rows = np.random.default_rng(5).integers(0, table.n_slots, n)
    return table.rows(np.sort(rows))


def by_rows(name: str, make: Any, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Grow trees of more and more rows; between neighbours, the exponent of the time.

    Without noise, so that all have as many splits: with it the rule makes larger tables deeper.
    """
    timed = []
    for n in sizes:
        table = make(n)
        plan = planned(table, "single-machine", epsilon=None, max_depth=SPLITS, capacity=n)
        timed.append(case(f"{name}, {n:,} rows: {SPLITS} splits without noise", plan, [table]))
    growth = []
    for (few, many), (first, second) in zip(pairwise(sizes), pairwise(timed), strict=True):
        exponent = log(second["ours"] / first["ours"]) / log(many / few)
        growth.append(row(f"{name}, {few:,} to {many:,} rows: growth", exponent, unit="exponent"))
    return timed + growth


def by_owners(
    name: str, table: Encoded, owners: tuple[int, ...], secure: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Grow trees of one table that more and more owners share."""
    rows = []
    for method, numbers in (
        ("noisy-counts", owners),
        ("local-rnm", owners),
        ("secure-counts", secure),
    ):
        for k in numbers:
            plan = planned(table, method, k)
            case_name = f"{name}, {k} owner{'s' * (k > 1)}: {method}, epsilon {EPSILON:g}"
            rows.append(case(case_name, plan, dealt(table, k)))
    return rows
