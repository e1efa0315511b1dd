"""Random forests and extra trees over the same histograms, no privacy.

Papers: breiman2001forests, geurts2006extra.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.errors import Code
from hedgerow.tables import Encoded
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.grow_tree import Splitter, grow_cart
from hedgerow.trees.growing.growth import Limits
from hedgerow.trees.growing.search import MaxFeatures
from hedgerow.trees.tree import Tree

_DEFAULT = Limits()

# Below so many cells a tree does not keep two cores busy; two trees at a time do.
_FEW_CELLS: Final = 1 << 22


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
