"""The format of requests between parties: HTTPS, JSON fields, and a payload behind them.

``POST /v1/<verb>``. A message, request or reply, without payload has its fields as its body, as
``application/json``. One with payload has the payload as its body, ``application/octet-stream``,
and its fields in the header ``Hedgerow-Fields``, as JSON in ASCII. Either way a body has a
``Content-Length``, and the fields at most 64 KiB. Payload is sent after ``100 Continue`` where the
caller asks for that, which it does unless it is small: a request that is refused costs no more
than its header. A refusal has a status of 400 or more, and as its body an ``error``: the name of a
numbered error, what was expected and found, and what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import Code, HedgerowError

VERSION = "v1"
FIELDS_HEADER = "Hedgerow-Fields"
REQUEST_HEADER = "Hedgerow-Request"
JSON_TYPE, PAYLOAD_TYPE = "application/json", "application/octet-stream"
MAX_FIELDS_BYTES = 1 << 16
BLOCK_BYTES = 1 << 18
AT_ONCE_BYTES = 1 << 16
"""Payload that is sent and read as a whole; more goes block by block."""
# An error has four texts of at most 2,000 characters, each at most 12 bytes in JSON.
MAX_ERROR_BYTES = 1 << 17
VERB_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
REQUEST_ID = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r" \(at ([a-z0-9-]+)(?:, says [a-z0-9-]+)?\)$")
_MAX_TEXT = 2000
_STATUS = {
    Code.BAD_REQUEST: 400,
    Code.CALLER_UNKNOWN: 401,
    Code.CALLER_NOT_ALLOWED: 403,
    Code.UNKNOWN_VERB: 404,
    Code.WRONG_VERSION: 404,
    Code.REQUEST_TOO_SLOW: 408,
    Code.PAYLOAD_TOO_LARGE: 413,
    Code.SERVICE_BUSY: 429,
    Code.HEADER_TOO_LARGE: 431,
    Code.SERVICE_FAILED: 500,
    Code.SERVICE_STOPPING: 503,
}

Fields = dict[str, Any]
Piece = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Body:
    """A payload of so many bytes that is made while it is sent; its pieces are read once."""

    length: int
    pieces: Iterable[Piece]

    @property
    def may_be_read_again(self) -> bool:
        """Whether its pieces are all there, and not made one by one."""
        return isinstance(self.pieces, list | tuple)

    def blocks(self) -> Iterator[memoryview]:
        """Yield it in blocks; H501 before more than its length is yielded, or if it has less."""
        sent = 0
        for piece in self.pieces:
            view = memoryview(piece).cast("B")
            sent += view.nbytes
            if sent > self.length:
                break
            for at in range(0, view.nbytes, BLOCK_BYTES):
                yield view[at : at + BLOCK_BYTES]
        if sent != self.length:
            raise Code.BAD_PARAMETER.error(
                expected=f"a payload of {self.length} bytes, as declared",
                found="more" if sent > self.length else f"{sent} bytes",
            )


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


def pack_fields(fields: Fields) -> bytes:
    """Write fields, in ASCII, so that they fit into a header; H874 if they are too large."""
    data = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(data) > MAX_FIELDS_BYTES:
        raise fields_too_large(f"{len(data)} bytes")
    return data


def fields_too_large(found: str) -> HedgerowError:
    """Build the refusal of fields, or of a header, that is too long; H874."""
    return Code.HEADER_TOO_LARGE.error(
        expected=f"fields of at most {MAX_FIELDS_BYTES} bytes", found=found
    )


def status_of(error: HedgerowError) -> int:
    """Return the status of HTTP that a refusal has."""
    return _STATUS.get(error.code, 422)


def pack_error(error: HedgerowError) -> bytes:
    """Write a refusal, so that `parse_error` makes it again of its ``error``."""
    return json.dumps(error_fields(error), separators=(",", ":")).encode("ascii")


def error_fields(error: HedgerowError) -> Fields:
    """Write an error so that `parse_error` makes it again."""
    texts = (error.code.name, error.expected, error.found, error.fix)
    names = ("code", "expected", "found", "fix")
    return {"error": {name: text[:_MAX_TEXT] for name, text in zip(names, texts, strict=True)}}


def parse_error(found: Any, party: str) -> HedgerowError | None:
    """Make an error of what another party says about it; None if it says nothing.

    Its words are for people, and made harmless. H884 for anything but the parts of an error.
    """
    if found is None:
        return None
    bad = Code.BAD_REPLY
    if not isinstance(found, dict) or set(found) != {"code", "expected", "found", "fix"}:
        raise bad.error(found="an error without its parts")
    if not all(isinstance(text, str) for text in found.values()):
        raise bad.error(found="an error whose parts are no text")
    name, expected, what, fix = (
        printable(found[part]) for part in ("code", "expected", "found", "fix")
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


def printable(text: str) -> str:
    """Leave out what could steer a terminal or break a line."""
    return "".join(c if c.isprintable() else "?" for c in text[:_MAX_TEXT])
