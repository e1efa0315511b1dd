"""The calling side of requests; see `hedgerow.parties.wire.requests`.

`call` makes one request to another party, `call_member` one to a member of the consortium, and a
`ServerClient` asks the servers one thing at once. `Lines` keep connections for the next request: a
handshake costs both sides more than a short request, so who makes many of them makes it once.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, fingerprint, fingerprints, readable, tls_context
from hedgerow.net.channel import MAX_KEY_BYTES
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.wire import requests
from hedgerow.parties.wire.link import LONGEST_WAIT, TIME_ERRORS, Deadline, Link
from hedgerow.parties.wire.requests import Fields, Payload, ReplyHeader, Request

KEPT_SECONDS = 4.0
"""After which a connection is not used again: the other party may be about to close it."""
_MOST_KEPT = 4
# Payload may take this much longer than the timeout, so that no upload is too large for it.
MIN_BYTES_PER_SECOND = 1 << 18
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class Lines:
    """Connections to one party that are kept for the next request; for all threads."""

    def __init__(self, identity: Identity, certificate: str) -> None:
        self._identity, self._certificate = identity, certificate
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._kept: list[tuple[float, Link]] = []

    def context(self) -> ssl.SSLContext:
        """Return the settings of TLS for new connections, made once."""
        with self._lock:
            if self._context is None:
                self._context = tls_context(self._identity, [self._certificate], server=False)
            return self._context

    def take(self) -> Link | None:
        """Return a connection that nobody uses; None if there is none that is fresh and open."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                since, link = self._kept.pop()
            # Whoever has something to say between requests takes leave.
            if time.monotonic() - since < KEPT_SECONDS and not link.speaks():
                return link
            link.close()

    def leave(self, link: Link) -> None:
        """Keep a connection whose last reply was read to its end."""
        with self._lock:
            self._kept.append((time.monotonic(), link))
            old = self._kept[:-_MOST_KEPT]
            del self._kept[:-_MOST_KEPT]
        for _, link in old:
            link.close()

    def close(self) -> None:
        """End all of them; new ones may be made."""
        with self._lock:
            old, self._kept = self._kept, []
        for _, link in old:
            link.close()


@dataclass(frozen=True)
class Reply:
    """What another party has answered."""

    fields: Fields
    payload: bytes


def call(
    address: tuple[str, int],
    identity: Identity,
    certificate: str,
    verb: str,
    fields: Fields | None = None,
    payload: Payload = None,
    *,
    name: str | None = None,
    timeout: float = 60.0,
    connect_timeout: float = 10.0,
    largest_reply: int = 1 << 26,
    request: str | None = None,
    lines: Lines | None = None,
) -> Reply:
    """Make a request and wait for the reply.

    While the other party is busy the request is made again, as long as the timeout allows: it has
    not been carried out then. In no other case is anything sent twice.

    `certificate`: PEM certificates of the other party; nobody else is spoken to.
    `payload`: a `Body` is read while it is sent, so it needs no memory; it can be read only once,
    so that such a request is not made again when the other party turns out busy in the middle.
    `timeout`: seconds for all of it, besides the time that payloads need at 256 KiB/s.
    `request`: identifier of 32 hexadecimal digits, never used before; drawn by default.
    `lines`: connections to take one from and to leave it for the next request. For requests that
    may be made twice: one whose old connection turns out to be closed is made again on a new one.
    Raises the other party's refusal, with `party` set to its name; or, raised here, H875 (a payload
    that no request can carry), H809, H855, H870 (certificates), H882 (unreachable: not carried
    out), H883 (connection lost or no answer: perhaps carried out), H884 (a malformed reply).
    """
    name = name or f"{address[0]}:{address[1]}"
    body = requests.as_body(payload)
    if not 0 <= body.length <= MAX_KEY_BYTES:
        raise Code.PAYLOAD_TOO_LARGE.error(
            expected=f"at most {MAX_KEY_BYTES} bytes to {name}", found=f"{body.length} bytes"
        )
    header = Request(verb, fields or {}, body.length, request or secrets.token_hex(16), 0.0)
    header.pack()
    deadline = Deadline(timeout + body.length / MIN_BYTES_PER_SECOND)
    context = (lines or Lines(identity, certificate)).context()
    prints = fingerprints(certificate)
    talk = _Talk(address, prints, context, lines, name, connect_timeout, largest_reply)
    pause = _FIRST_PAUSE
    while True:
        try:
            return talk.once(header, body, deadline)
        except HedgerowError as error:
            # The request is refused before its payload is asked for, so the payload is still there.
            if error.code is not Code.SERVICE_BUSY or talk.sent or deadline.left() < pause:
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
        pause = min(2 * pause, _LONGEST_PAUSE)


