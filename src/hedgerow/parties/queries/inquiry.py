"""What an analyst's request ``query`` says, read from fields and bytes that may be hostile."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code
from hedgerow.parties.consortium.names import RequestedName
from hedgerow.parties.store.query_log import Asked, QueryKey
from hedgerow.parties.wire.handlers import Incoming, RequestFields
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.sharing.queries import planes_shape
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.replicated.outside import Dealt
from hedgerow.secure.secret import words

What = Literal["class", "distribution", "score", "value"]
WHATS: tuple[What, ...] = get_args(What)
PRINT_BYTES = 32
"""Of a digest of a share: an analyst must not find two shares of one digest."""
MOST_ROWS = 1 << 14
"""Rows of one request; more go in several."""
LARGEST_PART = 1 << 25
"""Bytes that a server gets of one request."""
_PERSON = b"hedgerow/query"


class Inquiry(RequestFields):
    """A query of some rows to a model; H851 for a name of a model that is none.

    `what`: as the protocol of the model has it. `again`: whether the analyst has asked it before.
    """

    model: RequestedName
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    n: Annotated[int, Field(ge=1, le=MOST_ROWS)]
    what: What
    again: bool = False

    def asked_by(self, analyst: str, digest: str) -> Asked:
        """Return what is written down about it."""
        return Asked(QueryKey(analyst, self.id), self.what, self.n, digest)


@dataclass(frozen=True)
class QueryPart:
    """What a server has got of a query.

    `prints`: digests of its two shares, each to be compared with the other server that holds it.
    `digest`: of all of it, with a key of this server.
    """

    dealt: Dealt = field(repr=False)
    prints: tuple[bytes, bytes] = field(repr=False)
    digest: str


def part_bytes(layout: Layout, n: int, server: int) -> int:
    """Return the bytes that a server gets of n rows: two seeds, or one and the correction."""
    if server == 0:
        return 2 * KEY_BYTES
    planes = planes_shape(layout, n)
    return KEY_BYTES + prod(planes[:-1]) * words(n) * 8


def write_part(dealt: Dealt) -> list[bytes]:
    """Write what a server gets: seeds by number, then the correction, little-endian."""
    pieces = [dealt.seeds[j] for j in sorted(dealt.seeds)]
    if dealt.correction is not None:
        pieces.append(dealt.correction.astype("<u8").tobytes())
    return pieces


def read_inquiry(
    inquiry: Inquiry, layout: Layout, server: int, payload: Incoming, key: bytes
) -> QueryPart:
    """Read the part of a server from a request.

    Raises H872 for another number of bytes than such a query has, before any of them is read.
    """
    wanted = part_bytes(layout, inquiry.n, server)
    if payload.length != wanted:
        raise Code.BAD_REQUEST.error(
            expected=f"{wanted} bytes for {inquiry.n} rows", found=f"{payload.length} bytes"
        )
    data = payload.read()
    held = (server, (server + 1) % SERVERS)
    seeds = {}
    for at, j in enumerate(sorted(j for j in held if j < SERVERS - 1)):
        seeds[j] = data[at * KEY_BYTES : (at + 1) * KEY_BYTES]
    shares = dict(seeds)
    correction = None
    if SERVERS - 1 in held:
        planes = planes_shape(layout, inquiry.n)
        rest = data[len(seeds) * KEY_BYTES :]
        shares[SERVERS - 1] = rest
        words_ = np.frombuffer(rest, dtype="<u8").astype(np.uint64)
        correction = words_.reshape(*planes[:-1], words(inquiry.n))
    first, second = (_print(inquiry, j, shares[j]) for j in held)
    # With a key: by itself it says nothing to who reads the store.
    total = hashlib.blake2b(data, digest_size=PRINT_BYTES, key=key, person=_PERSON)
    return QueryPart(Dealt(seeds, correction), (first, second), total.hexdigest())


def _print(inquiry: Inquiry, share: int, data: bytes) -> bytes:
    salt = bytes.fromhex(inquiry.id)
    return hashlib.blake2b(
        bytes([share]) + data, digest_size=PRINT_BYTES, salt=salt, person=_PERSON
    ).digest()
