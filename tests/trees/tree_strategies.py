"""Hypothesis strategies and plain builders for random domains, trees, forests and bins."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees.boosted import Boosted, step_domain
from hedgerow.trees.forest import Forest
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

quick = settings(deadline=None, max_examples=60, derandomize=True)
"""The first call of a kernel compiles it, so that a deadline would measure the compiler."""


def random_domain(rng, *, numeric_only=False, classes=None, max_bins=12):
    """One to five attributes of every sort; `classes` None is at random, 0 is regression."""
    attributes = []
    for j in range(int(rng.integers(1, 6))):
        missing = str(rng.choice(["error", "own bin"]))
        if numeric_only or rng.random() < 0.5:
            lo = float(rng.normal(scale=100))
            hi = lo + float(rng.exponential(100)) + 1e-3
            if rng.random() < 0.5:
                cells = {"bins": int(rng.integers(2, max_bins))}
            else:
                inner = np.unique(rng.uniform(lo, hi, size=int(rng.integers(0, max_bins))))
                cells = {"edges": tuple(inner[inner < hi].tolist())}
            attributes.append(
                Attribute(name=f"x{j}", kind="numeric", bounds=(lo, hi), missing=missing, **cells)
            )
        else:
            attributes.append(
                Attribute(
                    name=f"c{j}",
                    kind="categorical",
                    categories=tuple("abcdefgh"[: int(rng.integers(1, 8))]),
                    missing=missing,
                    outside=str(rng.choice(["clip", "error"])),
                )
            )
    k = int(rng.integers(0, 5)) if classes is None else classes
    target = (
        Target(name="y", classes=tuple(f"class {c}" for c in range(k)))
        if k
        else Target(name="y", bounds=(-5.0, 5.0))
    )
    return Domain(attributes=tuple(attributes), target=target)


def random_tree(rng, domain=None, *, max_splits=12, kinds=None, released=None):
    """Split random leaves up to `max_splits` times; values are small integers, some negative.

    `released` says whether inner nodes keep their values; None leaves it to chance.
    """
    domain = random_domain(rng) if domain is None else domain
    kinds = list(kinds or [k for k in SplitKind if k != SplitKind.LEAF])
    kind, feature, cut, first_child, subsets, leaves = [0], [-1], [-1], [-1], [], [0]
    for _ in range(max_splits):
        j = int(rng.integers(len(domain.attributes)))
        n_bins, split = int(domain.n_bins[j]), SplitKind(rng.choice(kinds))
        if n_bins < 2 and split == SplitKind.THRESHOLD:
            continue
        v = leaves.pop(int(rng.integers(len(leaves))))
        at = {
            SplitKind.THRESHOLD: int(rng.integers(max(n_bins - 1, 1))),
            SplitKind.VALUE: int(rng.integers(n_bins)),
            SplitKind.SUBSET: len(subsets),
            SplitKind.WARY: -1,
        }[split]
        if split == SplitKind.SUBSET:
            subsets.append(rng.integers(0, 2, size=int(domain.n_bins.max())).tolist())
        arity = n_bins if split == SplitKind.WARY else 2
        kind[v], feature[v], cut[v], first_child[v] = int(split), j, at, len(kind)
        leaves += range(len(kind), len(kind) + arity)
        kind += [0] * arity
        for column in (feature, cut, first_child):
            column += [-1] * arity
    n = len(kind)
    k = len(domain.target.classes) if domain.target.classes is not None else 1
    value = rng.integers(-3, 40, size=(n, k)).astype(float)
    if k == 1 and domain.target.classes is None:
        value = rng.uniform(*domain.target.bounds, size=(n, 1))
    weight = rng.integers(0, 100, size=n).astype(float)
    if not (bool(rng.random() < 0.5) if released is None else released):
        value[np.array(kind) != SplitKind.LEAF] = np.nan
        weight[:] = np.nan
    return Tree(domain, kind, feature, cut, first_child, value, weight, subsets)


def random_boosted(rng, domain=None, *, rounds=3, max_splits=8, kinds=None, joint=True):
    """Random trees in the model's step domain, a random start, and the link that fits."""
    classes = [0, 2, 3, 4][int(rng.integers(4))]
    domain = random_domain(rng, classes=classes) if domain is None else domain
    classes = domain.target.n_classes or 0
    k = classes if classes > 2 else 1
    step = step_domain(domain)
    trees = [random_tree(rng, step, max_splits=max_splits, kinds=kinds) for _ in range(rounds * k)]
    several = "softmax" if joint else "one-vs-rest"
    link = several if k > 1 else "logistic" if classes else "identity"
    return Boosted(domain, trees, rng.normal(size=k), link)


