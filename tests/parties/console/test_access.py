"""Calls that strangers on the same machine make of a console: nothing breaks, nothing fills up."""

import http.client
import logging
from pathlib import Path

import pytest

from hedgerow.parties.console.access import COOKIE, Access, ConsoleRefusal
from hedgerow.parties.console.server import Console
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
