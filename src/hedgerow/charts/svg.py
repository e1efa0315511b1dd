"""Panels as one SVG picture for a page: it follows the page's theme, light or dark, or its own.

Every text goes through `_said`. There are no ids, so that any number of pictures share a page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap

from hedgerow.charts.look import (
    DARK,
    FAMILY,
    FONT,
    LIGHT,
    LONGEST,
    LONGEST_TICK,
    N_COLOURS,
    PALETTE,
    SMALL,
    Tone,
    printable,
    short,
    text_width,
    themed,
)
from hedgerow.charts.panel import Panel, Series

WIDTH = 560.0
_HEIGHT = 210.0
_BAR = 22.0
_MARGIN = 14.0
_LINE = 16.0
_ASLANT = 30
_COS = math.cos(math.radians(_ASLANT))


def _colours(tone: Tone, dark: bool) -> str:
    palette = "".join(
        f".hedgerow-chart .f{i}{{fill:{pair[dark]}}}.hedgerow-chart .s{i}{{stroke:{pair[dark]}}}"
        for i, pair in enumerate(PALETTE)
    )
    return (
        f".hedgerow-chart .page{{fill:{tone['page']}}}"
        f".hedgerow-chart text{{fill:{tone['ink']}}}"
        f".hedgerow-chart .soft{{fill:{tone['soft']}}}"
        f".hedgerow-chart .grid{{stroke:{tone['bar']}}}"
        f".hedgerow-chart .axis,.hedgerow-chart .back{{stroke:{tone['line']}}}"
        f".hedgerow-chart .dot{{stroke:{tone['page']}}}" + palette
    )


STYLE = (
    f".hedgerow-chart text{{font-family:{FAMILY};font-size:{SMALL:g}px}}"
    f".hedgerow-chart .head{{font-size:{FONT:g}px;font-weight:600}}"
    ".hedgerow-chart .mid{text-anchor:middle}"
    ".hedgerow-chart .end{text-anchor:end}"
    ".hedgerow-chart .path{fill:none;stroke-width:2px;stroke-linejoin:round}"
    ".hedgerow-chart .back{stroke-width:1px}"
    ".hedgerow-chart .band{fill-opacity:.22}"
    + _colours(themed(LIGHT), dark=False)
    + f"@media screen and (prefers-color-scheme:dark){{{_colours(themed(DARK), dark=True)}}}"
)


def panels_svg(panels: Sequence[Panel], *, title: str, description: str) -> str:
    """Draw panels below each other, with title and description for screen readers."""
    parts: list[str] = []
    top = _MARGIN
    for panel in panels:
        drawn = _Drawn(panel, top)
        parts += drawn.parts()
        top = drawn.bottom + _MARGIN
    w, h = f"{WIDTH:.0f}", f"{top:.0f}"
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="hedgerow-chart" role="img" '
            f'viewBox="0 0 {w} {h}" width="{w}" height="{h}">',
            f"<title>{_said(title)}</title>",
            f"<desc>{_said(description)}</desc>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{w}" height="{h}"/>',
            *parts,
            "</svg>\n",
        ]
    )


class _Drawn:
    """One panel and its place on the picture, in pixels."""

    def __init__(self, panel: Panel, top: float) -> None:
        self.panel = panel
        self.head = top + FONT
        self.legend = _legend_rows(panel.series)
        self.top = self.head + 12 + _LINE * len(self.legend)
        bars = max((len(s.y) for s in panel.series if s.kind == "bars"), default=0)
        self.floor = self.top + (_BAR * bars if bars else _HEIGHT)
        # Names of categories need more room than numbers, and are drawn aslant.
        self.x_ticks = [(at, short(printable(t), LONGEST_TICK)) for at, t in panel.x.shown_ticks()]
        self.y_ticks = [(at, short(printable(t))) for at, t in panel.y.shown_ticks()]
        widest = max((text_width(text) for _, text in self.y_ticks), default=0.0)
        self.left = _MARGIN + (18 if panel.y.label else 0) + widest + 8
        self.right = WIDTH - _MARGIN - 6
        room = (self.right - self.left) / max(len(self.x_ticks), 1)
        longest = max((text_width(text) for _, text in self.x_ticks), default=0.0)
        self.aslant = longest > room
        if self.aslant:
            self.left = max(self.left, *(self._left_for(*tick) for tick in self.x_ticks))
        below = 0.5 * longest + 14 if self.aslant else _LINE
        self.label = self.floor + 6 + below + (_LINE if panel.x.label else 0)
        self.notes = [line for note in panel.notes for line in wrap(printable(note), 92)]
        self.bottom = self.label + 6 + _LINE * len(self.notes)

    def _left_for(self, value: float, text: str) -> float:
        """Return how far to the right the axes have to begin for a name aslant to be whole."""
        share = self.panel.x.at(value)
        reach = _MARGIN + _COS * text_width(text) - share * self.right
        return reach / (1 - share) if share < 1 else 0.0

    def x(self, value: float) -> float:
        """Return the place of a value on the horizontal axis."""
        return self.left + self.panel.x.at(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the place of a value on the vertical axis."""
        return self.floor - self.panel.y.at(value) * (self.floor - self.top)

    def parts(self) -> Iterator[str]:
        """Write everything, the background first."""
        yield _text(_MARGIN, self.head, self.panel.title, "head")
        yield from self._keys()
        yield from self._axes()
        for series in self.panel.series:
            yield from self._series(series)
        for i, line in enumerate(self.notes):
            yield _text(_MARGIN, self.label + 6 + _LINE * (i + 0.75), line, "soft")

    def _keys(self) -> Iterator[str]:
        for row, keys in enumerate(self.legend):
            x, y = self.left, self.head + 16 + _LINE * row
            for series in keys:
                yield _marker(series.colour, x + 5, y - 4)
                yield _text(x + 15, y, short(printable(series.name)), "soft")
                x += _key_width(series)

    def _axes(self) -> Iterator[str]:
        panel = self.panel
        bars = any(series.kind == "bars" for series in panel.series)
        for at, text in self.x_ticks:
            x = self.x(at)
            yield _line("grid", x, self.top, x, self.floor)
            if self.aslant:
                turn = f' transform="rotate(-{_ASLANT} {x:.1f} {self.floor + 14:.1f})"'
                yield _text(x + 4, self.floor + 14, text, "soft end", turn)
            else:
                yield _text(x, self.floor + 16, text, "soft mid")
        for at, text in self.y_ticks:
            y = self.y(at)
            if not bars:
                yield _line("grid", self.left, y, self.right, y)
            yield _text(self.left - 6, y + 4, text, "soft end")
        yield _line("axis", self.left, self.floor, self.right, self.floor)
        if not panel.y.log and panel.y.low < 0 < panel.y.high and not bars:
            yield _line("axis", self.left, self.y(0), self.right, self.y(0))
        yield _line("axis", self.left, self.top, self.left, self.floor)
        if panel.x.label:
            middle = (self.left + self.right) / 2
            yield _text(middle, self.label - 2, short(printable(panel.x.label), 60), "mid")
        if panel.y.label:
            y = (self.top + self.floor) / 2
            turn = f' transform="rotate(-90 {_MARGIN + 6:.1f} {y:.1f})"'
            yield _text(_MARGIN + 6, y, short(printable(panel.y.label), 34), "mid", turn)

    def _series(self, series: Series) -> Iterator[str]:
        colour = None if series.colour is None else series.colour % N_COLOURS
        stroke = "path back" if colour is None else f"path s{colour}"
        tips = list(series.tips) or [""] * len(series.y)
        match series.kind:
            case "bars":
                for x, y, tip in zip(series.x, series.y, tips, strict=True):
                    yield (
                        f'<rect class="f{colour}" x="{self.left:.1f}" '
                        f'y="{self.y(y) - 0.36 * _BAR:.1f}" '
                        f'width="{max(self.x(x) - self.left, 0.0):.2f}" '
                        f'height="{0.72 * _BAR:.1f}" rx="2">{_tip(tip)}</rect>'
                    )
            case "line":
                yield self._path(stroke, list(zip(series.x, series.y, strict=True)))
            case "points":
                for x, y, tip in zip(series.x, series.y, tips, strict=True):
                    yield _marker(series.colour, self.x(x), self.y(y), tip)
            case "stairs":
                if len(series.low):
                    upper, lower = (_stairs(series.x, one) for one in (series.high, series.low))
                    band = self._points([*upper, *lower[::-1]])
                    yield f'<path class="band f{colour}" d="{band}Z"/>'
                yield self._path(stroke, _stairs(series.x, series.y))

    def _path(self, style: str, points: Sequence[tuple[float, float]]) -> str:
        return f'<path class="{style}" d="{self._points(points)}"/>'

    def _points(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.x(x):.2f} {self.y(y):.2f}" for x, y in points)


