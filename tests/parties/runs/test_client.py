"""What a client makes of what three servers say."""

import time
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.client import RunClient, RunStatus, _Clock, merge_status
from hedgerow.parties.runs.reports import RunReport
from hedgerow.parties.wire.client import MembersClient, Reply
from hedgerow.parties.wire.requests import error_fields
from tests.parties.wire.parties_calls import refuses

GONE = Code.SERVICE_UNREACHABLE.error(found="nobody")


def fields(state: str = "running", **changes: Any) -> dict[str, Any]:
    progress = {"level": 1, "depth": 3, "nodes": 2, "bytes": 100, "seconds": 1.5}
    return {
        "run": "r",
        "job": "r",
        "hash": "0" * 64,
        "protocol": "hidden-tree",
        "model": "m",
        "by": "north",
        "created": 1e9,
        "state": state,
        "attempt": 1,
        "generation": 0,
        "depth": 3,
        "members": ["a", "b", "c"],
        "waiting_for": [],
        "progress": {"event": "level"} | progress,
        "error": None,
        "reason": None,
    } | changes


def report(state: str = "running", **changes: Any) -> RunReport:
    return RunReport.model_validate(fields(state, **changes))


def test_servers_together() -> None:
    slow = report(progress={"event": "level", "level": 0, "nodes": 1, "bytes": 50, "seconds": 1.0})
    status = merge_status("r", {"a": report(), "b": slow, "c": report(attempt=2)})
    assert (status.state, status.level, status.depth, status.nodes) == ("running", 0, 3, 2)
    assert (status.octets, status.seconds, status.attempt) == (250, 1.5, 2)
    assert status.waiting_for == ()
    assert status.to_dict()["bytes"] == 250


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["done", "done", "done"], "done"),
        (["done", "running", "done"], "running"),
        (["done", "waiting", "failed"], "failed"),
        (["waiting", "stopped", "running"], "stopped"),
        (["accepted", "accepted", "accepted"], "accepted"),
    ],
)
def test_the_state_of_all(states: list[str], state: str) -> None:
    told = {name: report(one) for name, one in zip("abc", states, strict=True)}
    assert merge_status("r", told).state == state


def test_who_does_not_answer_is_waited_for() -> None:
    told = {"a": report("waiting", waiting_for=["c"], reason="why"), "b": report(), "c": GONE}
    status = merge_status("r", told)
    assert status.waiting_for == ("c",)
    assert status.parties["c"] == "unreachable"
    assert status.reason == "why"
    assert merge_status("r", {"a": report(without=["d"]), "b": report()}).without == ("d",)
    refuses(Code.SERVICE_UNREACHABLE, lambda: merge_status("r", {"a": GONE, "b": GONE, "c": GONE}))


def test_why_it_failed_is_told_with_its_number() -> None:
    error = error_fields(Code.SERVER_MISSING.error(found="no \x1b[31mcedar"))["error"]
    status = merge_status("r", {"a": report(), "b": report("failed", error=error), "c": GONE})
    assert status.error is not None
    assert status.error.code is Code.SERVER_MISSING
    assert "\x1b" not in str(status.error)


def test_the_expected_time_grows_with_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = _Clock()

    def at(level: int, attempt: int = 1) -> RunStatus:
        status = RunStatus("r", "running", attempt, level=level, depth=4, nodes=2**level)
        return clock.estimate(status)

    assert at(0).left is None
    now[0] += 9.0
    # 9 s for a level of cost 8 + 1; 10, 12 and 16 are left.
    assert at(1).left == pytest.approx(38.0)
    now[0] += 1.0
    assert at(1).left == pytest.approx(37.0)
    assert at(1, attempt=2).left is None


def test_nodes_that_grow_beyond_everything_leave_the_time_out() -> None:
    clock = _Clock()
    for level, nodes, depth in ((0, 1, 1 << 20), (1, 1 << 52, 1 << 20), (2, 2, -1)):
        status = RunStatus("r", "running", level=level, depth=depth, nodes=nodes)
        assert clock.estimate(status).left is None


HOSTILE: list[dict[str, Any]] = [
    {"progress": 5},
    {"progress": {"event": "\x1b[2J"}},
    {"progress": {"event": "level", "level": 1.5}},
    {"waiting_for": 5},
    {"waiting_for": [1]},
    {"waiting_for": ["\u202ecedar"]},
    {"without": ["\x1b]0;"]},
    {"state": "\x1b[31mdone"},
    {"created": 1e300},
    {"depth": 1 << 40},
    {"by": ["north"]},
    {"error": {"code": 5}},
    {"run": "another"},
    {"hash": None},
]


@pytest.mark.parametrize("changes", HOSTILE)
def test_one_odd_reply_is_refused_and_the_others_are_heard(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"a": fields("done"), "b": fields("done") | changes, "c": GONE}
    replies = {name: one if one is GONE else Reply(one, b"") for name, one in told.items()}
    monkeypatch.setattr(MembersClient, "_ask_all", lambda *arguments: replies)
    shown = RunClient.__new__(RunClient).show("r")
    assert isinstance(shown["a"], RunReport)
    assert getattr(shown["b"], "code", None) is Code.BAD_REPLY
    status = merge_status("r", shown)
    assert status.parties == {"a": "done", "b": "unreachable", "c": "unreachable"}
    assert str(status).isprintable()


@pytest.mark.parametrize(
    "runs", [{}, {"runs": 5}, {"runs": [5]}, {"runs": [{"run": "r"}]}, {"runs": [{"run": 5}]}]
)
def test_one_odd_list_is_refused_and_the_others_are_heard(
    runs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = {"a": Reply({"runs": [fields()]}, b""), "b": Reply(runs, b"")}
    monkeypatch.setattr(MembersClient, "_ask_all", lambda *arguments: replies)
    listed = RunClient.__new__(RunClient).list()
    assert [line.run for line in listed["a"]] == ["r"]
    assert listed["b"].code is Code.BAD_REPLY
    assert RunClient.__new__(RunClient).find("r") == "r"


def test_why_somebody_is_waited_for_cannot_steer_a_terminal() -> None:
    why = "\x1b[2J\u202esoon"
    assert merge_status("r", {"a": report("waiting", reason=why)}).reason == "?[2J?soon"
