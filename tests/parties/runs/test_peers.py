"""What servers say to each other about runs, also if it is nonsense."""

from typing import Any

import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.peers import PeerState
from hedgerow.parties.wire.requests import error_fields, parse_error
from tests.parties.wire.parties_calls import refuses

GOOD: dict[str, Any] = {
    "state": "waiting",
    "attempt": 2,
    "generation": 1,
    "closed": False,
    "error": None,
    "busy": None,
    "waiting_for": ["cedar"],
}


def test_an_answer_is_read() -> None:
    told = PeerState.parse(GOOD, "r-1", "birch")
    assert (told.state, told.attempt, told.generation) == ("waiting", 2, 1)
    assert not any((told.busy, told.works, told.closed, told.has_ended))
    assert told.waiting_for == ("cedar",)
    assert told.reason is None
    assert PeerState.parse(GOOD | {"reason": "a\x1bb"}, "r-1", "birch").reason == "a?b"
    assert PeerState.parse(GOOD | {"busy": "r-1"}, "r-1", "birch").works
    assert PeerState.parse(GOOD | {"busy": "r-2"}, "r-1", "birch").busy
    error = error_fields(Code.PEER_GONE.error(found="nobody"))["error"]
    failed = PeerState.parse(GOOD | {"state": "failed", "error": error}, "r-1", "birch")
    assert failed.has_ended
    assert failed.error is not None
    assert failed.error.code is Code.PEER_GONE
    assert "birch" in failed.error.found


@pytest.mark.parametrize(
    "change",
    [
        {"state": "asleep"},
        {"state": ["waiting"]},
        {"attempt": -1},
        {"attempt": True},
        {"attempt": 1 << 40},
        {"generation": "1"},
        {"busy": 7},
        {"waiting_for": "cedar"},
        {"waiting_for": [1]},
        {"error": {"code": "PEER_GONE"}},
        {"error": "x"},
    ],
)
def test_nonsense_is_refused(change: dict[str, Any]) -> None:
    refuses(Code.BAD_REPLY, lambda: PeerState.parse(GOOD | change, "r-1", "birch"))


def test_no_error_is_none() -> None:
    assert parse_error(None, "birch") is None
