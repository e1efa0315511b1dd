"""Trees and boosted models in words: `to_text` draws a tree, `describe` explains a sum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.charts.look import printable
from hedgerow.errors import Code
from hedgerow.tables.attribute import Attribute, format_number
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

MANY = 6
"""Longest list that a caption writes out in full."""


class TreeView(NamedTuple):
    """The part of a tree that is drawn: its nodes keep their order and get new numbers.

    `children`: numbers in the view, empty at leaves and where the drawing ends. `conditions`: what
    leads to each node, without the attribute's name; empty for the root. `hidden`: leaves below
    each node that are not drawn.
    """

    nodes: list[int]
    children: list[list[int]]
    conditions: list[str]
    hidden: list[int]


def to_text(tree: Tree, max_depth: int | None = None, *, noisy: bool = False) -> str:
    """Draw a tree as indented text, one line per branch.

    `max_depth`: levels to draw below the root; None draws all. `noisy`: say that the counts are
    noisy, as in a private tree. No line break at the end.
    """
    view = view_of(tree, max_depth)
    lines = [heading_of(tree) + _end(tree, view, 0, noisy)]
    stack = [(c, "") for c in reversed(view.children[0])]
    last = {children[-1] for children in view.children if children}
    while stack:
        i, indent = stack.pop()
        name = attribute_name(tree, tree.parents[view.nodes[i]])
        branch, below = ("└── ", "    ") if i in last else ("├── ", "│   ")
        lines.append(f"{indent}{branch}{name} {view.conditions[i]}{_end(tree, view, i, noisy)}")
        stack += [(c, indent + below) for c in reversed(view.children[i])]
    return "\n".join(lines)


def view_of(tree: Tree, max_depth: int | None) -> TreeView:
    """Return what is drawn of a tree down to a depth; H501 for a depth below 0."""
    if not isinstance(tree, Tree):
        raise Code.WRONG_TYPE.error(
            found=type(tree).__name__, expected="a Tree", fix="draw one of the model's `trees`"
        )
    if max_depth is not None and (not isinstance(max_depth, int) or max_depth < 0):
        raise Code.BAD_PARAMETER.error(
            found=f"max_depth={max_depth!r}", expected="max_depth >= 0 or None"
        )
    deepest = tree.depth if max_depth is None else max_depth
    nodes = np.flatnonzero(tree.node_depths <= deepest).tolist()
    number = {v: i for i, v in enumerate(nodes)}
    below = _leaves_below(tree)
    children: list[list[int]] = []
    conditions, hidden = [""] * len(nodes), [0] * len(nodes)
    for i, v in enumerate(nodes):
        children.append([])
        if tree.kind[v] == SplitKind.LEAF:
            continue
        if tree.node_depths[v] == deepest:
            hidden[i] = int(below[v])
            continue
        first = number[int(tree.first_child[v])]
        children[i] = list(range(first, first + int(tree.arity[v])))
        conditions[first : first + len(children[i])] = branch_conditions(tree, v)
    return TreeView(nodes, children, conditions, hidden)


def _leaves_below(tree: Tree) -> list[int]:
    below = [int(kind == SplitKind.LEAF) for kind in tree.kind.tolist()]
    parents = tree.parents.tolist()
    for v in range(tree.n_nodes - 1, 0, -1):
        below[parents[v]] += below[v]
    return below


def heading_of(tree: Tree) -> str:
    """Return the title of a drawing."""
    target = tree.domain.target
    return f"Decision tree for {printable(target.name if target else '')}"


def _end(tree: Tree, view: TreeView, i: int, noisy: bool) -> str:
    """End a line after its condition: with a leaf's answer, or with what is not drawn."""
    v = view.nodes[i]
    if view.hidden[i]:
        return f" … {count_noun(view.hidden[i], 'leaf', 'leaves')}"
    if view.children[i]:
        return ""
    counts = evidence(tree, v, noisy=noisy)
    return f" → {leaf_answer(tree, v)}" + (f"  ({counts})" if counts else "")


def count_noun(n: int, one: str, many: str) -> str:
    """Write a number with its noun."""
    return f"{n:,} {one if n == 1 else many}"


def short_number(x: float) -> str:
    """Write a number as people do: six significant digits, no trailing zeros."""
    return format_number(x, 6)


def attribute_name(tree: Tree, node: int) -> str:
    """Name of the attribute that an inner node looks at."""
    return printable(tree.domain.attributes[tree.feature[node]].name)


def branch_conditions(tree: Tree, node: int) -> list[str]:
    """Describe the condition of each child of an inner node, without the attribute's name.

    Examples: ``<= 37.5``, ``> 37.5 or missing``, ``= red``, ``in {red, blue}``, ``is missing``.
    """
    attribute = tree.domain.attributes[tree.feature[node]]
    kind, cut = SplitKind(tree.kind[node]), int(tree.cut[node])
    bins = np.arange(attribute.n_bins)
    if kind is SplitKind.WARY:
        return _conditions(attribute)
    if kind is SplitKind.THRESHOLD:
        if attribute.kind == "numeric" and cut < attribute.n_values - 1:
            at = _cut(attribute, cut)
            rest = " or missing" if attribute.n_bins > attribute.n_values else ""
            return [f"<= {at}", f"> {at}{rest}"]
        return _sides(attribute, bins > cut)
    if kind is SplitKind.VALUE:
        return _sides(attribute, bins != cut)
    return _sides(attribute, ~tree.subsets[cut, bins])


