"""What a caller is told when the other side is not there, not itself or not honest."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, make_identity, tls_context
from hedgerow.parties.roles.server_reports import ChargeClient
from hedgerow.parties.wire import client as module
from hedgerow.parties.wire.client import Lines, Reply, call, call_members
from hedgerow.parties.wire.door import Door
from hedgerow.parties.wire.handlers import Caller, Incoming, Verb
from hedgerow.parties.wire.requests import FIELDS_HEADER, MAX_ERROR_BYTES, Body, Fields, Payload
from hedgerow.parties.wire.service import Service
from tests.parties.roles.upload_servers import consortium, serving
from tests.parties.wire.parties_calls import Anything, Town, refuses, town_in


@pytest.fixture
def ours(tmp_path: Path) -> Identity:
    return make_identity(tmp_path, "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Identity:
    return make_identity(tmp_path, "theirs")


@contextlib.contextmanager
def server(
    ours: Identity, theirs: Identity, script: Callable[[ssl.SSLSocket], object]
) -> Iterator[tuple[str, int]]:
    """Take one connection and do what the script says."""
    context = tls_context(theirs, [ours.pem], server=True)
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        raw, _ = listener.accept()
        with contextlib.suppress(OSError), context.wrap_socket(raw, server_side=True) as tls:
            tls.settimeout(10)
            script(tls)

    thread = threading.Thread(target=run)
    thread.start()
    yield listener.getsockname()[:2]
    thread.join(10)
    listener.close()


def say(data: bytes) -> Callable[[ssl.SSLSocket], object]:
    return lambda tls: (tls.recv(1 << 16), tls.sendall(data), list(iter(lambda: tls.recv(9), b"")))


def test_nobody_there(ours: Identity, theirs: Identity) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    error = refuses(
        Code.SERVICE_UNREACHABLE, lambda: call(address, ours, theirs.pem, "x", name="server-a")
    )
    assert "server-a" in str(error)
    assert error.party is None
    refuses(
        Code.SERVICE_UNREACHABLE,
        lambda: call(("no-such-host.invalid", 1), ours, theirs.pem, "x", connect_timeout=5),
    )


def test_somebody_who_does_not_speak(ours: Identity, theirs: Identity) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        refuses(
            Code.SERVICE_UNREACHABLE,
            lambda: call(silent.getsockname(), ours, theirs.pem, "x", connect_timeout=0.3),
        )
        assert time.monotonic() - begun < 3
    with server(ours, theirs, lambda tls: tls.recv(1 << 16) and time.sleep(3)) as address:
        error = refuses(
            Code.REQUEST_CUT_OFF, lambda: call(address, ours, theirs.pem, "x", timeout=1.5)
        )
        assert "in time" in str(error)


def test_somebody_else(ours: Identity, theirs: Identity, tmp_path: Path) -> None:
    other = make_identity(tmp_path, "other")
    with server(ours, other, say(b"")) as address:
        refuses(Code.UNKNOWN_PEER, lambda: call(address, ours, theirs.pem, "x"))


def http(status: int = 200, body: bytes = b"{}", **headers: object) -> bytes:
    """Write a reply by hand."""
    lines = {"Content_Type": "application/json", "Content_Length": len(body)} | headers
    text = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in lines.items() if v is not None)
    return f"HTTP/1.1 {status} X\r\n{text}\r\n".encode() + body


PAYLOAD = {"Content_Type": "application/octet-stream"}
LARGE = {FIELDS_HEADER.replace("-", "_"): "x" * 70_000}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.REQUEST_CUT_OFF),
        (b"HDGQ\1\0\0\0\2{}", Code.BAD_REPLY),
        (b"\0" * 100 + b"\r\n\r\n", Code.BAD_REPLY),
        (http(Content_Type="text/html"), Code.BAD_REPLY),
        (http(body=b"[]"), Code.BAD_REPLY),
        (http(body=b"{"), Code.BAD_REPLY),
        (http(body=b'{"a":1,"a":2}'), Code.BAD_REPLY),
        (http(body=b"x" * (1 << 17)), Code.BAD_REPLY),
        (http(Content_Length=None, Transfer_Encoding="chunked"), Code.BAD_REPLY),
        (http(**PAYLOAD, Content_Length=1 << 37), Code.BAD_REPLY),
        (http(body=b"abc", **PAYLOAD, Hedgerow_Fields="[]"), Code.BAD_REPLY),
        (http(**PAYLOAD, **LARGE), Code.HEADER_TOO_LARGE),
        (http(301, Location="https://127.0.0.1/"), Code.BAD_REPLY),
        (http(204, b"", Content_Length=None), Code.BAD_REPLY),
        (http(404), Code.BAD_REPLY),
        (http(500, b'{"error":{}}'), Code.BAD_REPLY),
        (http(500, b'{"error":null}'), Code.BAD_REPLY),
        (http(500, Content_Length=MAX_ERROR_BYTES + 1), Code.BAD_REPLY),
        (http(body=b"abc", **PAYLOAD, Content_Length=5), Code.REQUEST_CUT_OFF),
        (http(Content_Length=5), Code.REQUEST_CUT_OFF),
    ],
    ids=lambda value: value.name if isinstance(value, Code) else value[:40].decode("latin-1"),
)
def test_a_server_that_answers_nonsense(
    ours: Identity, theirs: Identity, data: bytes, code: Code
) -> None:
    script = (
        (lambda tls: (tls.recv(1 << 16), tls.sendall(data)))
        if code is Code.REQUEST_CUT_OFF
        else say(data)
    )
    with server(ours, theirs, script) as address:
        refuses(code, lambda: call(address, ours, theirs.pem, "x", timeout=5))


def test_a_payload_that_is_not_what_it_says(ours: Identity, theirs: Identity) -> None:
    refuses(Code.BAD_PARAMETER, lambda: call(("h", 1), ours, theirs.pem, "x", None, iter([b""])))
    short = Body(3, [b"ab"])
    refuses(Code.BAD_PARAMETER, lambda: call(("h", 1), ours, theirs.pem, "x", None, short))
    go = b"HTTP/1.1 100 Continue\r\n\r\n"
    for body in (Body(3, iter([b"ab"])), Body(3, iter([b"ab", b"cd"]))):
        with server(ours, theirs, say(go)) as address:
            refuses(
                Code.BAD_PARAMETER,
                lambda body=body, address=address: call(
                    address, ours, theirs.pem, "x", None, body, timeout=5
                ),
            )


def test_what_makes_a_payload_may_fail(ours: Identity, theirs: Identity) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"
        raise ZeroDivisionError

    go = b"HTTP/1.1 100 Continue\r\n\r\n"
    with server(ours, theirs, say(go)) as address, pytest.raises(ZeroDivisionError):
        call(address, ours, theirs.pem, "x", None, Body(9, pieces()), timeout=5)


def test_a_key_that_others_can_read(ours: Identity, theirs: Identity) -> None:
    ours.key.chmod(0o644)
    refuses(Code.BAD_KEY_FILE, lambda: call(("127.0.0.1", 1), ours, theirs.pem, "x"))


@pytest.mark.parametrize("length", [-1, (1 << 38) + 1, 1 << 62, 1 << 70])
def test_a_length_that_no_request_has(ours: Identity, theirs: Identity, length: int) -> None:
    def ask() -> object:
        return call(("127.0.0.1", 1), ours, theirs.pem, "x", None, Body(length, ()))

    assert f"{length} bytes" in refuses(Code.PAYLOAD_TOO_LARGE, ask).found


@pytest.mark.parametrize("seconds", [1e12, float("inf")])
def test_a_patience_without_end(ours: Identity, theirs: Identity, seconds: float) -> None:
    with server(ours, theirs, say(http(body=b'{"a": 1}'))) as address:
        reply = call(address, ours, theirs.pem, "x", timeout=seconds, connect_timeout=seconds)
    assert reply.fields == {"a": 1}


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with town_in(tmp_path) as made:
        yield made


@pytest.fixture
def lines(town: Town) -> Iterator[Lines]:
    made = Lines(town.analyst, town.server.pem)
    yield made
    made.close()


@pytest.fixture
def shaken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count handshakes."""
    count: list[int] = []
    before = Door._shake_hands

    async def counted(self: Door, stranger: Any) -> None:
        count.append(1)
        await before(self, stranger)

    monkeypatch.setattr(Door, "_shake_hands", counted)
    return count


