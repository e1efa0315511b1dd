"""What sites of a vertical ID3 send each other: typed messages, and their bytes.

A message is ``b"HP"``, the version, the kind and its fields in order, all little-endian; nothing
else. Numbers have fixed widths, lists and byte strings their length in front. Reading is strict: an
unknown version or kind, a length that does not fit or bytes left over raise H752. There is no
pickle, and reading runs no code that the sender chose.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple, TypeVar

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.codec import BLOB, Codec, many, number, record

VERSION = 2
_HEAD = b"HP"
_MAX_SITES = 1 << 10


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


Registered = TypeVar("Registered", bound=Message)


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
    """Which elements of a set all sites have, in the order in which they left the receiver.

    On the way back to the owner of the set; one bit for each element.
    """

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
class Grown(Message):
    """The token of a subtree, and the number of the next node."""

    KIND = 14
    token: Token
    following: int


@dataclass(frozen=True)
class Classify(Message):
    """Instances that have come to one node.

    `to` names the site that answers are given to, `key` is the public key that they are sealed to
    (empty: the class site keeps them), `rows` are places in the asker's list of `asked` instances.
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
class Kept(Message):
    """All instances of a question were classified, and the class site kept the answers."""

    KIND = 17


@dataclass(frozen=True)
class Ready(Message):
    """The sender has heard from all sites and takes part from here on."""

    KIND = 18


_U64 = number("Q")
_CODECS: dict[str, Codec] = {
    "int": _U64,
    "float": number("d"),
    "bytes": BLOB,
    "Token": record(Token, "HQ"),
    "Sites": many(number("H"), _MAX_SITES),
    "Numbers": many(_U64, 1 << 31),
    "Blobs": many(BLOB, 1 << 31),
}

_KINDS: dict[int, type[Message]] = {
    kind.KIND: kind
    for kind in (
        *(Announce, BringSet, PassSet, Common, Sum, CompareStart, CompareReply, AskLeaf),
        *(LeafReply, AskGain, GainReply, Split, Grown, Classify, Answers, Kept, Ready),
    )
}


def register(kind: type[Registered]) -> type[Registered]:
    """Make a kind of message known to `from_bytes`; a decorator for kinds of other files."""
    assert kind.KIND not in _KINDS
    _KINDS[kind.KIND] = kind
    return kind


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
