"""`Boosted`: public trees whose values are added up to a raw score, and the link that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.tables.attribute import Target
from hedgerow.tables.domain import Domain
from hedgerow.trees import layout, predict, schema
from hedgerow.trees.layout import Bins
from hedgerow.trees.tree import Tree

Link = Literal["identity", "logistic", "softmax", "one-vs-rest"]
Noise = tuple[NDArray[np.float64] | None, ...]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Boosted(schema.ModelDocument):
    """Boosted trees: ``raw = start + sum of the trees' values``, read through a link.

    The raw score has k columns: one for a target with bounds or two classes, K for K > 2 classes.
    `trees` come round by round; with k > 1 each round is a sequence of k trees, one per class, or
    all stand in one sequence in that order, which is how they are kept. They have one number per
    node; their target is that of `step_domain`, to which trees of another target with bounds are
    moved. `start` (k,) is the raw score before the first tree. `link` reads it as the target, as
    the log-odds of the second of two classes, as the logarithms of the probabilities of K > 2
    classes up to a constant, or as the log-odds of each of them against the rest, whose
    probabilities are then shares of their sum. `noise`, where it is known, has for each tree the
    standard deviations of the noise that was added to sums of records, as it enters the values of
    its leaves, in the order of `Tree.leaves`, or None; it is public as the trees are, and changes
    no answer. It does not say how far another fit would differ: noise also moves cuts, what later
    rounds learn and the shrinkage.

    `Code.BAD_TREE` if the trees are not such trees or no finite sum can be promised,
    `Code.BAD_TARGET` if the domain has no target or one class only, `Code.BAD_PARAMETER` if the
    link does not fit the target or `start` is not k finite numbers.
    """

    domain: Domain
    trees: tuple[Tree, ...]
    start: NDArray[np.float64]
    link: Link
    noise: Noise | None

    def __init__(
        self,
        domain: Domain,
        trees: Sequence[Tree] | Sequence[Sequence[Tree]],
        start: ArrayLike,
        link: Link,
        noise: Sequence[ArrayLike | None] | None = None,
    ) -> None:
        k = n_scores(domain, link)
        moved = _with_one_domain(step_domain(domain), _in_order(trees, k))
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "trees", moved)
        object.__setattr__(self, "start", _start(start, k))
        object.__setattr__(self, "link", link)
        object.__setattr__(self, "noise", None if noise is None else _noise(noise, moved))
        reach = sum(float(np.abs(tree.value[tree.leaves]).max()) for tree in moved)
        if not np.isfinite(reach + float(np.abs(self.start).max())):
            raise layout.bad("values whose sum over the trees can be infinite")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Boosted):
            return NotImplemented
        return (
            self.domain == other.domain
            and self.link == other.link
            and np.array_equal(self.start, other.start)
            and self.trees == other.trees
            and _same_noise(self.noise, other.noise)
        )

    def __hash__(self) -> int:
        return hash((self.link, self.start.tobytes(), self.trees))

    def __repr__(self) -> str:
        task = "classification" if self.is_classifier else "regression"
        return f"Boosted({task}, {self.link}, {self.n_rounds} rounds, {self.n_nodes} nodes)"

    @property
    def is_classifier(self) -> bool:
        """Whether the target has classes."""
        return self.link != "identity"

    @property
    def n_scores(self) -> int:
        """Columns k of the raw score, which is also the number of trees per round."""
        return len(self.start)

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.trees) // self.n_scores

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees together."""
        return sum(tree.n_nodes for tree in self.trees)

    @property
    def n_outputs(self) -> int:
        """Number of classes, or 1 for regression."""
        target = self.domain.target
        return 1 if target is None or target.classes is None else len(target.classes)

    def tree(self, round_: int, column: int = 0) -> Tree:
        """Tree of one round and one column of the raw score, for example to draw it."""
        if not (0 <= round_ < self.n_rounds and 0 <= column < self.n_scores):
            raise Code.BAD_PARAMETER.error(
                found=f"round {round_}, column {column}",
                expected=f"rounds below {self.n_rounds} and columns below {self.n_scores}",
            )
        return self.trees[round_ * self.n_scores + column]

    @cached_property
    def _packed_trees(
        self,
    ) -> tuple[list[predict.PackedTrees], NDArray[np.float64], NDArray[np.int32]]:
        """Plan of all trees with the roots of each column, their values, the features in use."""
        plan = predict.join([tree.plan for tree in self.trees])
        plans = []
        for column in range(self.n_scores):
            roots = plan.roots[column :: self.n_scores].copy()
            roots.setflags(write=False)
            plans.append(plan._replace(roots=roots))
        features = np.unique(np.concatenate([np.unique(tree.feature) for tree in self.trees]))
        return plans, np.concatenate([tree.value for tree in self.trees]), features

    def raw(self, bins: Bins) -> NDArray[np.float64]:
        """Raw score: `start` and the values of the leaves, added in the order of the rounds.

        `bins`: uint8 or uint16 (m, d); rows as encoded by the domain; fastest in Fortran order.
        Returns float64 (m, k).
        """
        plans, values, features = self._packed_trees
        layout.check_bins(self.domain, bins, features)
        # Once for all columns: the kernels would make a copy each.
        columns: Any = np.asfortranarray(bins)
        return np.concatenate(
            [
                predict.total(plan, values, columns, start)
                for plan, start in zip(plans, self.start.tolist(), strict=True)
            ],
            axis=1,
        )

    def decide(self, bins: Bins) -> NDArray[np.float64]:
        """Class probabilities of every row, or its number; float64 (m, classes or 1)."""
        return self.distribution(bins) if self.is_classifier else self.raw(bins)

    def distribution(self, bins: Bins) -> NDArray[np.float64]:
        """Class probabilities of every row, float64 (m, classes)."""
        self._needs_classes()
        return probabilities(self.raw(bins), joint=self.link != "one-vs-rest")

    def predict_class(self, bins: Bins) -> NDArray[np.int32]:
        """Class index of every row, int32 (m,); of equal raw scores the lowest index wins.

        It is read from the raw score, which still differs where probabilities have been rounded
        to the same number.
        """
        self._needs_classes()
        raw = self.raw(bins)
        if self.link == "logistic":
            return (raw[:, 0] > 0).astype(np.int32)
        best: NDArray[np.int32] = np.argmax(raw, axis=1).astype(np.int32)
        return best

    def to_dict(self, *, privacy: dict[str, Any] | None = None) -> dict[str, Any]:
        """Model document (see ``model.schema.json``), with the ledger's JSON object if given."""
        body = {
            "link": self.link,
            "start": self.start.tolist(),
            "trees": [schema.pack_tree(tree.arrays) for tree in self.trees],
        }
        if self.noise is not None:
            body["noise"] = [None if one is None else one.tolist() for one in self.noise]
        minor = 3 if self.link == "one-vs-rest" else 1 if self.noise is None else 2
        return schema.document("boosted", self.domain, body, privacy, minor=minor)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read a model document; checked whole, `Code.BAD_MODEL_FILE` otherwise."""
        domain, body, _ = schema.open_document(document, "boosted")
        minor = schema.minor_version(document)
        allowed = {"noise"} if minor > 1 else set()
        schema.keys(body, {"link", "start", "trees"}, allowed, "the boosted trees")
        if body["link"] == "one-vs-rest" and minor < 3:
            schema.refuse(f"link 'one-vs-rest' in minor version {minor}")
        if not isinstance(body["trees"], list):
            schema.refuse(f"trees of type {type(body['trees']).__name__}")

        def trees() -> list[Tree]:
            step = step_domain(domain)
            return [Tree(step, **schema.unpack_tree(one, step, minor)) for one in body["trees"]]

        return schema.build(
            lambda: cls(
                domain, trees(), schema.floats(body, "start"), body["link"], _read_noise(body)
            )
        )

    def _needs_classes(self) -> None:
        if not self.is_classifier:
            raise Code.BAD_TARGET.error(
                found="boosted regression trees", expected="trees whose target has classes"
            )


def _in_order(trees: Sequence[Tree] | Sequence[Sequence[Tree]], k: int) -> list[Tree]:
    """List the trees round by round, refusing rounds that are not k trees."""
    flat: list[Tree] = []
    for one in trees:
        if isinstance(one, Tree):
            flat.append(one)
        elif not isinstance(one, list | tuple) or len(one) != k or len(flat) % k:
            raise layout.bad(f"a round that is not {k} trees")
        else:
            flat += one
    if not flat or not all(isinstance(tree, Tree) for tree in flat):
        raise Code.BAD_TREE.error(found="no trees", expected="at least one round of Tree")
    if len(flat) % k:
        raise layout.bad(f"{len(flat)} trees where every round has {k}")
    return flat


def _with_one_domain(step: Domain, trees: list[Tree]) -> tuple[Tree, ...]:
    """Check that the trees fit, and give all of them one domain."""
    # Trees mostly share a domain, and to compare two means to compare all their attributes.
    moved: dict[int, bool] = {}
    for tree in trees:
        if id(tree.domain) in moved:
            continue
        if tree.is_classifier:
            raise Code.BAD_TREE.error(
                found="a tree of class counts",
                expected="trees with one number per node, of the domain `step_domain` gives",
            )
        if tree.domain.attributes != step.attributes:
            raise layout.bad("a tree over other attributes than the model's")
        moved[id(tree.domain)] = tree.domain != step
    return tuple(Tree(step, **tree.arrays) if moved[id(tree.domain)] else tree for tree in trees)


def _start(given: ArrayLike, k: int) -> NDArray[np.float64]:
    raw = np.asarray(given)
    start = np.atleast_1d(raw).astype(np.float64) if raw.dtype.kind in "iuf" else np.empty(0)
    if start.shape != (k,) or not np.isfinite(start).all():
        raise Code.BAD_PARAMETER.error(
            found=f"start={given!r}", expected=f"{k} finite number{'s' if k > 1 else ''}"
        )
    start.setflags(write=False)
    return start


def _noise(given: Sequence[ArrayLike | None], trees: Sequence[Tree]) -> Noise:
    if len(given) != len(trees):
        raise Code.BAD_TREE.error(
            found=f"noise of {len(given)} trees", expected=f"that of {len(trees)}"
        )
    return tuple(_noise_of(one, tree) for one, tree in zip(given, trees, strict=True))


def _noise_of(given: ArrayLike | None, tree: Tree) -> NDArray[np.float64] | None:
    if given is None:
        return None
    found = np.array(given, dtype=np.float64)
    if found.shape != (tree.n_leaves,) or not np.isfinite(found).all() or (found < 0).any():
        raise Code.BAD_TREE.error(
            found="noise that is not one deviation for each leaf",
            expected="finite numbers of at least 0, as many as the tree has leaves",
        )
    found.setflags(write=False)
    return found


def _same_noise(one: Noise | None, other: Noise | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(
        a is b or (a is not None and b is not None and np.array_equal(a, b))
        for a, b in zip(one, other, strict=True)
    )


def _read_noise(body: dict[str, Any]) -> list[NDArray[np.float64] | None] | None:
    if "noise" not in body:
        return None
    if not isinstance(body["noise"], list):
        schema.refuse(f"noise of type {type(body['noise']).__name__}")
    return [
        None if one is None else schema.floats({"noise": one}, "noise") for one in body["noise"]
    ]


def step_domain(domain: Domain) -> Domain:
    """Domain of the trees of a `Boosted` model: its attributes, and a number as the target.

    For a target with bounds it is the domain itself. For classes the number is a step of the raw
    score; its bounds, -1 and 1, are the scale of drawings and bind no value.
    """
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    if domain.target.classes is None:
        return domain
    return Domain(
        attributes=domain.attributes,
        target=Target(name=domain.target.name, bounds=(-1.0, 1.0)),
        capacity=domain.capacity,
        provenance=domain.provenance,
    )


def n_scores(domain: Domain, link: Link) -> int:
    """Columns of the raw score for a domain: K for more than two classes, otherwise one.

    Raises `Code.BAD_TARGET` or `Code.BAD_PARAMETER` if the link does not fit the target.
    """
    check_option("link", link, Link)
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    classes = domain.target.classes
    if classes is not None and len(classes) < 2:
        raise Code.BAD_TARGET.error(found="a target of one class", expected="two or more classes")
    fits: tuple[Link, ...] = ("softmax", "one-vs-rest")
    if classes is None or len(classes) == 2:
        fits = ("identity",) if classes is None else ("logistic",)
    if link not in fits:
        kind = "bounds" if classes is None else f"{len(classes)} classes"
        raise Code.BAD_PARAMETER.error(
            found=f"link={link!r} for a target with {kind}",
            expected=" or ".join(f"link={one!r}" for one in fits),
        )
    return len(classes) if classes is not None and len(classes) > 2 else 1


def probabilities(raw: NDArray[np.float64], *, joint: bool = True) -> NDArray[np.float64]:
    """Return class probabilities (n, k) of raw scores (n, 1), of the second class, or (n, k).

    `joint` scores of classes are read by softmax, others each by itself, as shares of their sum.
    """
    if raw.shape[1] == 1:
        # Each side from its own exponential: one minus the other would lose small ones.
        return np.exp(-np.logaddexp(0.0, np.hstack([raw, -raw])))
    if not joint:
        return shares_of(np.exp(-np.logaddexp(0.0, -raw)))
    # A difference may overflow; its exponential is 0 all the same.
    with np.errstate(over="ignore"):
        scaled = np.exp(raw - raw.max(axis=1, keepdims=True))
    return shares_of(scaled)


def shares_of(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares of numbers (n, k) in their sums; where that is 0, all alike."""
    total = chances.sum(axis=1, keepdims=True)
    every = np.where(total > 0, chances, 1.0)
    found: NDArray[np.float64] = every / every.sum(axis=1, keepdims=True)
    return found
