"""What the servers say about queries before they answer them; see `queries.batches`."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hedgerow.errors import Code
from hedgerow.parties.consortium.names import is_name
from hedgerow.parties.queries.waiting import Pending
from hedgerow.parties.store.library import Book
from hedgerow.parties.store.query_index import Key

WHATS = ("class", "distribution", "score", "value")
DRAW_BYTES = TAG_BYTES = 16
PRINT_BYTES = 32
"""Of a digest of a share: an analyst must not find two shares of one digest."""
_VERSION = 2
_HEAD = struct.Struct(">16sBBH63s16s")
_KEY = struct.Struct(">H16s")
_ROW = struct.Struct(">B16sI32s")
ROW_BYTES = _ROW.size
MISSING, HERE, HELD, ONLY_HELD, DONE = range(5)
"""How far a server has come: it has nothing, a query, a query and a draw, a draw, an answer."""
LATER, REFUSED, ADMITTED = range(3)

Verdict = Literal["later", "conflict", "lost", "commit", "run"]


def tag_of(book: Book) -> bytes:
    """Return the tag of a model's shares, as servers compare it."""
    text = f"{book.manifest.job} {book.manifest.tag}".encode()
    return hashlib.blake2b(text, digest_size=TAG_BYTES, person=b"hedgerow/model").digest()


def announcement_bytes(room: int) -> int:
    """Return the size of an announcement with room for so many queries."""
    return _HEAD.size + room * _KEY.size


@dataclass(frozen=True)
class Announcement:
    """What server 0 would like to do next; public among the servers.

    `draw`: name of the answers that would be drawn, never used before.
    `tag`: of the model's shares at server 0: those of another training do not fit to them.
    `keys`: queries; empty if there is nothing to do.
    """

    draw: bytes
    what: str
    model: str
    tag: bytes
    keys: tuple[Key, ...]

    @classmethod
    def nothing(cls, draw: bytes) -> Announcement:
        """Announce that there is nothing to do."""
        return cls(draw, WHATS[0], "", bytes(TAG_BYTES), ())

    def pack(self, members: Sequence[str], room: int) -> bytes:
        """Write it into a fixed number of bytes."""
        what, name = WHATS.index(self.what), self.model.encode("ascii")
        head = _HEAD.pack(self.draw, _VERSION, what, len(self.keys), name, self.tag)
        keys = [_KEY.pack(members.index(k.analyst), bytes.fromhex(k.id)) for k in self.keys]
        return (head + b"".join(keys)).ljust(announcement_bytes(room), b"\0")

    @classmethod
    def parse(cls, data: bytes, members: Sequence[str]) -> Announcement:
        """Read it; H806 for anything that no server writes."""
        draw, version, what, count, name, tag = _HEAD.unpack_from(data)
        model = name.rstrip(b"\0").decode("ascii", errors="replace")
        if not count:
            return cls.nothing(draw)
        fits = _HEAD.size + count * _KEY.size <= len(data)
        if version != _VERSION or what >= len(WHATS) or not is_name(model) or not fits:
            raise Code.BAD_FRAME.error(found="an announcement that cannot be read")
        keys = []
        for k in range(count):
            who, id_ = _KEY.unpack_from(data, _HEAD.size + k * _KEY.size)
            if who >= len(members):
                raise Code.BAD_FRAME.error(found="an announcement of a query by nobody")
            keys.append(Key(members[who], id_.hex()))
        if len(set(keys)) < count:
            raise Code.BAD_FRAME.error(found="an announcement that names a query twice")
        return cls(draw, WHATS[what], model, tag, tuple(keys))


class Row(NamedTuple):
    """What a server says about a query: status, draw that it holds, rows, digest of a share."""

    status: int
    draw: bytes
    n: int
    print: bytes

    def pack(self) -> bytes:
        """Write it."""
        return _ROW.pack(*self)

    @classmethod
    def parse_all(cls, data: bytes) -> list[Row]:
        """Read what was written one after the other."""
        return [cls(*row) for row in _ROW.iter_unpack(data)]


def look_up(
    said: Announcement, key: Key, book: Book | None, query: Pending | None
) -> tuple[tuple[int, bytes, int], tuple[bytes, bytes]]:
    """Return what this server has of a query, and the digests of its two shares."""
    nothing = (bytes(PRINT_BYTES), bytes(PRINT_BYTES))
    if book is None:
        return (MISSING, bytes(DRAW_BYTES), 0), nothing
    state, draw = book.log.state(key)
    drawn = bytes.fromhex(draw) if draw else bytes(DRAW_BYTES)
    known = book.log.find(key)
    if state == "done" and known is not None:
        return (DONE, drawn, known.n), nothing
    if query is not None and query.part is not None and query.asked.what == said.what:
        return (HELD if state == "held" else HERE, drawn, query.asked.n), query.prints
    if state == "held" and known is not None:
        return (ONLY_HELD, drawn, known.n), nothing
    return (MISSING, bytes(DRAW_BYTES), 0), nothing


def verdict(rows: Sequence[Row]) -> Verdict:
    """Return what becomes of a query; all servers see the same rows and find the same."""
    statuses = {row.status for row in rows}
    if MISSING in statuses:
        return "later"
    if len({row.n for row in rows}) > 1:
        return "conflict"
    if statuses <= {HELD, ONLY_HELD, DONE} and len({row.draw for row in rows}) == 1:
        return "commit"
    if DONE in statuses:
        return "lost"
    return "later" if ONLY_HELD in statuses else "run"
