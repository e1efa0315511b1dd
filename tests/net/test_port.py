"""One port for all sessions: calls find who expects them, in whichever process, and no others."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net import port as port_module
from hedgerow.net.frames import PREAMBLE_BYTES, preamble
from hedgerow.net.meeting import Endpoint
from hedgerow.net.port import MOST_SILENT, MOST_SILENT_EACH, Doorway, RunPort
from tests.net import net_noise
from tests.net.net_parties import Club, all_plans

ONE, OTHER = b"1" * 16, b"2" * 16
PATIENCE = 30.0


class Watched(RunPort):
    """A port that counts calls that have named a session."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.named = 0
        super().__init__(host, port)

    def _hand_on(self, caller, session: bytes) -> None:
        super()._hand_on(caller, session)
        self.named += 1


@pytest.fixture
def port() -> Iterator[Watched]:
    with Watched() as made:
        yield made


def call(port: RunPort, said: bytes = b"", *, source: str = "127.0.0.1") -> socket.socket:
    caller = socket.create_connection(port.address, PATIENCE, source_address=(source, 0))
    caller.sendall(said)
    return caller


def is_hung_up_on(caller: socket.socket) -> bool:
    """Wait for the end of a call; a reset is one."""
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True


def taken(doorway: Doorway) -> socket.socket:
    """Wait for a call."""
    until(lambda: can_read(doorway))
    raw, _ = doorway.accept()
    raw.settimeout(PATIENCE)
    return raw


