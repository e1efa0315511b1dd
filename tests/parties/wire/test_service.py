"""Members are answered, everybody and everything else is refused by number."""

import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.net.certificates import make_identity
from hedgerow.net.channel import MAX_KEY_BYTES
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.handlers import Caller, ServiceLimits, Verb
from hedgerow.parties.wire.link import Deadline, Incoming
from hedgerow.parties.wire.requests import (
    MAGIC,
    PREFIX,
    VERSION,
    Body,
    Fields,
    Payload,
    ReplyHeader,
)
from tests.parties.wire.parties_calls import (
    BOTH,
    Town,
    dated_identity,
    echo,
    refuses,
    stamped,
    town_in,
)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with town_in(tmp_path) as made:
        yield made


def reply_to(town: Town, data: bytes, seconds: float = 10.0) -> ReplyHeader:
    """Send bytes over TLS as a member, and read the header of the reply."""
    link = town.link()
    try:
        link.send(data, Deadline(seconds))
        return ReplyHeader.parse(link.receive_header(Deadline(seconds), Code.BAD_REPLY), "server")
    finally:
        link.close()


def test_a_member_is_answered_and_known_by_its_certificate(town: Town) -> None:
    with town.open():
        reply = town.call("echo", {"a": [1, 2.5, None, "é"]}, b"xyz" * 1000)
        assert reply.fields == {
            "caller": "ann",
            "role": "analyst",
            "got": {"a": [1, 2.5, None, "é"]},
        }
        assert reply.payload == b"xyz" * 1000
        assert town.call("echo", by=town.owner).fields["caller"] == "olga"
        assert town.call("echo").payload == b""
        event = town.log.wait_for(caller="ann", verb="echo", bytes_in=3000)
        assert event["outcome"] == "ok"
        assert event["bytes_out"] == 3000
        assert 0 < event["seconds"] < 10
        # No hexadecimal digit among them: certificates have fingerprints, which the log may name.
        assert not any("xyz" in line for line in town.log.lines)


def test_an_unknown_certificate(town: Town, tmp_path: Path) -> None:
    stranger = make_identity(tmp_path, "mallory")
    # The name proves nothing.
    (tmp_path / "more").mkdir()
    namesake = make_identity(tmp_path / "more", "ann")
    with town.open():
        refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", by=stranger))
        refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", None, b"x" * 10_000, by=namesake))
        assert town.log.wait_for(outcome="H870")["caller"] is None
        town.call("echo")


def test_who_passes_tls_and_is_no_member(town: Town) -> None:
    with town.open() as service:
        service._members = {p: c for p, c in service._members.items() if c.name != "olga"}
        assert refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", by=town.owner)).party
        town.call("echo")


@pytest.mark.parametrize(("first", "last"), [(-20, -10), (10, 20)])
def test_an_expired_certificate(town: Town, tmp_path: Path, first: int, last: int) -> None:
    old = town.member("old", "analyst", dated_identity(tmp_path, "old", first, last))
    with town.open():
        if last < 0:
            refuses(Code.CERTIFICATE_EXPIRED, lambda: town.call("echo", by=old))
        else:
            # TLS has no alert for it.
            refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", by=old))
        assert town.log.wait_for(outcome="H855")["caller"] is None


def test_the_server_is_checked_as_well(town: Town, tmp_path: Path) -> None:
    other = make_identity(tmp_path, "other")
    with town.open() as service:
        error = refuses(
            Code.UNKNOWN_PEER, lambda: call(service.address, town.analyst, other.pem, "echo")
        )
        assert error.party is None
    town.server = dated_identity(tmp_path, "late", -20, -10)
    with town.open():
        refuses(Code.CERTIFICATE_EXPIRED, lambda: town.call("echo"))


def test_the_right_certificate_with_the_wrong_role(town: Town) -> None:
    with town.open():
        error = refuses(Code.CALLER_NOT_ALLOWED, lambda: town.call("upload", None, b"x" * 1000))
        assert error.party == "server"
        assert "ann" in str(error)
        assert town.log.wait_for(caller="ann", verb="upload")["outcome"] == "H871"
        town.call("upload", by=town.owner)


