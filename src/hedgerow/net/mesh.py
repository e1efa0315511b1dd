"""`Mesh`: endpoints of one network in one process, for programs of different roles.

It is no mock: parties hold real shares and receive copies of what is sent, the meter counts what
the same programs would put on the wire, and what ends a session over TLS ends it here with the same
numbers.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.frames import (
    SESSION_BYTES,
    abort_header,
    bad_frame,
    has_left,
    late,
    long_mail,
    mail_digest,
    plan_digest,
    stopped,
    wire_bytes,
)
from hedgerow.net.network import Array, Network, Route

Pair = tuple[int, int]
# What one party sent to another: a number in order of sending, digest of step, arrays or mail.
Frame = tuple[int, bytes, Any]
_ECHOES = (Code.PEER_STOPPED, Code.PEER_GONE)


class Mesh:
    """What is on its way between n parties of this process; `at` gives them their networks."""

    def __init__(self, n: int, *, timeout: float = 60.0) -> None:
        self.n, self.timeout = n, timeout
        self.lock = threading.Lock()
        self.ways: dict[Pair, deque[Frame]] = {}
        self.ended: dict[int, int | None] = {}
        """Parties that have left, with the number of the error that made them, if there is one."""
        self.seats: dict[int, MeshNetwork] = {}
        self.turns: deque[MeshNetwork] | None = None
        """Endpoints for which something has changed, where one program runs at a time."""
        self._sent = 0

    def at(self, parties: Sequence[int]) -> MeshNetwork:
        """Return the network of one endpoint, with these parties local."""
        return MeshNetwork(self, parties)

    def send(self, pair: Pair, digest: bytes, content: Any) -> None:
        """Put a frame on its way."""
        with self.lock:
            self._sent += 1
            self.ways.setdefault(pair, deque()).append((self._sent, digest, content))
            if pair[1] in self.seats:
                self.seats[pair[1]].wake()

    def end(self, parties: Sequence[int], reason: int | None) -> None:
        """Note that parties have left, and wake whom that concerns: after an error, everybody."""
        with self.lock:
            self.ended |= dict.fromkeys(parties, reason)
            for seat in set(self.seats.values()):
                if reason is not None or seat.awaited.intersection(parties):
                    seat.wake()

    def pass_turn(self) -> bool:
        """Let the next endpoint go on that can; False if there is none."""
        while self.turns:
            seat = self.turns.popleft()
            if seat.can_go():
                seat.go.put(None)
                return True
        return False

    def run(self, programs: Mapping[Sequence[int], Callable[[Network], Any]]) -> list[Any]:
        """Run one program per endpoint, by its parties; return what they return, in order.

        The first runs in this thread, the others in threads of their own, one at a time and in an
        order that follows from what they send: while one works, the others wait. Where all of them
        wait for each other, H803. The error that came first is raised.
        """
        seats = [self.at(parties) for parties in programs]
        self.turns = deque(seats[1:])
        ends: list[Any] = [None] * len(seats)
        errors: list[BaseException] = []

        def attend(i: int, program: Callable[[Network], Any]) -> None:
            try:
                with seats[i] as network:
                    ends[i] = program(network)
            except BaseException as error:
                errors.append(error)
            if not self.pass_turn():
                # Whoever is left waits in vain, and says so.
                for seat in [one for one in seats if not one.is_closed][:1]:
                    seat.go.put(None)

        def attend_in_turn(i: int, program: Callable[[Network], Any]) -> None:
            seats[i].go.get()
            attend(i, program)

        first, *others = enumerate(programs.values())
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(attend_in_turn, *one), daemon=True
            )
            for one in others
        ]
        for thread in threads:
            thread.start()
        attend(*first)
        for thread in threads:
            thread.join()
        if errors:
            raise min(errors, key=_is_echo)
        return ends


def _is_echo(error: BaseException) -> bool:
    return isinstance(error, HedgerowError) and error.code in _ECHOES


class MeshNetwork(Network):
    """One endpoint of a `Mesh`; it may have several local parties."""

    def __init__(self, mesh: Mesh, parties: Sequence[int]) -> None:
        super().__init__(mesh.n, parties)
        self.mesh, self.timeout = mesh, mesh.timeout
        self.awaited: set[int] = set()
        """Parties that it waits for now."""
        self.go: SimpleQueue[None] = SimpleQueue()
        """Has something in it when it is this endpoint's turn."""
        self._changed = threading.Condition(mesh.lock)
        self._is_over: Callable[[], bool] | None = None
        mesh.seats |= dict.fromkeys(self.local, self)

    @property
    def is_closed(self) -> bool:
        """Whether its session has ended."""
        return self._closed

    def can_go(self) -> bool:
        """Whether its program has not begun, or what it waits for is there."""
        return not self._closed and (self._is_over is None or self._is_over())

    def wake(self) -> None:
        """Hear that something has changed; the mesh is locked."""
        if self.mesh.turns is None:
            self._changed.notify_all()
        else:
            self.mesh.turns.append(self)

    def _wait(self, is_over: Callable[[], bool], timeout: float) -> bool:
        """Return once something is over, or False if it takes too long, or for ever."""
        if self.mesh.turns is None:
            with self._changed:
                return self._changed.wait_for(is_over, timeout)
        self._is_over = is_over
        while not is_over():
            if not self.mesh.pass_turn():
                return False
            self.go.get()
        return True

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        loads: dict[Pair, list[int]] = {}
        for k, route in enumerate(plan):
            loads.setdefault((route.source, route.destination), []).append(k)
        payload, wire = dict.fromkeys(self.local, 0), dict.fromkeys(self.local, 0)
        inbox: dict[int, Array] = {}
        at_home = all(pair[0] in self._local and pair[1] in self._local for pair in loads)
        digest = b"" if at_home else plan_digest(step, plan, self.agreed)
        for (source, destination), keys in loads.items():
            if source not in self._local:
                continue
            sizes = [plan[k].nbytes for k in keys]
            payload[source] += sum(sizes)
            wire[source] += wire_bytes(sizes)
            # Order "C", as an array that was read from a socket has.
            copies = {k: np.array(outbox[k], dtype=plan[k].dtype, order="C") for k in keys}
            if destination in self._local:
                inbox |= copies
            else:
                self.mesh.send((source, destination), digest, copies)
        waited = 0.0
        for source, destination in loads:
            if destination in self._local and source not in self._local:
                _, copies, seconds = self._next(step, [(source, destination)], digest)
                inbox |= copies
                waited += seconds
        for party in self.local:
            self.meter.record(step, party, payload=payload[party], wire=wire[party], waiting=waited)
        return {k: inbox[k] for k in sorted(inbox)}

    def _post(self, step: str, source: int, destination: int, data: bytes) -> None:
        self.mesh.send((source, destination), mail_digest(step), data)
        self.meter.record(step, source, rounds=0, payload=len(data), wire=wire_bytes([len(data)]))

    def _receive(
        self, step: str, at: int, senders: tuple[int, ...], timeout: float | None
    ) -> tuple[int, bytes]:
        pairs = [(sender, at) for sender in senders]
        (sender, _), data, waited = self._next(step, pairs, mail_digest(step), timeout)
        if len(data) > self.most_mail:
            error = long_mail(sender, step, len(data), self.most_mail)
            self.abort(error)
            raise error
        self.meter.record(step, at, rounds=0, waiting=waited)
        return sender, data

    def _next(
        self, step: str, pairs: Sequence[Pair], digest: bytes, timeout: float | None = None
    ) -> tuple[Pair, Any, float]:
        """Return the earliest frame between any of these pairs, and the seconds until it came."""
        begun = time.monotonic()
        try:
            pair = self._await(step, pairs, self.timeout if timeout is None else timeout)
            _, found, content = self.mesh.ways[pair].popleft()
            if found != digest:
                raise bad_frame(pair[0], step, f"another step or plan, of digest {found.hex()}")
        except BaseException as error:
            self.abort(error)
            raise
        return pair, content, time.monotonic() - begun

    def _await(self, step: str, pairs: Sequence[Pair], timeout: float) -> Pair:
        ways, ended = self.mesh.ways, self.mesh.ended

        def is_over() -> bool:
            # Who is local cannot post while this waits.
            gone = all(pair[0] in ended or pair[0] in self._local for pair in pairs)
            return gone or any(map(ways.get, pairs)) or any(map(_failed, ended.values()))

        self.awaited = {pair[0] for pair in pairs}
        try:
            in_time = self._wait(is_over, timeout)
        finally:
            self.awaited = set()
        there = [pair for pair in pairs if ways.get(pair)]
        if there:
            return min(there, key=lambda pair: ways[pair][0][0])
        for party, reason in list(ended.items()):
            if reason is not None:
                raise stopped(abort_header(party, bytes(SESSION_BYTES), 0, reason), party, step)
        senders = [pair[0] for pair in pairs]
        if in_time and all(sender in ended for sender in senders):
            raise has_left(senders[0], step)
        raise late(step, "receive from " + " or ".join(f"party {p}" for p in senders), timeout)

    def close(self) -> None:
        """End the session in good order; a second call does nothing."""
        self._end(None)

    def abort(self, error: BaseException) -> None:
        """End the session because of an error, and tell the others that it has ended."""
        self._end(error.code.value if isinstance(error, HedgerowError) else 0)

    def _end(self, reason: int | None) -> None:
        if self._closed:
            return
        super().close()
        self.mesh.end(self.local, reason)


def _failed(reason: int | None) -> bool:
    return reason is not None
