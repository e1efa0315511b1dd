"""Messages of DP-TopDown as bytes: questions, answers, and sealed parts of secret counts.

A message is a line of JSON, then arrays one after the other. No pickle, and no length is taken from
a peer's word: what a message must hold follows from the plan and the question.

With secret counts an owner cuts its counts into shares (`hedgerow.secure.replicated.outside`):
server 0 gets two seeds, servers 1 and 2 a seed and the correction. Each part is sealed to the key
of its server and bound to the plan, the question, the owner and the server, so that the
coordinator can do nothing with it but pass it on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code
from hedgerow.jsonfile import loads
from hedgerow.protocols.sharing.sealed_parts import open_dealt, seal_dealt, sealed_size
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.replicated.outside import Dealt
from hedgerow.secure.ring import Ring

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

SERVER_NAMES = tuple(f"server {i}" for i in range(SERVERS))
"""Participants beside the owners."""
OF_SERVERS = {"nodes": "servers", "leaves": "servers, leaves"}
"""Phase in which the servers hear what owners answered in a phase."""
OF_OWNERS = {after: before for before, after in OF_SERVERS.items()}
Splits = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Ask:
    """One question of the coordinator; everything in it is public.

    `phase` is ``"nodes"``: weigh and split; ``"recount"``: count the splits in `among`, by node;
    ``"leaves"``: count classes; ``"servers"`` and ``"servers, leaves"``: what the owners' sealed
    counts come to. `round` is from 0, without a gap; each of `expand` (node, candidate) adds two
    nodes, in order; `arrays` is what the coordinator passes on from others.
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
class TopDownAnswer:
    """What one party answers; what leaves an owner is noisy, or sealed for a server."""

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
    def from_bytes(cls, message: bytes) -> TopDownAnswer:
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


def question_of(ask: Ask, splits: Splits) -> bytes:
    """Return the digest of a question to the owners, also as the servers hear of it later.

    It names the whole tree that was looked at (`splits`, those of the question included): noise
    follows the depth that the servers have for a node, and the charge the depth that the owner has.
    Who was shown another tree gets another digest.
    """
    behind = ask.phase in OF_OWNERS
    public = [
        ask.plan,
        ask.round - behind,
        OF_OWNERS.get(ask.phase, ask.phase),
        [list(pair) for pair in splits],
        list(ask.nodes),
    ]
    text = json.dumps(public, separators=(",", ":"))
    return hashlib.sha256(b"hedgerow/topdown question/v2" + text.encode()).digest()


def context_of(ask: Ask, splits: Splits, owner: str, server: int) -> bytes:
    """Return what a part is bound to: question (plan and round included), owner and server."""
    bound = ["topdown part 2", question_of(ask, splits).hex(), owner, server]
    return json.dumps(bound, separators=(",", ":")).encode()


def seal_parts(
    counts: NDArray[np.int64],
    ring: Ring,
    ask: Ask,
    splits: Splits,
    owner: str,
    keys: Sequence[bytes],
    entropy: Callable[[int], bytes],
) -> dict[str, NDArray[np.uint8]]:
    """Share counts over a ring and seal the part of each server, by its name.

    Reveals: nothing; a server alone sees uniform numbers, and all others sealed ones, as long as
    the three public `keys`, in the order of the servers, are authentic.
    Cost: `sealed_sizes`.
    """
    sealed = seal_dealt(
        counts, ring, lambda server: context_of(ask, splits, owner, server), keys, entropy
    )
    return {
        name: np.frombuffer(part, dtype=np.uint8)
        for name, part in zip(SERVER_NAMES, sealed, strict=True)
    }


def open_part(
    sealed: NDArray[np.uint8],
    key: SealingKey,
    ask: Ask,
    splits: Splits,
    owner: str,
    server: int,
    shape: tuple[int, ...],
    ring: Ring,
) -> Dealt:
    """Open the part of an owner at a server; H760 if changed, or of another question."""
    context = context_of(ask, splits, owner, server)
    return open_dealt(sealed.tobytes(), key, context, server, shape, ring, repr(owner))


def sealed_sizes(shape: tuple[int, ...], ring: Ring) -> Mapping[str, int]:
    """Return the bytes of every server's sealed part, from public numbers."""
    return {name: sealed_size(shape, ring, server) for server, name in enumerate(SERVER_NAMES)}
