"""What a service answers: kinds of requests, who may make them, and what they may take."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from hedgerow.net.channel import MAX_KEY_BYTES
from hedgerow.parties.wire.link import Incoming
from hedgerow.parties.wire.requests import Fields, Payload


@dataclass(frozen=True)
class Caller:
    """Who makes a request, as the list of members has it, and the request's identifier."""

    name: str
    role: str
    request: str = ""


Handler = Callable[[Caller, Fields, Incoming], tuple[Fields, Payload]]


@dataclass(frozen=True)
class Verb:
    """One kind of request, who may make it, and bytes of payload that it may carry at the largest.

    `function`: called as ``function(caller, fields, payload)`` in a thread of its own; returns the
    fields and the payload of the reply. Numbered errors go to the caller, others become H881.
    `idempotent`: made twice is as made once; identifiers of other requests are used up.
    `expects`: called as ``expects(caller, fields, length)`` with the header alone, before any
    payload is asked for: raises what the request is refused with.
    """

    roles: Collection[str]
    function: Handler
    largest: int = 0
    idempotent: bool = False
    expects: Callable[[Caller, Fields, int], None] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.largest <= MAX_KEY_BYTES:
            raise ValueError(f"largest must be between 0 and {MAX_KEY_BYTES}")


@dataclass(frozen=True)
class ServiceLimits:
    """What callers may take, in connections, seconds and bytes per second.

    `members`, `per_member`, `strangers`, `per_address`: connections at once: of members in all and
    each, and of callers in their handshake, in all and from one address.
    `silence`, `handshake`, `header`: for a caller's first byte, its handshake and a header.
    `payload`: for payload, or for a caller to take it, besides what its bytes need at `rate`.
    `skew`: by which the clock of a caller may differ.
    `remembered`: identifiers of requests of one member.
    `idle`, `requests`: how long a connection is kept for another request, and how many it has.
    `octets`, `octets_per_member`: bytes of payload under way, of all members and of each.
    """

    members: int = 128
    per_member: int = 16
    strangers: int = 256
    per_address: int = 64
    silence: float = 3.0
    handshake: float = 5.0
    header: float = 10.0
    payload: float = 30.0
    rate: float = 1 << 16
    skew: float = 300.0
    remembered: int = 100_000
    idle: float = 10.0
    requests: int = 1000
    octets: int = 1 << 30
    octets_per_member: int = (1 << 28) + (1 << 21)
