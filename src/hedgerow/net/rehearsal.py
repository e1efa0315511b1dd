"""`Rehearsal`: a network at which nobody lives, for what a program would send.

A plan of `Network.exchange` names what every party sends, and follows from public numbers alone.
So a program that runs where no party lives has arrays of shares without a single share in them,
computes nothing, and yet goes through every step: what is counted is what its parties would send,
to the byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.net.meter import Meter
from hedgerow.net.network import Array, Network, Route

Suppose = Callable[[str, tuple[int, ...]], NDArray[Any]]


class Rehearsal(Network):
    """A network of n parties, none of them here; the meter counts what all of them would send.

    What the program would see opened, of a name and a shape, is what `suppose` returns. Mail has no
    plan, and is H808.
    """

    def __init__(self, n: int, suppose: Suppose) -> None:
        super().__init__(n, range(n))
        self.local, self._local, self._suppose = (), frozenset(), suppose
        # Where nobody lives, no time passes.
        self.meter = Meter(range(n), clock=lambda: 0.0)
        self.work: Counter[str] = Counter()
        """Products that all parties compute beside what messages show, by kind."""

    def note_work(self, kind: str, amount: int) -> None:
        """Add up local work. See `Network.note_work`."""
        self.work[kind] += amount

    def supposed(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return what an opening is taken to have shown. See `Network.supposed`."""
        return np.broadcast_to(self._suppose(name, shape), shape)

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        sent = [0] * self.n
        for route in plan:
            sent[route.source] += route.nbytes
        for party, payload in enumerate(sent):
            self.meter.record(step, party, payload=payload)
        return {}

    def _post(self, step: str, source: int, destination: int, data: bytes) -> NoReturn:
        raise self._no_mail(step)

    def _receive(
        self, step: str, at: int, senders: tuple[int, ...], timeout: float | None
    ) -> NoReturn:
        raise self._no_mail(step)

    def _no_mail(self, step: str) -> Exception:
        return Code.BAD_PLAN.error(
            expected="steps whose plan is known to all", found=f"mail in step {step!r}"
        )
