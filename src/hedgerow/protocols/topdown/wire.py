"""Messages of DP-TopDown as bytes: a line of JSON, then the arrays one after the other.

No pickle, and no length is taken from a peer's word: what a message must hold follows from the
plan and the question, and anything else is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.jsonfile import loads

VERSION = 1
MOST_HEADER = 1 << 26
_TYPES: dict[str, np.dtype[Any]] = {"i8": np.dtype("<i8"), "u1": np.dtype("u1")}
_ASK_FIELDS = {
    "hedgerow",
    "version",
    "plan",
    "round",
    "phase",
    "expand",
    "nodes",
    "among",
    "arrays",
}
_ANSWER_FIELDS = {"hedgerow", "version", "plan", "round", "nodes", "arrays"}

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Ask:
    """One question of the coordinator; everything in it is public.

    Attributes
    ----------
    plan : str
        Digest of the plan.
    round : int
        From 0, without a gap.
    phase : str
        ``"nodes"``: weigh and split; ``"recount"``: count the splits in `among`; ``"leaves"``:
        count classes; ``"servers"``: what the owners' sealed counts come to.
    expand : tuple of (node, candidate)
        Splits that are made now, in order; each adds two nodes.
    nodes : tuple of int
        The nodes that are asked about.
    among : tuple of tuple of int
        Candidates of each node, to be recounted.
    arrays : mapping
        What the coordinator passes on from others.
    """

    plan: str
    round: int
    phase: str
    expand: tuple[tuple[int, int], ...] = ()
    nodes: tuple[int, ...] = ()
    among: tuple[tuple[int, ...], ...] = ()
    arrays: Arrays = field(default_factory=dict, repr=False)

    def to_bytes(self) -> bytes:
        """Write it."""
        head = {
            "hedgerow": "topdown ask",
            "version": VERSION,
            "plan": self.plan,
            "round": self.round,
            "phase": self.phase,
            "expand": [list(pair) for pair in self.expand],
            "nodes": list(self.nodes),
            "among": [list(some) for some in self.among],
        }
        return pack(head, self.arrays)

    @classmethod
    def from_bytes(cls, message: bytes) -> Ask:
        """Read what `to_bytes` wrote; anything else raises H820."""
        head, arrays = unpack(message, Code.BAD_ASK)
        if set(head) != _ASK_FIELDS or head["hedgerow"] != "topdown ask":
            raise Code.BAD_ASK.error(found=f"a message with fields {sorted(map(str, head))!s:.200}")
        if head["version"] != VERSION:
            raise Code.BAD_ASK.error(
                expected=f"version {VERSION}", found=f"version {head['version']!r}"
            )
        whole = _whole(head["round"])
        names = isinstance(head["plan"], str) and isinstance(head["phase"], str)
        expand, nodes, among = head["expand"], head["nodes"], head["among"]
        pairs = _lists(expand) and all(len(pair) == 2 for pair in expand)
        if not (whole and names and pairs and _wholes(nodes) and _lists(among)):
            raise Code.BAD_ASK.error(found="a field of another type")
        return cls(
            head["plan"],
            head["round"],
            head["phase"],
            tuple((int(a), int(b)) for a, b in expand),
            tuple(nodes),
            tuple(map(tuple, among)),
            arrays,
        )


@dataclass(frozen=True)
class Answer:
    """What one party answers.

    Attributes
    ----------
    plan, round, nodes
        Of the question.
    arrays : mapping of str to ndarray
        Integers; what leaves an owner is noisy, or sealed for a server.
    """

    plan: str
    round: int
    nodes: tuple[int, ...]
    arrays: Arrays = field(repr=False)

    def to_bytes(self) -> bytes:
        """Write it."""
        head = {
            "hedgerow": "topdown answer",
            "version": VERSION,
            "plan": self.plan,
            "round": self.round,
            "nodes": list(self.nodes),
        }
        return pack(head, self.arrays)

    @classmethod
    def from_bytes(cls, message: bytes) -> Answer:
        """Read what `to_bytes` wrote; anything else raises H822."""
        head, arrays = unpack(message, Code.BAD_ANSWER)
        if set(head) != _ANSWER_FIELDS or head["hedgerow"] != "topdown answer":
            raise Code.BAD_ANSWER.error(
                found=f"a message with fields {sorted(map(str, head))!s:.200}"
            )
        if head["version"] != VERSION:
            raise Code.BAD_ANSWER.error(
                expected=f"version {VERSION}", found=f"version {head['version']!r}"
            )
        if not (isinstance(head["plan"], str) and _whole(head["round"]) and _wholes(head["nodes"])):
            raise Code.BAD_ANSWER.error(found="a field of another type")
        return cls(head["plan"], head["round"], tuple(head["nodes"]), arrays)


def pack(head: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Write a header and arrays of int64 or bytes."""
    listed: list[tuple[str, str, list[int]]] = [
        (name, "u1" if array.dtype == np.uint8 else "i8", list(array.shape))
        for name, array in arrays.items()
    ]
    text = json.dumps({**head, "arrays": listed}, separators=(",", ":"), allow_nan=False)
    parts = [
        np.ascontiguousarray(array, dtype=_TYPES[kind]).tobytes()
        for array, (_, kind, _) in zip(arrays.values(), listed, strict=True)
    ]
    return b"".join([text.encode(), b"\n", *parts])


def unpack(message: bytes, code: Code) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `pack` wrote; `code` is raised for anything else."""
    line, newline, rest = bytes(message).partition(b"\n")
    if not newline or len(line) > MOST_HEADER:
        raise code.error(found="a message without a header")
    head = loads(line, code)
    if not isinstance(head.get("arrays"), list):
        raise code.error(found="a header without a list of arrays")
    arrays: dict[str, NDArray[Any]] = {}
    at = 0
    for item in head["arrays"]:
        if not (isinstance(item, list) and len(item) == 3 and isinstance(item[0], str)):
            raise code.error(found="an array without name, type and shape")
        name, kind, shape = item
        known = isinstance(kind, str) and kind in _TYPES and name not in arrays
        # Every length, and not only their product: one of 0 would hide any other.
        if not known or not _wholes(shape) or len(shape) > 4 or max(shape, default=0) > len(rest):
            raise code.error(found=f"array {name!r:.40} of type {kind!r:.20}")
        size = math.prod(shape) * _TYPES[kind].itemsize
        if at + size > len(rest):
            raise code.error(found="fewer bytes than the header lists")
        found = np.frombuffer(rest, dtype=_TYPES[kind], count=math.prod(shape), offset=at)
        arrays[name] = found.reshape(shape).astype(np.int64 if kind == "i8" else np.uint8)
        at += size
    if at != len(rest):
        raise code.error(found="more bytes than the header lists")
    return head, arrays


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40


def _wholes(value: object) -> bool:
    return isinstance(value, list) and all(map(_whole, value))


def _lists(value: object) -> bool:
    return isinstance(value, list) and all(map(_wholes, value))
