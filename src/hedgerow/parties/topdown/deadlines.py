"""`Deadlines`: until when a coordinator waits for whom."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hedgerow.parties.topdown.gathering import Gathering
from hedgerow.parties.topdown.job import TopDownTimeouts
from hedgerow.parties.topdown.turns import digest


class Deadlines:
    """Who was asked when, and who has called; used under the lock of `Rounds`.

    Parameters
    ----------
    timeouts : TopDownTimeouts
    gathering : Gathering

    Attributes
    ----------
    arrived : dict of str to float
        When each has called first.
    """

    def __init__(self, timeouts: TopDownTimeouts, gathering: Gathering) -> None:
        self._timeouts, self._gathering = timeouts, gathering
        self.arrived: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._since: dict[str, tuple[str, float]] = {}

    def asked(self, asks: Mapping[str, bytes], now: float) -> list[str]:
        """Note what is asked now; return who is asked something new."""
        found = []
        for name, ask in asks.items():
            known = self._since.get(name)
            if known is None or known[0] != digest(ask):
                self._since[name] = (digest(ask), now)
                found.append(name)
        return found

    def seen(self, name: str, now: float) -> None:
        """Note that somebody is there."""
        self._seen[name] = now
        self.arrived.setdefault(name, now)

    def of(self, name: str) -> float:
        """Return until when an answer of somebody who is asked is waited for."""
        since = self._since[name][1]
        if self._gathering.waits(name):
            # The others are to blame.
            return math.inf
        if name in self._gathering.group and name not in self._gathering.at_work:
            # It was there and has not come back, or has never come.
            return max(since, self._seen.get(name, since)) + self._timeouts.join
        if name not in self.arrived:
            return since + self._timeouts.join
        return max(since, self.arrived[name]) + self._timeouts.answer
