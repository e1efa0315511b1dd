"""Audiences and who sees what."""

import numpy as np
import pytest
from wires import SEED, Recorder, apart, everything

from hedgerow.errors import HedgerowError
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.openings import Seats
from hedgerow.secure.ring import Z16, Z64


def test_seats_of_audiences() -> None:
    seats = Seats(5)
    assert seats.parties("server") == (0, 1, 2)
    assert seats.parties("server 2") == (2,)
    assert seats.parties("owner 0") == (3,)
    assert seats.parties("owner") == (3, 4)
    assert seats.parties("analyst") == (4,)
    assert seats.parties("public") == (0, 1, 2, 3, 4)
    named = Seats(5, {"owner clinic north": 3, "analyst": 4})
    assert named.parties("owner") == named.parties("owner clinic north") == (3,)


@pytest.mark.parametrize("to", ["server 3", "analyst", "owner 0"])
def test_an_audience_without_a_seat_is_refused(to: str) -> None:
    with pytest.raises(HedgerowError, match="H501"):
        Seats(3).parties(to)


def test_a_seat_outside_the_network_is_refused() -> None:
    with pytest.raises(HedgerowError, match="H501"):
        Seats(4, {"analyst": 4})


@pytest.mark.parametrize(
    ("to", "who"),
    [("server", {0, 1, 2}), ("server 1", {1}), ("owner 0", {3}), ("analyst", {4})],
)
def test_only_the_audience_gets_the_value(to: str, who: set[int]) -> None:
    a = np.array([3, 2**63, 2**64 - 1], dtype=np.uint64)

    def program(engine: ReplicatedEngine, party: int) -> object:
        x = engine.input(a if party == 3 else None, 3, a.shape, Z64)
        return engine.open(x, "x", to)

    parts = apart(5, program, lambda: everything(("x", to, (3,))))
    assert {p for p, (opened, _) in enumerate(parts) if opened is not None} == who
    assert all(np.array_equal(parts[p][0], a) for p in who)


def test_an_outsider_sees_fresh_halves_of_the_value() -> None:
    """Opened twice, the same shares travel under two masks."""
    network = Recorder(4)
    engine = ReplicatedEngine(network, everything(("x", "analyst", (50,))), insecure_seed=SEED)
    x = engine.public(np.zeros(50, int), Z16)
    for _ in range(2):
        engine.open(x, "x", "analyst")
    one, two, three, four = network.views[3]
    assert not np.any(one + two)
    assert not np.any(three + four)
    assert np.mean(one == three) < 0.1
