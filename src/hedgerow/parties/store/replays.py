"""Requests that change something are carried out at most once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from hedgerow.errors import Code


class Replays:
    """A memory of identifiers that is bounded in time and size.

    A request whose time differs too much from the clock here is refused, so that an identifier can
    be forgotten after a while. One from before the start is refused as well: what was carried out
    then is not known here.

    `skew`: seconds by which clocks may differ.
    `largest`: identifiers of one member that are remembered; more within the time are refused, not
    forgotten.
    """

    def __init__(self, skew: float, largest: int) -> None:
        self.skew, self.largest = skew, largest
        self._started = time.time()
        self._seen: dict[str, OrderedDict[str, float]] = {}
        self._lock = threading.Lock()

    def check_clock(self, stamp: float) -> None:
        """Refuse a request whose time is too far from the clock here: H878."""
        ahead = stamp - time.time()
        if abs(ahead) > self.skew:
            raise Code.CLOCKS_DIFFER.error(
                expected=f"a clock that differs by at most {self.skew:g} s",
                found=f"one that is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}",
            )

    def take(self, member: str, identifier: str, stamp: float) -> None:
        """Use up an identifier: H877 the second time, H878 before the start, H879 if too many."""
        if stamp < self._started:
            raise Code.CLOCKS_DIFFER.error(
                expected="a request that was made after this party has started",
                found=f"one from {self._started - stamp:.1f} s before",
            )
        now = time.monotonic()
        with self._lock:
            seen = self._seen.setdefault(member, OrderedDict())
            # Times lie within the skew on either side of the clock, so twice that is enough.
            while seen and next(iter(seen.values())) < now - 2 * self.skew:
                seen.popitem(last=False)
            if identifier in seen:
                raise Code.REQUEST_REPLAYED.error(found=f"identifier {identifier} again")
            if len(seen) >= self.largest:
                raise Code.SERVICE_BUSY.error(
                    expected=f"at most {self.largest} such requests in {2 * self.skew:g} s",
                    found="more",
                )
            seen[identifier] = now
