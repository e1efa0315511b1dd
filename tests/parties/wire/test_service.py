"""Members are answered, everybody and everything else is refused by number."""

import contextlib
import json
import random
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import make_identity
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.handlers import Caller, Incoming, ServiceLimits, Verb
from hedgerow.parties.wire.requests import MAX_FIELDS_BYTES, Body, Fields, Payload
from tests.parties.wire.parties_calls import (
    BOTH,
    VERBS,
    Anything,
    Town,
    dated_identity,
    head,
    refuses,
    town_in,
)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with town_in(tmp_path) as made:
        yield made


def wait_until(reached: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that threads do."""
    end = time.monotonic() + seconds
    while not reached() and time.monotonic() < end:
        time.sleep(0.01)
    assert reached()


def refusal_of(town: Town, data: bytes) -> HedgerowError:
    """Send bytes over TLS as a member, and read the refusal."""
    line = town.line()
    try:
        line.send(data)
        return line.refusal()
    finally:
        line.close()


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
        for path in ("/v1/../erase", "/v1/Echo", "/v1/echo/", "/v1/", "/v1/echo%0a", "*", "/"):
            request = head("echo").replace(b"/v1/echo", path.encode())
            assert refusal_of(town, request).code is Code.BAD_REQUEST, path
        for method in (b"PUT", b"DELETE", b"OPTIONS", b"CONNECT"):
            request = head("echo").replace(b"POST", method)
            assert refusal_of(town, request).code is Code.BAD_REQUEST, method


def test_an_oversized_header_is_refused_before_it_is_read(town: Town) -> None:
    with town.open():
        refuses(Code.HEADER_TOO_LARGE, lambda: town.call("echo", {"a": "x" * (1 << 16)}))
        # Callers that do not refuse themselves; of what is too long, not all is sent.
        large = head("echo", fields='{"a":"' + "x" * 2 * MAX_FIELDS_BYTES)
        assert refusal_of(town, large[:-9]).code is Code.HEADER_TOO_LARGE
        body = head("echo", MAX_FIELDS_BYTES + 1, Content_Type="application/json")
        assert refusal_of(town, body).code is Code.HEADER_TOO_LARGE
        path = head("echo" + "o" * 10_000)
        assert refusal_of(town, path).code in (Code.HEADER_TOO_LARGE, Code.BAD_REQUEST)
        many = head("echo", **{f"X_{k}": "y" for k in range(100)})
        assert refusal_of(town, many).code in (Code.HEADER_TOO_LARGE, Code.BAD_REQUEST)
        town.call("echo", {"a": "x" * 60_000})
        town.call("echo", {"a": "x" * 60_000}, b"y")
        assert len(town.log.wait_for(outcome="H874")) > 3


def test_headers_without_end_take_no_memory(town: Town) -> None:
    """Of many headers that fit one by one, no more is read than fits in all."""
    with town.open():
        line, sent = town.line(), 0
        line.send(b"POST /v1/echo HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            while sent < 64 << 20:
                line.send(b"X-%d: " % sent + b"y" * 60_000 + b"\r\n")
                sent += 60_000
        line.close()
        # What was sent beyond that waited in the buffers of the system.
        assert sent < 32 << 20
        assert town.log.wait_for(verb=None)["outcome"] in ("H872", "H874")
        town.call("echo")


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
        other = head("echo").replace(b"/v1/", b"/v9/")
        assert refusal_of(town, other).code is Code.WRONG_VERSION


@pytest.mark.parametrize(
    "request_",
    [
        head("echo", fields="[]"),
        head("echo", fields="{"),
        head("echo", fields='{"a":1,"a":2}'),
        head("echo", fields='{"a":NaN}'),
        head("echo", fields="[" * 60_000),
        head("echo", fields='{"a":' * 12_000),
        head("echo", 3, Content_Type="text/plain"),
        head("echo", 3, Content_Type="application/json") + b"[1]",
        head("echo", 4, Content_Type="application/json") + b'{"a\xff',
        head("echo").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"),
        head("echo", Upgrade="websocket", Connection="upgrade"),
        head("echo").replace(b"Content-Length: 0", b"Content-Length: -1"),
        head("echo").replace(b"Content-Length: 0", b"Content-Length: 1e3"),
        head("echo").replace(b"Content-Length: 0", b"Content-Length: 1\r\nContent-Length: 2"),
        head("echo", X_Odd="a\x00b"),
        head("echo").replace(b"HTTP/1.1", b"HTTP/7.3"),
        head("echo").replace(b"Host: ", b" Host: "),
    ],
    ids=lambda data: data[:60].decode("latin-1") + str(len(data)),
)
def test_hostile_headers(town: Town, request_: bytes) -> None:
    with town.open():
        line = town.line()
        line.send(request_)
        assert line.refusal().code is Code.BAD_REQUEST
        line.close()
        town.call("echo")


def test_garbage_over_tls(town: Town) -> None:
    noise, codes = random.Random(5), Counter()
    with town.open():
        for i in range(150):
            body = noise.randbytes(noise.randrange(9, 200))
            if i % 3 == 0:
                # Noise that is long enough to be refused, whatever it begins like.
                data = body + b"\r\n\r\n"
            elif i % 3 == 1:
                fields = body.decode("latin-1").replace("\r", "").replace("\n", "")
                data = head("echo").replace(b"{}", fields.encode("latin-1"))
            else:
                data = head("echo", len(body), Content_Type="application/json") + body
            codes[refusal_of(town, data).code] += 1
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
        # A header drop by drop.
        line = town.line()
        for byte in head("echo")[:5]:
            line.send(bytes([byte]))
            time.sleep(0.3)
        assert line.refusal().code is Code.REQUEST_TOO_SLOW
        assert line.ended()
        # Nothing at all.
        line = town.line()
        assert line.refusal().code is Code.REQUEST_TOO_SLOW
        # Payload drop by drop, little and much; and fields.
        for request in (
            head("echo", 100_000, Expect="100-continue"),
            head("echo", 100, Expect="100-continue"),
            head("echo", 100, Expect="100-continue", Content_Type="application/json"),
        ):
            line = town.line()
            line.send(request)
            assert line.reply()[0] == 100
            for _ in range(5):
                line.send(b"x")
                time.sleep(0.3)
            assert line.refusal().code is Code.REQUEST_TOO_SLOW
            line.close()
        assert time.monotonic() - begun < 30
        # No handshake at all.
        with socket.create_connection(town.service.address) as raw:
            raw.settimeout(5)
            assert raw.recv(1) == b""
        assert town.log.wait_for(caller=None)["outcome"] == "H876"
        # One that stops in the middle.
        with socket.create_connection(town.service.address) as raw:
            raw.settimeout(10)
            raw.sendall(b"\x16\x03\x01\x02\x00\x01")
            assert raw.recv(1) == b""
        assert len(town.log.events(caller=None, outcome="H876")) == 2
        town.call("echo")


def test_a_caller_that_does_not_take_its_reply(town: Town) -> None:
    def much(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        return {}, [bytes(1 << 20)] * 64

    with town.open(VERBS | {"much": Verb(BOTH, much)}, payload=0.5, rate=1 << 30):
        line = town.line()
        line.send(head("much"))
        event = town.log.wait_for(verb="much")
        assert event["outcome"] == "H883"
        assert event["bytes_out"] < 64 << 20
        line.close()
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
        shaking = len(town.service.gate._shaking)
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

    def expects(caller: Caller, fields: Anything, length: int) -> None:
        if (fields.model_extra or {}).get("run") != "known":
            raise Code.UNKNOWN_RUN.error(found=f"{length} bytes of {caller.name}")

    def wait(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        begun.set()
        free.wait(20)
        return {}, payload.read()

    big = 1 << 20
    verbs = {"ask": Verb(BOTH, wait, Anything, largest=big, expects=expects)}
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


@pytest.mark.parametrize("length", [1000, 1_000_000])
def test_a_caller_that_hangs_up(town: Town, length: int) -> None:
    with town.open():
        line = town.line()
        line.send(head("echo", length, Expect="100-continue"))
        assert line.reply()[0] == 100
        line.send(b"x" * 10)
        line.close()
        assert town.log.wait_for(verb="echo")["outcome"] == "H883"
        town.line().close()
        town.call("echo")
        # A place is given back after its reply has left.
        wait_until(lambda: not town.service.gate._working)


def test_a_connection_that_is_cut(town: Town) -> None:
    """Its bytes do not end, they stop."""
    with town.open():
        line = town.line()
        line.send(head("echo", 1_000_000, Expect="100-continue"))
        assert line.reply()[0] == 100
        raw = socket.socket(fileno=line.tls.detach())
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
        assert town.log.wait_for(verb="echo")["outcome"] == "H883"
        town.call("echo")


def test_a_caller_that_has_said_all(town: Town) -> None:
    """It has closed its half of the connection: what it has asked is done, and keeps no place."""
    done = []

    def note(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        done.append(payload.read())
        return {}, None

    with town.open({"note": Verb(BOTH, note, largest=100)}) as service:
        line = town.line()
        line.send(head("note", 5) + b"hello")
        socket.socket.shutdown(line.tls, socket.SHUT_WR)
        town.log.wait_for(verb="note")
        assert done == [b"hello"]
        # Half of a header, and then no more.
        other = town.line()
        other.send(head("note", 5)[:50])
        socket.socket.shutdown(other.tls, socket.SHUT_WR)
        end = time.monotonic() + 20
        while service.gate._working or service.gate._resting:
            assert time.monotonic() < end
            time.sleep(0.01)
        line.close()
        other.close()


def test_requests_one_behind_the_other(town: Town) -> None:
    """A caller that does not wait for replies gets them in order, however many it sends."""
    with town.open(requests=10_000) as service:
        line = town.line()
        one = [head("echo", 3, fields=json.dumps({"k": k})) + b"abc" for k in range(500)]
        # All of them lie in the buffers of the two sides; a thread beside the reader would race it.
        line.send(b"".join(one))
        found = []
        for _ in one:
            status, headers, body = line.reply()
            assert (status, body) == (200, b"abc")
            found.append(json.loads(headers["hedgerow-fields"])["got"]["k"])
            assert len(service.gate._working) <= 1
        assert found == list(range(500))
        line.close()


def test_a_reply_that_breaks_off(town: Town) -> None:
    def broken(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        return {}, Body(1 << 20, [b"x" * 1000])

    with town.open({"ask": Verb(BOTH, broken)}):
        refuses(Code.REQUEST_CUT_OFF, lambda: town.call("ask"))
        assert town.log.wait_for(verb="ask", outcome="H883")


def test_look_at_a_party(town: Town, tmp_path: Path) -> None:
    stranger = make_identity(tmp_path, "mallory")
    with town.open():
        town.call("echo", None, b"abc")
        refuses(Code.CALLER_NOT_ALLOWED, lambda: town.call("upload"))
        for path in ("/healthz", "/metrics", "/openapi.json"):
            line = town.line()
            line.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            status, _, body = line.reply()
            assert status == 200, body
            line.close()
            if path == "/metrics":
                text = body.decode()
                assert 'hedgerow_requests_total{verb="echo",outcome="ok"} 1.0' in text
                assert 'hedgerow_requests_total{verb="upload",outcome="H871"} 1.0' in text
                assert 'hedgerow_request_bytes_total{way="in"} 3.0' in text
        line = town.line()
        line.send(b"GET /state HTTP/1.1\r\nHost: a\r\n\r\n")
        assert line.refusal().code is Code.BAD_REQUEST
        line.close()
        refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", by=stranger))


def get(address: tuple[str, int], path: str, method: str = "GET") -> int:
    """Look at a party without a certificate; return the status."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(address, timeout=10) as raw,
        context.wrap_socket(raw) as tls,
    ):
        tls.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        return int(tls.recv(1 << 16).split()[1])


def test_numbers_are_for_members_unless_they_are_opened(town: Town, tmp_path: Path) -> None:
    stranger = make_identity(tmp_path, "mallory")
    with town.open() as service:
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            get(service.address, "/metrics")
        service.recognise(town.server, town.members, open_metrics=True)
        assert get(service.address, "/metrics") == get(service.address, "/healthz") == 200
        # Nothing else is open, and whoever shows a certificate needs that of a member.
        assert get(service.address, "/openapi.json") == 401
        assert get(service.address, "/v1/echo", "POST") == 401
        refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", by=stranger))
        town.call("echo")
        service.recognise(town.server, town.members)
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            get(service.address, "/metrics")
