"""What sites and servers of a vertical ID3 send each other: typed messages, and their bytes.

A message is ``b"HP"``, the version, the kind and its fields in order, all little-endian; nothing
else. Numbers have fixed widths, lists and byte strings their length in front. Reading is strict: an
unknown version or kind, a length that does not fit or bytes left over raise H752. There is no
pickle, and reading runs no code that the sender chose.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

from hedgerow.errors import Code, HedgerowError

VERSION = 2
_HEAD = b"HP"
_MAX_SITES = 1 << 10
ALIGN, ANNOUNCE, READY, OVER = 1, 2, 3, 4
"""Numbers of the calls that every run has once."""
RECORDS, NODE, IDS = 0, 1, 2
"""Purposes of a request: all records of each site (alignment), those that may reach a node, or a
hash of the ids."""
SIZES, BEST, SAME = 0, 1, 2
"""What servers are asked: sizes of intersections, the site with the best gain, equality of ids."""


class Token(NamedTuple):
    """All that is known of a node elsewhere: which site holds it, and under which number."""

    site: int
    node: int

    def __str__(self) -> str:
        # As the paper writes it: S2L4 is node 4, which lies at the second site.
        return f"S{self.site + 1}L{self.node}"


Sites = tuple[int, ...]
Blobs = tuple[bytes, ...]
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Message:
    """A message of one call; `call` says which exchange it belongs to."""

    KIND: ClassVar[int]
    call: int


@dataclass(frozen=True)
class Announce(Message):
    """What a site says of itself when a run begins: sizes, and which job it takes part in."""

    KIND = 1
    job: bytes
    values: Numbers
    classes: int
    records: int


@dataclass(frozen=True)
class BringSet(Message):
    """The counting site asks for the set of the receiver under its present constraints."""

    KIND = 2
    purpose: int
    counter: int
    ring: Sites


@dataclass(frozen=True)
class PassSet(Message):
    """A set on its way around the ring; `layers` sites have encrypted it."""

    KIND = 3
    purpose: int
    counter: int
    ring: Sites
    owner: int
    layers: int
    groups: Blobs


@dataclass(frozen=True)
class Common(Message):
    """Which elements all sites have, a bit each in the receiver's order, on the way back."""

    KIND = 23
    owner: int
    marks: bytes


@dataclass(frozen=True)
class Sum(Message):
    """The running sum of algorithm 2, modulo m; the ring is the order of the sites."""

    KIND = 6
    ring: Sites
    total: int


@dataclass(frozen=True)
class CompareStart(Message):
    """E_1(r), from the first site of the ring to the last."""

    KIND = 7
    first: int
    element: bytes


@dataclass(frozen=True)
class CompareReply(Message):
    """E_k(E_1(r)) and E_k(r'), from the last site to the first."""

    KIND = 8
    both: bytes
    last: bytes


@dataclass(frozen=True)
class NodeCall(Message):
    """A request about one node: its number, its depth and the sites that constrain it."""

    number: int
    depth: int
    constrained: Sites


@dataclass(frozen=True)
class AskLeaf(NodeCall):
    """To the class site: is this a leaf? `must` if no attribute is left or the depth is reached."""

    KIND = 9
    must: int


@dataclass(frozen=True)
class LeafReply(Message):
    """The token of a leaf, or none."""

    KIND = 10
    is_leaf: int
    token: Token


@dataclass(frozen=True)
class AskGain(NodeCall):
    """To every site: the best gain among your attributes."""

    KIND = 11


@dataclass(frozen=True)
class GainReply(Message):
    """The best information gain of a site, -1 if it has no attribute left."""

    KIND = 12
    gain: float


@dataclass(frozen=True)
class Split(NodeCall):
    """To the site with the best attribute: execution continues there."""

    KIND = 13


@dataclass(frozen=True)
class SubtreeGrown(Message):
    """The token of a subtree, and the number of the next node."""

    KIND = 14
    token: Token
    following: int


@dataclass(frozen=True)
class Classify(Message):
    """Instances that have come to one node.

    Answers go to site `to`, sealed to `key` (empty: the class site keeps them); `rows` are places
    in the asker's list of `asked` instances.
    """

    KIND = 15
    to: int
    key: bytes
    node: int
    rows: Numbers
    instances: Blobs
    asked: int


@dataclass(frozen=True)
class Answers(Message):
    """Class distributions of instances, sealed to the asker."""

    KIND = 16
    rows: Numbers
    sealed: bytes


@dataclass(frozen=True)
class AnswersKept(Message):
    """All instances of a question were classified, and the class site kept the answers."""

    KIND = 17


@dataclass(frozen=True)
class Ready(Message):
    """The sender has heard from all sites and takes part from here on."""

    KIND = 18