def test_an_unknown_verb(town: Town) -> None:
    with town.open():
        refuses(Code.UNKNOWN_VERB, lambda: town.call("erase"))
        refuses(Code.BAD_REQUEST, lambda: town.call("../erase"))


def test_an_oversized_header_is_refused_before_it_is_read(town: Town) -> None:
    with town.open():
        refuses(Code.HEADER_TOO_LARGE, lambda: town.call("echo", {"a": "x" * (1 << 16)}))
        # A caller that does not refuse itself; only the prefix is sent.
        for length in (65_537, (1 << 32) - 1):
            reply = reply_to(town, PREFIX.pack(MAGIC, VERSION, length))
            assert reply.error is not None
            assert reply.error.code is Code.HEADER_TOO_LARGE
        town.call("echo", {"a": "x" * 60_000})
        assert len(town.log.wait_for(outcome="H874")) > 3


def test_an_oversized_payload_is_refused_before_it_is_sent(town: Town) -> None:
    asked = []

    def pieces() -> Iterator[bytes]:
        asked.append(1)
        yield b"x" * (1 << 21)

    with town.open():
        error = refuses(
            Code.PAYLOAD_TOO_LARGE, lambda: town.call("echo", None, Body(1 << 21, pieces()))
        )
        assert str(1 << 20) in str(error)
        assert asked == []
        town.call("echo", None, b"x" * (1 << 20))


def test_another_version(town: Town) -> None:
    with town.open():
        reply = reply_to(town, PREFIX.pack(MAGIC, 9, 2) + b"{}")
        assert reply.error is not None
        assert reply.error.code is Code.WRONG_VERSION


def test_garbage_over_tls(town: Town) -> None:
    noise, codes = random.Random(5), Counter()
    with town.open():
        for i in range(150):
            body = noise.randbytes(noise.randrange(9, 200))
            data = body if i % 2 else PREFIX.pack(MAGIC, VERSION, len(body)) + body
            error = reply_to(town, data).error
            assert error is not None
            codes[error.code] += 1
        town.call("echo")
    assert set(codes) <= {Code.BAD_REQUEST, Code.WRONG_VERSION, Code.HEADER_TOO_LARGE}


def test_garbage_instead_of_tls(town: Town) -> None:
    noise = random.Random(6)
    with town.open(strangers=8):
        for i in range(300):
            with socket.create_connection(town.service.address) as raw:
                start = b"\x16\x03\x01" if i % 2 else b""
                raw.sendall(start + noise.randbytes(noise.randrange(0, 300)))
                if i % 3 == 0:
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        town.call("echo")
    # Strangers do not fill the log: 60 lines a minute, and the test may run into a second one.
    assert len(town.log.events(caller=None)) <= 120


def test_slow_callers_lose_their_place(town: Town) -> None:
    with town.open(header=1.0, handshake=2.0, payload=1.0, rate=1 << 20):
        begun = time.monotonic()
        link = town.link()
        for byte in stamped("echo").pack()[:5]:
            link.send(bytes([byte]), Deadline(1))
            time.sleep(0.3)
        header = link.receive_header(Deadline(5), Code.BAD_REPLY)
        error = ReplyHeader.parse(header, "server").error
        assert error is not None
        assert error.code is Code.REQUEST_TOO_SLOW
        link.close()
        # Payload drop by drop.
        link = town.link()
        link.send(stamped("echo", 100_000).pack(), Deadline(1))
        assert ReplyHeader.parse(link.receive_header(Deadline(5), Code.BAD_REPLY), "server").go
        for _ in range(5):
            link.send(b"x", Deadline(1))
            time.sleep(0.3)
        header = link.receive_header(Deadline(5), Code.BAD_REPLY)
        error = ReplyHeader.parse(header, "server").error
        assert error is not None
        assert error.code is Code.REQUEST_TOO_SLOW
        link.close()
        assert time.monotonic() - begun < 15
        # No handshake at all.
        with socket.create_connection(town.service.address) as raw:
            raw.settimeout(5)
            assert raw.recv(1) == b""
        assert town.log.wait_for(caller=None)["outcome"] == "H876"
        town.call("echo")


