"""`Service`: the side of a party that answers requests; see `hedgerow.parties.wire.requests`."""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, fingerprint, readable, tls_context
from hedgerow.net.meeting import listen
from hedgerow.parties.wire import requests
from hedgerow.parties.wire.gate import Gate, Replays, Throttle
from hedgerow.parties.wire.handlers import Caller, ServiceLimits, Verb
from hedgerow.parties.wire.link import TIME_ERRORS, Deadline, Incoming, Link, Rate
from hedgerow.parties.wire.logs import Event
from hedgerow.parties.wire.requests import Body, Request

_POLL_SECONDS = 0.2
_STRANGERS_PER_MINUTE = 60
_logger = logging.getLogger(__name__)


@dataclass
class _Exchange:
    """One connection as the log will tell it."""

    link: Link
    print: bytes = b""
    again: bool = False
    begun: float = field(default_factory=time.monotonic)
    event: Event = field(default_factory=dict)


class Service:
    """Answer requests of members, each in a thread of its own; port 0 takes a free one.

    `members`: who may call, by certificate in PEM. Nobody else gets past the handshake.
    """

    def __init__(
        self,
        identity: Identity,
        members: Mapping[str, Caller],
        handlers: Mapping[str, Verb],
        *,
        host: str,
        port: int,
        limits: ServiceLimits | None = None,
    ) -> None:
        self.limits = limits = limits or ServiceLimits()
        self._handlers = dict(handlers)
        self.recognise(identity, members)
        self._gate = Gate(limits)
        self._replays = Replays(limits.skew, limits.remembered)
        self._throttle = Throttle(_STRANGERS_PER_MINUTE)
        self._stopping = threading.Event()
        self._listener = listen(host, port)
        self._listener.settimeout(_POLL_SECONDS)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._accepting = threading.Thread(target=self._accept, name="requests", daemon=True)

    def recognise(self, identity: Identity, members: Mapping[str, Caller]) -> None:
        """Answer these members from now on; H810 for a key that cannot be used, and all stays."""
        context = tls_context(identity, members, server=True)
        # In this order nobody is trusted by one of them and not by the other.
        self._members = {fingerprint(pem): caller for pem, caller in members.items()}
        self._context = context

    def start(self) -> Self:
        """Begin to answer."""
        self._accepting.start()
        return self

    def stop(self, patience: float = 30.0) -> bool:
        """Take nothing new; return whether what was taken was finished within so many seconds."""
        self._stopping.set()
        if self._accepting.is_alive():
            self._accepting.join()
        self._listener.close()
        return self._gate.stop(patience)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                raw, (host, port, *_) = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # No descriptor is free: some will be when a connection ends.
                time.sleep(_POLL_SECONDS)
                continue
            try:
                link = Link(raw, self._context, server=True, peer=f"{host}:{port}")
            except OSError:
                raw.close()
                continue
            if not self._gate.admit(link, host):
                link.cut()
                link.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()
            except RuntimeError:
                self._gate.forget(link)
                link.close()

    def _serve(self, link: Link) -> None:
        exchange = _Exchange(link)
        try:
            caller = self._recognise(exchange)
            for _ in range(self.limits.requests):
                if caller is None:
                    break
                exchange.event = {"caller": caller.name, "role": caller.role}
                if not self._attend(exchange, caller) or not self._another(link):
                    break
                exchange = _Exchange(link, exchange.print, again=True)
                # Who is a member no more is not answered on an old connection either.
                caller = self._members.get(exchange.print)
        finally:
            self._gate.forget(link)
            link.close()

    def _recognise(self, exchange: _Exchange) -> Caller | None:
        """Shake hands and look the certificate up; None for a stranger, who is sent away."""
        link, number, why = exchange.link, Code.CALLER_UNKNOWN.number, "no certificate of a member"
        deadline = Deadline(self.limits.handshake)
        try:
            if link.speaks(min(self.limits.silence, self.limits.handshake)):
                self._gate.spoke(link)
            else:
                raise TimeoutError
            found = fingerprint(link.handshake(deadline))
            if found in self._members:
                exchange.print = found
                return self._members[found]
            why = f"certificate {readable(found)}"
            self._refuse(exchange, Code.CALLER_UNKNOWN.error(found=why))
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message
            if error.verify_code in TIME_ERRORS:
                number = Code.CERTIFICATE_EXPIRED.number
        except TimeoutError:
            number, why = Code.REQUEST_TOO_SLOW.number, "no handshake in time"
        except (OSError, ValueError) as error:
            number, why = Code.BAD_REQUEST.number, f"no handshake: {type(error).__name__}"
        held = self._throttle.passes()
        if held is not None:
            event = {"caller": None, "address": link.peer, "outcome": number, "found": why}
            _logger.warning("stranger", extra={"event": event | ({"more": held} if held else {})})
        # The alert that says why must not be lost.
        link.drain()
        return None

    def _another(self, link: Link) -> bool:
        """Wait for another request on a connection; return whether there is something to read."""
        with self._gate.rest(link) as may_rest:
            try:
                return may_rest and link.goes_on(self.limits.idle)
            except (OSError, ValueError):
                return False

    def _attend(self, exchange: _Exchange, caller: Caller) -> bool:
        """Answer one member, whatever happens, and log it; return whether another may follow."""
        link, event, goes_on = exchange.link, exchange.event, False
        event |= {"verb": None, "outcome": "ok", "bytes_in": 0, "bytes_out": 0}
        try:
            with self._gate.place(link, caller.name):
                try:
                    goes_on = self._answer(exchange, caller)
                except HedgerowError as error:
                    # While it still has its place, which bounds what a member can hold.
                    self._refuse(exchange, error)
        except HedgerowError as error:
            self._refuse(exchange, error)
        except OSError as error:
            if exchange.again and event["verb"] is None:
                # It has ended between two requests, as it may.
                return False
            event |= {"outcome": Code.REQUEST_CUT_OFF.number, "found": type(error).__name__}
        except Exception:
            self._refuse(exchange, self._failure(event))
        event["seconds"] = round(time.monotonic() - exchange.begun, 6)
        _logger.info("request", extra={"event": event})
        return goes_on

    def _answer(self, exchange: _Exchange, caller: Caller) -> bool:
        """Answer a request; return whether all of it was read."""
        link, event = exchange.link, exchange.event
        request = self._read_header(link)
        event |= {"verb": request.verb, "id": request.id}
        verb = self._check(request, caller)
        if verb.expects is not None:
            verb.expects(caller, request.fields, request.payload)
        self._gate.begin(link)
        with self._gate.hold(caller.name, request.payload):
            return self._carry_out(exchange, caller, request, verb)

    def _carry_out(self, exchange: _Exchange, caller: Caller, request: Request, verb: Verb) -> bool:
        link, event, limits = exchange.link, exchange.event, self.limits
        if not verb.idempotent:
            self._replays.take(caller.name, request.id, request.time)
        patience = Rate(limits.payload, limits.rate)
        if request.payload:
            link.send(requests.pack(requests.GO), patience)
        payload = Incoming(link, request.payload, patience)
        try:
            header, body = self._handle(verb, replace(caller, request=request.id), request, payload)
        except HedgerowError:
            raise
        except Exception:
            raise self._failure(event) from None
        finally:
            event["bytes_in"] = payload.length - payload.left
        taking = Rate(limits.payload, limits.rate)
        link.send(header, taking)
        try:
            event["bytes_out"] = link.send_body(body, taking)
        except (HedgerowError, ValueError, TypeError, LookupError) as error:
            # The header is out, so an error can only be told by ending here.
            self._failure(event)
            raise ConnectionError("a reply that was not completed") from error
        if payload.left:
            link.drain()
        return not payload.left

    def _handle(
        self, verb: Verb, caller: Caller, request: Request, payload: Incoming
    ) -> tuple[bytes, Body]:
        fields, given = verb.function(caller, request.fields, payload)
        try:
            body = requests.as_body(given)
            return requests.pack({"fields": fields, "payload": body.length}), body
        except HedgerowError as error:
            # Not the caller's mistake.
            raise ValueError("a reply that cannot be sent") from error

    def _read_header(self, link: Link) -> Request:
        try:
            data = link.receive_header(Deadline(self.limits.header), Code.BAD_REQUEST)
        except TimeoutError:
            raise Code.REQUEST_TOO_SLOW.error(
                expected=f"a header within {self.limits.header:g} s", found="none"
            ) from None
        return Request.parse(data)

    def _check(self, request: Request, caller: Caller) -> Verb:
        """Check everything that can be checked before anything is done."""
        verb = self._handlers.get(request.verb)
        if verb is None:
            raise Code.UNKNOWN_VERB.error(found=request.verb)
        if caller.role not in verb.roles:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"{request.verb} by {' or '.join(sorted(verb.roles))}",
                found=f"{caller.name}, which is {caller.role}",
            )
        if request.payload > verb.largest:
            raise Code.PAYLOAD_TOO_LARGE.error(
                expected=f"{request.verb} with at most {verb.largest} bytes",
                found=f"{request.payload} bytes",
            )
        self._replays.check_clock(request.time)
        return verb

    def _refuse(self, exchange: _Exchange, error: HedgerowError) -> None:
        link, exchange.event["outcome"] = exchange.link, error.code.number
        with contextlib.suppress(OSError):
            link.send(requests.pack(requests.error_fields(error)), Deadline(self.limits.header))
            link.drain()

    def _failure(self, event: Event) -> HedgerowError:
        """Write a defect into the log, and build what is told of it."""
        _logger.exception("failure", extra={"event": event | {"outcome": "failure"}})
        return Code.SERVICE_FAILED.error(
            expected=f"an answer to {event['verb']}",
            found=f"a failure in request {event.get('id')}",
        )
