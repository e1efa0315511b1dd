"""Frames: what one party sends to another in one step.

A frame is a header of fixed size and the arrays of all routes from one party to another, in plan
order, little-endian; or the bytes of one mail. Fields of the header (big-endian):

====== ===== =========================================================================
offset bytes field
====== ===== =========================================================================
0      4     magic ``HDGR``
4      1     protocol version
5      1     kind: hello, data, goodbye, abort, mail
6      2     sender
8      16    session
24     8     sequence number, counted from 0 in each direction
32     16    digest of step name and plan (data), of step name (mail), else of its own content
48     8     length of the payload
====== ===== =========================================================================

A receiver knows every field beforehand: the plan is public. Of mail it knows a bound of the length.
So a header is never trusted, only compared, and no memory is taken for a payload before its header
has passed.

Before all frames, and before TLS, a caller says in the clear which session it comes to: its
preamble is the magic ``HDGS`` and the session, which is no secret; keys are drawn inside of it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Route

MAGIC = b"HDGR"
VERSION = 1
SESSION_BYTES = 16
DIGEST_BYTES = 16
_HEADER = struct.Struct(">4sBBH16sQ16sQ")
HEADER_BYTES = _HEADER.size
PREAMBLE_MAGIC = b"HDGS"
PREAMBLE_BYTES = len(PREAMBLE_MAGIC) + SESSION_BYTES
# TLS 1.3: a record holds up to 2**14 bytes and adds a 5-byte header, a type byte and a tag.
RECORD_BYTES = 1 << 14
RECORD_OVERHEAD = 22
NO_DIGEST = bytes(DIGEST_BYTES)


class FrameKind(IntEnum):
    """What a frame is for."""

    HELLO = 1
    DATA = 2
    GOODBYE = 3
    ABORT = 4
    MAIL = 5


def preamble(session: bytes) -> bytes:
    """Write what a caller says before all else, `PREAMBLE_BYTES` bytes."""
    return PREAMBLE_MAGIC + session


def session_of(data: bytes) -> bytes | None:
    """Return the session that a preamble names; None for bytes that are no preamble."""
    if len(data) != PREAMBLE_BYTES or not data.startswith(PREAMBLE_MAGIC):
        return None
    return data[len(PREAMBLE_MAGIC) :]


@dataclass(frozen=True)
class Header:
    """The fields of a frame; see the module's table."""

    kind: FrameKind
    sender: int
    session: bytes
    sequence: int
    digest: bytes
    length: int

    def pack(self) -> bytes:
        """Write the header, `HEADER_BYTES` bytes."""
        return _HEADER.pack(
            MAGIC,
            VERSION,
            self.kind,
            self.sender,
            self.session,
            self.sequence,
            self.digest,
            self.length,
        )


def plan_digest(step: str, plan: Sequence[Route], agreed: str = "") -> bytes:
    """Hash the name, the whole public plan of a step and what else was agreed, 16 bytes."""
    # The plan is hashed by itself, so that equal plans of many steps are hashed once.
    whole = _digest(step, tuple(plan)) + agreed.encode()
    return hashlib.blake2b(whole, digest_size=DIGEST_BYTES, person=b"hedgerow/step/v1").digest()


@lru_cache(maxsize=256)
def mail_digest(step: str) -> bytes:
    """Hash the name of a step that has mail, 16 bytes."""
    person = b"hedgerow/mail/v1"
    return hashlib.blake2b(step.encode(), digest_size=DIGEST_BYTES, person=person).digest()


@lru_cache(maxsize=4096)
def _digest(step: str, plan: tuple[Route, ...]) -> bytes:
    # Lengths go in front, so that no two lists of fields give the same bytes.
    parts = [step.encode()]
    parts += (f"{r.source}>{r.destination} {r.dtype} {r.shape}".encode() for r in plan)
    hasher = hashlib.blake2b(digest_size=DIGEST_BYTES, person=b"hedgerow/plan/v1")
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big"))
        hasher.update(part)
    return hasher.digest()


def parse(data: bytes | bytearray | memoryview, *, peer: int, step: str) -> Header:
    """Read a header from bytes that may be hostile; H806 or H807, and nothing else, if they are."""
    if len(data) != HEADER_BYTES:
        raise bad_frame(peer, step, f"a header of {len(data)} bytes", f"{HEADER_BYTES} bytes")
    magic, version, kind, sender, session, sequence, digest, length = _HEADER.unpack(data)
    if magic != MAGIC:
        raise bad_frame(peer, step, "bytes that are no frame")
    if version != VERSION:
        raise Code.WRONG_VERSION.error(
            expected=f"version {VERSION} from party {peer} in step {step!r}",
            found=f"version {version}",
        )
    try:
        known = FrameKind(kind)
    except ValueError:
        raise bad_frame(peer, step, f"a frame of unknown kind {kind}") from None
    return Header(known, sender, session, sequence, digest, length)


