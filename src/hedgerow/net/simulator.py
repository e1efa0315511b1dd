"""`Simulator`: all parties at one endpoint, in lock-step on the same arrays."""

from __future__ import annotations

from hedgerow.net.mesh import Mesh, MeshNetwork


class Simulator(MeshNetwork):
    """A network whose parties are all local."""

    def __init__(self, n: int = 3) -> None:
        super().__init__(Mesh(n), range(n))
