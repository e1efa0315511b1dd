"""What a caller is told when the other side is not there, not itself or not honest."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.net.certificates import Identity, make_identity, tls_context
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.requests import MAGIC, PREFIX, VERSION, Body, pack
from tests.parties.wire.parties_calls import refuses


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
