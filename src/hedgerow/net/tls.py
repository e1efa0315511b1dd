"""`TLSNetwork`: one party per process, mutual TLS 1.3 between them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity
from hedgerow.net.channel import Channel, Piece
from hedgerow.net.frames import (
    RECORD_BYTES,
    SESSION_BYTES,
    FrameKind,
    bad_frame,
    has_left,
    late,
    mail_digest,
    plan_digest,
    wire_bytes,
)
from hedgerow.net.loop import Conversation, Loop
from hedgerow.net.meeting import Endpoint, Listener, are_linked, meet
from hedgerow.net.network import Array, Network, Route

# A step may take the timeout and the time its bytes need at this rate: no message is too large
# for the timeout, and a peer that sends drop by drop does not hold the others for ever.
MIN_BYTES_PER_SECOND = 1 << 20
_DRAIN_SECONDS = 1.0


class TLSNetwork(Network):
    """A network with one local party; making one meets all others.

    Roster, session (never used before) and program, the hash of a program or job, are the same at
    all parties. A step may take `timeout` seconds, besides the time that its bytes need at 1 MiB/s;
    by default so may the meeting. Whatever goes wrong is a NetworkError with the peer and the step.
    The session is over then, for all.
    """

    def __init__(
        self,
        party: int,
        roster: Sequence[Endpoint],
        identity: Identity,
        *,
        session: bytes,
        program: bytes,
        timeout: float = 60.0,
        meeting_timeout: float | None = None,
        listener: Listener | None = None,
    ) -> None:
        super().__init__(len(roster), [party])
        if len(session) != SESSION_BYTES:
            raise Code.SESSION_MISMATCH.error(
                expected=f"a session of {SESSION_BYTES} bytes", found=f"{len(session)} bytes"
            )
        self.party, self.timeout = party, timeout
        self._roster = tuple(roster)
        self._channels: dict[int, Channel] = meet(
            party,
            roster,
            identity,
            session=session,
            program=program,
            deadline=time.monotonic() + (timeout if meeting_timeout is None else meeting_timeout),
            listener=listener,
        )
        self.meter.begin()

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        outs: dict[int, list[int]] = {}
        ins: dict[int, list[int]] = {}
        total = 0
        for k, route in enumerate(plan):
            total += route.nbytes
            if route.source == self.party:
                outs.setdefault(route.destination, []).append(k)
            elif route.destination == self.party:
                ins.setdefault(route.source, []).append(k)
        inbox: dict[int, Array] = {}
        try:
            deadline = self._deadline(self.timeout, total)
            waited = self._converse(step, plan, outs, ins, outbox, inbox, deadline)
        except BaseException as error:
            self.abort(error)
            raise
        sizes = [[plan[k].nbytes for k in keys] for keys in outs.values()]
        self.meter.record(
            step,
            self.party,
            payload=sum(map(sum, sizes)),
            wire=sum(map(wire_bytes, sizes)),
            waiting=waited,
        )
        return dict(sorted(inbox.items()))

    def _converse(
        self,
        step: str,
        plan: Sequence[Route],
        outs: Mapping[int, list[int]],
        ins: Mapping[int, list[int]],
        outbox: Mapping[int, Array],
        inbox: dict[int, Array],
        deadline: float,
    ) -> float:
        """Talk with all peers at once and fill `inbox`; return the seconds spent waiting."""
        digest = plan_digest(step, plan, self.agreed)
        open_: dict[tuple[str, int], None] = {}
        loop = Loop()
        for peer, keys in outs.items():
            views = [_bytes_of(_little(np.ascontiguousarray(outbox[k]))) for k in keys]
            pieces = self._frame(step, peer, FrameKind.DATA, digest, views)
            sending = self._channels[peer].send(step, pieces)
            loop.start(_until_done(open_, ("send to", peer), sending))
        # Peers from which something is due come first: of several that have failed, the error
        # names one of these, and not one that only echoes it.
        for peer, channel in sorted(self._channels.items(), key=lambda one: one[0] not in ins):
            if peer in ins:
                routes = {k: plan[k] for k in ins[peer]}
                receiving = _receive(channel, step, digest, routes, inbox)
                name = ("receive from", peer)
                loop.start(_until_done(open_, name, receiving, channel.watch(step)))
            else:
                loop.start(self._look_out(step, peer))
        if not loop.run(lambda: not open_, deadline):
            waiting = ", ".join(f"{what} party {peer}" for what, peer in open_)
            raise late(step, waiting, self.timeout)
        return loop.waited

    def _post(self, step: str, source: int, destination: int, data: bytes) -> None:
        try:
            waited = self._send_mail(step, destination, data)
        except BaseException as error:
            self.abort(error)
            raise
        self.meter.record(
            step, source, rounds=0, payload=len(data), wire=wire_bytes([len(data)]), waiting=waited
        )

    def _send_mail(self, step: str, peer: int, data: bytes) -> float:
        """Hand mail to the socket; other mail is read meanwhile, so that two can post at once."""
        open_: dict[tuple[str, int], None] = {}
        loop = Loop()
        pieces = self._frame(step, peer, FrameKind.MAIL, mail_digest(step), [memoryview(data)])
        loop.start(_until_done(open_, ("send to", peer), self._channels[peer].send(step, pieces)))
        for other in self._channels:
            loop.start(self._look_out(step, other))
        if not loop.run(lambda: not open_, self._deadline(self.timeout, len(data))):
            raise late(step, f"send to party {peer}", self.timeout)
        return loop.waited

    def _receive(
        self, step: str, at: int, senders: tuple[int, ...], timeout: float | None
    ) -> tuple[int, bytes]:
        try:
            found, waited = self._await_mail(
                step, senders, self.timeout if timeout is None else timeout
            )
            mail = self._channels[found].inbox.popleft()
            if mail.digest != mail_digest(step):
                raise bad_frame(found, step, f"mail of a step of digest {mail.digest.hex()}")
        except BaseException as error:
            self.abort(error)
            raise
        self.meter.record(step, at, rounds=0, waiting=waited)
        return found, mail.data

    def _await_mail(self, step: str, senders: tuple[int, ...], timeout: float) -> tuple[int, float]:
        """Return of whom the earliest mail is, and the seconds until it was there."""
        channels = [self._channels[peer] for peer in senders]
        loop = Loop()
        # Senders come first: of several that have failed, the error names one of these.
        for peer in sorted(self._channels, key=lambda one: one not in senders):
            loop.start(self._look_out(step, peer))

        def is_over() -> bool:
            return any(c.inbox for c in channels) or all(c.left for c in channels)

        begun = time.monotonic()
        deadline = begun + timeout
        while not loop.run(is_over, deadline):
            # Mail that is being read has the time that its bytes need.
            later = begun + timeout + max(c.awaited for c in channels) / MIN_BYTES_PER_SECOND
            if later <= deadline:
                peers = " or ".join(f"party {peer}" for peer in senders)
                raise late(step, f"receive from {peers}", timeout)
            deadline = later
        there = [channel for channel in channels if channel.inbox]
        if not there:
            raise has_left(senders[0], step)
        return min(there, key=lambda channel: channel.inbox[0].moment).peer, loop.waited

    def _look_out(self, step: str, peer: int) -> Conversation:
        """Notice how a peer ends while others are waited for, and read its mail, if it has any."""
        channel = self._channels[peer]
        if (self.party, peer) in self._by_mail:
            return channel.collect(step, self.most_mail)
        return channel.watch(step)

    def _are_linked(self, one: int, other: int) -> bool:
        return are_linked(self._roster[one], self._roster[other])

    def _deadline(self, timeout: float, nbytes: int) -> float:
        return time.monotonic() + timeout + nbytes / MIN_BYTES_PER_SECOND

    def _frame(
        self, step: str, peer: int, kind: FrameKind, digest: bytes, views: Sequence[memoryview]
    ) -> Iterable[Piece]:
        """Make the pieces to write for one frame; large arrays are sent from where they lie."""
        length = sum(view.nbytes for view in views)
        header = self._channels[peer].outgoing(kind, digest, length)
        if len(header) + length <= RECORD_BYTES:
            return [b"".join([header, *views])]
        return [header, *views]

    def abort(self, error: BaseException) -> None:
        """End the session because of an error, and tell all peers that it has ended."""
        if self._closed:
            return
        super().close()
        reason = error.code.value if isinstance(error, HedgerowError) else 0
        loop = Loop()
        for channel in self._channels.values():
            channel.abort(reason)
            loop.start(channel.drain())
        loop.run(lambda: loop.idle, time.monotonic() + min(_DRAIN_SECONDS, self.timeout))
        self._hang_up()

    def close(self) -> None:
        """End the session in good order; a second call does nothing."""
        if self._closed:
            return
        super().close()
        loop = Loop()
        for channel in self._channels.values():
            loop.start(channel.goodbye())
        # A slow peer may still have to read what fills the buffers before.
        loop.run(lambda: loop.idle, time.monotonic() + self.timeout)
        self._hang_up()

    def _hang_up(self) -> None:
        for channel in self._channels.values():
            channel.close()


def _until_done(
    open_: dict[tuple[str, int], None],
    name: tuple[str, int],
    needed: Conversation,
    after: Conversation | None = None,
) -> Conversation:
    """Keep a name in `open_` while what is needed goes on; what comes after is not waited for."""
    open_[name] = None
    yield from needed
    del open_[name]
    if after is not None:
        yield from after


def _receive(
    channel: Channel, step: str, digest: bytes, routes: Mapping[int, Route], inbox: dict[int, Array]
) -> Conversation:
    """Receive one frame into new arrays; memory is taken once its header has passed."""
    length = sum(route.nbytes for route in routes.values())
    yield from channel.receive_header(step, channel.incoming(FrameKind.DATA, digest, length))
    for k, route in routes.items():
        array = np.empty(route.shape, dtype=np.dtype(route.dtype).newbyteorder("<"))
        yield from channel.receive(step, _bytes_of(array))
        inbox[k] = array.astype(route.dtype, copy=False)


def _little(array: Array) -> Array:
    """Return an array in the byte order of the wire; no copy where it is the machine's."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