def check(header: Header, expected: Header, *, peer: int, step: str) -> None:
    """Compare a header with the only one that may come next.

    Raises H805 if the peer has stopped, H804 if it has left, H808 if its greeting differs, H806 for
    all else.
    """
    if header == expected:
        return
    if header.kind is FrameKind.ABORT and header == replace(
        expected, kind=FrameKind.ABORT, digest=header.digest, length=0
    ):
        raise stopped(header, peer, step)
    if header.kind is FrameKind.GOODBYE and expected.kind in (FrameKind.DATA, FrameKind.MAIL):
        raise has_left(peer, step)
    for field in ("session", "sender", "kind", "sequence", "digest", "length"):
        ours, theirs = getattr(expected, field), getattr(header, field)
        if ours == theirs:
            continue
        if header.kind is expected.kind is FrameKind.HELLO and field in ("session", "digest"):
            raise Code.SESSION_MISMATCH.error(
                expected=f"party {peer} to agree in step {step!r}",
                found="another session" if field == "session" else "another program or party list",
            )
        raise bad_frame(peer, step, _NAMES[field](theirs), _NAMES[field](ours))
    raise AssertionError("headers differ in no field")


_NAMES = {
    "session": lambda v: f"session {v.hex()}",
    "sender": lambda v: f"sender {v}",
    "kind": lambda v: f"a frame of kind {v.name}",
    "sequence": lambda v: f"sequence number {v}",
    "digest": lambda v: f"step and plan of digest {v.hex()}",
    "length": lambda v: f"a payload of {v} bytes",
}


def bad_frame(peer: int, step: str, found: str, expected: str | None = None) -> HedgerowError:
    """Build H806, which names peer and step."""
    usual = expected or "the next frame of the session"
    return Code.BAD_FRAME.error(expected=f"{usual} from party {peer} in step {step!r}", found=found)


def long_mail(peer: int, step: str, length: int, most: int) -> HedgerowError:
    """Build H806 for mail above what is taken."""
    return bad_frame(peer, step, f"mail of {length} bytes", f"at most {most} bytes")


def abort_header(sender: int, session: bytes, sequence: int, reason: int) -> Header:
    """Tell a peer that the session is over; `reason` is an error number such as 803."""
    digest = reason.to_bytes(2, "big") + NO_DIGEST[2:]
    return Header(FrameKind.ABORT, sender, session, sequence, digest, 0)


def stopped(header: Header, peer: int, step: str) -> HedgerowError:
    """Build H805 from an abort frame; its reason is a number, never text of the peer."""
    reason = int.from_bytes(header.digest[:2], "big")
    why = f"error H{reason}" if reason else "an error"
    return Code.PEER_STOPPED.error(
        expected=f"party {peer} to take part in step {step!r}", found=f"it stopped with {why}"
    )


def has_left(peer: int, step: str) -> HedgerowError:
    """Build H804 for a peer that said goodbye and is still needed."""
    return Code.PEER_GONE.error(
        expected=f"party {peer} to take part in step {step!r}",
        found="it has ended its program before",
    )


def late(step: str, what: str, timeout: float) -> HedgerowError:
    """Build H803, which names whom a party has waited for."""
    return Code.PEER_TIMEOUT.error(
        expected=f"to {what} in step {step!r}", found=f"no end after {timeout:g} s"
    )


def writes(sizes: Iterable[int]) -> list[int]:
    """Sizes of the separate writes of a frame with payloads of these sizes.

    A frame that fits into one TLS record is joined and written at once, which saves a packet; a
    larger one is written array by array from where it lies.
    """
    sizes = [size for size in sizes if size]
    total = HEADER_BYTES + sum(sizes)
    return [total] if total <= RECORD_BYTES else [HEADER_BYTES, *sizes]


def wire_bytes(sizes: Iterable[int]) -> int:
    """Bytes on the wire of a frame with payloads of these sizes, TLS records included."""
    return sum(size + -(-size // RECORD_BYTES) * RECORD_OVERHEAD for size in writes(sizes))
