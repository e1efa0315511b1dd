"""`Network`: one step is one exchange over a public plan.

A plan lists who sends what to whom: source, destination, shape and dtype of every array. It is
public and the same at all parties, so every size on the wire is known before a byte arrives, and
nothing that is secret can change it. One call of `exchange` is one round.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.net.meter import Meter

Array = NDArray[Any]

# No booleans: a byte of a peer that is neither 0 nor 1 would be a value that NumPy does not know.
_DTYPES = {
    name: np.dtype(name)
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
}
# Far above any message of a protocol, far below what a 64-bit length field can overflow.
MAX_BYTES = 1 << 40
# What the sender's field of a frame can hold.
MAX_PARTIES = 1 << 16


@dataclass(frozen=True)
class Route:
    """One array of a plan, of an integer dtype such as ``"uint64"``, between two parties."""

    source: int
    destination: int
    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        if self.source == self.destination:
            raise Code.BAD_PLAN.error(found=f"a route from party {self.source} to itself")
        if self.dtype not in _DTYPES:
            raise Code.BAD_PLAN.error(
                expected=f"a dtype among {', '.join(_DTYPES)}", found=repr(self.dtype)
            )
        if any(operator.index(side) < 0 for side in self.shape) or self.nbytes > MAX_BYTES:
            raise Code.BAD_PLAN.error(
                expected=f"a shape without negative sides, at most {MAX_BYTES} bytes",
                found=f"shape {self.shape} of {self.dtype}",
            )

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * _DTYPES[self.dtype].itemsize


class Network(ABC):
    """Parties that exchange arrays, some of them (`local`, ascending) in this process.

    The three servers are 0, 1 and 2; owners and analysts come after. The meter has what the local
    parties have sent.
    """

    def __init__(self, n: int, local: Sequence[int]) -> None:
        self.n = n
        self.local = tuple(sorted(set(local)))
        if n > MAX_PARTIES or not self.local or not 0 <= self.local[0] <= self.local[-1] < n:
            raise Code.BAD_PLAN.error(
                expected=f"at most {MAX_PARTIES} parties, and local ones among them",
                found=f"{n} parties, local {self.local[:9]}",
            )
        self.meter = Meter(self.local)
        self._local = frozenset(self.local)
        self._closed = False
        self.agreed = ""
        """What else the parties must agree on in an exchange, such as the number of the step and
        what it is for. It is compared with the plan where parties are apart; nothing is sent."""

    def exchange(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        """Send and receive the arrays of a plan: one round.

        Step and plan are public, the same at all parties; ``outbox[k]`` is the array of
        ``plan[k]``, for every k whose source is local. Returns those whose destination is local,
        writable and owned by the caller.
        """
        if self._closed:
            raise Code.NETWORK_CLOSED.error(found=f"step {step!r} after the end")
        self._check(step, plan, outbox)
        return self._move(step, plan, outbox)

    def farewell(self, parties: Sequence[int]) -> None:
        """Return once all of these parties have completed every step before: two rounds.

        Without it, a party that has received all it needs may end well while another fails in
        the last step. In step ``"farewell"`` one frame without payload goes between any two of
        the parties, twice:

        (1) "My steps are complete." Whoever reads it has seen the end of the peer's last step, so
        that anything too much, such as a frame that came twice, is found before (2).
        (2) "I have read (1) of all others." Whoever returns knows that no step before has failed
        at any of these parties. Where one has failed, nobody returns.

        What it cannot do: a fault in (2) may end some parties well and others with an error,
        whatever is sent after it (the two generals' problem). No data travel here: every step
        before was complete at all of them then. A party that is not listed makes the same call; it
        sends nothing and waits for nobody.
        """
        among = sorted(set(parties))
        plan = [Route(a, b, (0,), "uint8") for a in among for b in among if a != b]
        nothing = np.empty(0, dtype=np.uint8)
        ours = {k: nothing for k, route in enumerate(plan) if route.source in self._local}
        for _ in range(2):
            self.exchange("farewell", plan, ours)

    def _check(self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]) -> None:
        ours = 0
        for k, route in enumerate(plan):
            if not (0 <= route.source < self.n and 0 <= route.destination < self.n):
                raise Code.BAD_PLAN.error(
                    expected=f"parties 0, ..., {self.n - 1}",
                    found=f"step {step!r}, route {k} from {route.source} to {route.destination}",
                )
            if route.source not in self._local:
                continue
            ours += 1
            array = outbox.get(k)
            if array is None or array.shape != route.shape or array.dtype != _DTYPES[route.dtype]:
                found = "nothing" if array is None else f"{array.dtype} {array.shape}"
                raise Code.BAD_PLAN.error(
                    expected=f"{route.dtype} {route.shape} for route {k} of step {step!r}",
                    found=found,
                )
        if ours != len(outbox):
            extra = [k for k in outbox if not self._is_ours(plan, k)]
            raise Code.BAD_PLAN.error(
                expected=f"one array for each local route of step {step!r}",
                found=f"arrays for routes {extra} that local parties do not send",
            )

    def _is_ours(self, plan: Sequence[Route], k: int) -> bool:
        return 0 <= k < len(plan) and plan[k].source in self._local

    @abstractmethod
    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        """Move the arrays of a plan that has been checked, and record them in the meter."""

    def close(self) -> None:
        """End the session; a second call does nothing."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
