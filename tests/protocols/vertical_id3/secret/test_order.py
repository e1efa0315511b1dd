"""The order of questions among three servers, over mutual TLS."""

from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network
from hedgerow.protocols.vertical_id3.secret import server as order
from hedgerow.protocols.vertical_id3.secret.server import (
    LEADER,
    STEP,
    ServerQuestion,
    receive_next,
    send_next,
)
from tests.net.net_parties import Club

SAID: list[order.Next] = [
    ServerQuestion(2, 3 << 48 | 9),
    "wait",
    ServerQuestion(0, 1),
    "wait",
    "end",
]


@pytest.fixture
def club(tmp_path: Path) -> Club:
    return Club(tmp_path, 3)


def test_the_others_hear_what_server_0_says(club: Club) -> None:
    meters = []

    def program(network: Network) -> list[order.Next]:
        (party,) = network.local
        if party != LEADER:
            return [receive_next(network) for _ in SAID]
        for following in SAID:
            send_next(network, following)
        meters.append(network.meter.snapshot())
        return SAID

    assert club.run(program) == [SAID] * 3
    (meter,) = meters
    sent = meter.at(STEP, LEADER)
    # As declared: a round each, and 11 bytes to each of the two others.
    assert (sent.rounds, sent.payload) == (len(SAID), len(SAID) * 2 * 11)


@pytest.mark.parametrize("data", [b"\x03" + bytes(10), b"\x00\x01" + bytes(9)])
def test_what_is_no_order(club: Club, data: bytes) -> None:
    def program(network: Network) -> str:
        (party,) = network.local
        if party == LEADER:
            wrong = np.frombuffer(data, dtype=np.uint8)
            order._exchange(network, {0: wrong, 1: wrong})
            return "said"
        try:
            receive_next(network)
        except HedgerowError as error:
            return error.code.number
        return "heard"

    number = Code.BAD_FRAME.number
    assert club.run(program) == ["said", number, number]
