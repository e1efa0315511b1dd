"""A chart as data: what stands where, in the units of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["bars", "line", "points", "stairs"]
_MOST_TICKS = 7


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`; `ticks` are (place, text), by default round numbers."""

    label: str
    low: float
    high: float
    log: bool = False
    ticks: tuple[tuple[float, str], ...] | None = None

    def at(self, value: float) -> float:
        """Return where a value lies, 0 at `low` and 1 at `high`."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)

    def shown_ticks(self) -> list[tuple[float, str]]:
        """Return the ticks that lie on the axis."""
        if self.ticks is not None:
            return list(self.ticks)
        return _powers(self.low, self.high) if self.log else _round_numbers(self.low, self.high)


@dataclass(frozen=True)
class Series:
    """One thing that a panel shows.

    "bars" lie at the heights `y` and are `x` long; "line" and "points" are at (x, y); "stairs" have
    the heights `y` between the edges `x`, one more than heights. `low` and `high` are a band around
    the heights of stairs. `name` stands in the legend, `tips` has a tooltip for each bar or point.
    `colour` is a place in the palette; None for what stays in the background.
    """

    kind: Kind
    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    colour: int | None = 0
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    tips: Sequence[str] = ()


@dataclass(frozen=True)
class Panel:
    """Axes and what they show. `notes` stand below: what a reader has to know of it."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    notes: Sequence[str] = field(default=())


def axis_around(label: str, values: Sequence[float]) -> Axis:
    """Return an axis with 0 on it and some room around values."""
    low, high = min([0.0, *values]), max([0.0, *values])
    if not high > low:
        high = 1.0
    room = 0.05 * (high - low)
    return Axis(label, low and low - room, high and high + room)


def _round_numbers(low: float, high: float) -> list[tuple[float, str]]:
    """Multiples of 1, 2 or 5 times a power of ten; none where floats have no such range."""
    rough = (high - low) / _MOST_TICKS
    if not 0 < rough < math.inf:
        return []
    power = 10.0 ** math.floor(math.log10(rough))
    # Never fewer than two: the next step is at most two and a half times as far.
    step = power * next(by for by in (1, 2, 5, 10) if by * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(i * step, f"{i * step:.6g}") for i in range(first, last + 1)]


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first) / (_MOST_TICKS - 1)))
    return [(10.0**i, f"1e{i}") for i in range(first, last + 1, step)]