def _stairs(edges: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    return [
        point
        for left, right, y in zip(edges[:-1], edges[1:], heights, strict=True)
        for point in ((left, y), (right, y))
    ]


def _legend_rows(series: Sequence[Series]) -> list[list[Series]]:
    """Put named series into rows that the picture has room for."""
    rows: list[list[Series]] = []
    room = 0.0
    for one in series:
        if not one.name:
            continue
        if _key_width(one) > room:
            rows.append([])
            room = 0.8 * WIDTH
        rows[-1].append(one)
        room -= _key_width(one)
    return rows


def _key_width(series: Series) -> float:
    return 31 + text_width(short(printable(series.name), LONGEST))


def _marker(colour: int | None, x: float, y: float, tip: str = "") -> str:
    """Draw a point; its form goes with the colour, for those who do not see that."""
    at = 0 if colour is None else colour
    corners = (
        "",
        "M-4-4H4V4H-4Z",
        "M0-5.2L5.2 0L0 5.2L-5.2 0Z",
        "M0-5L5 4H-5Z",
        "M0 5L5-4H-5Z",
    )[at % 5]
    place, style = f'transform="translate({x:.2f} {y:.2f})"', f"dot f{at % N_COLOURS}"
    if not corners:
        return f'<circle class="{style}" r="4.4" {place}>{_tip(tip)}</circle>'
    return f'<path class="{style}" d="{corners}" {place}>{_tip(tip)}</path>'


def _line(style: str, x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<path class="{style}" d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"/>'


def _text(x: float, y: float, text: str, style: str, more: str = "") -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}"{more}>{_said(text)}</text>'


def _tip(text: str) -> str:
    return f"<title>{_said(text)}</title>" if text else ""


def _said(text: str) -> str:
    return escape(printable(text))
