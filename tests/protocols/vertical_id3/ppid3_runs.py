"""Small runs of vertical ID3, on sites made from a table's columns."""

from collections.abc import Sequence
from typing import Any

from hedgerow.net.frames import mail_digest
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.protocols.contract import Context
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.programs import MESSAGE, grow
from hedgerow.protocols.vertical_id3.run import members_of
from hedgerow.protocols.vertical_id3.site import Site
from reproduce.paper_002.data import (
    DAYS,
    HUMIDITY,
    OUTLOOK,
    PAPER,
    WEATHER,
    WIND,
    dealt,
    sites_of,
    weather,
)
from reproduce.paper_002.local_sites import Tap
from reproduce.paper_002.wire import ManyKeys, Wire

# Tables and taps are those of the reproduction.
__all__ = [
    "DAYS",
    "HUMIDITY",
    "OUTLOOK",
    "PAPER",
    "WEATHER",
    "WIND",
    "ManyKeys",
    "TappedMesh",
    "Wire",
    "dealt",
    "growing",
    "grown",
    "sites_of",
    "weather",
]


class TappedMesh(Mesh):
    """A mesh on which a tap sees every message of a site, and every answer of a server."""

    def __init__(self, n: int, tap: Tap, *, servers: int = 0, **more: Any) -> None:
        super().__init__(n, **more)
        self._tap, self._servers = tap, servers

    def send(self, pair: tuple[int, int], digest: bytes, content: Any) -> None:
        if digest == mail_digest(MESSAGE):
            sender, to = ((party - self._servers) % self.n for party in pair)
            self._tap(sender, to, content)
        super().send(pair, digest, content)


def grown(sites: Sequence[Site], tap: Tap | None = None) -> Token:
    """Grow a tree; returns where it begins."""
    plan = Session(sites[0].job, {}, secret=False)

    def attend(network: Network) -> Site:
        context = Context(network, members_of(plan), plan)
        return grow(context, sites[context.party])

    mesh = Mesh(len(sites)) if tap is None else TappedMesh(len(sites), tap)
    roots = {site.root for site in mesh.run({(i,): attend for i in range(len(sites))})}
    assert len(roots) == 1
    return roots.pop()


def growing(sites: Sequence[Site]) -> None:
    """Put sites that have grown a tree back to where they still take part in growing one."""
    for site in sites:
        site.grown = False
