"""The published learners, in the clear: CART (binary) and ID3 (w-ary), no privacy.

Papers: breiman1984cart, quinlan1986id3.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.tables import Encoded
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.best_first import grow_best_first
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.chooser import Best, Chooser, RandomCuts
from hedgerow.trees.growing.criteria import criterion_named
from hedgerow.trees.growing.growth import Limits
from hedgerow.trees.growing.levelwise import grow_levelwise
from hedgerow.trees.growing.search import MaxFeatures, Search, n_drawn
from hedgerow.trees.tree import Tree

Splitter = Literal["best", "random"]

_DEFAULT = Limits()


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

    Parameters
    ----------
    encoded
        Training table with a target.
    criterion
        ``"gini"`` (default) or ``"entropy"`` for classes, ``"squared_error"`` for numbers.
    limits
        When to stop; with ``max_leaf_nodes`` the tree is grown best-first.
    splitter
        ``"random"``: one random cut per attribute and node, the best of those (extra trees).
    max_features
        Attributes drawn for each node: ``"sqrt"``, ``"log2"``, a share, a number, or None for all.
    rng
        Needed for a random splitter or `max_features`.
    index : int32, optional
        Rows to learn from, repeats allowed.
    n_threads
        Cores to use, all by default.
    """
    check_option("splitter", splitter, Splitter)
    candidates = Candidates.from_domain(encoded.domain)
    rows = Rows(encoded, candidates, index=index, n_threads=n_threads)
    if criterion is None:
        criterion = "gini" if rows.has_classes else "squared_error"
    score = criterion_named(criterion, "classes" if rows.has_classes else "sums")
    drawn = n_drawn(max_features, candidates.n_features)
    chooser: Chooser = Best()
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


def grow_id3(
    encoded: Encoded,
    *,
    criterion: str = "entropy",
    max_depth: int | None = None,
    n_threads: int | None = None,
) -> Tree:
    """Grow a tree with one branch per bin, each attribute at most once on a path.

    A node is a leaf if it is pure or empty, if no attribute is left, or at `max_depth`. An empty
    leaf has the distribution of its parent and weight 0. Of equally good attributes the first wins.

    Parameters
    ----------
    encoded
        Training table whose target has classes.
    criterion
        ``"entropy"`` or ``"gain"`` (they choose the same), ``"gini"``, ``"max"``.
    max_depth
        Largest depth of a leaf, at least 1; None for no limit.
    n_threads
        Cores to use, all by default.
    """
    rows = Rows(encoded, Candidates.from_domain(encoded.domain, "wary"), n_threads=n_threads)
    if not rows.has_classes:
        raise Code.BAD_TARGET.error(
            found="a target without classes", expected="a target with classes"
        )
    search = Search(criterion_named(criterion, "classes"), Best())
    limits = Limits(max_depth=max_depth)
    return grow_levelwise(encoded.domain, rows, search, limits, once=True)
