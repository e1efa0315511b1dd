"""Section 5.1: what peers that collude read off the tree, where they see it and where not.

They have all columns but those of one peer, and what was opened. Of what was not opened they have
no better idea than any that fits, and draw it: what counts is how often they are right on average
over all that they may draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.options import PivotOptions
from hedgerow.protocols.pivot.plan import Hide, PivotPlan
from hedgerow.protocols.pivot.run import PivotRun
from hedgerow.protocols.pivot.trees import opened_trees
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.trees.tree import Tree
from reproduce.paper_003.data import BINS
from reproduce.paper_003.models import in_the_clear, plan_of, train

DRAWS = 300
COLUMNS = 6
HIDES: tuple[Hide, ...] = ("nothing", "thresholds")
_ALL_BUT_THE_TARGET = [0, 0, 0, 1, 1, 1]


@dataclass(frozen=True)
class Guess:
    """Shares of rows: guessed right, and right if everybody were as most are.

    `told`: guessed right by who knows one thing more, that is not opened.
    """

    right: float
    base: float
    told: float | None = None


def patients() -> Encoded:
    """Return a table of two classes that a small tree tells apart."""
    table = load_breast_cancer()
    X, y = table.data[:, :COLUMNS], table.target
    domain = Domain.suggest(X, y, quiet=True, max_bins=BINS, task="classification")
    return encode(X, domain, y)


def labels_by_collusion(hide: Hide) -> Guess:
    """Attack as in example 1: those who have all the columns infer the labels of another."""
    rows = patients()
    plan, run = grown(rows, hide, _ALL_BUT_THE_TARGET, target_at=2)
    actual = np.asarray(rows.target) == 1
    right = [np.mean((t.predict_class(rows.bins) == 1) == actual) for t in _trees(plan, run)]
    return Guess(float(np.mean(right)), _base(actual))


def sides_by_collusion(hide: Hide) -> Guess:
    """Attack as in example 2: those with the labels infer the side of a cut that rows are on.

    Of a cut at the root, whose rows everybody knows: all of them. Who knows from elsewhere which
    class has the low values of the attribute at the root, which is opened, is `told`.
    """
    rows = patients()
    truth = in_the_clear(rows, _plan(rows, hide, _ALL_BUT_THE_TARGET, 2))[0]
    owners = [2 if j == truth.feature[0] else 0 for j in range(COLUMNS)]
    plan, run = grown(rows, hide, owners, target_at=1)
    actual, target = rows.bins[:, truth.feature[0]] <= truth.cut[0], np.asarray(rows.target)
    of_class = [float(np.mean((target == label) == actual)) for label in (0, 1)]
    right = []
    for found in _trees(plan, run):
        # Which class stands left of the root, by the leaves below it.
        on_left = [int(found.labels[leaf]) for leaf in _below(found, int(found.first_child[0]))]
        votes = np.bincount(on_left, minlength=2)
        right.append(np.mean(of_class, where=votes == votes.max()))
    return Guess(float(np.mean(right)), _base(actual), max(of_class))


def all_attacks() -> list[dict[str, Any]]:
    """Attack trees that are seen, and trees that are not."""
    attacks = {"labels": labels_by_collusion, "sides": sides_by_collusion}
    return [
        {"attack": name, "hide": hide, **vars(attack(hide))}
        for name, attack in attacks.items()
        for hide in HIDES
    ]


def _base(actual: NDArray[np.bool_]) -> float:
    share = float(np.mean(actual))
    return max(share, 1 - share)


def _plan(rows: Encoded, hide: Hide, owners: list[int], target_at: int) -> PivotPlan:
    plan = plan_of(rows, PivotOptions(max_depth=2, hide=hide), owners)
    assert isinstance(plan, PivotPlan)
    return replace(plan, target_at=target_at)


def grown(
    rows: Encoded, hide: Hide, owners: list[int], target_at: int
) -> tuple[PivotPlan, PivotRun]:
    """Grow the tree that is attacked."""
    plan = _plan(rows, hide, owners, target_at)
    return plan, train(rows, plan)


def _trees(plan: PivotPlan, run: PivotRun) -> list[Tree]:
    """Return trees that fit all that was opened: the one, or drawn ones."""
    tree, rng = run.model, np.random.default_rng(0)
    assert isinstance(tree, PeerTrees)
    assert plan.shown is not None
    fits = [[np.flatnonzero(plan.shown == value) for value in group] for group in tree.groups]
    labels = np.eye(plan.classes or 0, dtype=np.int64)
    found: list[Tree] = []
    is_seen = tree.opened is not None and all(few.size == 1 for group in fits for few in group)
    for _ in range(1 if is_seen else DRAWS):
        chosen = [np.array([rng.choice(few) for few in group], dtype=np.int64) for group in fits]
        leaves = tree.opened
        if leaves is None:
            leaves = labels[rng.integers(0, len(labels), tree.shape.n_leaves)]
        drawn = replace(tree, groups=chosen, opened=leaves, choices=None, leaves=None)
        found += opened_trees(replace(plan, hide="nothing"), drawn)
    return found


def _below(tree: Tree, node: int) -> list[int]:
    if tree.first_child[node] < 0:
        return [node]
    first = int(tree.first_child[node])
    return [leaf for child in (first, first + 1) for leaf in _below(tree, child)]
