"""Meeting: strangers are turned away, disagreements end it with a number."""

import contextlib
import copy
import os
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net import meeting
from hedgerow.net.certificates import make_identity, tls_context
from hedgerow.net.frames import HEADER_BYTES, FrameKind, Header, plan_digest, preamble
from hedgerow.net.launch import run_parties
from hedgerow.net.meeting import Endpoint, listen
from hedgerow.net.network import Route
from tests.net import net_noise
from tests.net.net_parties import Club, all_plans, exchange_all


@pytest.fixture
def club(tmp_path) -> Club:
    return Club(tmp_path)


def codes(ends) -> list[Code | None]:
    return [getattr(end, "code", None) for end in ends]


def meet_apart(clubs: dict[int, Club], timeout: float) -> dict[int, HedgerowError]:
    """Let parties meet that do not share one list; return the errors."""
    ends: dict[int, HedgerowError] = {}

    def party(p: int) -> None:
        try:
            clubs[p].join(p, timeout=timeout)
        except HedgerowError as error:
            ends[p] = error

    threads = [threading.Thread(target=party, args=(p,)) for p in clubs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return ends


def test_noise_at_the_door_changes_nothing(club: Club) -> None:
    stop = threading.Event()

    def shout() -> None:
        while not stop.is_set():
            for member in club.roster:
                try:
                    with socket.create_connection((member.host, member.port), 1) as caller:
                        caller.send(os.urandom(200))
                except OSError:
                    continue

    def program(network) -> bool:
        all_plans(network)
        return True

    # One that says nothing at all, and one that shouts until the end.
    silent = socket.create_connection((club.roster[0].host, club.roster[0].port))
    shouting = threading.Thread(target=shout)
    shouting.start()
    time.sleep(0.2)
    try:
        assert club.run(program) == [True] * 3
    finally:
        stop.set()
        shouting.join()
        silent.close()


class Watched(meeting.Meeting):
    """A meeting that a test can look at from outside."""

    seen: dict[int, "Watched"] = {}

    def __init__(self, me: int, *args: Any) -> None:
        super().__init__(me, *args)
        self.seen[me] = self


def usage() -> dict[str, int]:
    """Count threads, open files and mebibytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "memory": pages * os.sysconf("SC_PAGE_SIZE") >> 20,
    }


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_a_hundred_thousand_random_frames_at_the_door(
    club: Club, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Party 0 waits in its meeting under fire; then the others come and all is as ever."""
    frames, shouting = 100_000, 2
    monkeypatch.setattr(meeting, "Meeting", Watched)
    join, quiet = club.join, threading.Event()
    # The first reading must find the threads of all three parties begun.
    begun = threading.Barrier(4)
    readings: list[dict[str, int]] = []

    def join_late(party: int, **options: Any) -> Any:
        begun.wait(60)
        if party:
            quiet.wait(170)
        return join(party, meeting_timeout=170.0, **options)

    def shout() -> None:
        begun.wait(60)
        while 0 not in Watched.seen:
            time.sleep(0.01)
        door, port = Watched.seen[0], str(club.roster[0].port)
        readings.append(usage())
        commands = [
            [sys.executable, net_noise.__file__, port, str(frames // shouting), str(seed)]
            for seed in range(shouting)
        ]
        processes = [subprocess.Popen(command) for command in commands]
        codes = [process.wait() for process in processes]
        until = time.monotonic() + 5
        while door.turned_away < frames and time.monotonic() < until:
            time.sleep(0.01)
        readings.append(usage() | {"turned away": door.turned_away, "codes": sum(codes)})
        quiet.set()

    monkeypatch.setattr(Watched, "seen", {})
    monkeypatch.setattr(club, "join", join_late)
    caller = threading.Thread(target=shout)
    caller.start()
    ends = club.run(lambda network: all_plans(network) or "done")
    caller.join()
    assert ends == ["done"] * 3
    before, after = readings
    assert after["turned away"] == frames
    assert after["codes"] == 0
    assert Watched.seen[0].strangers == set()
    assert after["threads"] == before["threads"]
    assert after["files"] == before["files"]
    assert after["memory"] < before["memory"] + 32


def call_tls(raw: socket.socket, context: ssl.SSLContext, session: bytes) -> ssl.SSLSocket:
    """Begin TLS as a party does that comes to a session."""
    raw.sendall(preamble(session))
    return context.wrap_socket(raw)


def insider_frames(good: bytes, count: int) -> list[bytes]:
    """Make what a party with a good certificate may send: noise, or a frame with a byte changed."""
    noise = random.Random(5)
    frames = []
    for i in range(count):
        wrong = noise.randbytes(HEADER_BYTES + noise.randrange(100))
        if i % 2:
            at = noise.randrange(HEADER_BYTES)
            changed = bytes([good[at] ^ noise.randrange(1, 256)])
            wrong = good[:at] + changed + good[at + 1 :]
        frames.append(wrong)
    return frames


@pytest.mark.parametrize("greets", [False, True], ids=["greeting", "first step"])
def test_a_thousand_random_frames_of_a_known_party(tmp_path, greets: bool) -> None:
    """A party with the right certificate that sends anything else ends the session, no more."""
    club = Club(tmp_path, 2)
    identity, pems = club.identities[1], [member.certificate for member in club.roster]
    context = tls_context(identity, pems, server=False)
    digest = meeting.Meeting(1, club.roster, identity, club.session, b"program").digest
    hello = Header(FrameKind.HELLO, 1, club.session, 0, digest, 0).pack()
    plan = [Route(1, 0, (4,), "uint8")]
    good = Header(FrameKind.DATA, 1, club.session, 1, plan_digest("open", plan), 4).pack()

    def intrude(port: int, frame: bytes) -> None:
        with (
            socket.create_connection(("127.0.0.1", port)) as raw,
            contextlib.suppress(OSError),
            call_tls(raw, context, club.session) as tls,
        ):
            tls.sendall((hello if greets else b"") + frame)
            while tls.recv(100):
                pass

    for frame in insider_frames(good if greets else hello, 1000):
        listener = listen("127.0.0.1", 0)
        caller = threading.Thread(target=intrude, args=(listener.getsockname()[1], frame))
        caller.start()
        with pytest.raises(HedgerowError) as caught, club.join(0, listener=listener) as network:
            network.exchange("open", plan, {})
        caller.join()
        assert "party 1" in str(caught.value)
        assert f"step {'open' if greets else 'meeting'!r}" in str(caught.value)


def test_a_stranger_with_its_own_certificate_is_turned_away(club: Club, tmp_path) -> None:
    own = make_identity(tmp_path, "stranger")
    stranger = copy.copy(club)
    stranger.roster = [*club.roster[:2], Endpoint("127.0.0.1", 1, own.pem)]
    stranger.identities = [*club.identities[:2], own]
    ends = meet_apart({0: club, 2: stranger}, timeout=1.0)
    assert ends[2].code in {Code.PEER_GONE, Code.PEER_TIMEOUT}
    assert ends[0].code is Code.PEER_TIMEOUT
    assert "party 1, party 2 in step 'meeting'" in str(ends[0])
    assert "strangers" in str(ends[0])


def test_the_called_party_must_have_its_own_certificate(club: Club) -> None:
    # In the list of party 2 the addresses of 0 and 1 are exchanged.
    first, second, third = club.roster
    confused = copy.copy(club)
    confused.roster = [
        Endpoint(second.host, second.port, first.certificate),
        Endpoint(first.host, first.port, second.certificate),
        third,
    ]
    ends = meet_apart({0: club, 1: club, 2: confused}, timeout=2.0)
    assert ends[2].code is Code.UNKNOWN_PEER
    assert "step 'meeting'" in str(ends[2])
    assert set(ends) == {0, 1, 2}


@pytest.mark.parametrize("change", [{"program": b"other"}, {"session": b"s" * 16}])
def test_disagreement_about_program_or_session(club: Club, change: dict) -> None:
    ends = codes(club.run(lambda network: None, {1: change}, timeout=2.0))
    assert Code.SESSION_MISMATCH in ends
    assert None not in ends


def test_a_missing_party_is_named(club: Club) -> None:
    with pytest.raises(HedgerowError) as caught:
        club.join(0, timeout=0.2)
    assert caught.value.code is Code.PEER_TIMEOUT
    assert "party 1, party 2 in step 'meeting'" in str(caught.value)


def test_a_taken_address() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(HedgerowError) as caught:
        listen("127.0.0.1", first.getsockname()[1])
    assert caught.value.code is Code.CANNOT_LISTEN


def test_own_certificate_must_be_in_the_list(club: Club) -> None:
    club.identities.reverse()
    with pytest.raises(HedgerowError) as caught:
        club.join(0)
    assert caught.value.code is Code.BAD_KEY_FILE


def by_mail_and_in_step(network) -> list[int]:
    """Parties 0 and 1 listen, 2 and 3 only call."""
    (me,) = network.local
    if me > 1:
        for server in (0, 1):
            network.post("question", me, server, bytes([me]))
        return sorted(network.receive("answer", me, [0, 1])[1][0] for _ in range(2))
    said = sorted(network.receive("question", me, [2, 3])[1][0] for _ in range(2))
    exchange_all(network, "steps", [Route(0, 1, (3,), "uint8"), Route(1, 0, (3,), "uint8")])
    for other in (2, 3):
        network.post("answer", me, other, bytes([me]))
    return said


def test_members_that_only_dial_out() -> None:
    ends = run_parties(by_mail_and_in_step, 4, dial_out={2, 3})
    assert [end.value for end in ends] == [[2, 3], [2, 3], [0, 1], [0, 1]]


def test_a_member_without_an_address_may_have_the_smallest_number(tmp_path) -> None:
    ends = Club(tmp_path, 3, dial_out={0}).run(lambda network: all_plans(network) or "done")
    assert ends == ["done"] * 3


def test_two_without_an_address_have_no_channel(tmp_path) -> None:
    plan = [Route(0, 1, (3,), "uint8"), Route(2, 3, (3,), "uint8")]

    def in_step(network) -> None:
        exchange_all(network, "steps", plan)

    def by_mail(network) -> None:
        if network.party > 1:
            network.post("letter", network.party, 5 - network.party, b"")
        else:
            network.receive("letter", network.party, [1 - network.party])

    club = Club(tmp_path, 4, dial_out={2, 3})
    assert codes(club.run(in_step)) == [Code.NO_CHANNEL] * 4
    club.open({2, 3})
    errors = club.run(by_mail)
    assert codes(errors)[2:] == [Code.NO_CHANNEL] * 2
    assert "parties 2 and 3 in step 'letter'" in str(errors[2])
    assert set(codes(errors)[:2]) <= {Code.PEER_STOPPED, Code.PEER_GONE}


def test_who_has_an_address_does_not_call_above_its_number(club: Club) -> None:
    """A call that the list does not provide for is turned away, whoever makes it."""
    first, second, third = club.roster
    eager = copy.copy(club)
    eager.roster = [Endpoint(None, 0, first.certificate), second, third]
    eager.listeners = [None, *club.listeners[1:]]
    ends = meet_apart({0: eager, 1: club, 2: club}, timeout=1.5)
    assert set(ends) == {0, 1, 2}
    codes = {end.code for end in ends.values()}
    assert codes <= {Code.PEER_TIMEOUT, Code.PEER_GONE, Code.PEER_STOPPED}
    assert Code.PEER_TIMEOUT in codes