NO_YES = Target(classes=("no", "yes"))


def single_split(attribute, kind, cut=-1, subsets=(), *, target=NO_YES, value=None):
    """One split on the only attribute; every count is 1 unless `value` is given.

    `subsets` is the only row of the table.
    """
    n = attribute.n_bins if kind == SplitKind.WARY else 2
    return Tree(
        Domain(attributes=(attribute,), target=target),
        kind=[kind] + [SplitKind.LEAF] * n,
        feature=[0] + [-1] * n,
        cut=[cut] + [-1] * n,
        first_child=[1] + [-1] * n,
        value=np.ones((n + 1, 2)) if value is None else value,
        weight=np.ones(n + 1),
        subsets=[subsets] if len(subsets) else None,
    )


def chain(domain, n_splits, kind=SplitKind.THRESHOLD, cut=0, value=None):
    """Split by the first attribute again and again, each time the second of two children.

    `cut` is a number or one per split; two classes, every count 1 unless `value` is given.
    """
    n = 2 * n_splits + 1
    inner = (np.arange(n) % 2 == 0) & (np.arange(n) < n - 1)
    cuts = np.full(n, -1)
    cuts[inner] = cut
    return Tree(
        domain,
        kind=np.where(inner, kind, SplitKind.LEAF),
        feature=np.where(inner, 0, -1),
        cut=cuts,
        first_child=np.where(inner, np.arange(n) + 1, -1),
        value=np.ones((n, 2)) if value is None else value,
        weight=np.ones(n),
    )


def random_bins(rng, domain, n):
    """Uniform bins of every attribute, Fortran order, shape (n, d)."""
    columns = [rng.integers(0, b, size=n) for b in domain.n_bins.tolist()]
    return np.asfortranarray(np.stack(columns, axis=1).astype(domain.dtype))


def walk(tree, row):
    """Leaf of one row of bins by plain recursion over the definition: the oracle of the kernels."""
    v = 0
    while tree.kind[v] != SplitKind.LEAF:
        b, cut, kind = int(row[tree.feature[v]]), int(tree.cut[v]), tree.kind[v]
        if kind == SplitKind.THRESHOLD:
            step = 0 if b <= cut else 1
        elif kind == SplitKind.VALUE:
            step = 0 if b == cut else 1
        elif kind == SplitKind.SUBSET:
            step = 0 if tree.subsets[cut, b] else 1
        else:
            step = b
        v = int(tree.first_child[v]) + step
    return v


_seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def domains(draw, **options):
    return random_domain(draw(_seeds), **options)


@st.composite
def trees(draw, domain=None, **options):
    options.setdefault("max_splits", draw(st.integers(0, 15)))
    return random_tree(draw(_seeds), domain, **options)


@st.composite
def forests(draw, **options):
    domain = draw(domains())
    return Forest(tuple(draw(trees(domain, **options)) for _ in range(draw(st.integers(1, 4)))))


@st.composite
def boosteds(draw, **options):
    return random_boosted(
        draw(_seeds), rounds=draw(st.integers(1, 3)), joint=draw(st.booleans()), **options
    )


@st.composite
def trees_with_bins(draw, rows=50, **options):
    tree = draw(trees(**options))
    return tree, random_bins(draw(_seeds), tree.domain, rows)