class _Talk:
    """One request, made once or, to a busy party, several times."""

    def __init__(
        self,
        address: tuple[str, int],
        prints: tuple[bytes, ...],
        context: ssl.SSLContext,
        lines: Lines | None,
        name: str,
        connect_timeout: float,
        largest_reply: int,
    ) -> None:
        self.address, self.name, self.largest = address, name, largest_reply
        self.connect_timeout = connect_timeout
        self.prints, self.context, self.lines = prints, context, lines
        self.sent = False

    def once(self, request: Request, body: requests.Body, deadline: Deadline) -> Reply:
        """Ask on a connection that was kept, or else on a new one, and read the reply."""
        kept = None if self.lines is None else self.lines.take()
        if kept is not None:
            try:
                return self._ask(kept, request, body, deadline)
            except HedgerowError as error:
                ended = error.code is Code.REQUEST_CUT_OFF and error.party is None
                again = not self.sent or isinstance(body.pieces, list | tuple)
                if not ended or not again or deadline.left() <= 0:
                    raise
                self.sent = False
        return self._ask(self._connect(deadline), request, body, deadline)

    def _ask(self, link: Link, request: Request, body: requests.Body, deadline: Deadline) -> Reply:
        """Make the request on a connection, which is kept if all went well and closed if not."""
        clean = True
        try:
            stamped = Request(request.verb, request.fields, body.length, request.id, time.time())
            try:
                link.send(stamped.pack(), deadline)
                reply = self._header(link, deadline)
                if reply.go:
                    self.sent, clean = True, False
                    # A reply may be there although sending has failed.
                    with contextlib.suppress(ConnectionError, ssl.SSLError):
                        clean = link.send_body(body, deadline, heed=True) == body.length
                    reply = self._header(link, deadline)
                if reply.error is not None:
                    raise reply.error
                if reply.go or reply.payload > self.largest:
                    raise Code.BAD_REPLY.error(
                        expected=f"a reply of {self.name} with at most {self.largest} bytes",
                        found="a second go-ahead" if reply.go else f"{reply.payload} bytes",
                    )
                data = bytearray(reply.payload)
                link.receive_into(memoryview(data), deadline)
            except OSError as error:
                if isinstance(error, HedgerowError):
                    raise
                self._lost(error)
        except BaseException:
            link.close()
            raise
        if self.lines is not None and clean:
            self.lines.leave(link)
        else:
            link.close()
        return Reply(reply.fields, bytes(data))

    def _connect(self, deadline: Deadline) -> Link:
        seconds = min(self.connect_timeout, max(deadline.left(), 0.001), LONGEST_WAIT)
        within = Deadline(seconds)
        try:
            raw = socket.create_connection(self.address, timeout=seconds)
        except OSError as error:
            raise self._unreachable(error) from None
        try:
            link = Link(raw, self.context, server=False, peer=self.name)
        except OSError as error:
            raw.close()
            raise self._unreachable(error) from None
        try:
            found = fingerprint(link.handshake(within))
            if found not in self.prints:
                raise self._impostor(f"fingerprint {readable(found)}")
        except HedgerowError:
            link.close()
            raise
        except ssl.SSLCertVerificationError as error:
            link.close()
            if error.verify_code in TIME_ERRORS:
                raise Code.CERTIFICATE_EXPIRED.error(
                    found=f"that of {self.name}: {error.verify_message}"
                ) from None
            raise self._impostor("another certificate") from None
        except OSError as error:
            link.close()
            self._alert(error)
            raise self._unreachable(error) from None
        return link

    def _header(self, link: Link, deadline: Deadline) -> ReplyHeader:
        return ReplyHeader.parse(link.receive_header(deadline, Code.BAD_REPLY), self.name)

    def _lost(self, error: OSError) -> NoReturn:
        self._alert(error)
        late = isinstance(error, TimeoutError)
        raise Code.REQUEST_CUT_OFF.error(
            expected=f"the reply of {self.name}",
            found="none in time" if late else _words(error),
        ) from None

    def _alert(self, error: OSError) -> None:
        """Raise what an alert of TLS says about the certificate of this party."""
        reason = str(getattr(error, "reason", "") or "")
        if "ALERT" not in reason:
            return
        if "EXPIRED" in reason:
            raise Code.CERTIFICATE_EXPIRED.error(
                found=f"the one of this party, which {self.name} refuses"
            ) from None
        if "UNKNOWN_CA" in reason or "CERTIFICATE" in reason:
            raise Code.CALLER_UNKNOWN.error(
                expected=f"a certificate that {self.name} lists as a member's",
                found="the one of this party, which it refuses",
            ) from None

    def _impostor(self, found: str) -> HedgerowError:
        return Code.UNKNOWN_PEER.error(
            expected=f"{self.name} with fingerprint {readable(self.prints[0])} "
            f"at {self.address[0]}:{self.address[1]}",
            found=found,
        )

    def _unreachable(self, error: OSError) -> HedgerowError:
        return Code.SERVICE_UNREACHABLE.error(
            expected=f"{self.name} at {self.address[0]}:{self.address[1]}", found=_words(error)
        )


def _words(error: OSError) -> str:
    return str(error.strerror or error or type(error).__name__)


def call_member(
    config: PartyConfig,
    member: Member,
    verb: str,
    fields: Fields | None = None,
    payload: Payload = None,
    *,
    port: int | None = None,
    seconds: float | None = None,
) -> Reply:
    """Make a request to a member within this party's timeouts, or within fewer `seconds`."""
    timeouts = config.timeouts
    return call(
        (member.host, member.port if port is None else port),
        config.identity,
        config.certificate(member.name),
        verb,
        fields,
        payload,
        name=member.name,
        timeout=timeouts.request if seconds is None else seconds,
        connect_timeout=timeouts.connect if seconds is None else min(timeouts.connect, seconds),
    )


class ServerClient:
    """The servers of a consortium, as one of its members sees them; a server asks the other two."""

    def __init__(self, config: PartyConfig) -> None:
        self._config = config
        config.check_servers()
        self.servers = [server for server in config.servers if server != config.me]

    def _ask_all(
        self,
        verb: str,
        fields: Fields,
        servers: Sequence[Member] | None = None,
        *,
        seconds: float | None = None,
    ) -> dict[str, Reply | HedgerowError]:
        """Return the reply of every server, or why there is none, by its name."""
        asked = self.servers if servers is None else servers

        def one(server: Member) -> Reply | HedgerowError:
            try:
                return call_member(self._config, server, verb, fields, seconds=seconds)
            except HedgerowError as error:
                return error

        # At once: each of them may take the whole timeout.
        with ThreadPoolExecutor(max_workers=len(asked)) as pool:
            replies = pool.map(one, asked)
            return {server.name: reply for server, reply in zip(asked, replies, strict=True)}
