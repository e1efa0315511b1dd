"""Servers are reached, or it is said precisely why not."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hedgerow import __version__
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import tls_context
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.probes import Health, ProbeError, ask_health, shake_hands
from hedgerow.parties.wire.handlers import Caller, Verb
from hedgerow.parties.wire.link import Incoming
from hedgerow.parties.wire.service import Service
from tests.parties.consortia import found, introduce, silent_ports


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answer one call with `talk`, at the port that is given."""

    def answer() -> None:
        raw, _ = listener.accept()
        with raw, suppress(OSError):
            talk(raw)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.fixture
def met(tmp_path: Path) -> dict[str, PartyConfig]:
    parties = found(tmp_path)
    introduce(parties)
    return parties


def birch_at(port: int, **changes: str) -> Member:
    return Member(name="birch", role="server", port=port, run_port=1, query_port=2, **changes)


def tls_server(server: PartyConfig, trusted: list[str]) -> Callable[[socket.socket], None]:
    def talk(raw: socket.socket) -> None:
        certificates = [server.certificate(name) for name in trusted]
        context = tls_context(server.identity, certificates, server=True)
        with context.wrap_socket(raw, server_side=True) as stream:
            stream.recv(1)

    return talk


def failure(config: PartyConfig, port: int, host: str = "127.0.0.1") -> ProbeError:
    with pytest.raises(ProbeError) as caught:
        shake_hands(config, birch_at(port, host=host))
    return caught.value


def test_a_handshake(met: dict[str, PartyConfig]) -> None:
    with listening(tls_server(met["birch"], ["zoe", "north"])) as port:
        shake_hands(met["zoe"], birch_at(port, host="127.0.0.1"))


def test_nobody_there(met: dict[str, PartyConfig]) -> None:
    with silent_ports() as port:
        error = failure(met["zoe"], port)
        assert "nobody at 127.0.0.1" in error.found
        assert "hedgerow serve" in error.fix
        with pytest.raises(ProbeError, match="nobody at"):
            ask_health(met["zoe"], birch_at(port, host="127.0.0.1"))


def test_no_such_host(met: dict[str, PartyConfig]) -> None:
    assert "no address" in failure(met["zoe"], 7, host="no.such.host.invalid").found


def test_a_server_that_does_not_know_us(met: dict[str, PartyConfig]) -> None:
    with listening(tls_server(met["birch"], ["north"])) as port:
        error = failure(met["zoe"], port)
    assert "does not accept this party's certificate" in error.found
    assert error.fix.startswith("send keys/party.pem to birch")


def test_somebody_else_in_a_servers_place(met: dict[str, PartyConfig]) -> None:
    with listening(tls_server(met["cedar"], ["zoe"])) as port:
        error = failure(met["zoe"], port)
    assert "another certificate" in error.found
    assert "--replace" in error.fix


def test_something_else_at_the_port(met: dict[str, PartyConfig]) -> None:
    def web(raw: socket.socket) -> None:
        raw.recv(10_000)
        raw.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def old(raw: socket.socket) -> None:
        context = tls_context(met["birch"].identity, [met["zoe"].identity.pem], server=True)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.wrap_socket(raw, server_side=True).close()

    for talk in (web, old):
        with listening(talk) as port:
            assert "no TLS 1.3" in failure(met["zoe"], port).found
    with listening(lambda raw: None) as port:
        assert "hung up" in failure(met["zoe"], port).found


ROLES = ("server", "owner", "analyst")


@contextmanager
def serving(config: PartyConfig, fields: dict | None = None, verb: str = "health") -> Iterator[int]:
    """Answer requests as a server of the consortium."""

    def health(caller: Caller, asked: dict, payload: Incoming) -> tuple[dict, None]:
        return Health.of(config).to_fields() if fields is None else fields, None

    handlers = {verb: Verb(ROLES, health, idempotent=True)}
    callers = known_callers(config)
    with Service(config.identity, callers, handlers, host="127.0.0.1", port=0) as service:
        yield service.address[1]


def test_health_is_asked_for(met: dict[str, PartyConfig]) -> None:
    with serving(met["birch"]) as port:
        for name in ("zoe", "north", "alder"):
            said = ask_health(met[name], birch_at(port, host="127.0.0.1"))
            assert said is not None
            assert (said.version, said.members) == (__version__, met["zoe"].list_digest)
            assert abs(said.clock - time.time()) < 10


def test_a_server_without_health(met: dict[str, PartyConfig]) -> None:
    with serving(met["birch"], verb="upload") as port:
        assert ask_health(met["zoe"], birch_at(port, host="127.0.0.1")) is None


@pytest.mark.parametrize("change", [{"clock": "noon"}, {"version": 1}, {"members": None}])
def test_a_malformed_health(met: dict[str, PartyConfig], change: dict) -> None:
    fields = Health.of(met["birch"]).to_fields() | change
    with serving(met["birch"], fields) as port, pytest.raises(HedgerowError) as caught:
        ask_health(met["zoe"], birch_at(port, host="127.0.0.1"))
    assert caught.value.code is Code.BAD_REPLY


def test_a_service_that_was_not_told_of_us(met: dict[str, PartyConfig]) -> None:
    (met["birch"].folder / "members" / "zoe.pem").unlink()
    with serving(met["birch"]) as port, pytest.raises(ProbeError) as caught:
        ask_health(met["zoe"], birch_at(port, host="127.0.0.1"))
    assert "does not accept this party's certificate" in caught.value.found
