"""What a run has sent, over all of its attempts."""

import json
from pathlib import Path

from hedgerow.net.meter import Meter, Reading, Traffic
from hedgerow.parties.runs.meter import RunMeter, joined


def reading(**steps: int) -> Reading:
    meter = Meter([1])
    for step, wire in steps.items():
        meter.record(step, 1, payload=wire - 1, wire=wire, waiting=0.5)
    return meter.snapshot()


def test_attempts_add_up(tmp_path: Path) -> None:
    path = tmp_path / "meter.json"
    first = RunMeter(path, 1)
    first.write(reading(meet=10))
    # Later in the same attempt: what it has written before is not counted twice.
    first.write(reading(meet=10, level=100))
    RunMeter(path, 2).write(reading(meet=12))
    RunMeter(path, 4).write(reading(meet=10, leaf=1000))
    text = path.read_text()
    every = Reading.from_json(text)
    assert every.at("meet", 1) == Traffic(3, 29, 32, 1.5)
    assert every.total(1).wire == 10 + 100 + 12 + 10 + 1000
    attempts = json.loads(text)["attempts"]
    assert [(one["attempt"], one["wire"], one["rounds"]) for one in attempts] == [
        (1, 110, 2),
        (2, 12, 1),
        (4, 1010, 2),
    ]
    assert sum(one["wire"] for one in attempts) == every.total(1).wire
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_read_stops_no_run(tmp_path: Path) -> None:
    path = tmp_path / "meter.json"
    path.write_text("{")
    RunMeter(path, 3).write(reading(meet=10))
    assert Reading.from_json(path.read_text()).total(1).wire == 10


def test_steps_of_one_attempt_only_stay() -> None:
    both = joined(reading(a=5), reading(b=7))
    assert (both.at("a", 1).wire, both.at("b", 1).wire) == (5, 7)
    assert both.parties == (1,)