def test_one_handshake_for_many_requests(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open():
        for k in range(20):
            reply = town.call("echo", {"k": k}, b"x" * k, lines=lines)
            assert (reply.fields["got"], reply.payload) == ({"k": k}, b"x" * k)
        assert len(shaken) == 1
        assert len(town.log.events(verb="echo", outcome="ok")) >= 19
        town.call("echo")
        assert len(shaken) == 2


def test_a_refusal_ends_no_connection(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open():
        town.call("echo", lines=lines)
        refuses(Code.UNKNOWN_VERB, lambda: town.call("nothing", lines=lines))
        refuses(Code.CALLER_NOT_ALLOWED, lambda: town.call("upload", lines=lines))
        assert town.call("echo", {}, b"abc", lines=lines).payload == b"abc"
        assert len(shaken) == 1


def test_one_before_payload_was_sent_does(town: Town, lines: Lines, shaken: list[int]) -> None:
    """What follows could be taken for the payload."""
    with town.open():
        for _ in range(2):
            large = Body(2 << 20, iter([b""]))
            refuses(
                Code.PAYLOAD_TOO_LARGE, lambda body=large: town.call("echo", {}, body, lines=lines)
            )
        town.call("echo", lines=lines)
        assert len(shaken) == 3


def test_payload_that_was_not_read_ends_it(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open():
        for _ in range(2):
            assert town.call("ignore", {}, b"x" * 100_000, lines=lines).fields["left"] == 100_000
        assert len(shaken) == 2


def test_a_service_that_has_started_again(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open() as first:
        town.call("echo", lines=lines)
        address = first.address
    with town.open() as second:
        # As if it had its old address, with a connection of which only one side knows the end.
        assert address != second.address
        reply = town.call("echo", {}, b"abc", lines=lines)
        assert reply.payload == b"abc"
        assert len(shaken) == 2


def test_one_that_ends_under_the_request(town: Town, lines: Lines, shaken: list[int]) -> None:
    def cut_first(caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        data = payload.read()
        if cut:
            cut.pop()
            service._loop.call_soon_threadsafe(_cut_all, service)
            free.wait(20)
        return {}, data

    free: threading.Event = threading.Event()
    cut: list[int] = []
    with town.open({"echo": Verb(("analyst",), cut_first, largest=1 << 20)}) as service:
        town.call("echo", lines=lines)
        cut.append(1)
        assert town.call("echo", {}, b"abc", lines=lines).payload == b"abc"
        assert len(shaken) == 2
        # What can be sent only once is not sent a second time.
        cut.append(1)
        body = Body(3, iter([b"abc"]))
        refuses(Code.REQUEST_CUT_OFF, lambda: town.call("echo", {}, body, lines=lines))
        assert len(shaken) == 2
        # Nor is anything that was sent on a connection of its own.
        cut.append(1)
        refuses(Code.REQUEST_CUT_OFF, lambda: town.call("echo", {}, b"abc"))
        assert cut == []
        free.set()


def _cut_all(service: Service) -> None:
    for line in list(service.gate._working):
        line.cut()


def test_a_connection_ends_after_a_while(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open(idle=0.1) as service:
        town.call("echo", lines=lines)
        end = time.monotonic() + 20
        while service._server.connections:
            assert time.monotonic() < end
            time.sleep(0.01)
        town.call("echo", lines=lines)
        assert len(shaken) == 2
    with town.open(requests=3):
        for _ in range(6):
            town.call("echo", lines=lines)
        assert len(shaken) == 4


def test_old_ones_are_not_used(
    town: Town, lines: Lines, shaken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    with town.open():
        for _ in range(2):
            town.call("echo", lines=lines)
        assert len(shaken) == 2


def test_who_is_a_member_no_more(town: Town, lines: Lines) -> None:
    with town.open() as service:
        town.call("echo", lines=lines)
        service._members = {p: c for p, c in service._members.items() if c.name != "ann"}
        refuses(Code.CALLER_UNKNOWN, lambda: town.call("echo", lines=lines))


def test_resting_connections_do_not_hold_up_the_end(town: Town, lines: Lines) -> None:
    with town.open() as service:
        town.call("echo", lines=lines)
        begun = time.monotonic()
        assert service.stop(patience=60.0)
        assert time.monotonic() - begun < 30.0


def test_resting_connections_are_bounded(town: Town) -> None:
    every = [Lines(town.analyst, town.server.pem) for _ in range(5)]
    with town.open(members=3) as service:
        for one in every:
            town.call("echo", lines=one)
        end = time.monotonic() + 5
        while len(service.gate._resting) > 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(service.gate._resting) <= 3
        for one in every:
            town.call("echo", lines=one)
            one.close()


def greeting(config) -> dict[str, Verb]:
    def greet(caller, fields, payload):
        del payload
        if config.name == "birch":
            raise Code.BAD_NAME.error(found="no manners")
        return {"to": caller.name, **fields.model_extra}, b"hello"

    return {"greet": Verb(("owner", "server"), greet, Anything)}


def test_replies_refusals_and_silence(tmp_path: Path) -> None:
    parties = consortium(tmp_path)
    north, alder = parties["north"], parties["alder"]
    with serving(parties, greeting, names=("alder", "birch")):
        told = call_members(north, north.servers, "greet", {"day": "good"})
        by_alder = ChargeClient(alder)._ask_all("greet", {})
    assert list(told) == ["alder", "birch", "cedar"]
    assert told["alder"] == Reply({"to": "north", "day": "good"}, b"hello")
    errors = {n: e for n, e in told.items() if isinstance(e, HedgerowError)}
    assert {name: error.code for name, error in errors.items()} == {
        "birch": Code.BAD_NAME,
        "cedar": Code.SERVICE_UNREACHABLE,
    }
    # A server asks the other two.
    assert list(by_alder) == ["birch", "cedar"]


def test_first_calls_of_many_threads_share_one_loop() -> None:
    calls, barrier, found = module._Calls(), threading.Barrier(16), []

    def first() -> None:
        barrier.wait(20)
        found.append(calls.loop())

    threads = [threading.Thread(target=first) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 16
    assert len(set(map(id, found))) == 1
    found[0].call_soon_threadsafe(found[0].stop)
