"""`RunPort`: one port for all sessions of a party, whichever process takes part in them.

Whoever calls says first which session it comes to (`frames.preamble`). The port looks at that,
without reading it, and hands the connection on to whoever expects the session, through a socket for
file descriptors: to another thread, or to a process that was given the end of that socket. All else
(TLS, certificates, greetings) is between the two who meet.

A call to a session that nobody expects, or nobody expects yet, is hung up on: callers come again
until their meeting is over. Who says nothing has a few seconds; of too many such callers, from one
address or in all, the one that came first has to go.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from dataclasses import dataclass
from typing import Self

from hedgerow.errors import Code
from hedgerow.net.frames import PREAMBLE_BYTES, PREAMBLE_MAGIC, session_of
from hedgerow.net.meeting import listen

SILENT_SECONDS = 5.0
MOST_SILENT, MOST_SILENT_EACH = 256, 16
_QUEUE_BYTES = 1 << 14
"""Of a doorway, by which the system bounds the calls that wait in it to a few dozen."""
_PAUSE_SECONDS = 0.05


class Doorway:
    """Where the calls of one session come in; they do so as long as some process holds it open."""

    def __init__(self, pipe: socket.socket) -> None:
        pipe.setblocking(False)
        self._pipe = pipe

    def accept(self) -> tuple[socket.socket, object]:
        """Return a connection; `BlockingIOError` if there is none.

        `OSError` for one that was lost on the way, H802 if the port was closed.
        """
        data, descriptors, _, _ = socket.recv_fds(self._pipe, 1, 1)
        if not data:
            raise Code.NETWORK_CLOSED.error(found="a port that was closed")
        if not descriptors:
            raise OSError("no descriptor is free")
        raw = socket.socket(fileno=descriptors[0])
        raw.set_inheritable(False)
        return raw, None

    def fileno(self) -> int:
        """Return its descriptor; another process may be given it."""
        return self._pipe.fileno()

    def close(self) -> None:
        """Let go of it here; the last who does so takes no more calls."""
        self._pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, eq=False)
class _SilentCaller:
    raw: socket.socket
    host: str
    until: float


class RunPort:
    """One port, from now until `close`; port 0 takes a free one. H811 if it is taken."""

    def __init__(self, host: str, port: int) -> None:
        self._listener = listen(host, port)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        # Both are changed by the thread of the port alone, but for what `expect` adds.
        self._expected: dict[bytes, socket.socket] = {}
        self._silent: dict[int, _SilentCaller] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._waking, self._wake = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._waking, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="run port", daemon=True)
        self._thread.start()

    def expect(self, session: bytes) -> Doorway:
        """Take the calls of a session as long as its doorway is open, here or in another process.

        Raises H802 if the port is closed, H808 if the session is expected already.
        """
        here, there = socket.socketpair()
        here.setblocking(False)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _QUEUE_BYTES)
        doorway = Doorway(there)
        with self._lock:
            if not self._closed and session not in self._expected:
                self._expected[session] = here
                self._selector.register(here, selectors.EVENT_READ, session)
                return doorway
        here.close()
        doorway.close()
        if self._closed:
            raise Code.NETWORK_CLOSED.error(found="a port that was closed")
        raise Code.SESSION_MISMATCH.error(
            expected="a session that nobody else expects", found="one that has a doorway"
        )

    def close(self) -> None:
        """Take no more calls, also for doorways that are open; who has met goes on."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake.send(b".")
        self._thread.join()
        self._selector.close()
        ends = [self._listener, self._waking, self._wake, *self._expected.values()]
        for end in (*ends, *(caller.raw for caller in self._silent.values())):
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The thread of the port.

    def _run(self) -> None:
        while not self._closed:
            oldest = next(iter(self._silent.values()), None)
            wait = None if oldest is None else max(0.0, oldest.until - time.monotonic())
            for key, _ in self._selector.select(wait):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, bytes):
                    self._forget(key.data)
                # One that had to go just now is left alone, and so is who has its descriptor.
                elif (caller := self._silent.get(key.fd)) is not None and caller is key.data:
                    self._look(caller, woken=True)
            now = time.monotonic()
            for caller in [one for one in self._silent.values() if one.until <= now]:
                self._hang_up(caller)

    def _accept(self) -> None:
        try:
            raw, (host, *_) = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            # No descriptor is free: the first that is silent gives one back, or one is waited for.
            if self._silent:
                self._hang_up(next(iter(self._silent.values())))
            else:
                time.sleep(_PAUSE_SECONDS)
            return
        try:
            raw.setblocking(False)
            # Woken by a whole preamble: looking at a part of it does not take that away.
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, PREAMBLE_BYTES)
        except OSError:
            # It has hung up; some systems refuse options of such a socket.
            raw.close()
            return
        caller = _SilentCaller(raw, host, time.monotonic() + SILENT_SECONDS)
        self._silent[raw.fileno()] = caller
        self._selector.register(raw, selectors.EVENT_READ, caller)
        self._look(caller, woken=False)
        alike = [one for one in self._silent.values() if one.host == host]
        if len(alike) > MOST_SILENT_EACH:
            self._hang_up(alike[0])
        elif len(self._silent) > MOST_SILENT:
            self._hang_up(next(iter(self._silent.values())))

    def _look(self, caller: _SilentCaller, *, woken: bool) -> None:
        """Hand a caller on once it has said where it wants to go; `woken`: it says no more."""
        try:
            data = caller.raw.recv(PREAMBLE_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        session = session_of(data)
        if session is not None:
            self._hand_on(caller, session)
        elif data and not woken and PREAMBLE_MAGIC.startswith(data[: len(PREAMBLE_MAGIC)]):
            return
        self._hang_up(caller)

    def _hand_on(self, caller: _SilentCaller, session: bytes) -> None:
        with self._lock:
            pipe = self._expected.get(session)
        # A doorway that is full, or just closed: the caller comes again.
        if pipe is not None:
            with contextlib.suppress(OSError):
                caller.raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
                socket.send_fds(pipe, [b"."], [caller.raw.fileno()])

    def _hang_up(self, caller: _SilentCaller) -> None:
        """Forget a caller; who was handed on lives in another descriptor."""
        self._selector.unregister(caller.raw)
        del self._silent[caller.raw.fileno()]
        caller.raw.close()

    def _forget(self, session: bytes) -> None:
        """Nobody holds the doorway of a session open any more."""
        with self._lock:
            pipe = self._expected.pop(session)
            self._selector.unregister(pipe)
        pipe.close()
