"""Every fault ends all three parties within the timeout, with a number, peer and step."""

import time
from typing import Any, get_args

import pytest

from hedgerow.errors import Code
from tests.net.faults import Fault, Kind, run_spoilt
from tests.net.net_parties import Club, exchange_all, faulty_at_the_end, ring

# What at least one party must report, with peer and step; the others may echo it.
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
FAULTY = 1
STEPS = ("before", "faulty", "farewell")
# Seconds that a party may take beyond the timeout: one to hand over its last words, the rest for a
# busy machine.
GRACE = 2.0


def program(network) -> str:
    for step in ("before", "faulty", "after", "last"):
        exchange_all(network, step, ring(300))
    return "done"


def test_every_fault_is_tried() -> None:
    assert set(CAUSES) == set(get_args(Kind))


@pytest.mark.parametrize("kind", CAUSES)
def test_a_fault_in_the_last_step_ends_all_three(kind: Kind, tmp_path) -> None:
    # Only silence takes the whole timeout; all else is seen at once.
    timeout = 1.0 if CAUSES[kind] is Code.PEER_TIMEOUT else 10.0
    fault = Fault(kind, "faulty", seconds=timeout + 0.5)
    lost = CAUSES[kind] is Code.PEER_GONE
    ends = run_apart(fault, timeout) if lost else run_here(Club(tmp_path), fault, timeout)
    for party, (error, seconds) in enumerate(ends):
        assert error is not None, party
        assert seconds < timeout + GRACE
        if (kind, party) == ("die", FAULTY):
            # Nothing is left that could know a step.
            assert error.code is Code.PARTY_FAILED
            continue
        assert "party " in str(error)
        # A peer that is behind may learn of it in an earlier step.
        assert any(f"step {step!r}" in str(error) for step in STEPS)
    # A frame that comes twice fits the first time; the next step finds the second.
    where = "farewell" if kind == "repeat" else "faulty"
    reached = STEPS[: STEPS.index(where) + 1]
    causes = [str(error) for error, _ in ends if error.code is CAUSES[kind]]
    assert any(
        f"party {FAULTY}" in text and any(f"step {step!r}" in text for step in reached)
        for text in causes
    ), [str(error) for error, _ in ends]


def run_apart(fault: Fault, timeout: float) -> list[Any]:
    """Run the parties as processes, of which one may be lost: error and seconds of each."""
    ends = run_spoilt(faulty_at_the_end, {FAULTY: fault}, args=[timeout])
    assert not any("Traceback" in end.log or end.value for end in ends)
    return [(end.error, end.seconds) for end in ends]


def run_here(club: Club, fault: Fault, timeout: float) -> list[Any]:
    """Run the parties as threads: error and seconds of each."""
    return timed_here(club, faulty_at_the_end, fault, timeout)


def timed_here(club: Club, program: Any, fault: Fault, timeout: float) -> list[Any]:
    """Run a program that is spoilt at one party as threads: error and seconds of each."""
    seconds: dict[int, float] = {}

    def timed(network) -> None:
        start = time.monotonic()
        try:
            program(network, timeout)
        finally:
            seconds[network.local[0]] = time.monotonic() - start

    errors = club.run(timed, {FAULTY: {"fault": fault}})
    return [(error, seconds[party]) for party, error in enumerate(errors)]


def test_a_short_delay_is_no_fault(tmp_path) -> None:
    fault = Fault("delay", "faulty", seconds=0.1)
    ends = Club(tmp_path).run(program, {1: {"fault": fault}})
    assert ends == ["done"] * 3


def test_one_sided_fault(tmp_path) -> None:
    fault = Fault("garbage", "faulty", peer=0)
    ends = Club(tmp_path).run(program, {1: {"fault": fault}})
    assert ends == ["done"] * 3, "party 1 sends nothing to party 0 in that step"
