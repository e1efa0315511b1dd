"""Rounds in which peers align their rows: what each says it sends is checked before it is sent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.protocols.pivot.aligning import _ABOUT, SIZES, _parts, _round
from hedgerow.protocols.sharing.saying import said_by_all
from hedgerow.protocols.vertical_id3.tasks import Outgoing

M = 3


def together(program: Callable[[Network], Any], m: int = M) -> list[Any]:
    return Mesh(m, timeout=20.0).run({(party,): program for party in range(m)})


def refused_round(last: Callable[[Network], Any], *, is_done: bool = True) -> HedgerowError:
    """Return what the others say to a round in which the last peer does something else."""

    def attend(network: Network) -> Any:
        if network.local == (M - 1,):
            return last(network)
        return _round(network, M, [], is_done=is_done)

    with pytest.raises(HedgerowError) as caught:
        together(attend)
    assert caught.value.code is Code.BAD_SITE_MESSAGE
    return caught.value


def test_messages_arrive_whole_and_in_order_and_it_ends_when_all_are_done() -> None:
    def attend(network: Network) -> Any:
        (me,) = network.local
        outgoing = [Outgoing((me + 1) % M, bytes([me]) * size) for size in (5, 0, 3)]
        heard = _round(network, M, outgoing if me else [], is_done=me == 0)
        return heard, _round(network, M, [], is_done=True)

    ends = together(attend)
    assert [end for _, end in ends] == [None] * M
    for me, (heard, _) in enumerate(ends):
        sender = (me - 1) % M
        sent = [(sender, bytes([sender]) * size) for size in (5, 0, 3)]
        assert heard == (sent if sender else [])


@pytest.mark.parametrize(
    ("row", "about"),
    [
        ([0, 1 << 40, 0], f"a set of {1 << 40:,} bytes for peer 1"),
        ([(1 << 64) - 1, 0, 0], f"a set of {(1 << 64) - 1:,} bytes for peer 0"),
        ([0, 0, 7], "a set of 7 bytes for peer 2"),
    ],
    ids=["too large", "negative", "to itself"],
)
def test_sizes_that_cannot_be_are_refused_before_anything_is_received(
    row: list[int], about: str
) -> None:
    sizes = np.array([*row, 1], dtype="<u8").tobytes()
    error = refused_round(lambda network: said_by_all(network, SIZES, {2: sizes}, _ABOUT, M))
    assert error.found == f"{about}, from peer 2"


def test_a_peer_that_falls_silent_before_its_set_has_come_back_is_named() -> None:
    error = refused_round(lambda network: _round(network, M, [], is_done=False))
    assert error.found == "nothing, before its set had come back, from peer 2"


def test_what_is_left_over_of_a_body_is_a_message_which_nobody_can_read() -> None:
    whole = (3).to_bytes(8, "little") + b"abc"
    assert list(_parts(whole * 2)) == [b"abc", b"abc"]
    assert list(_parts(whole[:-1])) == [b"ab"]
    assert list(_parts(whole + b"\x05")) == [b"abc", b""]
