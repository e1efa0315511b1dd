"""What a client makes of what three servers say."""

import time
from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.client import RunStatus, _Clock, merge_status
from hedgerow.parties.wire.requests import error_fields
from tests.parties.wire.parties_calls import refuses

GONE = Code.SERVICE_UNREACHABLE.error(found="nobody")


def fields(state: str = "running", **changes: Any) -> dict[str, Any]:
    progress = {"level": 1, "depth": 3, "nodes": 2, "bytes": 100, "seconds": 1.5}
    return {
        "state": state,
        "attempt": 1,
        "depth": 3,
        "waiting_for": [],
        "progress": progress,
        "error": None,
        "reason": None,
    } | changes


def test_servers_together() -> None:
    slow = fields(progress={"level": 0, "nodes": 1, "bytes": 50, "seconds": 1.0})
    status = merge_status("r", {"a": fields(), "b": slow, "c": fields(attempt=2)})
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
    told = {name: fields(one) for name, one in zip("abc", states, strict=True)}
    assert merge_status("r", told).state == state


def test_who_does_not_answer_is_waited_for() -> None:
    told = {"a": fields("waiting", waiting_for=["c"], reason="why"), "b": fields(), "c": GONE}
    status = merge_status("r", told)
    assert status.waiting_for == ("c",)
    assert status.parties["c"] == "unreachable"
    assert status.reason == "why"
    assert merge_status("r", {"a": fields(without=["d"]), "b": fields()}).without == ("d",)
    refuses(Code.SERVICE_UNREACHABLE, lambda: merge_status("r", {"a": GONE, "b": GONE, "c": GONE}))


def test_why_it_failed_is_told_with_its_number() -> None:
    error = error_fields(Code.SERVER_MISSING.error(found="no \x1b[31mcedar"))["error"]
    status = merge_status("r", {"a": fields(), "b": fields("failed", error=error), "c": GONE})
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
