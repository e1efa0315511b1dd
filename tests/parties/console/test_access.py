"""Calls that strangers on the same machine make of a console: nothing breaks, nothing fills up."""

import contextlib
import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hedgerow.parties.console.access import COOKIE, Access, ConsoleRefusal
from hedgerow.parties.console.server import Console
from hedgerow.parties.store.trail import TrailEntry
from tests.parties.console.console_town import facts_of
from tests.parties.runs.loopback import Loopback

HOST = "127.0.0.1:7690"
CALLS = 40


def call(console: Console, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    made = Console(facts_of(Loopback(tmp_path).managers["birch"])).start()
    yield made
    made.stop()


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//[x]", "", "null", "http://other"])
def test_an_origin_that_is_none_is_of_another_page(origin: str) -> None:
    with pytest.raises(ConsoleRefusal) as caught:
        Access().check_origin("GET", {"Host": HOST, "Origin": origin})
    assert caught.value.status == 403


@pytest.mark.parametrize(
    "cookies",
    [
        "{mine}",
        "{mine}; {name}=evil",
        "{name}=evil; {mine}",
        'x="a b; {mine}',
        "x; =; ; y=\x01;{mine};",
    ],
)
def test_cookies_of_other_services_sign_nobody_out(cookies: str) -> None:
    access = Access()
    session = access.open_session(access.token)
    sent = cookies.format(mine=f"{COOKIE}={session}", name=COOKIE)
    assert access.check_session({"Cookie": sent}) == session
    for others in (sent.replace(session, "guess"), sent.replace(COOKIE, f"x{COOKIE}"), ""):
        with pytest.raises(ConsoleRefusal) as caught:
            access.check_session({"Cookie": others})
        assert caught.value.status == 401


def test_strangers_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "hedgerow.parties.console")
    facts = facts_of(Loopback(tmp_path).managers["birch"])
    console = Console(facts).start()
    try:
        assert {call(console, "/", Origin="http://[") for _ in range(CALLS)} == {403}
        assert {call(console, "//[") for _ in range(CALLS)} == {401}
        levels = [record.levelname for record in caplog.records]
        # Some in every minute, and one may begin meanwhile.
        assert set(levels) == {"INFO"}
        assert len(levels) < CALLS

        # What goes wrong here is told as sparingly, and not kept quiet by refusals.
        access = console._access
        session = f"{COOKIE}={access.open_session(access.token)}"
        monkeypatch.setattr(facts, "trail", lambda last: 1 // 0)
        found = {call(console, f"{access.path}trail", Cookie=session) for _ in range(CALLS)}
        assert found == {500}
        failures = [record for record in caplog.records if record.levelname == "ERROR"]
        assert 0 < len(failures) < CALLS
        assert failures[0].exc_info
    finally:
        console.stop()


def long_call(console: Console, size: int, path: str = "/") -> tuple[int, Mapping[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=30)
    try:
        connection.request("GET", path, headers={"Cookie": f"other={'x' * size}"})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()
    finally:
        connection.close()


def test_what_is_no_request_gets_a_page_of_the_console(
    console: Console, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hedgerow.parties.console")
    # Cookies of many services on this machine are no reason.
    assert long_call(console, 30_000)[0] == 401
    status, headers, said = long_call(console, 1 << 20)
    assert (status, headers["X-Frame-Options"]) == (431, "DENY")
    assert "delete the cookies" in said
    with socket.create_connection(("127.0.0.1", console.port), timeout=30) as raw:
        raw.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        said = b"".join(iter(lambda: raw.recv(1 << 16), b"")).decode()
    assert " 400 " in said.splitlines()[0]
    assert "default-src 'none'" in said
    assert "H939" in said
    told = [record.event["outcome"] for record in caplog.records]
    assert told == ["401", "431", "400"]


def test_strangers_do_not_keep_the_operator_out(console: Console) -> None:
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", console.port), timeout=30))
            for _ in range(CALLS)
        ]
        assert call(console, "/") == 401
        # The oldest have gone, and the others go before long.
        assert silent[0].recv(1) == b""
        begun = time.monotonic()
        assert silent[-1].recv(1) == b""
        assert time.monotonic() - begun < 10


def test_who_has_a_session_stays(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    access, come, go = console._access, threading.Event(), threading.Event()

    def trail(last: int) -> list[TrailEntry]:
        come.set()
        go.wait(30)
        return []

    monkeypatch.setattr(console._facts, "trail", trail)
    session = f"{COOKIE}={access.open_session(access.token)}"
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        asked = pool.submit(call, console, f"{access.path}trail", Cookie=session)
        assert come.wait(30)
        for _ in range(CALLS):
            stack.enter_context(socket.create_connection(("127.0.0.1", console.port), timeout=30))
        assert call(console, "/") == 401
        go.set()
        assert asked.result() == 200
