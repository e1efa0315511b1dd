"""TLS over memory: bytes arrive in order, every length, and ends are seen."""

import contextlib
import socket
import ssl

import numpy as np
import pytest

from hedgerow.net.certificates import make_identity, tls_context
from hedgerow.net.stream import Stream


def advance(*actions) -> None:
    """Run actions in turn until each has returned, as a loop would."""
    waiting = list(actions)
    for _ in range(100_000):
        if not waiting:
            return
        for action in list(waiting):
            try:
                action()
                waiting.remove(action)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
    raise AssertionError("no end")


@pytest.fixture
def pair(tmp_path):
    a, b = make_identity(tmp_path, "a"), make_identity(tmp_path, "b")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        right, _ = listener.accept()
    client = Stream(left, tls_context(a, [b.pem], server=False), server=False)
    server = Stream(right, tls_context(b, [a.pem], server=True), server=True)
    advance(client.handshake, server.handshake)
    yield client, server
    client.close()
    server.close()


def test_many_sizes(pair) -> None:
    client, server = pair
    for size in (1, 16_384, 16_385, 700_001):
        sent = np.random.default_rng(size).bytes(size)
        out, got = memoryview(sent), bytearray()
        while len(got) < size:
            with contextlib.suppress(ssl.SSLWantWriteError):
                if out:
                    out = out[client.send(out) :]
                else:
                    client.flush()
            part = bytearray(100_000)
            with contextlib.suppress(ssl.SSLWantReadError):
                got += part[: server.receive(memoryview(part))]
        assert bytes(got) == sent


def test_version_and_certificates(pair) -> None:
    client, server = pair
    assert client._tls.version() == "TLSv1.3"
    assert client.certificate() != server.certificate()
    assert len(client.certificate()) > 100


def test_end_of_stream_reads_as_nothing(pair) -> None:
    client, server = pair
    client.end()
    view = memoryview(bytearray(10))
    seen = []
    advance(lambda: seen.append(server.receive(view)))
    assert seen == [0]
    assert not server.discard()


def test_plain_bytes_are_an_error(pair) -> None:
    client, server = pair
    client._raw.send(b"GET / HTTP/1.1\r\n\r\n")
    view = memoryview(bytearray(10))
    with pytest.raises(ssl.SSLError):
        advance(lambda: server.receive(view))
