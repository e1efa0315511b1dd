"""The meter adds up, subtracts, joins and survives JSON."""

import json

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meter import Meter, Reading, Traffic
from tests.net.readings import same_bytes


def filled(parties=(0, 1)) -> Meter:
    meter = Meter(parties, clock=lambda: 7.0)
    for party in parties:
        meter.record("mul", party, payload=8 * (party + 1), wire=100, waiting=0.5)
        meter.record("mul", party, payload=8, wire=100)
        meter.record("open", party)
    return meter


def test_sums_by_step_and_party() -> None:
    reading = filled().snapshot()
    assert reading.steps == ["mul", "open"]
    assert reading.at("mul", 0) == Traffic(2, 16, 200, 0.5)
    assert reading.at("mul", 1) == Traffic(2, 24, 200, 0.5)
    assert reading.at("other", 0) == Traffic()
    assert reading.total(1) == Traffic(3, 24, 200, 0.5)
    assert reading.rounds == 3
    assert reading.payload == (16, 24)
    assert reading.wire == (200, 200)
    assert reading.waiting == (0.5, 0.5)


def test_a_reading_does_not_move_and_differences_measure_a_part() -> None:
    meter = filled()
    before = meter.snapshot()
    meter.record("open", 0, payload=4)
    meter.record("open", 1, payload=2)
    part = meter.since(before)
    assert before.payload == (16, 24)
    assert part.rounds == 1
    assert part.payload == (4, 2)
    assert part.steps == ["open"]
    assert (meter.snapshot() - meter.snapshot()).rounds == 0


def test_seconds_of_a_step_begin_where_the_one_before_it_ended() -> None:
    now = 100.0
    meter = Meter([0, 1], clock=lambda: now)
    now = 103.0
    meter.begin()
    for passed, step in ((1.0, "mul"), (0.25, "open"), (2.0, "mul")):
        now += passed
        for party in (0, 1):
            meter.record(step, party, waiting=passed / 2)
    before = meter.snapshot()
    now += 5.0
    meter.record("mail", 1, rounds=0)
    reading = meter.snapshot()
    assert [reading.at(step, 0).seconds for step in ("mul", "open", "mail")] == [3.0, 0.25, 0.0]
    assert reading.seconds == (3.25, 8.25)
    assert (reading - before).seconds == (0.0, 5.0)
    assert Reading.from_json(reading.to_json()).seconds == reading.seconds


def test_meters_of_earlier_versions_have_no_seconds() -> None:
    old = json.loads(filled().snapshot().to_json())
    for row in old["traffic"]:
        del row["seconds"]
    again = Reading.from_json(json.dumps(old))
    assert again.seconds == (0.0, 0.0)
    assert again.waiting == (0.5, 0.5)


def test_readings_of_different_processes_join() -> None:
    joined = filled((0,)).snapshot() | filled((1,)).snapshot()
    assert same_bytes(joined, filled((0, 1)).snapshot())
    assert not same_bytes(joined, filled((0, 2)).snapshot())
    with pytest.raises(HedgerowError) as caught:
        joined | filled((1,)).snapshot()
    assert caught.value.code is Code.BAD_METER


def test_waiting_is_not_compared() -> None:
    slow, fast = Meter([0]), Meter([0])
    slow.record("a", 0, payload=1, waiting=2.0)
    fast.record("a", 0, payload=1)
    assert same_bytes(slow.snapshot(), fast.snapshot())


def test_json_round_trip() -> None:
    reading = filled().snapshot()
    again = Reading.from_json(reading.to_json())
    assert again.traffic == reading.traffic
    assert again.parties == reading.parties


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "other"}', '{"format": "hedgerow-meter/1", "parties": 3}']
)
def test_what_is_no_reading(text: str) -> None:
    with pytest.raises(HedgerowError) as caught:
        Reading.from_json(text)
    assert caught.value.code is Code.BAD_METER


def test_an_empty_meter_has_no_rounds() -> None:
    assert Meter([0]).snapshot().rounds == 0
    assert Reading([], {}).rounds == 0


def test_a_reading_is_shown_in_a_line() -> None:
    assert repr(filled().snapshot()) == (
        "<Reading of 2 parties: 3 rounds, 0.000 MB of payload, 0.000 MB sent>"
    )
    meter = Meter([1])
    meter.record("mul", 1, payload=2_500_000, wire=3_000_000)
    assert repr(meter.snapshot()) == (
        "<Reading of 1 party: 1 rounds, 2.500 MB of payload, 3.000 MB sent>"
    )
