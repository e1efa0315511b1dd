"""Plans and outboxes are checked before a byte is sent."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.frames import wire_bytes
from hedgerow.net.network import MAX_BYTES, Route
from hedgerow.net.simulator import Simulator


def refuses(code: Code, action) -> str:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code
    return str(caught.value)


def test_route_knows_its_bytes() -> None:
    assert Route(0, 1, (3, 4), "uint64").nbytes == 96
    assert Route(0, 1, (), "uint16").nbytes == 2
    assert Route(0, 1, (0, 9), "uint16").nbytes == 0


@pytest.mark.parametrize(
    ("source", "destination", "shape", "dtype"),
    [
        (1, 1, (2,), "uint64"),
        (0, 1, (-1,), "uint64"),
        (0, 1, (MAX_BYTES,), "uint16"),
        (0, 1, (2,), "object"),
        (0, 1, (2,), "bool"),
        (0, 1, (2,), "float64"),
        (0, 1, (2,), "no such dtype"),
    ],
)
def test_impossible_routes(source, destination, shape, dtype) -> None:
    refuses(Code.BAD_PLAN, lambda: Route(source, destination, shape, dtype))


@pytest.mark.parametrize(
    ("plan", "outbox"),
    [
        ([Route(0, 3, (1,), "uint8")], {0: np.zeros(1, np.uint8)}),
        ([Route(-1, 1, (1,), "uint8")], {}),
        ([Route(0, 1, (1,), "uint8")], {}),
        ([Route(0, 1, (1,), "uint8")], {0: np.zeros(2, np.uint8)}),
        ([Route(0, 1, (1,), "uint8")], {0: np.zeros(1, np.uint16)}),
        ([Route(0, 1, (1,), "uint8")], {0: np.zeros(1, np.uint8), 1: np.zeros(1, np.uint8)}),
        ([], {0: np.zeros(1, np.uint8)}),
    ],
)
def test_misfits_are_refused_and_not_metered(plan, outbox) -> None:
    network = Simulator(3)
    assert "step 'add'" in refuses(Code.BAD_PLAN, lambda: network.exchange("add", plan, outbox))
    assert network.meter.snapshot().rounds == 0


def test_local_parties_must_exist() -> None:
    refuses(Code.BAD_PLAN, lambda: Simulator(0))


def test_nothing_after_the_end() -> None:
    with Simulator(3) as network:
        network.exchange("a", [], {})
    network.close()
    refuses(Code.NETWORK_CLOSED, lambda: network.exchange("b", [], {}))


def test_farewell_is_two_rounds_without_payload() -> None:
    network = Simulator(4)
    network.farewell([2, 0, 1, 0])
    reading = network.meter.snapshot()
    assert reading.rounds == 2
    assert reading.payload == (0, 0, 0, 0)
    # Two frames to two others each; the party that is not listed sends none.
    assert reading.wire == (*[2 * 2 * wire_bytes([])] * 3, 0)
    assert reading.at("farewell", 0) == reading.total(0)


def test_farewell_of_nobody_and_of_strangers() -> None:
    network = Simulator(3)
    for parties in ([], [1]):
        network.farewell(parties)
    assert network.meter.snapshot().wire == (0, 0, 0)
    refuses(Code.BAD_PLAN, lambda: network.farewell([0, 3]))
    network.close()
    refuses(Code.NETWORK_CLOSED, lambda: network.farewell([0, 1]))
