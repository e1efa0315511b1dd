"""Seconds are a sum: what is added, for whose machine, over which network."""

from dataclasses import replace

import pytest

from bench.estimate import Case, job_of
from hedgerow.net.meter import Reading, Traffic
from hedgerow.protocols.estimate.seconds import (
    KINDS,
    PROBED,
    JobEstimate,
    Link,
    Speed,
    amounts,
    processor_seconds,
)
from hedgerow.protocols.estimate.traffic import Rehearsed

AS_TUNED = Speed(dict.fromkeys(PROBED, 1.0))
REHEARSED = Rehearsed(
    ("a", "b"),
    Reading(
        [0, 1],
        {
            ("preprocessing", 0): Traffic(2, 1000),
            ("preprocessing", 1): Traffic(2, 3000),
            ("mul", 0): Traffic(5, 500),
            ("mul", 1): Traffic(5, 700),
            ("ask", 1): Traffic(0, 60),
        },
    ),
    latencies=8,
    work={"products": 4000},
    offline=("preprocessing",),
)


def test_what_a_party_does() -> None:
    assert amounts(REHEARSED, 1) == {
        "parties": 1,
        "rounds": 8,
        "transfers": 2,
        "transferred bytes": 3000,
        "bytes": 760,
        "products": 2000,
    }


def test_seconds_are_those_of_the_slowest_and_of_the_network() -> None:
    link = Link(latency=20.0, bandwidth=8.0)
    found = JobEstimate.of(REHEARSED, link, AS_TUNED)
    first, second = found.parties
    assert (first.offline_bytes, first.online_bytes, first.sent) == (1000, 500, 1500)
    assert (second.offline_bytes, second.online_bytes, second.sent) == (3000, 760, 3760)
    assert (found.offline_rounds, found.online_rounds) == (2, 5)
    assert found.computing == second.computing > first.computing
    # Eight ways of 10 ms, and 3,760 bytes at a million in a second.
    assert found.network == pytest.approx(0.08 + 0.00376)
    assert found.seconds == pytest.approx(found.computing + found.network)
    assert found.to_dict()["parties"][1]["online_bytes"] == 760


def test_a_machine_that_takes_twice_as_long_and_more_cores() -> None:
    done = dict.fromkeys(KINDS, 1_000)
    once = processor_seconds(done, AS_TUNED)
    assert once == pytest.approx(1_000 * sum(kind.seconds for kind in KINDS.values()))
    slow = Speed(dict.fromkeys(PROBED, 2.0))
    assert processor_seconds(done, slow) == pytest.approx(2 * once)
    shared = 1_000 * sum(kind.seconds for kind in KINDS.values() if kind.threads)
    assert processor_seconds(done, AS_TUNED, cores=4) == pytest.approx(once - 0.75 * shared)


def test_the_speed_of_this_machine_has_a_ratio_for_every_kind() -> None:
    ratios = Speed.here().ratios
    assert {kind.probe for kind in KINDS.values()} == set(ratios) == set(PROBED)
    assert all(ratio > 0 for ratio in ratios.values())


def test_every_kind_of_work_that_is_heard_of_has_its_seconds() -> None:
    cases = [
        Case("hidden-tree", 60, 3, 3, {"epsilon": 1.0, "max_depth": 1}),
        Case("pivot-tree", 20, 3, 3, {"max_depth": 1}, align="ring"),
        Case("pivot-tree", 20, 3, 3, {"max_depth": 1, "hide": "peers"}),
        Case("vertical-id3", 60, 3, 2, {"max_depth": 1}),
    ]
    heard = {kind for case in cases for kind in amounts(job_of(case)[0](), 0)}
    assert heard == set(KINDS)


def test_a_link_takes_longer_for_more() -> None:
    link = Link()
    assert link.seconds(10, 1000) < replace(link, latency=5.0).seconds(10, 1000)
    assert link.seconds(10, 1000) < replace(link, bandwidth=1.0).seconds(10, 1000)
