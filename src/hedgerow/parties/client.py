"""`call`: make one request to another party; see `hedgerow.parties.requests`."""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
import ssl
import time
from dataclasses import dataclass
from typing import NoReturn

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, fingerprint, readable, tls_context
from hedgerow.parties import requests
from hedgerow.parties.link import TIME_ERRORS, Deadline, Link
from hedgerow.parties.requests import Fields, Payload, ReplyHeader, Request

# Payload may take this much longer than the timeout, so that no upload is too large for it.
MIN_BYTES_PER_SECOND = 1 << 18
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


@dataclass(frozen=True)
class Reply:
    """What another party has answered.

    Parameters
    ----------
    fields : dict
    payload : bytes
    """

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
) -> Reply:
    """Make a request and wait for the reply.

    While the other party is busy the request is made again, as long as the timeout allows: it has
    not been carried out then. In no other case is anything sent twice.

    Parameters
    ----------
    address : tuple of str and int
        Host and port.
    identity : Identity
        Key and certificate of this party.
    certificate : str
        PEM certificate of the other party; nobody else is spoken to.
    verb : str
    fields : dict, optional
        JSON, at most 64 KiB with the rest of the header.
    payload : bytes, list of bytes or Body, optional
        A `Body` is read while it is sent, so it needs no memory; it can be read only once, so that
        such a request is not made again when the other party turns out busy in the middle.
    name : str, optional
        Of the other party, for messages; by default its address.
    timeout : float, default 60
        Seconds for all of it, besides the time that payloads need at 256 KiB/s.
    connect_timeout : float, default 10
        Seconds for the connection and its handshake.
    largest_reply : int, default 64 MiB
        Bytes of payload that the reply may have.
    request : str, optional
        Identifier of 32 hexadecimal digits, never used before; drawn by default.

    Returns
    -------
    Reply

    Raises
    ------
    HedgerowError
        The other party's refusal, with `party` set to its name; or, raised here, H809, H855, H870
        (certificates), H882 (unreachable: not carried out), H883 (connection lost or no answer:
        perhaps carried out), H884 (a malformed reply).
    """
    name = name or f"{address[0]}:{address[1]}"
    body = requests.as_body(payload)
    header = Request(verb, fields or {}, body.length, request or secrets.token_hex(16), 0.0)
    header.pack()
    talk = _Talk(address, identity, certificate, name, connect_timeout, largest_reply)
    deadline = Deadline(timeout + body.length / MIN_BYTES_PER_SECOND)
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
        identity: Identity,
        certificate: str,
        name: str,
        connect_timeout: float,
        largest_reply: int,
    ) -> None:
        self.address, self.name, self.largest = address, name, largest_reply
        self.connect_timeout = connect_timeout
        self.print = fingerprint(certificate)
        self.context = tls_context(identity, [certificate], server=False)
        self.sent = False

    def once(self, request: Request, body: requests.Body, deadline: Deadline) -> Reply:
        """Connect, ask and read the reply."""
        link = self._connect(deadline)
        try:
            stamped = Request(request.verb, request.fields, body.length, request.id, time.time())
            try:
                link.send(stamped.pack(), deadline)
                reply = self._header(link, deadline)
                if reply.go:
                    self.sent = True
                    # A reply may be there although sending has failed.
                    with contextlib.suppress(ConnectionError, ssl.SSLError):
                        link.send_body(body, deadline, heed=True)
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
            return Reply(reply.fields, bytes(data))
        finally:
            link.close()

    def _connect(self, deadline: Deadline) -> Link:
        seconds = min(self.connect_timeout, max(deadline.left(), 0.001))
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
            if found != self.print:
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
            expected=f"{self.name} with fingerprint {readable(self.print)} "
            f"at {self.address[0]}:{self.address[1]}",
            found=found,
        )

    def _unreachable(self, error: OSError) -> HedgerowError:
        return Code.SERVICE_UNREACHABLE.error(
            expected=f"{self.name} at {self.address[0]}:{self.address[1]}", found=_words(error)
        )


def _words(error: OSError) -> str:
    return str(error.strerror or error or type(error).__name__)
