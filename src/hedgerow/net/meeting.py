"""How parties meet: a full mesh of TLS connections, each greeted by both sides.

Every party listens for larger numbers and calls smaller ones. One without an address calls
everybody who has one and is never called; between two of these there is no connection. Certificates
decide who is at the other end; a stranger is turned away. Both sides then compare protocol version,
session, and a digest of program and parties: nobody can be talked into a different program.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hedgerow.errors import Code, HedgerowError
from hedgerow.net import frames
from hedgerow.net.certificates import Identity, fingerprint, fingerprints, readable, tls_context
from hedgerow.net.channel import Channel
from hedgerow.net.frames import FrameKind
from hedgerow.net.loop import READ, WRITE, Conversation, Loop, Want
from hedgerow.net.stream import Stream

STEP = "meeting"
_RETRY_SECONDS = 0.05
_STRANGER_SECONDS = 10.0
_MAX_STRANGERS = 64


@dataclass(frozen=True)
class Endpoint:
    """A party as the others know it: where it listens, if it does, and its PEM certificates.

    Of several, the newest comes first.
    """

    host: str | None
    port: int
    certificate: str


def are_linked(one: Endpoint, other: Endpoint) -> bool:
    """Whether two parties can have a connection: one of them has an address."""
    return one.host is not None or other.host is not None


class Listener(Protocol):
    """Where calls come in: a listening socket that does not block, or a `port.Doorway`."""

    def accept(self) -> tuple[socket.socket, object]:
        """Return a connection; `BlockingIOError` if there is none, a number if none will come."""

    def fileno(self) -> int:
        """Return a descriptor that can be read when there is one."""

    def close(self) -> None:
        """Take no more calls."""


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket on one address; port 0 takes a free one."""
    try:
        listener = socket.create_server((host, port), family=_family(host), backlog=_MAX_STRANGERS)
    except OSError as error:
        raise Code.CANNOT_LISTEN.error(found=f"{host}:{port}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class Meeting:
    """The state of one party's meeting; use `meet`."""

    def __init__(
        self,
        me: int,
        roster: Sequence[Endpoint],
        identity: Identity,
        session: bytes,
        program: bytes,
    ) -> None:
        self.me, self.roster, self.session = me, roster, session
        self.prints = [fingerprints(member.certificate) for member in roster]
        if len({print_ for prints in self.prints for print_ in prints}) < sum(
            map(len, self.prints)
        ):
            # One key in two seats would hold the shares of both.
            raise Code.BAD_PARAMETER.error(
                expected="a certificate of its own for every party",
                found="one certificate for two parties in the list",
                fix="have every party make its own key",
            )
        if fingerprint(identity.pem) not in self.prints[me]:
            raise Code.BAD_KEY_FILE.error(
                expected=f"the certificate that the list of parties gives for party {me}",
                found=f"another one at {identity.certificate}",
            )
        pems = [member.certificate for member in roster]
        self.server = tls_context(identity, pems, server=True)
        self.client = tls_context(identity, pems, server=False)
        agreed = hashlib.blake2b(digest_size=frames.DIGEST_BYTES, person=b"hedgerow/hello/1")
        # The first that a party ever had: not all may know a new one that it has vouched for.
        for part in (program, *(prints[-1] for prints in self.prints)):
            agreed.update(len(part).to_bytes(8, "big"))
            agreed.update(part)
        self.digest = agreed.digest()
        self.channels: dict[int, Channel] = {}
        self.greeted: set[int] = set()
        self.loop = Loop()
        self.strangers: set[Stream] = set()
        self.turned_away = 0

    def missing(self) -> list[int]:
        """Parties that have not said hello."""
        return [p for p in (*self.called(), *self.callers()) if p not in self.greeted]

    def called(self) -> list[int]:
        """Parties that this one calls."""
        there = range(len(self.roster) if self.roster[self.me].host is None else self.me)
        return [p for p in there if p != self.me and self.roster[p].host is not None]

    def callers(self) -> list[int]:
        """Parties that call this one."""
        if self.roster[self.me].host is None:
            return []
        later = range(len(self.roster))
        return [p for p in later if p != self.me and (p > self.me or self.roster[p].host is None)]

    def accept(self, listener: Listener) -> Conversation:
        """Take calls, one conversation each."""
        while True:
            try:
                raw, _ = listener.accept()
            except BlockingIOError:
                yield Want(listener.fileno(), READ)
                continue
            except HedgerowError:
                # No call will come.
                raise
            except OSError:
                # The caller hung up before it was answered, or descriptors are short for now.
                yield Want(until=time.monotonic() + _RETRY_SECONDS)
                continue
            if len(self.strangers) >= _MAX_STRANGERS:
                raw.close()
                self.turned_away += 1
                continue
            self.loop.start(self.answer(raw))

    def answer(self, raw: socket.socket) -> Conversation:
        """Find out who is calling; a stranger is turned away."""
        try:
            stream = Stream(raw, self.server, server=True)
        except OSError:
            # The caller has hung up; some systems refuse options of such a socket.
            self.turned_away += 1
            raw.close()
            return
        self.strangers.add(stream)
        until = time.monotonic() + _STRANGER_SECONDS
        try:
            # Which session it names is for a `RunPort` to read; the greeting tells for certain.
            yield from _read_preamble(raw, until)
            yield from _handshake(stream, until)
            peer = self._who(stream)
            if peer not in self.callers() or peer in self.channels:
                raise OSError("not expected to call")
        except OSError:
            self.turned_away += 1
            stream.close()
            return
        finally:
            self.strangers.discard(stream)
        yield from self.greet(peer, stream)

    def call(self, peer: int) -> Conversation:
        """Call a party until it answers."""
        member = self.roster[peer]
        assert member.host is not None
        while True:
            raw = socket.socket(_family(member.host), socket.SOCK_STREAM)
            raw.setblocking(False)
            try:
                raw.connect((member.host, member.port))
            except BlockingIOError:
                yield Want(raw.fileno(), WRITE)
            except OSError as error:
                raw.close()
                raise Code.PEER_GONE.error(
                    expected=f"party {peer} at {member.host}:{member.port} in step {STEP!r}",
                    found=str(error.strerror or error),
                ) from None
            if raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                first = frames.preamble(self.session)
                stream = Stream(raw, self.client, server=False, first=first)
                try:
                    yield from _handshake(stream, float("inf"))
                    break
                except ssl.SSLCertVerificationError:
                    stream.close()
                    raise self._impostor(peer, "a certificate that no party has") from None
                except OSError:
                    stream.close()
            else:
                raw.close()
            # It may not have started yet.
            yield Want(until=time.monotonic() + _RETRY_SECONDS)
        found = fingerprint(stream.certificate())
        if found not in self.prints[peer]:
            stream.close()
            raise self._impostor(peer, f"fingerprint {readable(found)}")
        yield from self.greet(peer, stream)

    def greet(self, peer: int, stream: Stream) -> Conversation:
        """Say hello and compare the peer's, then look out for its end."""
        channel = self.channels[peer] = Channel(stream, self.me, peer, self.session)
        yield from channel.send(STEP, [channel.outgoing(FrameKind.HELLO, self.digest, 0)])
        expected = channel.incoming(FrameKind.HELLO, self.digest, 0)
        yield from channel.receive_header(STEP, expected)
        self.greeted.add(peer)
        yield from channel.watch(STEP)

    def _who(self, stream: Stream) -> int:
        found = fingerprint(stream.certificate())
        for peer, prints in enumerate(self.prints):
            if found in prints:
                return peer
        raise OSError("a stranger")

    def _impostor(self, peer: int, found: str) -> HedgerowError:
        member = self.roster[peer]
        return Code.UNKNOWN_PEER.error(
            expected=f"party {peer} with fingerprint {readable(self.prints[peer][0])} "
            f"at {member.host}:{member.port} in step {STEP!r}",
            found=found,
        )


def _read_preamble(raw: socket.socket, until: float) -> Conversation:
    """Read what a caller says first; `OSError` if it says anything else, or nothing."""
    data = b""
    while len(data) < frames.PREAMBLE_BYTES:
        try:
            more = raw.recv(frames.PREAMBLE_BYTES - len(data))
        except BlockingIOError:
            yield Want(raw.fileno(), READ, until)
            if time.monotonic() >= until:
                raise OSError("silent for too long") from None
            continue
        if not more:
            raise OSError("hung up")
        data += more
    if frames.session_of(data) is None:
        raise OSError("no call of a party")


def _handshake(stream: Stream, until: float) -> Conversation:
    """Shake hands; `OSError` if it fails or takes too long."""
    while True:
        try:
            stream.handshake()
            return
        except ssl.SSLWantReadError:
            yield Want(stream.fileno(), READ, until)
        except ssl.SSLWantWriteError:
            yield Want(stream.fileno(), WRITE, until)
        if time.monotonic() >= until:
            raise OSError("handshake took too long")


def meet(
    me: int,
    roster: Sequence[Endpoint],
    identity: Identity,
    *,
    session: bytes,
    program: bytes,
    deadline: float,
    listener: Listener | None = None,
) -> dict[int, Channel]:
    """Connect to all other parties.

    Roster, session (never used before) and program, the hash of a program or job, are the same at
    all parties. The deadline is on the clock of `time.monotonic`. The listener, by default one on
    the address of the roster, if there is one, is closed at the end.
    """
    meeting = Meeting(me, roster, identity, session, program)
    here = roster[me]
    if here.host is not None:
        listener = listener or listen(here.host, here.port)
    try:
        if listener is not None:
            meeting.loop.start(meeting.accept(listener))
        for peer in meeting.called():
            meeting.loop.start(meeting.call(peer))
        if not meeting.loop.run(lambda: not meeting.missing(), deadline):
            peers = ", ".join(f"party {peer}" for peer in sorted(meeting.missing()))
            away = meeting.turned_away
            raise Code.PEER_TIMEOUT.error(
                expected=f"{peers} in step {STEP!r}",
                found="no greeting" + (f", and {away} calls by strangers" if away else ""),
            )
    except BaseException as error:
        reason = error.code.value if isinstance(error, HedgerowError) else 0
        for channel in meeting.channels.values():
            channel.abort(reason)
            channel.close()
        raise
    finally:
        if listener is not None:
            listener.close()
        for stream in list(meeting.strangers):
            stream.close()
    return meeting.channels
