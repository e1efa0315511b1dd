"""A server that reads an opening, cuts the line, and claims to stand before it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.protocols.topdown.secure_splits import opening_name
from hedgerow.protocols.topdown.server import LastQuestion, SecureServers
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret
from tests.protocols.topdown.secure_counts import KEYS, asked, each_apart, owners_of, plan_of

LIAR = 2
TURNS = 8
PLAN = plan_of(epsilon=2.0)
RECORDS = 120


def lines() -> Callable[[int], Network]:
    mesh = Mesh(3, timeout=20.0)
    return lambda server: mesh.at([server])


class Liar(SecureServers):
    """Does all that the protocol asks, until it has read the numbers."""

    def __init__(self, *args: Any, seen: list[int], **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen = seen

    def _open(self, engine: Engine, last: LastQuestion) -> Any:
        ring = Ring(8 * last.data.dtype.itemsize)
        opened = engine.open(Secret(engine, ring, last.data), opening_name(last.ask), "public")
        assert opened is not None
        self.seen.append(int(ring.signed(opened)[0, 2]))
        raise Code.PEER_GONE.error(found="a line that was cut before the farewell")


@pytest.mark.parametrize("restarts", [False, True], ids=["live on", "restart"])
def test_a_server_that_claims_to_stand_before_an_opening_gets_no_other_draw(
    restarts: bool,
) -> None:
    """Eight draws of the number of records would come to the number itself, for one charge."""
    _, asks = asked(PLAN, owners_of(PLAN))
    seen: list[int] = []
    disks: list[list[bytes]] = [[], [], []]
    found: list[list[Any]] = []
    room = [lines()]

    def server(i: int) -> SecureServers:
        options: dict[str, Any] = {"meet": lambda: room[0](i), "keys": {i: KEYS[i]}}
        if i == LIAR:
            return Liar(PLAN, **options, seen=seen)
        if disks[i]:
            return SecureServers.resume(PLAN, disks[i][-1], keep=disks[i].append, **options)
        return SecureServers(PLAN, keep=disks[i].append, **options)

    servers = [server(i) for i in range(3)]
    charged = servers[0].ledger.to_json()
    for _ in range(TURNS):
        room[0] = lines()
        found.append(each_apart(servers, asks))
        for i in range(3):
            if restarts or i == LIAR:
                servers[i] = server(i)
    assert servers[0].ledger.to_json() == charged
    assert len(seen) == 1, f"{len(seen)} draws, mean {np.mean(seen)} of {RECORDS}"
    for said in found[1:]:
        assert [error.code for error in said[:LIAR]] == [Code.ANSWERS_LOST] * 2


@pytest.mark.parametrize("cut", [0, 1])
def test_one_honest_server_that_has_let_go_of_a_share_is_enough(cut: int) -> None:
    """The other one is cut off before it has marked anything, and would draw again."""
    _, asks = asked(PLAN, owners_of(PLAN))
    seen: list[int] = []
    room = [lines()]

    class Slow(SecureServers):
        def _open(self, engine: Engine, last: LastQuestion) -> Any:
            raise Code.PEER_GONE.error(found="no power, before anything left")

    def server(i: int, kind: type[SecureServers]) -> SecureServers:
        return kind(PLAN, {i: KEYS[i]}, lambda: room[0](i))

    servers: list[SecureServers] = [
        server(i, Slow if i == cut else SecureServers) for i in range(2)
    ]
    servers.append(Liar(PLAN, {LIAR: KEYS[LIAR]}, lambda: room[0](LIAR), seen=seen))
    each_apart(servers, asks)
    assert [one._last.marked for one in servers[:2]] == [i != cut for i in range(2)]
    # Server 1 holds the share that the liar lacks; server 0 sends it nothing.
    room[0] = lines()
    servers[LIAR] = Liar(PLAN, {LIAR: KEYS[LIAR]}, lambda: room[0](LIAR), seen=seen)
    said = each_apart(servers, asks)
    assert all(isinstance(error, HedgerowError) for error in said)
    assert [error.code for error in said[:LIAR]] == [Code.ANSWERS_LOST] * 2
    assert len(seen) <= 1
