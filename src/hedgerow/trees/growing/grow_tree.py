"""The published learners, in the clear: CART (binary), ID3 (w-ary) and forests, no privacy.

Trees grow level by level, all nodes of a level at once, or best first: the split with the largest
decrease of impurity is made next.

Papers: breiman1984cart, quinlan1986id3, breiman2001forests, geurts2006extra.
"""

from __future__ import annotations

import heapq
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.tables import Domain, Encoded
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import criterion_named
from hedgerow.trees.growing.growth import GrowingTree, Limits
from hedgerow.trees.growing.search import (
    Chooser,
    HighestScore,
    MaxFeatures,
    RandomCuts,
    Search,
    n_drawn,
)
from hedgerow.trees.tree import Tree

Splitter = Literal["best", "random"]

_DEFAULT = Limits()
# Below so many cells a tree does not keep two cores busy; two trees at a time do.
_FEW_CELLS: Final = 1 << 22
_Entry = tuple[float, int, int, int]  # minus the decrease, node, candidate, depth


def grow_cart(
    encoded: Encoded,
    *,
    criterion: str | None = None,
    limits: Limits = _DEFAULT,
    splitter: Splitter = "best",
    max_features: MaxFeatures = None,
    rng: np.random.Generator | None = None,
    index: NDArray[np.int32] | None = None,
    n_threads: int | None = None,
) -> Tree:
    """Grow a binary tree as scikit-learn's decision trees do, on the bins of an encoded table.

    Thresholds on numeric attributes, one value against the rest on categorical ones. Like
    scikit-learn, a threshold lies in the middle of the gap in the training rows; a missing bin
    counts as the largest. Of equally good splits the lowest attribute and cut win.

    `criterion` is ``"gini"`` (default) or ``"entropy"`` for classes, ``"squared_error"`` for
    numbers. With ``max_leaf_nodes`` the tree is grown best-first. A ``"random"`` splitter takes the
    best of one random cut per attribute and node (extra trees); it needs `rng`, as `max_features`
    does. `index` has the rows to learn from, repeats allowed.
    """
    check_option("splitter", splitter, Splitter)
    candidates = Candidates.from_domain(encoded.domain)
    rows = Rows(encoded, candidates, index=index, n_threads=n_threads)
    if criterion is None:
        criterion = "gini" if rows.has_classes else "squared_error"
    score = criterion_named(criterion, "classes" if rows.has_classes else "sums")
    drawn = n_drawn(max_features, candidates.n_features)
    chooser: Chooser = HighestScore()
    if splitter == "random" or drawn is not None:
        if rng is None:
            raise Code.BAD_PARAMETER.error(
                found="rng=None", expected="a numpy Generator for a random splitter or max_features"
            )
        if splitter == "random":
            chooser = RandomCuts(candidates, rng)
    search = Search(score, chooser, limits.min_samples_leaf, drawn, rng)
    grow = grow_levelwise if limits.max_leaf_nodes is None else grow_best_first
    return grow(encoded.domain, rows, search, limits, centre=splitter == "best")


def grow_id3(encoded: Encoded, *, criterion: str = "entropy", max_depth: int | None = None) -> Tree:
    """Grow a tree with one branch per bin, each attribute at most once on a path.

    A node is a leaf if it is pure or empty, if no attribute is left, or at `max_depth`. An empty
    leaf has the distribution of its parent and weight 0. Of equally good attributes the first wins.
    ``"entropy"`` and ``"gain"`` choose the same. `max_depth` is at least 1.
    """
    rows = Rows(encoded, Candidates.from_domain(encoded.domain, "wary"))
    if not rows.has_classes:
        raise Code.BAD_TARGET.error(
            found="a target without classes", expected="a target with classes"
        )
    search = Search(criterion_named(criterion, "classes"), HighestScore())
    limits = Limits(max_depth=max_depth)
    return grow_levelwise(encoded.domain, rows, search, limits, once=True)


def grow_levelwise(
    domain: Domain,
    rows: Rows,
    search: Search,
    limits: Limits,
    *,
    centre: bool = True,
    once: bool = False,
) -> Tree:
    """Grow a tree level by level.

    (1) The nodes of the level that are worth splitting are scored and a split is chosen for each.
    (2) The children's counts are read from the histogram of the chosen split.
    (3) Children that are pure, too small or too deep are leaves; if all children of a node are,
        its rows do not move.

    `centre` puts each threshold into the middle of the empty bins around it, `once` uses an
    attribute at most once on a path, as ID3 does. Values of inner nodes are filled in too.
    """
    growth = GrowingTree(domain, rows, search.criterion, limits)
    nodes = np.flatnonzero(growth.splittable(rows.counts([0]), 0))
    used = np.zeros((1, rows.candidates.n_features), dtype=np.bool_) if once else None
    depth = 0
    while nodes.size:
        skip = None if used is None else used[nodes]
        choice, score = search(rows, nodes, skip)
        worth = growth.worth(choice, growth.decrease(nodes, score))
        if not worth.any():
            break
        split = rows.tally(nodes[worth], choice[worth])
        if centre:
            split = split.centre_cuts()
        nodes = growth.make(split, depth)
        if used is not None:
            used = _inherit_used(used, split.nodes, split.feature, split.owner)
        depth += 1
    return growth.tree()


