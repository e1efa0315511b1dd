"""Requests between parties: one header each way, each with a payload behind it.

A caller opens a TLS connection, sends a request and reads the reply; after one that is no error it
may send another request on the connection, which is kept for a while. A header is JSON behind a
prefix of 9 bytes (big-endian): magic ``HDGQ``, version, length. At most 64 KiB.

1. Request: ``verb``, ``fields``, ``payload`` (its length), ``id`` (32 hexadecimal digits, never
   used before) and ``time`` (seconds since 1970).
2. If there is payload, the other side says ``{"go": true}`` before any of it is sent: a request
   that is refused costs no more than its header.
3. Reply: ``fields`` and ``payload`` (its length), then that payload; or ``error``: the name of a
   numbered error, what was expected and found, and what to do. It may come while payload is still
   being sent; the caller stops then.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.channel import MAX_KEY_BYTES

MAGIC = b"HDGQ"
VERSION = 1
MAX_HEADER_BYTES = 1 << 16
BLOCK_BYTES = 1 << 18
PREFIX = struct.Struct(">4sBI")
_VERB = re.compile(r"[a-z][a-z0-9-]{0,62}")
_PLACE = re.compile(r" \(at ([a-z0-9-]+)(?:, says [a-z0-9-]+)?\)$")
_ID = re.compile(r"[0-9a-f]{32}")
_MAX_TEXT = 2000

Fields = dict[str, Any]
Piece = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Body:
    """A payload of so many bytes that is made while it is sent; its pieces are read once."""

    length: int
    pieces: Iterable[Piece]


Payload = None | Piece | Sequence[Piece] | Body


def as_body(payload: Payload) -> Body:
    """Return a payload with its length."""
    match payload:
        case None:
            return Body(0, ())
        case Body():
            return payload
        case bytes() | bytearray() | memoryview():
            return Body(memoryview(payload).nbytes, (payload,))
        case list() | tuple():
            return Body(sum(memoryview(piece).nbytes for piece in payload), payload)
    raise Code.BAD_PARAMETER.error(
        expected="a payload of bytes, a list of bytes, or Body(length, pieces)",
        found=type(payload).__name__,
    )


@dataclass(frozen=True)
class Request:
    """The header of a request; see the module."""

    verb: str
    fields: Fields
    payload: int
    id: str
    time: float

    def pack(self) -> bytes:
        """Write it; H874 if it is too large."""
        return pack(
            {
                "verb": self.verb,
                "fields": self.fields,
                "payload": self.payload,
                "id": self.id,
                "time": self.time,
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> Request:
        """Read a header from bytes that may be hostile: H872, and nothing else."""
        code = Code.BAD_REQUEST
        found = jsonfile.loads(data, code)
        _keys(found, {"verb", "fields", "payload", "id", "time"}, code)
        verb, id_, time = found["verb"], found["id"], found["time"]
        if not isinstance(verb, str) or not _VERB.fullmatch(verb):
            raise code.error(found="a verb that is none")
        if not isinstance(id_, str) or not _ID.fullmatch(id_):
            raise code.error(found="an id that is none")
        if type(time) not in (int, float) or not math.isfinite(time):
            raise code.error(found="a time that is none")
        return cls(verb, _fields(found, code), _length(found, code), id_, float(time))


@dataclass(frozen=True)
class ReplyHeader:
    """The header of a reply: go on with the payload, an answer, or an error."""

    fields: Fields
    payload: int
    go: bool = False
    error: HedgerowError | None = None

    @classmethod
    def parse(cls, data: bytes, party: str) -> ReplyHeader:
        """Read a header from bytes that may be hostile: H884, and nothing else."""
        code = Code.BAD_REPLY
        found = jsonfile.loads(data, code)
        if "go" in found:
            _keys(found, {"go"}, code)
            return cls({}, 0, go=True)
        if "error" in found:
            _keys(found, {"error"}, code)
            return cls({}, 0, error=_error(found["error"], party))
        _keys(found, {"fields", "payload"}, code)
        return cls(_fields(found, code), _length(found, code))


GO: Fields = {"go": True}


def error_fields(error: HedgerowError) -> Fields:
    """Write an error so that `ReplyHeader.parse` makes it again."""
    texts = (error.code.name, error.expected, error.found, error.fix)
    names = ("code", "expected", "found", "fix")
    return {"error": {name: text[:_MAX_TEXT] for name, text in zip(names, texts, strict=True)}}


def parse_error(fields: Any, party: str) -> HedgerowError | None:
    """Make an error of what another party says about it; None if it says nothing."""
    return None if fields is None else _error(fields, party)


def pack(fields: Mapping[str, Any]) -> bytes:
    """Write a header with its prefix."""
    data = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MAX_HEADER_BYTES:
        raise Code.HEADER_TOO_LARGE.error(
            expected=f"at most {MAX_HEADER_BYTES} bytes", found=f"{len(data)} bytes"
        )
    return PREFIX.pack(MAGIC, VERSION, len(data)) + data


def header_length(prefix: bytes, code: Code) -> int:
    """Read a prefix from bytes that may be hostile: `code`, H807 or H874."""
    magic, version, length = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise code.error(found="bytes that do not begin like one")
    if version != VERSION:
        raise Code.WRONG_VERSION.error(expected=f"version {VERSION}", found=f"version {version}")
    if length > MAX_HEADER_BYTES:
        raise Code.HEADER_TOO_LARGE.error(
            expected=f"at most {MAX_HEADER_BYTES} bytes", found=f"{length} bytes"
        )
    return int(length)


def _keys(found: Fields, wanted: set[str], code: Code) -> None:
    if set(found) != wanted:
        raise code.error(expected=f"the keys {', '.join(sorted(wanted))}", found="other keys")


def _fields(found: Fields, code: Code) -> Fields:
    fields = found["fields"]
    if not isinstance(fields, dict):
        raise code.error(found="fields that are no object")
    return fields


def _length(found: Fields, code: Code) -> int:
    length = found["payload"]
    if type(length) is not int or not 0 <= length <= MAX_KEY_BYTES:
        raise code.error(found="a length of the payload that is none")
    return length


def _error(found: object, party: str) -> HedgerowError:
    """Make an error that another party has raised; its words are for people, and made harmless."""
    bad = Code.BAD_REPLY
    if not isinstance(found, dict) or set(found) != {"code", "expected", "found", "fix"}:
        raise bad.error(found="an error without its parts")
    if not all(isinstance(text, str) for text in found.values()):
        raise bad.error(found="an error whose parts are no text")
    name, expected, what, fix = (
        _harmless(found[part]) for part in ("code", "expected", "found", "fix")
    )
    if name in Code.__members__:
        error = Code[name].error(expected=expected, found=_with_place(what, party), fix=fix)
    else:
        error = bad.error(found=f"error {name!r}, which this release does not know: {what}")
    error.party = party
    return error


def _with_place(found: str, party: str) -> str:
    """Say where something was found; of news that was passed on, where, and who says so."""
    told = _PLACE.search(found)
    if told is None or told[1] == party:
        return f"{found if told is None else found[: told.start()]} (at {party})"
    return f"{found[: told.start()]} (at {told[1]}, says {party})"


def _harmless(text: str) -> str:
    """Leave out what could steer a terminal or break a line."""
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_TEXT])
