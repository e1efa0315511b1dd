"""The calling side of requests; see `hedgerow.parties.wire.requests`.

`call` makes one request to another party, `call_member` one to a member of the consortium, and
`call_members` asks several of them one thing at once. `Lines` keep connections for the next
request: a handshake costs both sides more than a short request, so who makes many of them makes it
once. All connections of a process live in the loop of one thread; who calls waits in its own. Who
has several requests to make at once makes them in that loop, with `ask`, and waits once
(`wait_for`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import ssl
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import (
    TIME_ERRORS,
    Identity,
    fingerprint,
    fingerprints,
    readable,
    tls_context,
)
from hedgerow.net.channel import MAX_KEY_BYTES
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.wire import requests
from hedgerow.parties.wire.patience import LONGEST_WAIT, Deadline
from hedgerow.parties.wire.requests import Body, Fields, Payload

KEPT_SECONDS = 4.0
"""After which a connection is not used again: the other party may be about to close it."""
# Payload may take this much longer than the timeout, so that no upload is too large for it.
MIN_BYTES_PER_SECOND = 1 << 18
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_CLOSE_SECONDS = 1.0
_THREAD = "calls to parties"
_NOT_NEEDED = ("User-Agent", "Accept", "Accept-Encoding")
_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Calls:
    """The loop in which all connections of this process live; made when the first is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return it, the same to all threads."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                run = self._loop.run_forever
                threading.Thread(target=run, name=_THREAD, daemon=True).start()
            return self._loop


_calls = _Calls()
# The thread of the loop is not there in a process that was forked.
os.register_at_fork(after_in_child=_calls.__init__)  # type: ignore[misc]


