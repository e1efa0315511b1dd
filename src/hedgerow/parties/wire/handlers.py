"""What a service answers: kinds of requests, who may make them, and what they may take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

from pydantic import ConfigDict

from hedgerow.errors import Code
from hedgerow.net.channel import MAX_KEY_BYTES
from hedgerow.numbered import Numbered
from hedgerow.parties.wire.requests import Fields, Payload

MAX_WAIT_SECONDS = 20.0
"""For which a request may ask to be kept waiting."""


@dataclass(frozen=True)
class Caller:
    """Who makes a request, as the list of members has it, and the request's identifier."""

    name: str
    role: str
    request: str = ""


class RequestFields(Numbered):
    """Fields of a request, checked as strictly as JSON allows; H872 for any other."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    code: ClassVar[Code] = Code.BAD_REQUEST


class NoFields(RequestFields):
    """No fields."""


class Writer(Protocol):
    """Anything that takes bytes, such as a file or a hash behind a small adapter."""

    def write(self, data: memoryview, /) -> object:
        """Take them."""


class Incoming:
    """The payload of a request, read by whoever handles it.

    `source` returns the next bytes, at least one; it raises H876 if they do not come in time, and
    H883 if they do not come at all.
    """

    def __init__(self, length: int, source: Callable[[], bytes]) -> None:
        self.length = self.left = length
        self._source = source
        self._rest = memoryview(b"")

    def read(self, size: int | None = None) -> bytes:
        """Return the next `size` bytes, by default all that are left; fewer at the end only."""
        data = bytearray(self.left if size is None else min(size, self.left))
        self.read_into(memoryview(data))
        return bytes(data)

    def read_into(self, view: memoryview) -> int:
        """Fill memory as far as the payload goes; return the bytes."""
        part = view.cast("B")[: self.left]
        at = 0
        while at < part.nbytes:
            block = self._next()[: part.nbytes - at]
            part[at : at + block.nbytes] = block
            self._rest = self._rest[block.nbytes :]
            at += block.nbytes
            self.left -= block.nbytes
        return at

    def save(self, file: Writer) -> int:
        """Write all that is left to a file, block by block; return the bytes."""
        total = self.left
        while self.left:
            block, self._rest = self._next(), memoryview(b"")
            file.write(block)
            self.left -= block.nbytes
        return total

    def _next(self) -> memoryview:
        if not self._rest.nbytes:
            self._rest = memoryview(self._source())[: self.left]
        return self._rest


Handler = Callable[[Caller, Any, Incoming], tuple[Fields, Payload]]
Expects = Callable[[Caller, Any, int], None]


@dataclass(frozen=True)
class Verb:
    """One kind of request, who may make it, and bytes of payload that it may carry at the largest.

    `function`: called as ``function(caller, fields, payload)`` in a thread of its own, with the
    fields as a model; returns the fields and the payload of the reply. Numbered errors go to the
    caller, others become H881. Made twice a request is as made once, or refused the second time.
    `expects`: called as ``expects(caller, fields, length)`` before any payload is asked for: raises
    what the request is refused with.
    `twice`: what makes it so that a request may be made twice, for the page of requests.
    `leaves`: what a request leaves on the disk and what bounds that, for the same page.
    """

    roles: Collection[str]
    function: Handler
    fields: type[RequestFields] = NoFields
    largest: int = 0
    expects: Expects | None = None
    twice: str = ""
    leaves: str = "nothing"

    def __post_init__(self) -> None:
        if not 0 <= self.largest <= MAX_KEY_BYTES:
            raise ValueError(f"largest must be between 0 and {MAX_KEY_BYTES}")

    @property
    def about(self) -> str:
        """What its function says that it does."""
        return inspect.getdoc(self.function) or ""


_DECLARED = "_declared_verb"
_F = TypeVar("_F", bound=Callable[..., tuple[Fields, Payload]])


def verb(
    name: str,
    roles: Collection[str],
    *,
    twice: str,
    leaves: str = Verb.leaves,
    largest: int = 0,
    expects: str = "",
) -> Callable[[_F], _F]:
    """Declare a method as what answers a verb; `Verb` has the rest, `expects` is another method.

    It takes whichever of ``caller``, ``fields`` and ``payload`` it needs; the type of ``fields`` is
    the model of the fields.
    """

    def declare(function: _F) -> _F:
        setattr(function, _DECLARED, (name, roles, twice, leaves, largest, expects))
        return function

    return declare


def declared_verbs(of: object) -> dict[str, Verb]:
    """Return the verbs of an object, or those that a class declares, by name."""
    found = {}
    for attribute in dir(of):
        function = inspect.getattr_static(of, attribute)
        if not hasattr(function, _DECLARED):
            continue
        name, roles, twice, leaves, largest, expects = getattr(function, _DECLARED)
        found[name] = Verb(
            roles,
            _handler(getattr(of, attribute)),
            fields=get_type_hints(function).get("fields", NoFields),
            largest=largest,
            expects=getattr(of, expects) if expects else None,
            twice=twice,
            leaves=leaves,
        )
    return found


def _handler(method: Callable[..., tuple[Fields, Payload]]) -> Handler:
    """Call a method with what it takes of a request."""
    named = inspect.signature(method).parameters

    @functools.wraps(method)
    def call(caller: Caller, fields: Any, payload: Incoming) -> tuple[Fields, Payload]:
        given = {"caller": caller, "fields": fields, "payload": payload}
        return method(**{name: given[name] for name in given if name in named})

    return call


def find_verb(verbs: Mapping[str, Verb], name: str, caller: Caller) -> Verb:
    """Return the verb of that name; H873 if there is none, H871 if it is not for this caller."""
    found = verbs.get(name)
    if found is None:
        raise Code.UNKNOWN_VERB.error(found=name)
    if caller.role not in found.roles:
        raise Code.CALLER_NOT_ALLOWED.error(
            expected=f"{name} by {' or '.join(sorted(found.roles))}",
            found=f"{caller.name}, which is {caller.role}",
        )
    return found


@dataclass(frozen=True)
class ServiceLimits:
    """What callers may take, in connections, seconds and bytes per second.

    `members`, `per_member`: requests at once, of members in all and each; and so many connections
    may rest.
    `strangers`, `per_address`: callers in their handshake, in all and from one address; and
    connections on which nothing was asked yet, in all and of one member.
    `silence`, `handshake`, `header`: for a caller's first byte, its handshake and a header.
    `payload`: for payload, or for a caller to take it, besides what its bytes need at `rate`.
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
    idle: float = 10.0
    requests: int = 1000
    octets: int = 1 << 30
    octets_per_member: int = (1 << 28) + (1 << 21)
