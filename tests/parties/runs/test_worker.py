"""A worker alone: what it says, how it ends, and that it does not outlive its daemon."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.net.meter import Meter, Reading, Traffic
from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.runs.child import Child, Forker
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.runs.worker import REFUSED, TRY_AGAIN
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.meters import RunMeter, add_readings, read_meter, sums_of
from hedgerow.reports.records import cost_by
from tests.parties.forks import offspring
from tests.parties.roles.upload_servers import consortium
from tests.parties.runs.run_servers import job, set_line


def reading(**steps: int) -> Reading:
    meter = Meter([1], clock=iter(range(9)).__next__)
    for step, wire in steps.items():
        meter.record(step, 1, payload=wire - 1, wire=wire, waiting=0.5)
    return meter.snapshot()


def test_attempts_add_up(tmp_path: Path) -> None:
    store = open_store(StateFolder(tmp_path / "state"))
    assert read_meter(store, "r") is None
    first = RunMeter(store, "r", 1)
    first.write(reading(meet=10), "level 0")
    # Later in the same attempt: what it has written before is not counted twice.
    first.write(reading(meet=10, level=100))
    RunMeter(store, "r", 2).write(reading(meet=12), "level 1")
    # What was lost with the attempt before is made again.
    last = RunMeter(store, "r", 4)
    last.write(reading(meet=10), "level 1")
    last.write(reading(meet=10, leaf=1000), "leaves")
    RunMeter(store, "another", 1).write(reading(meet=7))
    every = read_meter(store, "r")
    assert every is not None
    assert every.at("meet", 1) == Traffic(3, 29, 32, 1.5, 3.0)
    assert every.total(1).wire == 10 + 100 + 12 + 10 + 1000
    attempts = sums_of(store, "r", "attempts")
    assert [(one["attempt"], one["wire"], one["rounds"]) for one in attempts] == [
        (1, 110, 2),
        (2, 12, 1),
        (4, 1010, 2),
    ]
    stages = sums_of(store, "r", "stages")
    assert [(one["stage"], one["wire"], one["rounds"], one["seconds"]) for one in stages] == [
        ("level 0", 10, 1, 1.0),
        ("", 100, 1, 1.0),
        ("level 1", 22, 2, 2.0),
        ("leaves", 1000, 1, 1.0),
    ]
    for sums in (attempts, stages):
        assert sum(one["wire"] for one in sums) == every.total(1).wire
        assert sum(one["seconds"] for one in sums) == every.total(1).seconds


def test_meters_of_earlier_versions_are_added_to(tmp_path: Path) -> None:
    store = open_store(StateFolder(tmp_path / "state"))
    RunMeter(store, "r", 0).write(reading(meet=10))
    with store.snapshot() as made:
        row = made.row("meters", run="r")
    assert row is not None
    old = json.loads(row["reading"])
    del old["stages"]
    for one in (*old["traffic"], *old["attempts"]):
        del one["seconds"]
    with store.transaction("meter") as made:
        made.put("meters", {"run": "r", "reading": json.dumps(old)})
    assert sums_of(store, "r", "stages") == []
    assert cost_by("attempt", "", sums_of(store, "r", "attempts")).total.seconds is None
    RunMeter(store, "r", 2).write(reading(meet=12), "level 0")
    every = read_meter(store, "r")
    assert every is not None
    assert every.total(1) == Traffic(2, 20, 22, 1.0, 1.0)
    assert cost_by("attempt", "", sums_of(store, "r", "attempts")).total.seconds == 1.0
    assert [one["stage"] for one in sums_of(store, "r", "stages")] == ["level 0"]
    each = cost_by("attempt", "", sums_of(store, "r", "attempts")).stages
    assert [(one.stage, one.seconds) for one in each] == [("attempt 0", 0.0), ("attempt 2", 1.0)]


def test_steps_of_one_attempt_only_stay() -> None:
    both = add_readings(reading(a=5), reading(b=7))
    assert (both.at("a", 1).wire, both.at("b", 1).wire) == (5, 7)
    assert both.parties == (1,)


SESSION = bytes(16)


@pytest.fixture
def config(tmp_path: Path) -> PartyConfig:
    made = consortium(tmp_path)["alder"]
    RunStore(made.state).accept(job(), "north")
    return made


@pytest.fixture
def port() -> Iterator[RunPort]:
    with RunPort("127.0.0.1", 0) as made:
        yield made


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    with contextlib.closing(Forker()) as made:
        yield made


class Started:
    """A worker with both ends of its pipes here."""

    def __init__(self, forker: Forker, config: PartyConfig, run: str, port: RunPort) -> None:
        (stdin, held), (said, stdout), (logged, stderr) = os.pipe(), os.pipe(), os.pipe()
        self.stdin = os.fdopen(held, "w")
        self.stdout, self.stderr = os.fdopen(said), os.fdopen(logged)
        arguments = [str(config.folder), run, "1", SESSION.hex(), "alder", "birch", "cedar"]
        with port.expect(SESSION) as doorway:
            forker.fork(arguments, [stdin, stdout, stderr, doorway.fileno()])
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)


def child_of(forker: Forker, config: PartyConfig, port: RunPort, ends: list[Child]) -> Child:
    with port.expect(SESSION) as doorway:
        return Child(
            forker,
            config.folder,
            job().run_id,
            1,
            SESSION,
            doorway.fileno(),
            ("alder", "birch", "cedar"),
            log=config.state.path("runs", job().run_id, "worker.log"),
            on_line=lambda child, line: None,
            on_end=ends.append,
        )


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line]


def test_it_ends_when_its_daemon_does(forker: Forker, config: PartyConfig, port: RunPort) -> None:
    worker = Started(forker, config, job().run_id, port)
    said = json.loads(worker.stdout.readline())
    assert (said["event"], said["waiting_for"]) == ("meeting", ["birch", "cedar"])
    worker.stdin.close()
    begun = time.monotonic()
    assert lines_of(worker.stdout.read())[-1] == {"event": "ended", "code": TRY_AGAIN}
    assert time.monotonic() - begun < 15


def test_it_ends_with_a_number_and_no_traceback(
    forker: Forker, config: PartyConfig, port: RunPort
) -> None:
    worker = Started(forker, config, "nobody-1", port)
    # Its standard input stays open until it has ended.
    out, err = worker.stdout.read(), worker.stderr.read()
    *_, said, ended = lines_of(out)
    assert ended == {"event": "ended", "code": REFUSED}
    assert said["error"]["code"] == "UNKNOWN_RUN"
    assert "Traceback" not in out + err


@pytest.mark.slow
def test_whoever_does_not_come_is_tried_again(
    forker: Forker, config: PartyConfig, port: RunPort
) -> None:
    path = config.folder / "party.toml"
    path.write_text(path.read_text().replace("step = 60 ", "step = 1 "))
    ends: list[Child] = []
    child = child_of(forker, config, port, ends)
    end = time.monotonic() + 60
    while not ends and time.monotonic() < end:
        time.sleep(0.05)
    assert ends == [child]
    assert child.error is not None
    assert child.error.code.name == "PEER_TIMEOUT"
    assert (child.again, child.met, child.done) == (True, False, False)


def test_a_worker_that_is_killed_says_so(
    forker: Forker, config: PartyConfig, port: RunPort
) -> None:
    set_line(config.folder / "party.toml", "consortium", '"wards"')
    ends: list[Child] = []
    log = config.state.path("runs", job().run_id, "worker.log")
    child = child_of(forker, config, port, ends)
    child.kill()
    while not ends:
        time.sleep(0.01)
    assert child.again
    assert child.error is not None
    assert "signal 9" in child.error.found
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_forker_that_was_killed_is_started_again(config: PartyConfig, port: RunPort) -> None:
    ends: list[Child] = []
    with contextlib.closing(Forker()) as forker:
        for _ in range(2):
            before = set(offspring(os.getpid()))
            child = child_of(forker, config, port, ends)
            (process,) = set(offspring(os.getpid())) - before
            os.kill(process, signal.SIGKILL)
            child.kill()
            while child not in ends:
                time.sleep(0.01)
            assert child.again
