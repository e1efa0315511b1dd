"""Waits have an end, and bytes arrive whole."""

import io
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.net.certificates import make_identity, tls_context
from hedgerow.parties.wire.link import Deadline, Incoming, Link, Rate
from hedgerow.parties.wire.requests import Body, pack
from tests.parties.wire.parties_calls import refuses


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Link, Link]]:
    ours, theirs = make_identity(tmp_path, "a"), make_identity(tmp_path, "b")
    listener = socket.create_server(("127.0.0.1", 0))
    raw = socket.create_connection(listener.getsockname())
    other, _ = listener.accept()
    listener.close()
    a = Link(raw, tls_context(ours, [theirs.pem], server=False), server=False, peer="b")
    b = Link(other, tls_context(theirs, [ours.pem], server=True), server=True, peer="a")
    thread = threading.Thread(target=b.handshake, args=(Deadline(5),))
    thread.start()
    a.handshake(Deadline(5))
    thread.join()
    yield a, b
    a.close()
    b.close()


def test_time_is_earned_by_bytes_and_not_saved_up() -> None:
    rate = Rate(2.0, 100)
    rate.count(1000, 1.0)
    assert rate.left() == 2.0
    rate.count(50, 1.5)
    assert rate.left() == pytest.approx(1.0)
    rate.count(10, 1.5)
    assert rate.left() < 0
    deadline = Deadline(0.1)
    deadline.count(10**9, 0)
    assert deadline.left() <= 0.1


def test_a_wait_ends(pair: tuple[Link, Link]) -> None:
    a, b = pair
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        b.receive_into(memoryview(bytearray(1)), Deadline(0.2))
    with pytest.raises(TimeoutError):
        a.send(bytes(1 << 26), Deadline(0.3))
    assert time.monotonic() - begun < 3


def test_payload_of_any_pieces(pair: tuple[Link, Link]) -> None:
    a, b = pair
    data = bytes(range(256)) * 5000
    pieces = [data[:1], b"", data[1:70_000], bytearray(data[70_000:900_000]), data[900_000:]]
    body = Body(len(data), (memoryview(piece) for piece in pieces))
    thread = threading.Thread(target=a.send_body, args=(body, Deadline(10)))
    thread.start()
    incoming = Incoming(b, len(data), Rate(5, 1000))
    assert incoming.read(10) == data[:10]
    file = io.BytesIO()
    assert incoming.save(file) == len(data) - 10
    assert file.getvalue() == data[10:]
    assert incoming.left == 0
    assert incoming.read() == b""
    thread.join()


@pytest.mark.parametrize("pieces", [[b"ab"], [b"abcd"], [b"ab", b"cd"], []])
def test_a_body_of_another_length_than_declared(pair: tuple[Link, Link], pieces: list) -> None:
    refuses(Code.BAD_PARAMETER, lambda: pair[0].send_body(Body(3, pieces), Deadline(5)))


def test_a_connection_that_ends_early(pair: tuple[Link, Link]) -> None:
    a, b = pair
    a.send(b"12345", Deadline(5))
    a.close()
    incoming = Incoming(b, 10, Rate(5, 1000))
    assert incoming.read(5) == b"12345"
    assert "5 of them" in str(refuses(Code.REQUEST_CUT_OFF, incoming.read))


def test_cut_wakes_whoever_waits(pair: tuple[Link, Link]) -> None:
    _, b = pair
    failures = []

    def wait() -> None:
        try:
            b.receive_into(memoryview(bytearray(1)), Deadline(20))
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    b.cut()
    thread.join(5)
    assert not thread.is_alive()
    assert len(failures) == 1


def test_headers_and_an_early_word(pair: tuple[Link, Link]) -> None:
    a, b = pair
    a.send(pack({"a": 1}), Deadline(5))
    assert b.receive_header(Deadline(5), Code.BAD_REQUEST) == b'{"a":1}'
    b.send(pack({"b": 2}), Deadline(5))
    time.sleep(0.1)
    assert a.send_body(Body(1000, [bytes(1000)]), Deadline(5), heed=True) == 0
    assert a.receive_header(Deadline(5), Code.BAD_REPLY) == b'{"b":2}'
