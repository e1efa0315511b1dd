"""Every fault ends all three parties within the timeout, with a number, peer and step."""

from typing import get_args

import pytest
from net_parties import Club, exchange_all, ring

from hedgerow.errors import Code, HedgerowError, NetworkError
from hedgerow.net.faults import Fault, Kind
from hedgerow.net.launch import run_parties

TIMEOUT = 1.5
# What at least one party must report, besides the echoes of it.
CAUSES = {
    "delay": Code.PEER_TIMEOUT,
    "drop": Code.BAD_FRAME,
    "cut": Code.PEER_GONE,
    "die": Code.PEER_GONE,
    "garbage": Code.BAD_FRAME,
    "replay": Code.BAD_FRAME,
    "repeat": Code.BAD_FRAME,
    "half": Code.PEER_TIMEOUT,
    "wrong version": Code.WRONG_VERSION,
    "wrong session": Code.BAD_FRAME,
    "wrong sender": Code.BAD_FRAME,
    "wrong step": Code.BAD_FRAME,
    "wrong size": Code.BAD_FRAME,
    "huge size": Code.BAD_FRAME,
}
STEPS = ("before", "faulty", "after", "and on", "last")


def program(network) -> str:
    for step in STEPS:
        exchange_all(network, step, ring(300))
    return "done"


def test_every_fault_is_tried() -> None:
    assert set(CAUSES) == set(get_args(Kind))


@pytest.mark.parametrize("kind", [kind for kind in CAUSES if kind != "die"])
def test_a_fault_ends_all_three(tmp_path, kind: str) -> None:
    # The club gives up on threads that do not end.
    fault = Fault(kind, "faulty", seconds=2 * TIMEOUT)
    # Only silence takes the whole timeout; all else is seen at once.
    timeout = TIMEOUT if CAUSES[kind] is Code.PEER_TIMEOUT else 20.0
    changes = {"timeout": timeout, "meeting_timeout": 20.0}
    ends = Club(tmp_path).run(program, {1: {"fault": fault}}, **changes)
    for end in ends:
        assert isinstance(end, NetworkError), end
        assert "party " in str(end)
        # A peer that is behind may learn of it in an earlier step.
        assert any(f"step {step!r}" in str(end) for step in ("meeting", *STEPS))
    assert CAUSES[kind] in {end.code for end in ends}


def test_a_short_delay_is_no_fault(tmp_path) -> None:
    fault = Fault("delay", "faulty", seconds=0.1)
    ends = Club(tmp_path).run(program, {1: {"fault": fault}})
    assert ends == ["done"] * 3


def test_one_sided_fault(tmp_path) -> None:
    fault = Fault("garbage", "faulty", peer=0)
    ends = Club(tmp_path).run(program, {1: {"fault": fault}})
    assert ends == ["done"] * 3, "party 1 sends nothing to party 0 in that step"


def test_a_dying_process_ends_the_others() -> None:
    ends = run_parties(program, check=False, timeout=20, faults={1: Fault("die", "faulty")})
    assert ends[1].error.code is Code.PARTY_FAILED
    for party in (0, 2):
        assert ends[party].error.code in {Code.PEER_GONE, Code.PEER_STOPPED}
        assert ends[party].value is None
        assert "Traceback" not in ends[party].log


def test_unknown_faults() -> None:
    with pytest.raises(HedgerowError) as caught:
        Fault("sabotage", "faulty")
    assert caught.value.code is Code.BAD_PARAMETER
