"""Words for splits and leaves, taken from the domain.

Names and categories come from outside. What cannot be printed (control characters, line breaks,
marks that change the direction of writing) is shown as an escape, so that a caption is always one
harmless line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.tables.attribute import Attribute, format_number
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree

MANY = 6
"""Longest list that a caption writes out in full."""


def printable(text: object) -> str:
    """Show text on one line, with escapes for everything that is not printable."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )


def number(x: float) -> str:
    """Write a number as people do: six significant digits, no trailing zeros."""
    return format_number(x, 6)


def name(tree: Tree, node: int) -> str:
    """Name of the attribute that an inner node looks at."""
    return printable(tree.domain.attributes[tree.feature[node]].name)


def branches(tree: Tree, node: int) -> list[str]:
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


def leaf(tree: Tree, node: int) -> str:
    """Label that a classification leaf predicts, or the mean of a regression leaf."""
    target = tree.domain.target
    if target is None or target.classes is None:
        return number(float(tree.value[node, 0]))
    return printable(target.classes[tree.labels[node]])


def evidence(tree: Tree, node: int, *, noisy: bool = False) -> str:
    """List the counts behind a node: ``no: 3, yes: 9``, ``noisy; 12 records``, or nothing."""
    target = tree.domain.target
    said = ""
    if target is not None and target.classes is not None and not np.isnan(tree.value[node, 0]):
        order = range(len(target.classes))
        if len(target.classes) > MANY:
            order = np.argsort(-tree.value[node], kind="stable")[: MANY - 1].tolist()
        parts = [f"{printable(target.classes[c])}: {number(tree.value[node, c])}" for c in order]
        rest = len(target.classes) - len(parts)
        said = ", ".join(parts) + (f", {rest} more" if rest else "")
    elif not np.isnan(tree.weight[node]):
        count = number(tree.weight[node])
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
            said[other] = _negated(said[i], attribute.missing == "own bin")
            break
    return said


def _negated(condition: str, missing: bool) -> str:
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
