"""How long another party may take: until some moment, or as long as its bytes keep coming."""

from __future__ import annotations

import math
import time

LONGEST_WAIT = 1e6
"""Seconds in one wait; nothing takes a number of seconds that is much larger."""


class Deadline:
    """A moment by which everything has to be done."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds up to the moment."""
        return min(LONGEST_WAIT, self._end - time.monotonic())


class Rate:
    """Some seconds, which are the most that can be saved up, and more for every byte, if at a rate.

    Only the time of waiting for the other side counts, not what this side does with the bytes.
    """

    def __init__(self, seconds: float, bytes_per_second: float = math.inf) -> None:
        self._left = self._most = seconds
        self._rate = bytes_per_second

    def left(self) -> float:
        """Seconds of waiting that are left."""
        return self._left

    def count(self, moved: int, seconds: float) -> None:
        """Earn time with bytes, and pay for what was waited for them."""
        self._left = min(self._most, self._left + moved / self._rate - seconds)