def test_strangers_who_wait_do_not_keep_members_out(town: Town) -> None:
    with town.open(strangers=4, handshake=60.0):
        idle = [socket.create_connection(town.service.address) for _ in range(12)]
        begun = time.monotonic()
        town.call("echo")
        assert time.monotonic() - begun < 12
        for raw in idle:
            raw.close()


@pytest.mark.parametrize("address", ["127.0.0.2", "127.0.0.1"])
def test_a_flood_of_strangers_does_not_keep_members_out(town: Town, address: str) -> None:
    """200 connections a second that say nothing; the second time from the member's own address."""
    ended, raws = threading.Event(), []

    def flood() -> None:
        while not ended.wait(0.005) and len(raws) < 1000:
            with contextlib.suppress(OSError):
                raws.append(
                    socket.create_connection(town.service.address, 5, source_address=(address, 0))
                )

    with town.open():
        thread = threading.Thread(target=flood)
        thread.start()
        while len(raws) < 200:
            time.sleep(0.01)
        seconds = []
        for _ in range(5):
            begun = time.monotonic()
            town.call("echo", timeout=5.0)
            seconds.append(time.monotonic() - begun)
        ended.set()
        thread.join()
        shaking = len(town.service._gate._shaking)
        for raw in raws:
            raw.close()
    assert shaking <= ServiceLimits().per_address
    # A call took two seconds where strangers were waited for, and five where they were many.
    assert sorted(seconds)[2] < 1.0, seconds


