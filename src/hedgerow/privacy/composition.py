"""The tree of scopes, and one fold over it that every accountant shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, Partition

T = TypeVar("T")


@dataclass
class _Node:
    """A scope with what was released in it."""

    releases: list[Release] = field(default_factory=list)
    steps: dict[str, _Node] = field(default_factory=dict)
    partitions: dict[Partition, dict[str, _Node]] = field(default_factory=dict)


def _tree(releases: Iterable[Release]) -> _Node:
    root = _Node()
    for release in releases:
        node = root
        for segment in release.scope.segments:
            if segment.partition is None:
                children = node.steps
            else:
                children = node.partitions.setdefault(segment.partition, {})
            node = children.setdefault(segment.label, _Node())
        node.releases.append(release)
    return root


def fold(
    releases: Iterable[Release],
    leaf: Callable[[Release], T],
    add: Callable[[list[T]], T],
    worst: Callable[[list[T]], T],
) -> T:
    """Compose costs over the tree of scopes.

    `leaf` is the cost of one release, all its times together; `worst` covers each of several, at
    least one.
    """

    def cost(node: _Node) -> T:
        items = [leaf(release) for release in node.releases]
        items += [cost(child) for child in node.steps.values()]
        for parts in node.partitions.values():
            # What happens in each part happens in the record's part too, so it adds.
            items += [cost(child) for label, child in parts.items() if label == EACH]
            named = [cost(child) for label, child in parts.items() if label != EACH]
            items += [worst(named)] if named else []
        return add(items)

    return cost(_tree(releases))


def has_siblings(releases: Iterable[Release]) -> bool:
    """Whether releases are in different parts of one partition, so that a record misses some."""

    def any_below(node: _Node) -> bool:
        parts = list(node.partitions.values())
        several = any(len(children.keys() - {EACH}) > 1 for children in parts)
        below = [child for children in (node.steps, *parts) for child in children.values()]
        return several or any(map(any_below, below))

    return any_below(_tree(releases))
