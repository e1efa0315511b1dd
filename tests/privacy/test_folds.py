"""The fold over scopes, against brute force over every place a record can be in."""

import itertools
import math

from hypothesis import given

from hedgerow.privacy.accounting import fold
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, ROOT, Scope, part, step
from tests.privacy.release_strategies import NODES, TREES, release, release_lists


def largest_sum(events: list[Release]) -> float:
    return fold(events, lambda r: r.epsilon * r.times, math.fsum, max)


def brute_force(events: list[Release]) -> float:
    """Sum what one record meets, and take the worst over its parts in every partition."""
    places: dict[tuple[Scope, object], set[str]] = {}
    for event in events:
        for i, segment in enumerate(event.scope.segments):
            if segment.partition is not None and segment.label != EACH:
                place = (Scope(event.scope.segments[:i]), segment.partition)
                places.setdefault(place, set()).add(segment.label)

    def meets(event: Release, parts: dict[tuple[Scope, object], str]) -> bool:
        return all(
            segment.partition is None
            or segment.label == EACH
            or parts[Scope(event.scope.segments[:i]), segment.partition] == segment.label
            for i, segment in enumerate(event.scope.segments)
        )

    choices = itertools.product(*places.values())
    assignments = [dict(zip(places, choice, strict=True)) for choice in choices]
    return max(
        math.fsum(e.epsilon * e.times for e in events if meets(e, parts)) for parts in assignments
    )


@given(release_lists())
def test_fold_equals_brute_force(events: list[Release]) -> None:
    assert math.isclose(largest_sum(events), brute_force(events), rel_tol=1e-12)


def test_the_rules_one_by_one() -> None:
    tree = ROOT / step("tree 0")
    x, y, each = (tree / part(NODES, label) for label in ("x", "y", EACH))
    assert largest_sum([]) == 0
    assert largest_sum([release(1, tree), release(2, tree)]) == 3  # one scope
    assert largest_sum([release(1, tree), release(2, ROOT / step("tree 1"))]) == 3  # steps
    assert largest_sum([release(1, x), release(2, y)]) == 2  # siblings
    assert largest_sum([release(1, x), release(2, y), release(4, each)]) == 6  # in each part too
    assert largest_sum([release(1, x), release(2, tree / part(TREES, "y"))]) == 3  # two partitions
    assert largest_sum([release(1, x), release(2, ROOT / part(NODES, "y"))]) == 3  # two scopes
    # Siblings with their own steps: the dearest branch, not the dearest pieces.
    branches = [release(1, x / step("a")), release(1, x / step("b")), release(1.5, y / step("a"))]
    assert largest_sum(branches) == 2