def test_a_request_is_refused_by_its_header(town: Town) -> None:
    """What is not expected, or finds no room, is not asked for its payload."""
    free, begun = threading.Event(), threading.Event()

    def endless() -> Iterator[bytes]:
        raise AssertionError("asked for a payload that nobody expects")
        yield b""

    def expects(caller: Caller, fields: Fields, length: int) -> None:
        if fields.get("run") != "known":
            raise Code.UNKNOWN_RUN.error(found=f"{length} bytes of {caller.name}")

    def wait(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        begun.set()
        free.wait(20)
        return {}, payload.read()

    big = 1 << 20
    verbs = {"ask": Verb(BOTH, wait, largest=big, idempotent=True, expects=expects)}
    with town.open(verbs, octets=big, octets_per_member=big):
        refuses(Code.UNKNOWN_RUN, lambda: town.call("ask", {}, Body(big, endless())))
        first = threading.Thread(
            target=town.call, args=("ask", {"run": "known"}, b"x" * big), kwargs={"by": town.owner}
        )
        first.start()
        assert begun.wait(20)
        known = {"run": "known"}
        refuses(Code.SERVICE_BUSY, lambda: town.call("ask", known, Body(1, endless()), timeout=1.0))
        free.set()
        first.join()
        assert town.call("ask", known, b"y").payload == b"y"
        refuses(Code.PAYLOAD_TOO_LARGE, lambda: town.call("ask", known, Body(big + 1, endless())))


def test_a_request_is_carried_out_once(town: Town) -> None:
    with town.open():
        request = stamped("once")
        assert reply_to(town, request.pack()).error is None
        for _ in range(2):
            error = reply_to(town, request.pack()).error
            assert error is not None
            assert error.code is Code.REQUEST_REPLAYED
        # Another member may draw the same identifier, and harmless requests may be repeated.
        town.call("once", by=town.owner, request=request.id)
        for _ in range(2):
            town.call("echo", request="0" * 32)
        refuses(Code.REQUEST_REPLAYED, lambda: town.call("once", request=request.id))


def test_clocks(town: Town) -> None:
    with town.open(skew=30.0):
        for off, word in ((-31, "behind"), (31, "ahead")):
            error = reply_to(town, stamped("echo", time=time.time() + off).pack()).error
            assert error is not None
            assert error.code is Code.CLOCKS_DIFFER
            assert word in str(error)
        early = stamped("once", time=time.time() - 20)
        assert reply_to(town, early.pack()).error.code is Code.CLOCKS_DIFFER
        assert reply_to(town, stamped("echo", time=time.time() - 20).pack()).error is None


def test_numbered_errors_travel(town: Town) -> None:
    def refuse(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        raise Code.BUDGET_EXCEEDED.error(expected="at most 3", found="4\x1b[2J", fix="ask less")

    with town.open({"ask": Verb(BOTH, refuse, largest=100)}):
        error = refuses(Code.BUDGET_EXCEEDED, lambda: town.call("ask", None, b"x"))
        assert (error.expected, error.fix, error.party) == ("at most 3", "ask less", "server")
        assert error.found == "4?[2J (at server)"
        assert isinstance(error, ValueError)
        assert town.log.wait_for(verb="ask")["outcome"] == "H207"


@pytest.mark.parametrize(
    "answer",
    [
        lambda: 1 / 0,
        lambda: Path("/nowhere/secret-file").read_bytes(),
        lambda: ({"a": object()}, None),
        lambda: ({"a": "x" * 100_000}, None),
        lambda: ({}, (b for b in [b"generator"])),
        lambda: None,
        lambda: ({"a": float("nan")}, None),
    ],
)
def test_a_defect_is_told_without_its_details(town: Town, answer) -> None:
    with town.open({"ask": Verb(BOTH, lambda *_: answer())}):
        error = refuses(Code.SERVICE_FAILED, lambda: town.call("ask", request="ab" * 16))
        assert "ab" * 16 in str(error)
        for word in ("Zero", "secret", "object", "Traceback", ".py"):
            assert word not in str(error)
        failure = town.log.wait_for(outcome="failure")
        assert failure["id"] == "ab" * 16
        assert failure["exception"]
        assert all(".py:" in place for place in failure["where"])
        assert not any("secret-file" in line for line in town.log.lines)
        assert town.log.wait_for(outcome="H881")["verb"] == "ask"


def test_an_answer_before_the_payload_is_read(town: Town) -> None:
    """A reply is not lost when the caller is still sending."""
    sent = []

    def pieces() -> Iterator[bytes]:
        for _ in range(1000):
            sent.append(1)
            yield bytes(1 << 20)

    with town.open(octets_per_member=1 << 30):
        reply = town.call("ignore", None, Body(1000 << 20, pieces()))
        assert reply.fields == {"left": 1000 << 20}
        assert len(sent) < 200


def test_a_caller_that_hangs_up(town: Town) -> None:
    with town.open():
        link = town.link()
        link.send(stamped("echo", 1000).pack(), Deadline(5))
        link.receive_header(Deadline(5), Code.BAD_REPLY)
        link.send(b"x" * 10, Deadline(5))
        link.close()
        assert town.log.wait_for(verb="echo")["outcome"] == "H883"
        town.link().close()
        town.call("echo")


def test_a_reply_that_breaks_off(town: Town) -> None:
    def broken(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        return {}, Body(1 << 20, [b"x" * 1000])

    with town.open({"ask": Verb(BOTH, broken)}):
        refuses(Code.REQUEST_CUT_OFF, lambda: town.call("ask"))
        assert town.log.wait_for(verb="ask", outcome="H883")


@pytest.mark.parametrize("largest", [-1, MAX_KEY_BYTES + 1])
def test_payloads_stay_within_one_key_of_tls(largest: int) -> None:
    with pytest.raises(ValueError, match="largest"):
        Verb(("owner",), echo, largest=largest)


def test_by_default_a_verb_takes_no_payload_and_is_carried_out_once() -> None:
    verb = Verb(("owner",), echo)
    assert (verb.largest, verb.idempotent) == (0, False)
    limits = ServiceLimits()
    assert limits.per_member < limits.members
