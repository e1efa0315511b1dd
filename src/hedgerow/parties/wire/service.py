"""`Service`: the side of a party that answers requests; see `hedgerow.parties.wire.requests`.

One thread has a loop that accepts connections, shakes hands and reads and writes; handlers are
ordinary functions, each in a thread of a bounded pool. `door` has how callers come in.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, fingerprint, readable, tls_context
from hedgerow.net.meeting import listen
from hedgerow.parties.wire import requests
from hedgerow.parties.wire.door import DRAIN_SECONDS, Door, DoorContext
from hedgerow.parties.wire.gate import Gate
from hedgerow.parties.wire.handlers import Caller, Incoming, ServiceLimits, Verb, find_verb
from hedgerow.parties.wire.logs import Event
from hedgerow.parties.wire.metrics import CONTENT_TYPE, RequestCounts, Sample, prometheus_text
from hedgerow.parties.wire.openapi import openapi
from hedgerow.parties.wire.patience import Rate
from hedgerow.parties.wire.requests import Body, Fields
from hedgerow.parties.wire.workers import Workers

_NEVER_SECONDS = 86_400.0
_MAX_HEAD_BYTES = requests.MAX_FIELDS_BYTES + (1 << 14)
_MAX_THROWN_BYTES = 1 << 20
"""Of a caller that was refused and goes on sending."""
_MAX_HEADERS = 32
_ANYBODY = Caller("", "")
"""Who has shown no certificate, where the policy lets everybody look at numbers."""
_OPEN_PATHS = ("/healthz", "/metrics")
_logger = logging.getLogger(__name__)

Numbers = Callable[[], Iterable[Sample]]


class _Line(web.RequestHandler):
    """A connection of a member, request after request."""

    def __init__(self, service: Service, server: web.Server, loop: asyncio.AbstractEventLoop):
        super().__init__(
            server,
            loop=loop,
            # Times are kept here, also of headers that arrive drop by drop.
            keepalive_timeout=_NEVER_SECONDS,
            access_log=None,  # type: ignore[arg-type]
            logger=_logger,
            max_field_size=requests.MAX_FIELDS_BYTES,
            max_headers=_MAX_HEADERS,
            lingering_time=DRAIN_SECONDS,
            read_bufsize=requests.BLOCK_BYTES,
            auto_decompress=False,
        )
        self._service = service
        self._wire: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.print, self.peer, self.asked = b"", "", 0
        self._is_answered, self._is_ending, self._head = False, False, 0
        self._is_refused = False

    @property
    def caller(self) -> Caller | None:
        """Who it is; None for who is no member, or is none any more."""
        return self._service.caller_of(self.print)

    @property
    def is_used_up(self) -> bool:
        """Whether this is the last request that it may bring."""
        return self.asked >= self._service.limits.requests

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Look at the certificate."""
        assert isinstance(transport, asyncio.Transport)
        self._wire = transport
        shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        self.print = fingerprint(shown) if shown else b""
        self.peer = "{}:{}".format(*transport.get_extra_info("peername")[:2])
        super().connection_made(transport)
        self._rest(self._service.limits.header)

    def data_received(self, data: bytes) -> None:
        """Read a header within its time and its length, or payload."""
        if self._is_refused:
            self._head += len(data)
            if self._head > _MAX_THROWN_BYTES:
                self.cut()
            return
        if not self._is_answered and not self._is_ending:
            if not self._head:
                self._wait(self._service.limits.header)
            elif self._head > _MAX_HEAD_BYTES:
                self._refuse(requests.fields_too_large("a longer header"))
                return
            self._head += len(data)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give back what it has taken."""
        self._wait(None)
        self._service.gate.forget(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Refuse what is no request."""
        del status, message
        if request.writer.output_size > 0:
            raise ConnectionResetError("a reply that was not completed")
        large = isinstance(exc, LineTooLong)
        error = (
            requests.fields_too_large("a longer header")
            if large
            else Code.BAD_REQUEST.error(found="no HTTP")
        )
        self._service.note_refusal(self.caller, error)
        self._is_refused = True
        response = _refusal(error, LastWord)
        response.force_close()
        return response

    def log_exception(self, *arguments: Any, **options: Any) -> None:
        """Say nothing of connections that end under the library's hands: requests are logged."""

    @contextlib.contextmanager
    def answering(self, request: web.BaseRequest) -> Iterator[None]:
        """Take no account of time and length while a request is answered."""
        self._wait(None)
        self._is_answered, self._head = True, 0
        self.asked += 1
        try:
            yield
        finally:
            self._is_answered = False
            # What was not read of it is thrown away for a while, and the connection ends.
            self._is_ending = not request.content.is_eof()
            if self._wire is not None and not self._wire.is_closing():
                self._rest(self._service.limits.idle)

    def cut(self) -> None:
        """End it at once."""
        if self._wire is not None:
            self._wire.abort()

    def _rest(self, seconds: float) -> None:
        caller = self.caller or _ANYBODY
        self._service.gate.rest(self, caller.name, is_new=not self.asked)
        self._wait(seconds)

    def _wait(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if self._head or not self.asked:
            seconds = self._service.limits.header
            expected = f"a header within {seconds:g} s"
            self._refuse(Code.REQUEST_TOO_SLOW.error(expected=expected, found="none"))
        else:
            self.force_close()

    def _refuse(self, error: HedgerowError) -> None:
        """Refuse what has not become a request."""
        self._service.note_refusal(self.caller, error)
        body = requests.pack_error(error)
        if self._wire is not None:
            self._wire.write(
                b"HTTP/1.1 %d Refused\r\nContent-Type: %s\r\nContent-Length: %d\r\n"
                b"Connection: close\r\n\r\n%s"
                % (requests.status_of(error), requests.JSON_TYPE.encode(), len(body), body)
            )
        self._is_refused = True
        # Later, for the reason that `LastWord` has; at once if the caller has gone by then.
        self._wait(None)
        self._loop.call_later(DRAIN_SECONDS, self.force_close)


class LastWord(web.Response):
    """A refusal of what is still on its way, which is thrown away for a while.

    A connection that is closed with bytes unread is reset, and the refusal is lost with it.
    """

    async def write_eof(self, data: bytes = b"") -> None:
        """End the reply, and the connection after some time."""
        await super().write_eof(data)
        await asyncio.sleep(DRAIN_SECONDS)


@dataclass
class _Exchange:
    """One request as the log will tell it."""

    request: web.BaseRequest
    line: _Line
    caller: Caller
    begun: float = field(default_factory=time.monotonic)
    event: Event = field(default_factory=dict)
    response: web.StreamResponse = field(default_factory=web.Response)

    def __post_init__(self) -> None:
        self.event |= {"caller": self.caller.name, "role": self.caller.role, "verb": None}
        self.event |= {"outcome": "ok", "bytes_in": 0, "bytes_out": 0}
        given = self.request.headers.get(requests.REQUEST_HEADER, "")
        known = requests.REQUEST_ID.fullmatch(given) is not None
        self.event["id"] = given if known else secrets.token_hex(16)

    def begin(self, response: web.StreamResponse) -> None:
        """Have a reply; the connection ends with it if something of the request is left."""
        self.response = response
        if not self.request.content.is_eof() or self.line.is_used_up:
            response.force_close()

    async def send(self, response: web.StreamResponse, patience: Rate) -> None:
        """Send a reply that is all there; `OSError` if the caller does not take it."""
        self.begin(response)
        async with asyncio.timeout(max(0.0, patience.left())):
            await response.prepare(self.request)
            await response.write_eof()


class Service:
    """Answer requests of members; port 0 takes a free one.

    `members`: who may call, by certificate in PEM. Nobody else gets past the handshake, unless
    `open_metrics`: then who has no certificate may look at ``/healthz`` and ``/metrics``.
    `numbers`: what ``/metrics`` tells besides counts of requests.
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
        numbers: Numbers = lambda: (),
        open_metrics: bool = False,
    ) -> None:
        self.limits = limits = limits or ServiceLimits()
        self._handlers, self._numbers = dict(handlers), numbers
        self.recognise(identity, members, open_metrics=open_metrics)
        self.gate = Gate(limits)
        self._counts = RequestCounts()
        self._workers = Workers(limits.members)
        self._listener = listen(host, port)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._loop = loop = asyncio.new_event_loop()
        self._door = Door(
            self._listener,
            self.gate,
            loop,
            lambda: self._context,
            lambda: _Line(self, self._server, loop),
        )
        self._thread = threading.Thread(target=self._run, name="requests", daemon=True)
        self._finished: bool | None = None

    def recognise(
        self, identity: Identity, members: Mapping[str, Caller], *, open_metrics: bool = False
    ) -> None:
        """Answer these members from now on; H810 for a key that cannot be used, and all stays."""
        context = tls_context(identity, members, server=True, kind=DoorContext)
        if open_metrics:
            context.verify_mode = ssl.CERT_OPTIONAL
        # In this order nobody is trusted by one of them and not by the other.
        self._members = {fingerprint(pem): caller for pem, caller in members.items()}
        self._context = context

    def caller_of(self, print_: bytes) -> Caller | None:
        """Return the member with this fingerprint."""
        return self._members.get(print_)

    def start(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def stop(self, patience: float = 30.0) -> bool:
        """Take nothing new; return whether what was taken was finished within so many seconds."""
        if self._finished is None:
            self._finished = True
            if self._thread.is_alive():
                ending = asyncio.run_coroutine_threadsafe(self._stop(patience), self._loop)
                self._finished = ending.result()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
            self._listener.close()
            self._loop.close()
            self._workers.shutdown()
        return self._finished

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # The thread of the loop: connections.

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        self._server = web.Server(self._serve, loop=loop)
        self._door.open()
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    async def _stop(self, patience: float) -> bool:
        self._door.close()
        finished = await self.gate.stop(patience)
        # What was cut off is told so before the loop ends.
        await asyncio.sleep(0.1)
        return finished

    def note_refusal(self, caller: Caller | None, error: HedgerowError) -> None:
        """Write down that something was refused that has not become a request."""
        name, role = (None, None) if caller is None else (caller.name, caller.role)
        event = {"caller": name, "role": role, "verb": None, "outcome": error.code.number}
        self._counts.add("none", error.code.number, 0, 0)
        _logger.info("request", extra={"event": event})

    # The thread of the loop: requests.

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        line = request.protocol
        assert isinstance(line, _Line)
        with line.answering(request):
            exchange = _Exchange(request, line, line.caller or _ANYBODY)
            await self._attend(exchange)
        event = exchange.event
        event["seconds"] = round(time.monotonic() - exchange.begun, 6)
        verb = event["verb"] if event["verb"] in self._handlers else "none"
        self._counts.add(verb, event["outcome"], event["bytes_in"], event["bytes_out"])
        _logger.info("request", extra={"event": event})
        return exchange.response

    async def _attend(self, exchange: _Exchange) -> None:
        """Answer a request, whatever happens."""
        line, event = exchange.line, exchange.event
        try:
            self._check_member(exchange)
            with self.gate.place(line, exchange.caller.name):
                try:
                    await self._answer(exchange)
                except HedgerowError as error:
                    # While it still has its place, which bounds what a member can hold.
                    await self._refuse(exchange, error)
        except HedgerowError as error:
            await self._refuse(exchange, error)
        except OSError as error:
            event |= {"outcome": Code.REQUEST_CUT_OFF.number, "found": type(error).__name__}
            line.cut()
        except Exception:
            await self._refuse(exchange, self._failure(event))

    def _check_member(self, exchange: _Exchange) -> None:
        """Refuse who is no member, or is none any more; H870."""
        if exchange.caller is not _ANYBODY:
            return
        shown = exchange.line.print
        if shown or exchange.request.path not in _OPEN_PATHS:
            found = f"certificate {readable(shown)}" if shown else "no certificate"
            raise Code.CALLER_UNKNOWN.error(found=found)

    async def _answer(self, exchange: _Exchange) -> None:
        if exchange.request.method == "GET":
            await self._show(exchange)
            return
        name, verb = self._find_verb(exchange)
        request, caller, line = exchange.request, exchange.caller, exchange.line
        payload = self._payload_bytes(request, name, verb)
        fields = verb.fields.model_validate(await self._read_fields(exchange, payload))
        if verb.expects is not None:
            await self._call(verb.expects, caller, fields, payload)
        self.gate.begin(line)
        with self.gate.hold(caller.name, payload):
            incoming = await self._open_payload(exchange, payload)
            known = replace(caller, request=exchange.event["id"])
            try:
                reply = await self._call(_carry_out, verb, known, fields, incoming)
            except HedgerowError:
                raise
            except Exception:
                raise self._failure(exchange.event) from None
            finally:
                exchange.event["bytes_in"] = payload - incoming.left
            await self._reply(exchange, *reply)

    async def _show(self, exchange: _Exchange) -> None:
        """Answer who looks at this party and asks for nothing."""
        path = exchange.event["verb"] = exchange.request.path
        kind = requests.JSON_TYPE
        if path == "/healthz":
            text = '{"status":"ok"}'
        elif path == "/metrics":
            text, kind = await self._call(self._metrics), CONTENT_TYPE
        elif path == "/openapi.json":
            text = json.dumps(openapi(self._handlers, "Requests to this party"))
        else:
            raise Code.BAD_REQUEST.error(found="a request that is none")
        headers = {"Content-Type": kind}
        response = web.Response(body=text.encode(), headers=headers)
        await exchange.send(response, Rate(self.limits.payload))

    def _metrics(self) -> str:
        return prometheus_text([*self._numbers(), *self._counts.samples()])

    def _find_verb(self, exchange: _Exchange) -> tuple[str, Verb]:
        """Read the first line; H872, H807, H873, or H871."""
        request = exchange.request
        version, _, name = request.path.removeprefix("/").partition("/")
        if request.method != "POST" or requests.VERB_NAME.fullmatch(name) is None:
            raise Code.BAD_REQUEST.error(found="a request that is none")
        if version != requests.VERSION:
            raise Code.WRONG_VERSION.error(
                expected=f"version {requests.VERSION}", found=f"version {version[:20]}"
            )
        exchange.event["verb"] = name
        return name, find_verb(self._handlers, name, exchange.caller)

    def _payload_bytes(self, request: web.BaseRequest, name: str, verb: Verb) -> int:
        """Return how much payload follows; H872, H874 or H875 for a body that cannot be taken."""
        length = request.content_length or 0
        if "Transfer-Encoding" in request.headers or "Upgrade" in request.headers:
            raise Code.BAD_REQUEST.error(found="a body without a length, or another protocol")
        if request.content_type == requests.JSON_TYPE or not length:
            if length > requests.MAX_FIELDS_BYTES:
                raise requests.fields_too_large(f"{length} bytes")
            return 0
        if request.content_type != requests.PAYLOAD_TYPE:
            raise Code.BAD_REQUEST.error(found="a body of another type")
        if length > verb.largest:
            raise Code.PAYLOAD_TOO_LARGE.error(
                expected=f"{name} with at most {verb.largest} bytes", found=f"{length} bytes"
            )
        return length

    async def _read_fields(self, exchange: _Exchange, payload: int) -> Fields:
        request = exchange.request
        if payload or not request.content_length:
            text: str | bytes = request.headers.get(requests.FIELDS_HEADER, "{}")
        else:
            await self._go_ahead(request)
            patience = Rate(self.limits.header)
            text = await self._read(exchange, request.content_length, patience)
        return jsonfile.loads(text, Code.BAD_REQUEST)

    async def _open_payload(self, exchange: _Exchange, length: int) -> Incoming:
        """Let the payload come: all of it if it is small, otherwise as the handler reads it."""
        patience = Rate(self.limits.payload, self.limits.rate)
        if length:
            await self._go_ahead(exchange.request)
        if length <= requests.AT_ONCE_BYTES:
            data = await self._read(exchange, length, patience)
            return Incoming(length, lambda: data)

        def source() -> bytes:
            block = self._next_block(exchange, patience)
            return asyncio.run_coroutine_threadsafe(block, self._loop).result()

        return Incoming(length, source)

    async def _go_ahead(self, request: web.BaseRequest) -> None:
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            # It is no part of the reply.
            request.writer.output_size = 0

    async def _read(self, exchange: _Exchange, length: int, patience: Rate) -> bytes:
        blocks, left = [], length
        while left:
            blocks.append(await self._next_block(exchange, patience))
            left -= len(blocks[-1])
        return b"".join(blocks)

    async def _next_block(self, exchange: _Exchange, patience: Rate) -> bytes:
        """Return what has come of a body; H876 or H883 if nothing comes."""
        begun, length = time.monotonic(), exchange.request.content_length
        try:
            async with asyncio.timeout(max(0.0, patience.left())):
                block = await exchange.request.content.readany()
        except TimeoutError:
            raise Code.REQUEST_TOO_SLOW.error(
                expected=f"{length} bytes at the least rate", found="some of them missing"
            ) from None
        except (OSError, web.RequestPayloadError):
            block = b""
        if not block:
            raise Code.REQUEST_CUT_OFF.error(
                expected=f"{length} bytes from {exchange.line.peer}",
                found="some of them missing: the connection was closed",
            )
        patience.count(len(block), time.monotonic() - begun)
        return block

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in another thread."""
        return await self._loop.run_in_executor(self._workers, function, *arguments)

    async def _reply(self, exchange: _Exchange, fields: bytes, body: Body) -> None:
        taking = Rate(self.limits.payload, self.limits.rate)
        headers = {"Server": "hedgerow", "Content-Type": requests.JSON_TYPE}
        if not body.length:
            await exchange.send(web.Response(body=fields, headers=headers), taking)
            return
        headers["Content-Type"] = requests.PAYLOAD_TYPE
        headers[requests.FIELDS_HEADER] = fields.decode("ascii")
        if body.length <= requests.AT_ONCE_BYTES and body.may_be_read_again:
            data = b"".join(body.blocks())
            await exchange.send(web.Response(body=data, headers=headers), taking)
            exchange.event["bytes_out"] = len(data)
            return
        headers["Content-Length"] = str(body.length)
        exchange.begin(web.StreamResponse(headers=headers))
        try:
            await self._stream(exchange, body, taking)
        except (HedgerowError, ValueError, TypeError, LookupError) as error:
            # The header is out, so an error can only be told by ending here.
            self._failure(exchange.event)
            raise ConnectionResetError("a reply that was not completed") from error

    async def _stream(self, exchange: _Exchange, body: Body, taking: Rate) -> None:
        response, blocks = exchange.response, body.blocks()
        await response.prepare(exchange.request)
        while True:
            # Who makes pieces one by one may have to wait for them.
            late = not body.may_be_read_again
            block = await self._call(next, blocks, None) if late else next(blocks, None)
            if block is None:
                break
            begun = time.monotonic()
            async with asyncio.timeout(max(0.0, taking.left())):
                await response.write(block)
            taking.count(block.nbytes, time.monotonic() - begun)
            exchange.event["bytes_out"] += block.nbytes
        async with asyncio.timeout(max(0.0, taking.left())):
            await response.write_eof()

    async def _refuse(self, exchange: _Exchange, error: HedgerowError) -> None:
        exchange.event["outcome"] = error.code.number
        try:
            await exchange.send(_refusal(error), Rate(self.limits.header))
        except OSError:
            exchange.line.cut()

    def _failure(self, event: Event) -> HedgerowError:
        """Write a defect into the log, and build what is told of it."""
        _logger.exception("failure", extra={"event": event | {"outcome": "failure"}})
        return Code.SERVICE_FAILED.error(
            expected=f"an answer to {event['verb']}",
            found=f"a failure in request {event.get('id')}",
        )


def _carry_out(verb: Verb, caller: Caller, fields: Any, payload: Incoming) -> tuple[bytes, Body]:
    """Let a handler answer; return the fields of the reply as JSON, and its payload."""
    told, given = verb.function(caller, fields, payload)
    try:
        return requests.pack_fields(told), requests.as_body(given)
    except HedgerowError as error:
        # Not the caller's mistake.
        raise ValueError("a reply that cannot be sent") from error


def _refusal(error: HedgerowError, kind: type[web.Response] = web.Response) -> web.Response:
    headers = {"Server": "hedgerow", "Content-Type": requests.JSON_TYPE}
    status = requests.status_of(error)
    return kind(status=status, body=requests.pack_error(error), headers=headers)