def wait_for(work: Coroutine[Any, Any, _T]) -> _T:
    """Do something in the loop, and wait for it here."""
    future = asyncio.run_coroutine_threadsafe(work, _calls.loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _waiting(function: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, _T]:
    """Make a function of one that is for the loop."""

    @wraps(function)
    def waits(*args: _P.args, **options: _P.kwargs) -> _T:
        return wait_for(function(*args, **options))

    return waits


class _OneOf(aiohttp.Fingerprint):
    """The certificates of one party, which has two of them while it changes its key."""

    def __init__(self, prints: Sequence[bytes]) -> None:
        super().__init__(prints[0])
        self._prints = prints

    def check(self, transport: asyncio.Transport) -> None:
        """Compare the certificate of a connection that was made just now."""
        _talk.get().is_kept = False
        found = fingerprint(transport.get_extra_info("ssl_object").getpeercert(binary_form=True))
        if found not in self._prints:
            raise aiohttp.ServerFingerprintMismatch(self.fingerprint, found, "", 0)


class Lines:
    """Connections to one party that are kept for the next request; for all threads."""

    def __init__(self, identity: Identity, certificate: str) -> None:
        self._identity, self._certificate = identity, certificate
        self.prints = fingerprints(certificate)
        self._context: ssl.SSLContext | None = None
        self._session: aiohttp.ClientSession | None = None

    def context(self) -> ssl.SSLContext:
        """Return the settings of TLS for new connections, made once, in the loop of all of them."""
        if self._context is None:
            self._context = tls_context(self._identity, [self._certificate], server=False)
        return self._context

    def session(self) -> aiohttp.ClientSession:
        """Return the connections, in the loop of all of them."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Beside the context, which trusts no other certificate, it is compared by itself.
                connector=aiohttp.TCPConnector(
                    ssl=_OneOf(self.prints), limit=0, keepalive_timeout=KEPT_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_NOT_NEEDED,
                auto_decompress=False,
                read_bufsize=requests.BLOCK_BYTES,
                max_field_size=requests.MAX_FIELDS_BYTES,
            )
            # Who forgets to close them, or ends without it, leaves none open.
            self._ending = weakref.finalize(self, _end, self._session, os.getpid())
        return self._session

    def close(self) -> None:
        """End all of them; new ones may be made."""
        if self._session is not None:
            self._session = None
            self._ending()

    async def end(self) -> None:
        """As `close`, for the loop."""
        if self._session is not None:
            session, self._session = self._session, None
            self._ending.detach()
            await session.close()


def _end(session: aiohttp.ClientSession, process: int) -> None:
    """Close connections; within the loop nobody can wait for it."""
    if os.getpid() != process:
        # They belong to the process that was forked, and it goes on with them.
        return
    ended = asyncio.run_coroutine_threadsafe(session.close(), _calls.loop())
    if threading.current_thread().name != _THREAD:
        with contextlib.suppress(TimeoutError):
            ended.result(_CLOSE_SECONDS)


@dataclass(frozen=True)
class Reply:
    """What another party has answered."""

    fields: Fields
    payload: bytes


async def ask(
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
    """Make a request, in the loop of all of them, and return the reply.

    While the other party is busy the request is made again, as long as the timeout allows: it has
    not been carried out then. In no other case is anything sent twice.

    `certificate`: PEM certificates of the other party; nobody else is spoken to.
    `payload`: a `Body` is read while it is sent, in another thread, so it needs no memory; it can
    be read only once, so that such a request is not made again when the other party turns out busy
    in the middle.
    `timeout`: seconds for all of it, besides the time that payloads need at 256 KiB/s.
    `request`: identifier of 32 hexadecimal digits, for the logs; drawn by default.
    `lines`: connections to take one from and to leave it for the next request; one whose old
    connection turns out to be closed is made again on a new one.
    Raises the other party's refusal, with `party` set to its name; or, raised here, H872 (a verb
    that is none), H874 (too large fields), H875 (a payload that no request can carry), H809, H855,
    H870 (certificates), H882 (unreachable: not carried out), H883 (connection lost or no answer:
    perhaps carried out), H884 (a malformed reply).
    """
    name = name or f"{address[0]}:{address[1]}"
    body = requests.as_body(payload)
    if not 0 <= body.length <= MAX_KEY_BYTES:
        raise Code.PAYLOAD_TOO_LARGE.error(
            expected=f"at most {MAX_KEY_BYTES} bytes to {name}", found=f"{body.length} bytes"
        )
    if requests.VERB_NAME.fullmatch(verb) is None:
        raise Code.BAD_REQUEST.error(found=f"verb {jsonfile.shown(verb)}")
    deadline = Deadline(timeout + body.length / MIN_BYTES_PER_SECOND)
    used = lines or Lines(identity, certificate)
    used.context()
    talk = _Talk(
        used,
        URL.build(
            scheme="https", host=address[0], port=address[1], path=f"/{requests.VERSION}/{verb}"
        ),
        name,
        requests.pack_fields(fields or {}),
        body,
        request or secrets.token_hex(16),
        min(connect_timeout, LONGEST_WAIT),
        largest_reply,
    )
    pause = _FIRST_PAUSE
    try:
        while True:
            try:
                return await talk.ask(deadline)
            except HedgerowError as error:
                # It is refused before its payload is asked for, so the payload is still there.
                if error.code is not Code.SERVICE_BUSY or talk.is_spent or deadline.left() < pause:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(2 * pause, _LONGEST_PAUSE)
    finally:
        if lines is None:
            await used.end()


call = _waiting(ask)


@dataclass
class _Talk:
    """One request, made once or, to a busy party, several times.

    `is_spent`: its payload was begun and cannot be read again. `is_kept`: it was made on a
    connection that was there before.
    """

    lines: Lines
    url: URL
    name: str
    fields: bytes
    body: Body
    id: str
    connect_timeout: float
    largest: int
    is_spent: bool = False
    is_kept: bool = True
    failure: BaseException | None = field(default=None, repr=False)

    async def ask(self, deadline: Deadline) -> Reply:
        """Make the request and read the reply; again, if a connection that was kept has ended."""
        while True:
            self.is_kept = True
            _talk.set(self)
            try:
                return await self._once(deadline)
            except HedgerowError as error:
                ended = error.code is Code.REQUEST_CUT_OFF and error.party is None
                again = self.is_kept and ended and not self.is_spent
                if not again or deadline.left() <= 0:
                    raise

    async def _once(self, deadline: Deadline) -> Reply:
        try:
            async with asyncio.timeout(max(0.001, deadline.left())), self._post() as response:
                return await self._read(response)
        except HedgerowError:
            raise
        # A host that no name can be, such as one with two dots side by side, is a UnicodeError.
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            if self.failure is not None:
                # What has gone wrong with the payload on this side.
                raise self.failure from None
            raise self._explain(error) from None

    def _post(self) -> Any:
        headers = {requests.REQUEST_HEADER: self.id}
        data: Any = self.fields
        # What is small and still there afterwards may go at once.
        waits = not self.body.may_be_read_again or self.body.length > requests.AT_ONCE_BYTES
        if self.body.length:
            headers["Content-Type"] = requests.PAYLOAD_TYPE
            headers["Content-Length"] = str(self.body.length)
            headers[requests.FIELDS_HEADER] = self.fields.decode("ascii")
            data = self._blocks() if waits else b"".join(self.body.blocks())
        else:
            headers["Content-Type"] = requests.JSON_TYPE
            waits = False
        return self.lines.session().post(
            self.url,
            data=data,
            headers=headers,
            ssl=self.lines.context(),
            expect100=waits,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.connect_timeout),
        )

    async def _blocks(self) -> AsyncIterator[memoryview]:
        """Yield the payload; who makes it may have to wait for something."""
        self.is_spent = not self.body.may_be_read_again
        blocks, loop = self.body.blocks(), asyncio.get_running_loop()
        try:
            while True:
                late = self.is_spent
                block = await loop.run_in_executor(None, next, blocks, None) if late else None
                block = block if late else next(blocks, None)
                if block is None:
                    return
                yield block
        except Exception as error:
            self.failure = error
            raise

    async def _read(self, response: aiohttp.ClientResponse) -> Reply:
        length, kind = response.content_length, response.content_type
        if response.status != 200:
            raise await self._refusal(response)
        if length is None or kind not in (requests.JSON_TYPE, requests.PAYLOAD_TYPE):
            raise self._bad("one without a length, or of another type")
        if kind == requests.JSON_TYPE:
            if length > requests.MAX_FIELDS_BYTES:
                raise self._bad(f"fields of {length} bytes")
            text = await response.read()
            return Reply(jsonfile.loads(text, Code.BAD_REPLY), b"")
        if length > self.largest:
            raise self._bad(f"{length} bytes of payload, not at most {self.largest}")
        told = response.headers.get(requests.FIELDS_HEADER, "{}")
        fields = jsonfile.loads(told, Code.BAD_REPLY)
        return Reply(fields, await response.read())

    async def _refusal(self, response: aiohttp.ClientResponse) -> HedgerowError:
        length = response.content_length
        refused = response.status >= 400 and response.content_type == requests.JSON_TYPE
        if not refused or length is None or length > requests.MAX_ERROR_BYTES:
            raise self._bad(f"status {response.status} without an error")
        told = jsonfile.loads(await response.read(), Code.BAD_REPLY)
        error = requests.parse_error(told.get("error"), self.name)
        if error is None or set(told) != {"error"}:
            raise self._bad("an error without its parts")
        return error

    def _explain(self, error: Exception) -> HedgerowError:
        """Build what a failure of the connection means."""
        causes = [error]
        while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
            if not isinstance(cause, Exception) or cause in causes:
                break
            causes.append(cause)
        if isinstance(error, aiohttp.ServerFingerprintMismatch):
            return self._impostor(f"fingerprint {readable(error.got)}")
        for found in causes:
            if getattr(found, "verify_code", None) in TIME_ERRORS:
                message = getattr(found, "verify_message", "")
                return Code.CERTIFICATE_EXPIRED.error(found=f"that of {self.name}: {message}")
            if isinstance(found, LineTooLong):
                return Code.HEADER_TOO_LARGE.error(
                    expected=f"a reply of {self.name} within its bounds", found="a longer header"
                )
        if isinstance(error, ssl.SSLCertVerificationError):
            return self._impostor("another certificate")
        alert = self._alert(causes)
        if alert is not None:
            return alert
        unreachable = aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, UnicodeError
        if isinstance(error, unreachable):
            return self._unreachable(_words(causes))
        if isinstance(error, aiohttp.ClientResponseError):
            return self._bad("bytes that are no reply")
        late = isinstance(error, TimeoutError)
        return Code.REQUEST_CUT_OFF.error(
            expected=f"the reply of {self.name}",
            found="none in time" if late else _words(causes),
        )

    def _alert(self, causes: list[Exception]) -> HedgerowError | None:
        """Return what an alert of TLS says about the certificate of this party."""
        reasons = [str(getattr(error, "reason", "") or "") for error in causes]
        reason = next((text for text in reasons if "ALERT" in text), "")
        if "EXPIRED" in reason:
            return Code.CERTIFICATE_EXPIRED.error(
                found=f"the one of this party, which {self.name} refuses"
            )
        if "UNKNOWN_CA" in reason or "CERTIFICATE" in reason:
            return Code.CALLER_UNKNOWN.error(
                expected=f"a certificate that {self.name} lists as a member's",
                found="the one of this party, which it refuses",
            )
        return None

    def _impostor(self, found: str) -> HedgerowError:
        return Code.UNKNOWN_PEER.error(
            expected=f"{self.name} with fingerprint {readable(self.lines.prints[0])} "
            f"at {self.url.host}:{self.url.port}",
            found=found,
        )

    def _unreachable(self, found: str) -> HedgerowError:
        return Code.SERVICE_UNREACHABLE.error(
            expected=f"{self.name} at {self.url.host}:{self.url.port}", found=found
        )

    def _bad(self, found: str) -> HedgerowError:
        return Code.BAD_REPLY.error(expected=f"a reply of {self.name}", found=found)


_talk: ContextVar[_Talk] = ContextVar("talk")
"""The request that a task makes."""


def _words(causes: list[Exception]) -> str:
    """Return what the system says, rather than what a library makes of it."""
    for error in reversed(causes):
        if isinstance(error, OSError) and error.strerror:
            return str(error.strerror)
    return str(causes[-1]) or type(causes[-1]).__name__


async def ask_member(
    config: PartyConfig,
    member: Member,
    verb: str,
    fields: Fields | None = None,
    payload: Payload = None,
    *,
    identity: Identity | None = None,
    seconds: float | None = None,
) -> Reply:
    """Make a request to a member within this party's timeouts, or within fewer `seconds`.

    `identity`: to show another certificate of this party than the one in use.
    """
    timeouts = config.timeouts
    return await ask(
        (member.host, member.port),
        identity or config.identity,
        config.certificate(member.name),
        verb,
        fields,
        payload,
        name=member.name,
        timeout=timeouts.request if seconds is None else seconds,
        connect_timeout=timeouts.connect if seconds is None else min(timeouts.connect, seconds),
    )


call_member = _waiting(ask_member)


def call_members(
    config: PartyConfig,
    members: Sequence[Member],
    verb: str,
    fields: Fields,
    payload: bytes | None = None,
    *,
    seconds: float | None = None,
) -> dict[str, Reply | HedgerowError]:
    """Make one request to several members; return their replies, or why there is none, by name."""

    async def one(member: Member) -> Reply | HedgerowError:
        try:
            return await ask_member(config, member, verb, fields, payload, seconds=seconds)
        except HedgerowError as error:
            return error

    async def every() -> list[Reply | HedgerowError]:
        # At once: each of them may take the whole timeout.
        return await asyncio.gather(*map(one, members))

    replies = wait_for(every())
    return {member.name: reply for member, reply in zip(members, replies, strict=True)}


class MembersClient:
    """Members that take calls, as another one sees them: by default all of them.

    A coordinator, beside whom nobody takes calls, asks its own daemon.
    """

    def __init__(self, config: PartyConfig, members: Sequence[Member] | None = None) -> None:
        self._config = config
        every = [one for one in config.members if one.takes_calls] if members is None else members
        self.members = [one for one in every if one.takes_calls and one != config.me] or list(every)

    def _ask_all(
        self, verb: str, fields: Fields, members: Sequence[Member] | None = None
    ) -> dict[str, Reply | HedgerowError]:
        """Return the reply of every member, or why there is none, by its name."""
        asked = self.members if members is None else members
        return call_members(self._config, asked, verb, fields)


class ServerClient(MembersClient):
    """The three servers, as another member sees them; a server asks the other two."""

    def __init__(self, config: PartyConfig) -> None:
        config.check_servers()
        super().__init__(config, config.servers)
