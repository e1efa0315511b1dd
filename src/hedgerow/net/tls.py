"""`TLSNetwork`: one party per process, mutual TLS 1.3 between them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

import numpy as np

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity
from hedgerow.net.channel import Channel, Piece
from hedgerow.net.frames import RECORD_BYTES, SESSION_BYTES, FrameKind, plan_digest, wire_bytes
from hedgerow.net.loop import Conversation, Loop
from hedgerow.net.meeting import Endpoint, meet
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
        listener: socket.socket | None = None,
    ) -> None:
        super().__init__(len(roster), [party])
        if len(session) != SESSION_BYTES:
            raise Code.SESSION_MISMATCH.error(
                expected=f"a session of {SESSION_BYTES} bytes", found=f"{len(session)} bytes"
            )
        self.party, self.timeout = party, timeout
        self._channels: dict[int, Channel] = meet(
            party,
            roster,
            identity,
            session=session,
            program=program,
            deadline=time.monotonic() + (timeout if meeting_timeout is None else meeting_timeout),
            listener=listener,
        )

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
            deadline = time.monotonic() + self.timeout + total / MIN_BYTES_PER_SECOND
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
            pieces = self._frame(step, peer, digest, [outbox[k] for k in keys])
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
                loop.start(channel.watch(step))
        if not loop.run(lambda: not open_, deadline):
            waiting = ", ".join(f"{what} party {peer}" for what, peer in open_)
            raise Code.PEER_TIMEOUT.error(
                expected=f"to {waiting} in step {step!r}", found=f"no end after {self.timeout:g} s"
            )
        return loop.waited

    def _frame(
        self, step: str, peer: int, digest: bytes, arrays: Sequence[Array]
    ) -> Iterable[Piece]:
        """Make the pieces to write for one frame; large arrays are sent from where they lie."""
        views = [_bytes_of(_little(np.ascontiguousarray(array))) for array in arrays]
        length = sum(view.nbytes for view in views)
        header = self._channels[peer].outgoing(FrameKind.DATA, digest, length)
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(error)


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