@dataclass(frozen=True)
class SealedSet(Message):
    """What a site shares for a call, in groups; the site that asks passes on the sealed parts."""

    KIND = 19
    what: int
    groups: int
    parts: Blobs


@dataclass(frozen=True)
class AskServers(Message):
    """A question to one server, with its part of every site of the ring."""

    KIND = 20
    what: int
    counter: int
    ring: Sites
    groups: Numbers
    parts: Blobs


@dataclass(frozen=True)
class BeginServers(Message):
    """Are the ids the same? With the sizes that were announced, `values` site after site."""

    KIND = 21
    job: bytes
    counter: int
    records: int
    attributes: Numbers
    values: Numbers
    parts: Blobs


@dataclass(frozen=True)
class Over(Message):
    """Nothing more comes of what the sender has begun; the tree begins at `root`."""

    KIND = 24
    root: Token


@dataclass(frozen=True)
class Refused(Message):
    """A site on the path does not have an instance of the question; which one, nobody is told."""

    KIND = 25


@dataclass(frozen=True)
class Half(Message):
    """Half of an answer, uniform by itself; from server 0 or 1 to the site that asked."""

    KIND = 22
    what: int
    half: bytes


_Read = tuple[Any, int]
_Codec = tuple[Callable[[Any], bytes], Callable[[bytes, int], _Read]]
"""A writer of a value, and a reader of bytes from a place on, which returns the next place."""


def _number(code: str) -> _Codec:
    """Return the codec of a number, by its letter in `struct`; little-endian."""
    layout = struct.Struct(f"<{code}")

    def read(data: bytes, at: int) -> _Read:
        return layout.unpack_from(data, at)[0], at + layout.size

    return layout.pack, read


def _record(make: Callable[..., Any], code: str) -> _Codec:
    layout = struct.Struct(f"<{code}")

    def read(data: bytes, at: int) -> _Read:
        return make(*layout.unpack_from(data, at)), at + layout.size

    return lambda value: layout.pack(*value), read


def _many(item: _Codec, most: int) -> _Codec:
    """Return the codec of a list of at most so many items; read as a tuple."""
    write_item, read_item = item

    def write(values: Any) -> bytes:
        return struct.pack("<I", len(values)) + b"".join(map(write_item, values))

    def read(data: bytes, at: int) -> _Read:
        (n,) = struct.unpack_from("<I", data, at)
        # Every item takes at least a byte: a forged length cannot ask for more memory than sent.
        if n > min(most, len(data) - at):
            raise ValueError(f"a list of {n} in {len(data)} bytes")
        at += 4
        found = []
        for _ in range(n):
            value, at = read_item(data, at)
            found.append(value)
        return tuple(found), at

    return write, read


def _write_blob(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _read_blob(data: bytes, at: int) -> _Read:
    (n,) = struct.unpack_from("<Q", data, at)
    at += 8
    if n > len(data) - at:
        raise ValueError(f"{n} bytes where {len(data) - at} are left")
    return data[at : at + n], at + n


_BLOB: _Codec = (_write_blob, _read_blob)

_U64 = _number("Q")
_CODECS: dict[str, _Codec] = {
    "int": _U64,
    "float": _number("d"),
    "bytes": _BLOB,
    "Token": _record(Token, "HQ"),
    "Sites": _many(_number("H"), _MAX_SITES),
    "Numbers": _many(_U64, 1 << 31),
    "Blobs": _many(_BLOB, 1 << 31),
}

_KINDS: dict[int, type[Message]] = {
    kind.KIND: kind
    for kind in (*Message.__subclasses__(), *NodeCall.__subclasses__())
    if kind is not NodeCall
}


def to_bytes(message: Message) -> bytes:
    """Write a message."""
    head = _HEAD + bytes([VERSION, message.KIND])
    parts = [_CODECS[str(f.type)][0](getattr(message, f.name)) for f in fields(message)]
    return head + b"".join(parts)


def from_bytes(data: bytes, sender: str) -> Message:
    """Read a message; H752 names the sender of one that is not well formed."""
    if len(data) < 4 or data[:2] != _HEAD or data[2] != VERSION:
        raise bad_message(sender, f"{data[:4].hex() or 'nothing'} at its head")
    kind = _KINDS.get(data[3])
    if kind is None:
        raise bad_message(sender, f"kind {data[3]}")
    values, at = [], 4
    try:
        for field in fields(kind):
            value, at = _CODECS[str(field.type)][1](data, at)
            values.append(value)
    except (struct.error, ValueError) as error:
        raise bad_message(sender, f"{kind.__name__}: {error}") from None
    if at != len(data):
        raise bad_message(sender, f"{len(data) - at} bytes behind {kind.__name__}")
    return kind(*values)


def bad_message(sender: str, found: str) -> HedgerowError:
    """Build the refusal of a message."""
    return Code.BAD_SITE_MESSAGE.error(found=f"{found}, from {sender}")
