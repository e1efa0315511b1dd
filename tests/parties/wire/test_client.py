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
from hedgerow.parties.wire import client as module
from hedgerow.parties.wire.client import Lines, Reply, ServerClient, call
from hedgerow.parties.wire.handlers import Verb
from hedgerow.parties.wire.requests import MAGIC, PREFIX, VERSION, Body, pack
from hedgerow.parties.wire.service import Service
from tests.parties.roles.upload_servers import consortium, serving
from tests.parties.wire.parties_calls import Town, refuses, town_in


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
    return lambda tls: (tls.recv(1 << 16), tls.sendall(data), tls.recv(1))


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


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", Code.REQUEST_CUT_OFF),
        (b"HTTP/1.1 200 OK\r\n\r\n", Code.BAD_REPLY),
        (PREFIX.pack(MAGIC, VERSION + 1, 2) + b"{}", Code.WRONG_VERSION),
        (PREFIX.pack(MAGIC, VERSION, 1 << 30), Code.HEADER_TOO_LARGE),
        (PREFIX.pack(MAGIC, VERSION, 2) + b"[]", Code.BAD_REPLY),
        (pack({"fields": {}, "payload": 1 << 37}), Code.BAD_REPLY),
        (pack({"go": True}) * 2, Code.BAD_REPLY),
        (pack({"fields": {}, "payload": 5}) + b"abc", Code.REQUEST_CUT_OFF),
    ],
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
    with server(ours, theirs, say(pack({"go": True}))) as address:
        refuses(
            Code.BAD_PARAMETER,
            lambda: call(address, ours, theirs.pem, "x", None, Body(3, [b"ab"]), timeout=5),
        )


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
    good = pack({"fields": {"a": 1}, "payload": 0})
    with server(ours, theirs, say(good)) as address:
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
    before = Service._recognise

    def counted(self: Service, exchange: Any) -> Any:
        count.append(1)
        return before(self, exchange)

    monkeypatch.setattr(Service, "_recognise", counted)
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


def test_a_refusal_ends_the_connection(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open():
        town.call("echo", lines=lines)
        refuses(Code.UNKNOWN_VERB, lambda: town.call("nothing", lines=lines))
        town.call("echo", lines=lines)
        assert len(shaken) == 2


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
    with town.open() as service:
        town.call("echo", lines=lines)
        lines.take = lambda take=lines.take: _cut(service, take())  # type: ignore[method-assign]
        assert town.call("echo", {}, b"abc", lines=lines).payload == b"abc"
        assert len(shaken) == 2
        # What can be sent only once is not sent a second time.
        body = Body(3, iter([b"abc"]))
        assert town.call("echo", {}, body, lines=lines).payload == b"abc"
        assert len(shaken) == 3


def _cut(service: Service, link: Any) -> Any:
    end = time.monotonic() + 5
    while not service._gate._resting and time.monotonic() < end:
        time.sleep(0.01)
    for other in list(service._gate._resting):
        other.cut()
    return link


def test_a_connection_ends_after_a_while(town: Town, lines: Lines, shaken: list[int]) -> None:
    with town.open(idle=0.1):
        town.call("echo", lines=lines)
        ((_, link),) = lines._kept
        # The end arrives.
        assert link.speaks(20.0)
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
        while len(service._gate._resting) > 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert len(service._gate._resting) <= 3
        for one in every:
            town.call("echo", lines=one)
            one.close()


def greeting(config) -> dict[str, Verb]:
    def greet(caller, fields, payload):
        del payload
        if config.name == "birch":
            raise Code.BAD_NAME.error(found="no manners")
        return {"to": caller.name, **fields}, b"hello"

    return {"greet": Verb(("owner", "server"), greet, idempotent=True)}


def test_replies_refusals_and_silence(tmp_path: Path) -> None:
    parties = consortium(tmp_path)
    client = ServerClient(parties["north"])
    with serving(parties, greeting, names=("alder", "birch")):
        told = client._ask_all("greet", {"day": "good"})
        by_alder = ServerClient(parties["alder"])._ask_all("greet", {})
    assert list(told) == ["alder", "birch", "cedar"]
    assert told["alder"] == Reply({"to": "north", "day": "good"}, b"hello")
    errors = {n: e for n, e in told.items() if isinstance(e, HedgerowError)}
    assert {name: error.code for name, error in errors.items()} == {
        "birch": Code.BAD_NAME,
        "cedar": Code.SERVICE_UNREACHABLE,
    }
    # A server asks the other two.
    assert list(by_alder) == ["birch", "cedar"]
