"""``hedgerow serve``: what it prints, and how it ends."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.parties.roles.upload_servers import consortium

PROGRAM = [sys.executable, "-m", "hedgerow.cli"]


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Return the folder of a server."""
    return consortium(tmp_path)["alder"].folder


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_until_it_is_told_to_stop(server: Path, number: int) -> None:
    daemon = subprocess.Popen(
        [*PROGRAM, "serve", "--format", "json"], cwd=server, stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    first = json.loads(daemon.stdout.readline())
    assert (first["ok"], first["event"], first["name"]) == (True, "serving", "alder")
    assert Path(first["log"]).exists()
    daemon.send_signal(number)
    rest, _ = daemon.communicate(timeout=60)
    assert json.loads(rest) == {"ok": True, "event": "stopped", "name": "alder"}
    assert daemon.returncode == 0


def lines(server: Path, what: str) -> list[dict[str, object]]:
    """Return what the log has of this kind, as soon as it has something."""
    for _ in range(200):
        text = (server / "state" / "log.jsonl").read_text()
        found = [line for line in map(json.loads, text.splitlines()) if line.get("what") == what]
        if found:
            break
        time.sleep(0.05)
    return found


def test_policy_and_certificates_are_read_again(server: Path) -> None:
    daemon = subprocess.Popen(
        [*PROGRAM, "serve", "--format", "json"], cwd=server, stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    try:
        assert '"serving"' in daemon.stdout.readline()
        policy = server / "policy.toml"
        before = policy.read_text()
        policy.write_text("queries_per_model = -1\n")
        daemon.send_signal(signal.SIGHUP)
        (line,) = lines(server, "not reloaded")
        assert line["outcome"] == "H853"
        assert line["fix"]
        policy.write_text(before)
        daemon.send_signal(signal.SIGHUP)
        (line,) = lines(server, "reloaded")
        assert line["members"] == 5
        assert daemon.poll() is None
    finally:
        daemon.terminate()
        assert '"stopped"' in daemon.communicate(timeout=60)[0]
    assert daemon.returncode == 0


def test_text_is_for_people(server: Path) -> None:
    daemon = subprocess.Popen([*PROGRAM, "serve", server], stderr=subprocess.PIPE, text=True)
    assert daemon.stderr is not None
    assert daemon.stderr.readline().startswith("alder serves wards at 127.0.0.1:")
    file = server / "state" / "console.url"
    assert daemon.stderr.readline() == f"console: its address is in {file}\n"
    daemon.terminate()
    assert daemon.communicate(timeout=60)[1] == "alder has stopped\n"


def old_address(server: Path) -> Path:
    """Return the file of an address, open to others, that a killed start has left."""
    file = server / "state" / "console.url"
    file.parent.mkdir(mode=0o700)
    file.write_text("http://127.0.0.1:1/?token=old\n")
    file.chmod(0o644)
    return file


def addresses(text: str) -> list[str]:
    return re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S+", text)


@pytest.mark.parametrize("options", [[], ["--format", "json"]])
def test_no_log_gets_the_token_of_the_console(server: Path, options: list[str]) -> None:
    file = old_address(server)
    said = server.parent / "said"
    with said.open("w") as log:
        daemon = subprocess.Popen([*PROGRAM, "serve", server, *options], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while str(file) not in said.read_text():
            assert daemon.poll() is None, said.read_text()
            assert time.monotonic() < end, said.read_text()
            time.sleep(0.05)
        (url,) = addresses(file.read_text())
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = url.rpartition("=")[2]
        assert token != "old"
    finally:
        daemon.terminate()
        daemon.wait(timeout=60)
    for text in (said.read_text(), (server / "state" / "log.jsonl").read_text()):
        assert token not in text
        assert addresses(text) == []
    assert not file.exists()


@pytest.mark.parametrize("options", [[], ["--no-console"]])
def test_at_a_terminal_the_address_is_printed(server: Path, options: list[str]) -> None:
    file = old_address(server)
    screen, terminal = pty.openpty()
    daemon = subprocess.Popen([*PROGRAM, "serve", server, *options], stderr=terminal)
    os.close(terminal)
    said = ""
    try:
        while "serves wards" not in said or (not options and not addresses(said + " ")):
            said += os.read(screen, 4096).decode()
        assert addresses(said) == ([] if options else addresses(file.read_text()))
        assert file.exists() == (not options)
    finally:
        daemon.terminate()
        daemon.wait(timeout=60)
        os.close(screen)


def test_what_cannot_begin_ends_with_a_number(server: Path) -> None:
    (server / "keys" / "party.key").chmod(0o644)
    done = subprocess.run(
        [*PROGRAM, "serve", server, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] == "H810"
