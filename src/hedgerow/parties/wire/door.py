"""`Door`: the way into a service, from a connection that is accepted to one of a member.

A caller has no more than a socket here until it has said something, and then a place among the
strangers until it has shown a certificate. Who is refused is told why, as far as TLS has a word.
Everything here happens in the one thread of the service's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from hedgerow.errors import Code
from hedgerow.net.certificates import TIME_ERRORS
from hedgerow.parties.wire import requests
from hedgerow.parties.wire.gate import Gate, Throttle

DRAIN_SECONDS = 2.0
"""For which is thrown away what a caller that was refused goes on sending."""
_STRANGERS_PER_MINUTE = 60
_ACCEPTED_AT_ONCE = 16
_NO_DESCRIPTOR_SECONDS = 0.2
_ALERTS: ContextVar[list[bytes]] = ContextVar("alerts")
_logger = logging.getLogger(__name__)


class _Handshake(ssl.SSLObject):
    """Keeps the alert that tells a stranger why it is refused: the loop throws it away."""

    outgoing: ssl.MemoryBIO
    alerts: list[bytes]

    def do_handshake(self) -> None:
        """Go on with it."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self.alerts.append(self.outgoing.read())
            raise


class DoorContext(ssl.SSLContext):
    """Makes handshakes whose alerts are kept for who waits for their end."""

    sslobject_class = _Handshake

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any
    ) -> ssl.SSLObject:
        """Begin a handshake."""
        made = super().wrap_bio(incoming, outgoing, *args, **options)
        assert isinstance(made, _Handshake)
        made.outgoing, made.alerts = outgoing, _ALERTS.get()
        return made


class _Stranger:
    """A connection before the end of its handshake."""

    def __init__(self, raw: socket.socket, host: str, peer: str) -> None:
        self.raw, self.host, self.peer = raw, host, peer
        self.begun = time.monotonic()
        self.silence: asyncio.TimerHandle | None = None
        self.handshake: asyncio.Task[None] | None = None

    def cut(self) -> None:
        """End it at once."""
        if self.silence is not None:
            self.silence.cancel()
        if self.handshake is not None:
            self.handshake.cancel()
        else:
            asyncio.get_running_loop().remove_reader(self.raw)
            self.raw.close()


class Door:
    """Let callers in, from a listening socket.

    `context`: returns the settings of TLS for who comes now, a `DoorContext`.
    `make_line`: called for who has shaken hands.
    """

    def __init__(
        self,
        listener: socket.socket,
        gate: Gate,
        loop: asyncio.AbstractEventLoop,
        context: Callable[[], ssl.SSLContext],
        make_line: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listener, self._gate, self._loop = listener, gate, loop
        self._context, self._make_line = context, make_line
        self._throttle = Throttle(_STRANGERS_PER_MINUTE)

    def open(self) -> None:
        """Begin to accept callers."""
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept nobody any more."""
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                raw, (host, port, *_) = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptor is free: some will be when a connection ends.
                self._pause(_NO_DESCRIPTOR_SECONDS)
                return
            raw.setblocking(False)
            if not self._admit(_Stranger(raw, host, f"{host}:{port}")):
                return

    def _admit(self, stranger: _Stranger) -> bool:
        """Find a place for a stranger; return whether others may be accepted at once."""
        seconds = self._gate.admit(stranger, stranger.host)
        if math.isinf(seconds):
            stranger.raw.close()
            return True
        if seconds:
            self._pause(seconds, stranger)
            return False
        silence = min(self._gate.limits.silence, self._gate.limits.handshake)
        stranger.silence = self._loop.call_later(silence, self._stayed_silent, stranger)
        self._loop.add_reader(stranger.raw, self._spoke, stranger)
        return True

    def _pause(self, seconds: float, first: _Stranger | None = None) -> None:
        """Accept nobody for a while; then, before all others, one who is there already."""

        def go_on() -> None:
            stops = self._listener.fileno() < 0
            if not stops:
                self._loop.add_reader(self._listener, self._accept)
            if first is not None and stops:
                first.raw.close()
            elif first is not None:
                self._admit(first)

        self._loop.remove_reader(self._listener)
        self._loop.call_later(seconds, go_on)

    def _stayed_silent(self, stranger: _Stranger) -> None:
        self._gate.forget(stranger)
        stranger.cut()
        self._note_stranger(stranger, Code.REQUEST_TOO_SLOW, "no handshake in time")

    def _spoke(self, stranger: _Stranger) -> None:
        assert stranger.silence is not None
        stranger.silence.cancel()
        self._loop.remove_reader(stranger.raw)
        self._gate.spoke(stranger)
        stranger.handshake = self._loop.create_task(self._shake_hands(stranger))

    async def _shake_hands(self, stranger: _Stranger) -> None:
        """Make a member's connection of a stranger's; tell others why not, if TLS has a word."""
        alerts: list[bytes] = []
        _ALERTS.set(alerts)
        spare = stranger.raw
        try:
            spare = stranger.raw.dup()
            left = self._gate.limits.handshake - (time.monotonic() - stranger.begun)
            await self._loop.connect_accepted_socket(
                self._make_line,
                stranger.raw,
                ssl=self._context(),
                ssl_handshake_timeout=max(0.001, left),
                ssl_shutdown_timeout=DRAIN_SECONDS,
            )
        except ssl.SSLCertVerificationError as error:
            expired = error.verify_code in TIME_ERRORS
            code = Code.CERTIFICATE_EXPIRED if expired else Code.CALLER_UNKNOWN
            self._note_stranger(stranger, code, error.verify_message)
            await self._say(spare, alerts)
        except ssl.SSLError as error:
            self._note_stranger(stranger, *_no_handshake(error))
            await self._say(spare, alerts)
        except ConnectionAbortedError:
            self._note_stranger(stranger, Code.REQUEST_TOO_SLOW, "no handshake in time")
        except (OSError, ValueError) as error:
            self._note_stranger(stranger, *_no_handshake(error))
        finally:
            self._gate.forget(stranger)
            spare.close()

    async def _say(self, spare: socket.socket, alerts: list[bytes]) -> None:
        """Send alerts of TLS, and throw away for a while what still arrives.

        Closing a socket with unread bytes resets the connection, and the other side could lose the
        message that tells it why.
        """
        with contextlib.suppress(OSError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._loop.sock_sendall(spare, b"".join(alerts))
                spare.shutdown(socket.SHUT_WR)
                while await self._loop.sock_recv(spare, requests.BLOCK_BYTES):
                    pass

    def _note_stranger(self, stranger: _Stranger, code: Code, why: str) -> None:
        held = self._throttle.passes()
        if held is not None:
            event = {"caller": None, "address": stranger.peer, "outcome": code.number, "found": why}
            _logger.warning("stranger", extra={"event": event | ({"more": held} if held else {})})


def _no_handshake(error: Exception) -> tuple[Code, str]:
    return Code.BAD_REQUEST, f"no handshake: {type(error).__name__}"
