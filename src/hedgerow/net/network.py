"""`Network`: what parties of a run send each other, in lock-step or as mail.

In lock-step, one step is one exchange over a public plan. It lists who sends what to whom: source,
destination, shape and dtype of every array. It is public and the same at all parties, so every
size on the wire is known before a byte arrives, and nothing that is secret can change it. One call
of `exchange` is one round.

Mail is byte strings from one party to another, where the others take no part: questions and their
answers, each under the name of a step, in order per sender. Its length is bounded, not known.

A pair of parties uses one of the two in a session; a frame of the other is H806.
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

from hedgerow.errors import Code, HedgerowError
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
MAX_MAIL_BYTES = 1 << 32


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
        self.most_mail = MAX_MAIL_BYTES
        """Bytes of the longest mail, and of what is kept of one sender before it is asked for."""
        self._local = frozenset(self.local)
        self._closed = False
        self._in_step: set[tuple[int, int]] = set()
        self._by_mail: set[tuple[int, int]] = set()
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

    def exchange_all(
        self, step: str, own: Mapping[int, Array], among: Sequence[int]
    ) -> dict[int, Array]:
        """Tell all these parties an array, and hear theirs, by number: one round.

        `own` has at least those of the local ones, all of one shape and dtype. Where nobody is
        local, in a rehearsal, it has those of all.
        """
        like = next(iter(own.values()), np.empty(0, dtype=np.uint8))
        plan = [Route(a, b, like.shape, like.dtype.name) for a in among for b in among if a != b]
        outbox = {k: own[one.source] for k, one in enumerate(plan) if one.source in self._local}
        heard = self.exchange(step, plan, outbox)
        return {**own, **{plan[k].source: array for k, array in heard.items()}}

    def post(self, step: str, source: int, destination: int, data: bytes) -> None:
        """Send mail from a local party; return when it is on its way, read or not."""
        self._begin_mail(step, source, [destination])
        if len(data) > self.most_mail:
            raise Code.BAD_PLAN.error(
                expected=f"at most {self.most_mail} bytes in step {step!r}",
                found=f"{len(data)} bytes to party {destination}",
            )
        self._post(step, source, destination, bytes(data))

    def receive(
        self, step: str, at: int, senders: Sequence[int], timeout: float | None = None
    ) -> tuple[int, bytes]:
        """Return the next mail to a local party of any of these senders, the earliest, and whose.

        H804 if all of them have left, H803 after `timeout` seconds without any (the network's own
        by default), H806 for mail of another step.
        """
        self._begin_mail(step, at, senders)
        return self._receive(step, at, tuple(senders), timeout)

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
        for _ in range(2):
            self.exchange_all("farewell", dict.fromkeys(among, np.empty(0, dtype=np.uint8)), among)

    def note_work(self, kind: str, amount: int) -> None:
        """Hear of local work that no message tells the size of; heard in a rehearsal alone."""
        del kind, amount

    def supposed(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """Return what stands for an opened value where no party lives; None everywhere else."""
        del name, shape
        return None

    def _check(self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]) -> None:
        ours = 0
        for k, route in enumerate(plan):
            if not (0 <= route.source < self.n and 0 <= route.destination < self.n):
                raise Code.BAD_PLAN.error(
                    expected=f"parties 0, ..., {self.n - 1}",
                    found=f"step {step!r}, route {k} from {route.source} to {route.destination}",
                )
            if (route.source, route.destination) not in self._in_step:
                self._begin_steps(step, route.source, route.destination)
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

    def _begin_steps(self, step: str, source: int, destination: int) -> None:
        """Note that two parties are in lock-step from here on."""
        self._check_linked(step, source, destination)
        if (source, destination) in self._by_mail:
            raise self._mixed(step, source, destination, "mail")
        self._in_step |= {(source, destination), (destination, source)}

    def _begin_mail(self, step: str, here: int, others: Sequence[int]) -> None:
        """Check who takes part in mail, and note that each pair uses it from here on."""
        if self._closed:
            raise Code.NETWORK_CLOSED.error(found=f"step {step!r} after the end")
        known = all(0 <= other < self.n and other != here for other in others)
        if here not in self._local or not others or not known:
            raise Code.BAD_PLAN.error(
                expected=f"mail between a local party and others of 0, ..., {self.n - 1}",
                found=f"step {step!r}, party {here} and {list(others)[:9]}",
            )
        for other in others:
            if (here, other) not in self._by_mail:
                self._check_linked(step, here, other)
                if (here, other) in self._in_step:
                    raise self._mixed(step, here, other, "lock-step")
                self._by_mail |= {(here, other), (other, here)}

    def _mixed(self, step: str, one: int, other: int, before: str) -> HedgerowError:
        peer = other if one in self._local else one
        return Code.BAD_FRAME.error(
            expected=f"{before} with party {peer} in step {step!r}, as before in this session",
            found="lock-step" if before == "mail" else "mail",
        )

    def _check_linked(self, step: str, one: int, other: int) -> None:
        if not self._are_linked(one, other):
            raise Code.NO_CHANNEL.error(
                expected=f"a way between parties {one} and {other} in step {step!r}",
                found="neither has an address that the other could call",
            )

    def _are_linked(self, one: int, other: int) -> bool:
        """Whether two parties have a way to each other."""
        del one, other
        return True

    def _is_ours(self, plan: Sequence[Route], k: int) -> bool:
        return 0 <= k < len(plan) and plan[k].source in self._local

    @abstractmethod
    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        """Move the arrays of a plan that has been checked, and record them in the meter."""

    @abstractmethod
    def _post(self, step: str, source: int, destination: int, data: bytes) -> None:
        """Send mail that has been checked, and record it in the meter."""

    @abstractmethod
    def _receive(
        self, step: str, at: int, senders: tuple[int, ...], timeout: float | None
    ) -> tuple[int, bytes]:
        """Wait for mail of senders that have been checked."""

    def close(self) -> None:
        """End the session; a second call does nothing."""
        self._closed = True

    def abort(self, error: BaseException) -> None:
        """End the session because of an error, and tell the others that it has ended."""
        del error
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort(error)
