"""What the benchmark of consortia is made of; its kills are in tests/parties/test_chaos.py."""

import socket
import threading
import time

import pytest

from bench.__main__ import names
from bench.consortium import PARTS, QUICK
from bench.consortium_wan import Relays


def test_it_is_found_and_its_helpers_are_not() -> None:
    assert [name for name in names() if name.startswith("consortium")] == ["consortium"]
    assert set(PARTS) == set(QUICK) == {"chaos", "load", "wan"}


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_relays_hold_bytes_back_in_both_directions(delay: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as behind:

        def echo() -> None:
            caller, _ = behind.accept()
            with caller:
                while data := caller.recv(1 << 16):
                    caller.sendall(data)

        threading.Thread(target=echo, daemon=True).start()
        port = behind.getsockname()[1]
        with (
            Relays([port], delay) as relays,
            socket.create_connection(("127.0.0.1", relays.doors[port]), timeout=20) as caller,
        ):
            for data in (b"a", b"b" * 300_000):
                begun, found = time.monotonic(), b""
                caller.sendall(data)
                while len(found) < len(data):
                    found += caller.recv(1 << 16)
                assert found == data
                assert time.monotonic() - begun >= 2 * delay
            caller.shutdown(socket.SHUT_WR)
            assert caller.recv(1) == b""


def test_a_door_to_nobody_closes() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with (
            Relays([port], 0.0) as relays,
            socket.create_connection(("127.0.0.1", relays.doors[port]), timeout=20) as caller,
        ):
            assert caller.recv(1) == b""