def leaf_answer(tree: Tree, node: int) -> str:
    """Label that a classification leaf predicts, or the mean of a regression leaf."""
    target = tree.domain.target
    if target is None or target.classes is None:
        return short_number(float(tree.value[node, 0]))
    return printable(target.classes[tree.labels[node]])


def evidence(tree: Tree, node: int, *, noisy: bool = False) -> str:
    """List the counts behind a node: ``no: 3, yes: 9``, ``noisy; 12 records``, or nothing."""
    target = tree.domain.target
    said = ""
    if tree.labels_alone:
        return ""
    if target is not None and target.classes is not None and not np.isnan(tree.value[node, 0]):
        order = range(len(target.classes))
        if len(target.classes) > MANY:
            order = np.argsort(-tree.value[node], kind="stable")[: MANY - 1].tolist()
        parts = [
            f"{printable(target.classes[c])}: {short_number(tree.value[node, c])}" for c in order
        ]
        rest = len(target.classes) - len(parts)
        said = ", ".join(parts) + (f", {rest} more" if rest else "")
    elif not np.isnan(tree.weight[node]):
        count = short_number(tree.weight[node])
        said = f"{count} record" if count == "1" else f"{count} records"
    return f"noisy; {said}" if noisy and said else said


def _cut(attribute: Attribute, cut: int) -> str:
    """Write a cut point with as many digits as tell it from its neighbours."""
    near = attribute.cuts[max(cut - 1, 0) : cut + 2].tolist()
    for digits in (6, 9, 12, 17):
        shown = [format_number(x, digits) for x in near]
        if len(set(shown)) == len(shown):
            break
    return shown[min(cut, 1)]


def _conditions(attribute: Attribute) -> list[str]:
    """Describe each bin: ``= red``, ``<= 3``, ``in (3, 7]``, ``is missing``."""
    labels = [printable(label) for label in attribute.labels()]
    n = attribute.n_values
    if attribute.kind == "categorical":
        said = [f"= {label}" for label in labels[:n]]
    elif n == 1:
        said = ["is not missing" if attribute.n_bins > n else "has any value"]
    else:
        said = [labels[0], *(f"in {label}" for label in labels[1 : n - 1]), labels[n - 1]]
    return [*said, "is missing"] if attribute.n_bins > n else said


def _sides(attribute: Attribute, side: NDArray[Any]) -> list[str]:
    """Describe the sides of a binary split, given the side of each bin.

    A side of one bin is named by that bin, and then the other one is simply all the rest.
    """
    conditions = _conditions(attribute)
    members = [np.flatnonzero(side == s).tolist() for s in (0, 1)]
    said = [conditions[m[0]] if len(m) == 1 else _among(attribute, m) for m in members]
    for i, other in ((0, 1), (1, 0)):
        if len(members[i]) == 1 and len(members[other]) > 1:
            said[other] = _negate(said[i], attribute.missing == "own bin")
            break
    return said


def _negate(condition: str, missing: bool) -> str:
    """Say the opposite; of a comparison only where no missing value can come along."""
    sign, _, rest = condition.partition(" ")
    opposite = {"=": "!=", "is": "is not"} | ({} if missing else {"<=": ">", ">": "<="})
    return f"{opposite[sign]} {rest}" if sign in opposite else f"not {condition}"


def _among(attribute: Attribute, members: list[int]) -> str:
    if not members:
        return "never"
    labels = [printable(label) for label in attribute.labels()]
    shown = [labels[b] for b in members[: MANY - (len(members) > MANY)]]
    if len(shown) < len(members):
        shown.append(f"{len(members) - len(shown)} more")
    return f"in {{{', '.join(shown)}}}"


def describe(model: Boosted) -> str:
    """Return a few lines: what the sum is, where it starts, and one line for each function.

    No line break at the end.
    """
    count = len(model.trees)
    noun = "1 function" if count == 1 else f"{count:,} functions"
    names = [f"  {number}: {function_caption(model, number)}" for number in range(count)]
    return "\n".join([f"boosted model: {_meaning(model)}", _base(model), f"{noun}:", *names])


def function_caption(model: Boosted, number: int) -> str:
    """Return the attributes of a function, and the class it is for, if there are more than two.

    `number`: from 0.
    """
    tree = model.trees[number]
    used = np.unique(tree.feature[tree.feature >= 0])
    names = [model.domain.attributes[int(feature)].name for feature in used]
    of = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    target = model.domain.target
    column = ""
    if model.n_scores > 1 and target is not None and target.classes is not None:
        column = f", for class {target.classes[number % model.n_scores]!r}"
    return f"{f'of {of}' if of else 'of no attribute, a constant'}{column}"


def _meaning(model: Boosted) -> str:
    target = model.domain.target
    assert target is not None
    if target.classes is None:
        return f"base value and functions add up to {target.name!r}"
    if model.link == "logistic":
        return (
            f"base value and functions add up to the log-odds of {target.name!r} being "
            f"{target.classes[1]!r}"
        )
    if model.link == "one-vs-rest":
        return (
            "base value and functions add up to the log-odds of each class of "
            f"{target.name!r} against the rest; the probabilities are shares of their sum"
        )
    return (
        f"base value and functions add up to one score for each class of {target.name!r}; "
        "the probabilities are their softmax"
    )


def _base(model: Boosted) -> str:
    target = model.domain.target
    starts = [f"{start:.6g}" for start in model.start.tolist()]
    if model.n_scores > 1 and target is not None and target.classes is not None:
        pairs = zip(target.classes, starts, strict=True)
        return "base values: " + ", ".join(f"{name!r} {start}" for name, start in pairs)
    return f"base value: {starts[0]}"
