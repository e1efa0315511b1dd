"""A worker alone: what it says, how it ends, and that it does not outlive its daemon."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.runs.child import Child
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.runs.worker import REFUSED, TRY_AGAIN
from tests.parties.roles.upload_servers import consortium
from tests.parties.runs.run_servers import job, set_line

SESSION = "00" * 16


@pytest.fixture
def config(tmp_path: Path) -> PartyConfig:
    made = consortium(tmp_path)["alder"]
    RunStore(made.state, 0).accept(job(), "north")
    return made


def started(config: PartyConfig, run: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "hedgerow.parties.runs.worker",
            str(config.folder),
            run,
            "1",
            SESSION,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_it_ends_when_its_daemon_does(config: PartyConfig) -> None:
    with started(config, job().run_id) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        said = json.loads(process.stdout.readline())
        assert (said["event"], said["waiting_for"]) == ("meeting", ["birch", "cedar"])
        process.stdin.close()
        begun = time.monotonic()
        assert process.wait(30) == TRY_AGAIN
        assert time.monotonic() - begun < 15


def test_it_ends_with_a_number_and_no_traceback(config: PartyConfig) -> None:
    with started(config, "nobody-1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # Its standard input stays open until it has ended.
        out, err = process.stdout.read(), process.stderr.read()
        assert process.wait(60) == REFUSED
    assert lines_of(out)[-1]["error"]["code"] == "UNKNOWN_RUN"
    assert "Traceback" not in out + err


@pytest.mark.slow
def test_whoever_does_not_come_is_tried_again(config: PartyConfig) -> None:
    path = config.folder / "party.toml"
    path.write_text(path.read_text().replace("step = 60 ", "step = 1 "))
    ends: list[Child] = []
    child = Child(
        config.folder,
        job().run_id,
        1,
        bytes(16),
        log=config.state.path("runs", job().run_id, "worker.log"),
        on_line=lambda child, line: None,
        on_end=ends.append,
    )
    end = time.monotonic() + 60
    while not ends and time.monotonic() < end:
        time.sleep(0.05)
    assert ends == [child]
    assert child.error is not None
    assert child.error.code.name == "PEER_TIMEOUT"
    assert (child.again, child.met, child.done) == (True, False, False)


def test_a_worker_that_is_killed_says_so(config: PartyConfig) -> None:
    set_line(config.folder / "party.toml", "consortium", '"wards"')
    ends: list[Child] = []
    log = config.state.path("runs", job().run_id, "worker.log")
    child = Child(
        config.folder,
        job().run_id,
        1,
        bytes(16),
        log=log,
        on_line=lambda child, line: None,
        on_end=ends.append,
    )
    child.kill()
    while not ends:
        time.sleep(0.01)
    assert child.again
    assert child.error is not None
    assert "signal 9" in child.error.found
    assert log.stat().st_mode & 0o777 == 0o600