def _inherit_used(
    used: NDArray[np.bool_],
    nodes: NDArray[np.int64],
    feature: NDArray[np.int32],
    owner: NDArray[np.int64],
) -> NDArray[np.bool_]:
    parents = used[nodes]
    parents[np.arange(nodes.size), feature] = True
    return np.concatenate([used, parents[owner]])


def grow_best_first(
    domain: Domain, rows: Rows, search: Search, limits: Limits, *, centre: bool = True
) -> Tree:
    """Grow a tree of at most ``limits.max_leaf_nodes`` leaves, best split first.

    The frontier is a heap by decrease of the impurity, weighted by the node's share of all records,
    as in scikit-learn's best-first builder; of equal ones the oldest node comes first. Values of
    inner nodes are filled in too.
    """
    if limits.max_leaf_nodes is None:
        raise Code.BAD_PARAMETER.error(found="max_leaf_nodes=None", expected="a number of leaves")
    growth = GrowingTree(domain, rows, search.criterion, limits)
    frontier: list[_Entry] = []

    def look_at(nodes: NDArray[np.int64], depth: int) -> None:
        choice, score = search(rows, nodes)
        decrease = growth.decrease(nodes, score)
        for i in np.flatnonzero(growth.worth(choice, decrease)):
            entry = (-float(decrease[i]), int(nodes[i]), int(choice[i]), depth)
            heapq.heappush(frontier, entry)

    if growth.splittable(rows.counts([0]), 0)[0]:
        look_at(np.zeros(1, dtype=np.int64), 0)
    for left in range(limits.max_leaf_nodes - 2, -1, -1):
        if not frontier:
            break
        _, node, candidate, depth = heapq.heappop(frontier)
        split = rows.tally([node], [candidate])
        children = growth.make(split.centre_cuts() if centre else split, depth)
        if children.size and left:
            look_at(children, depth + 1)
    return growth.tree()


def grow_forest(
    encoded: Encoded,
    *,
    n_trees: int = 100,
    criterion: str | None = None,
    limits: Limits = _DEFAULT,
    splitter: Splitter = "best",
    bootstrap: bool = True,
    max_features: MaxFeatures = "sqrt",
    seed: int | np.random.SeedSequence | None = None,
    n_threads: int | None = None,
) -> Forest:
    """Grow trees on random samples of rows and attributes.

    Breiman's random forest by default; ``splitter="random", bootstrap=False`` makes extra trees.
    The forest depends on the seed alone, not on the number of threads. A row that a bootstrap draws
    twice is listed twice, so that a tree is still a function of plain counts. Each tree has its own
    child of the seed sequence. Not private.
    """
    if n_trees < 1:
        raise Code.BAD_PARAMETER.error(found=f"n_trees={n_trees}", expected="n_trees at least 1")
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    seeds = root.spawn(n_trees)
    cores = n_threads or threads.available()
    # Whole trees at the same time, or the features of one tree: never both.
    at_once = min(cores, n_trees) if encoded.bins.size < _FEW_CELLS else 1
    within = 1 if at_once > 1 else cores

    def grow(which: NDArray[np.int64]) -> list[Tree]:
        return [one(seeds[i]) for i in which]

    def one(sequence: np.random.SeedSequence) -> Tree:
        rng = np.random.default_rng(sequence)
        return grow_cart(
            encoded,
            criterion=criterion,
            limits=limits,
            splitter=splitter,
            max_features=max_features,
            rng=rng,
            index=bootstrap_rows(encoded.present, rng) if bootstrap else None,
            n_threads=within,
        )

    parts = threads.dealt(n_trees, at_once)
    grown: list[Tree | None] = [None] * n_trees
    for part, trees in zip(parts, threads.run(grow, parts), strict=True):
        for i, tree in zip(part, trees, strict=True):
            grown[i] = tree
    return Forest(tuple(tree for tree in grown if tree is not None))


def bootstrap_rows(present: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw as many present rows as there are, with replacement; ascending, to read forwards."""
    rows = np.flatnonzero(present)
    times = np.bincount(rng.integers(0, rows.size, rows.size), minlength=rows.size)
    return np.repeat(rows, times).astype(np.int32)