def can_read(doorway: Doorway) -> bool:
    pipe = socket.socket(fileno=os.dup(doorway.fileno()))
    with pipe:
        try:
            return bool(pipe.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def sockets() -> set[str]:
    """List this process's sockets by inode: one that an earlier test left may close meanwhile."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {link for link in found if link.startswith("socket:")}


class PortClub(Club):
    """Parties that have a port each, for as many sessions as they like."""

    def open(self, dial_out=()) -> None:
        assert not dial_out
        self.ports = [Watched() for _ in self.identities]
        self.roster = [
            Endpoint(*port.address, identity.pem)
            for port, identity in zip(self.ports, self.identities, strict=True)
        ]

    def join(self, party: int, **changes):
        session = changes.get("session", self.session)
        with self.ports[party].expect(session) as doorway:
            return super().join(party, **{"listener": doorway} | changes)

    @property
    def listeners(self) -> list[None]:
        return [None] * len(self.roster)

    def close(self) -> None:
        for port in self.ports:
            port.close()


@pytest.fixture
def club(tmp_path: Path) -> Iterator[PortClub]:
    made = PortClub(tmp_path)
    yield made
    made.close()


def test_sessions_at_the_same_time_meet_at_one_port(club: PortClub) -> None:
    """Each has a step in which it waits for all the others, so that none can take turns."""
    sessions = [bytes([k]) * 16 for k in range(4)]
    together = threading.Barrier(3 * len(sessions))

    def program(network) -> bytes:
        together.wait(PATIENCE)
        all_plans(network)
        return network._channels[(network.party + 1) % 3].session

    before = sockets()
    with ThreadPoolExecutor(len(sessions)) as pool:
        ends = list(pool.map(lambda session: club.run(program, session=session), sessions))
    assert ends == [[session] * 3 for session in sessions]
    # Nothing is left of sessions that are over.
    until(lambda: not any(port._expected for port in club.ports))
    until(lambda: sockets() <= before)


def test_callers_come_again_until_the_session_is_expected(club: PortClub) -> None:
    first, join = club.ports[0], club.join

    def join_late(party: int, **changes):
        if party == 0:
            # Both others were hung up on, one of them more than once.
            until(lambda: first.named >= 3)
        return join(party, **changes)

    club.join = join_late  # type: ignore[method-assign]
    assert club.run(lambda network: all_plans(network) or "done") == ["done"] * 3


def test_another_process_takes_the_calls_and_the_port_forgets_it_at_its_end(
    port: Watched,
) -> None:
    before = sockets()
    program = """if True:
        import socket, sys, select
        from hedgerow.net.port import Doorway
        doorway = Doorway(socket.socket(fileno=int(sys.argv[1])))
        select.select([doorway], [], [])
        raw, _ = doorway.accept()
        raw.setblocking(True)
        raw.sendall(raw.recv(100) + b" heard elsewhere")
        sys.stdin.read()
    """
    with port.expect(ONE) as doorway:
        fd = doorway.fileno()
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(fd)], pass_fds=(fd,), stdin=subprocess.PIPE
        )
    assert process.stdin is not None
    with call(port, preamble(ONE)) as caller:
        heard = b""
        while more := caller.recv(100):
            heard += more
            if heard.endswith(b"elsewhere"):
                break
    # All of the preamble is there to be read, where it is looked at in earnest.
    assert heard == preamble(ONE) + b" heard elsewhere"
    assert ONE in port._expected
    process.kill()
    process.wait()
    process.stdin.close()
    until(lambda: ONE not in port._expected)
    until(lambda: sockets() <= before)
    with port.expect(ONE), call(port, preamble(ONE)):
        pass


def test_a_call_goes_to_its_session_alone(port: Watched) -> None:
    with port.expect(ONE) as one, port.expect(OTHER) as other:
        said = preamble(OTHER) + b"rest"
        with call(port, said) as caller, taken(other) as raw:
            assert raw.getpeername() == caller.getsockname()
            assert raw.recv(len(said), socket.MSG_WAITALL) == said
        with call(port, preamble(b"3" * 16)) as caller:
            assert is_hung_up_on(caller)
        with pytest.raises(BlockingIOError):
            one.accept()
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_preamble_may_come_in_drops(port: Watched) -> None:
    with port.expect(ONE) as doorway, call(port) as caller:
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in preamble(ONE):
            assert port.named == 0
            caller.sendall(bytes([byte]))
        with taken(doorway) as raw:
            assert raw.recv(PREAMBLE_BYTES) == preamble(ONE)
            # One byte is enough to wake who reads from now on.
            caller.sendall(b"x")
            assert raw.recv(1) == b"x"


@pytest.mark.parametrize(
    "said",
    [b"x", b"HDGR", b"\x16\x03\x01" + bytes(200), b"HDGS" + b"x" * 15, b""],
    ids=["a byte", "a frame", "TLS", "a part of a preamble", "nothing"],
)
def test_who_says_anything_else_and_ends_is_hung_up_on(port: Watched, said: bytes) -> None:
    with port.expect(ONE) as doorway:
        with call(port, said) as caller:
            with contextlib.suppress(OSError):
                caller.shutdown(socket.SHUT_WR)
            assert is_hung_up_on(caller)
        assert port._silent == {}
        with call(port, preamble(ONE)), taken(doorway):
            pass


def test_who_stays_silent_is_hung_up_on(port: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "SILENT_SECONDS", 0.05)
    with call(port) as silent, call(port, b"HDG") as slow:
        assert is_hung_up_on(silent)
        assert is_hung_up_on(slow)


def test_silent_callers_are_few_per_address(port: Watched) -> None:
    with port.expect(ONE) as doorway:
        elsewhere = call(port, source="127.0.0.2")
        flood = [call(port) for _ in range(MOST_SILENT_EACH + 5)]
        assert all(is_hung_up_on(caller) for caller in flood[:5])
        # Whoever speaks is let in; until it does, it counts as one of them.
        callers = [call(port, preamble(ONE)) for _ in range(3)]
        for caller in callers:
            taken(doorway).close()
            caller.close()
        hosts = [caller.host for caller in port._silent.values()]
        assert hosts[0] == "127.0.0.2"
        assert MOST_SILENT_EACH - len(callers) <= hosts.count("127.0.0.1") <= MOST_SILENT_EACH
        for caller in (elsewhere, *flood):
            caller.close()
        until(lambda: not port._silent)


def test_silent_callers_are_few_in_all(port: Watched) -> None:
    n = MOST_SILENT // MOST_SILENT_EACH + 1
    sources = [f"127.0.1.{k}" for k in range(n) for _ in range(MOST_SILENT_EACH)]
    flood = [call(port, source=source) for source in sources]
    assert all(is_hung_up_on(caller) for caller in flood[: len(flood) - MOST_SILENT])
    assert len(port._silent) == MOST_SILENT
    assert "127.0.1.0" not in {caller.host for caller in port._silent.values()}
    with port.expect(ONE) as doorway, call(port, preamble(ONE)), taken(doorway):
        pass
    for caller in flood:
        caller.close()


def test_a_doorway_that_is_full_loses_no_later_call(port: Watched) -> None:
    before = sockets()
    with port.expect(ONE) as doorway:
        waiting: list[socket.socket] = []
        caller = call(port, preamble(ONE))
        while len(waiting) < 200:
            until(lambda: port.named == len(waiting) + 1)
            if caller_has_ended(caller):
                break
            waiting.append(caller)
            caller = call(port, preamble(ONE))
        caller.close()
        # Room for a meeting of many, and no more than that.
        assert 16 <= len(waiting) < 100
        # Another session has a doorway of its own.
        with port.expect(OTHER) as other, call(port, preamble(OTHER)), taken(other):
            pass
        for one in waiting:
            with taken(doorway) as raw, one:
                assert raw.getpeername() == one.getsockname()
        with call(port, preamble(ONE)), taken(doorway):
            pass
        unheard = call(port, preamble(ONE))
        until(lambda: can_read(doorway))
    # What waits in a doorway that is closed is hung up on.
    with unheard:
        assert is_hung_up_on(unheard)
    until(lambda: sockets() <= before)


def caller_has_ended(caller: socket.socket) -> bool:
    """Whether a call that the port has dealt with was hung up on: loopback tells at once."""
    caller.setblocking(False)
    try:
        return caller.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        caller.settimeout(PATIENCE)


def test_a_session_is_expected_once(port: Watched) -> None:
    before = sockets()
    with port.expect(ONE) as doorway:
        with pytest.raises(HedgerowError) as caught:
            port.expect(ONE)
        assert caught.value.code is Code.SESSION_MISMATCH
        with call(port, preamble(ONE)), taken(doorway):
            pass
    until(lambda: not port._expected)
    port.expect(ONE).close()
    until(lambda: sockets() <= before)


def test_it_is_closed_while_sessions_are_open(club: PortClub) -> None:
    """Who has met goes on; who has not ends with a number, and so does who comes later."""
    closed = threading.Event()

    def program(network) -> str:
        if network.party == 0:
            club.ports[0].close()
            closed.set()
        assert closed.wait(PATIENCE)
        all_plans(network)
        return "done"

    ends: list[HedgerowError] = []

    def wait_alone() -> None:
        with pytest.raises(HedgerowError) as caught:
            club.join(0, session=OTHER, timeout=PATIENCE)
        ends.append(caught.value)

    alone = threading.Thread(target=wait_alone)
    alone.start()
    until(lambda: OTHER in club.ports[0]._expected)
    assert club.run(program) == ["done"] * 3
    alone.join(PATIENCE)
    assert [end.code for end in ends] == [Code.NETWORK_CLOSED]
    with pytest.raises(HedgerowError) as caught:
        club.ports[0].expect(ONE)
    assert caught.value.code is Code.NETWORK_CLOSED
    club.ports[0].close()
    with pytest.raises(ConnectionRefusedError):
        call(club.ports[0])


def test_it_lets_go_of_all_that_it_had() -> None:
    before, threads = sockets(), threading.active_count()
    made = Watched()
    with made.expect(ONE), call(made) as silent:
        until(lambda: bool(made._silent))
        made.close()
        assert is_hung_up_on(silent)
    assert sockets() <= before
    assert threading.active_count() == threads
    with RunPort(*made.address):
        pass


def test_a_port_that_is_taken(port: Watched) -> None:
    before = sockets()
    with pytest.raises(HedgerowError) as caught:
        RunPort(*port.address)
    assert caught.value.code is Code.CANNOT_LISTEN
    assert sockets() <= before


def test_noise_at_the_port_changes_nothing(club: PortClub) -> None:
    """Random frames, and callers that say nothing, while sessions meet."""
    port = club.ports[0]
    before = sockets()
    commands = [
        [sys.executable, net_noise.__file__, str(port.address[1]), "6000", str(seed)]
        for seed in range(2)
    ]
    processes = [subprocess.Popen(command) for command in commands]
    silent = [call(port) for _ in range(2 * MOST_SILENT_EACH)]
    met = 0
    while met < 3 or any(process.poll() is None for process in processes):
        met += 1
        session = met.to_bytes(16, "little")
        assert club.run(lambda network: all_plans(network) or "d", session=session) == ["d"] * 3
    assert [process.wait() for process in processes] == [0, 0]
    for caller in silent:
        caller.close()
    until(lambda: not port._silent)
    until(lambda: sockets() <= before)
