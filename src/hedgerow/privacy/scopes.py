"""Scopes: where a release stands among the others, which decides how costs compose.

A scope is a path of segments from `ROOT`. A *step* is one stage after another: costs add up. A
*part* is one part of a partition of the records: a record is in one part only, so of sibling
parts only the dearest counts. Two partitions of one scope add up, because a record is in one part
of each.

Why the dearest is enough under add/remove neighbours: fix the record that is added or removed and
everything released before. Its part is then fixed, and the other parts hold the same records in
both tables, so their releases have the same law on both sides. What remains is the composition
inside one part. This needs that a record never changes its part, and that the part depends on the
record itself and on earlier releases only: `By` lists the reasons that make it so. Whether a
partition is what it says cannot be checked here; that a reason is named can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique

from hedgerow.errors import Code

MAX_DEPTH = 64
"""Segments of a scope: composition walks down the tree of scopes, which a file may have written."""
EACH = "each"
"""Label of a release that is made once in every part; it adds to whatever a named part costs."""


@unique
class By(Enum):
    """Why the part of a record depends on no other record, their order or their number."""

    ATTRIBUTES = "attributes and earlier releases"
    COIN = "own coin"
    SLOT = "fixed slot"
    KEYED_HASH = "keyed hash of id"
    OWNERS = "disjoint owners"


@dataclass(frozen=True)
class Partition:
    """A division of the records into parts, each record in one part for the whole run.

    Within one scope the name is the partition: two divisions of the same records (the nodes of two
    levels) need two names or two steps, else their parts would count as siblings although one
    record is in both. `by`, a value of `By`, is why parts depend on each record alone.
    """

    name: str
    by: By

    def __post_init__(self) -> None:
        _check_text(self.name, "the name of a partition")
        try:
            object.__setattr__(self, "by", By(self.by))
        except ValueError:
            raise Code.BAD_SCOPE.error(
                expected="a partition by " + ", by ".join(repr(b.value) for b in By),
                found=f"partition {self.name!r} by {self.by!r}",
            ) from None


@dataclass(frozen=True)
class Segment:
    """One part of a path; made by `step` and `part`."""

    label: str
    partition: Partition | None = None

    def __post_init__(self) -> None:
        _check_text(self.label, "the label of a segment")
        if self.partition is not None and not isinstance(self.partition, Partition):
            raise Code.BAD_SCOPE.error(found=f"{self.partition!r} in place of a Partition")

    def covers(self, other: Segment) -> bool:
        """Whether a charge here is also a charge there: equal, or made in each part."""
        return self == other or (
            self.partition is not None and self.partition == other.partition and self.label == EACH
        )

    def __str__(self) -> str:
        return self.label if self.partition is None else f"{self.partition.name}: {self.label}"


def step(name: str) -> Segment:
    """Return a segment for one stage after another, such as ``step("tree 3")``."""
    return Segment(name)


def part(partition: Partition, label: str | int) -> Segment:
    """Return a segment for one part of a partition, or for every part with label `EACH`."""
    if not isinstance(partition, Partition):
        raise Code.BAD_SCOPE.error(found=f"{partition!r} in place of a Partition")
    is_index = isinstance(label, int) and not isinstance(label, bool)
    return Segment(str(label) if is_index else label, partition)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Scope:
    """A path of segments: ``ROOT / step("tree 3") / part(nodes, EACH)``."""

    segments: tuple[Segment, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.segments))
        if len(self.segments) > MAX_DEPTH:
            raise Code.BAD_SCOPE.error(
                expected=f"at most {MAX_DEPTH} segments", found=f"{len(self.segments)} segments"
            )
        for segment in self.segments:
            if not isinstance(segment, Segment):
                raise Code.BAD_SCOPE.error(
                    expected="segments made by step() and part()", found=repr(segment)
                )

    def __truediv__(self, segment: Segment) -> Scope:
        return Scope((*self.segments, segment))

    def covers(self, other: Scope) -> bool:
        """Whether `other` is this scope or lies inside it."""
        inside = len(other.segments) >= len(self.segments)
        pairs = zip(self.segments, other.segments, strict=False)
        return inside and all(mine.covers(its) for mine, its in pairs)

    def __str__(self) -> str:
        return " / ".join(map(str, self.segments)) or "root"

    def to_list(self) -> list[dict[str, str]]:
        """Return the path as plain data for JSON."""
        return [
            {"step": s.label}
            if s.partition is None
            else {"part": s.label, "partition": s.partition.name, "by": s.partition.by.value}
            for s in self.segments
        ]

    @classmethod
    def from_list(cls, data: object) -> Scope:
        """Read what `to_list` wrote; anything else raises H206."""
        if not isinstance(data, list):
            raise Code.BAD_SCOPE.error(expected="a list of segments", found=repr(data))
        return cls(tuple(_segment(item) for item in data))


ROOT = Scope()
"""The scope of the whole run."""


def _segment(item: object) -> Segment:
    if isinstance(item, Mapping):
        if set(item) == {"step"}:
            return step(item["step"])
        if set(item) == {"part", "partition", "by"}:
            return part(Partition(item["partition"], item["by"]), item["part"])
    raise Code.BAD_SCOPE.error(
        expected="a segment {step} or {part, partition, by}", found=repr(item)
    )


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise Code.BAD_SCOPE.error(expected=f"printable text as {what}", found=repr(text))
