"""Pieces of the SVG picture of a tree: boxes, edges, captions, legend and their style.

Nothing here knows a tree. Every text goes through `escape`, every number is formatted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple
from unicodedata import east_asian_width

FONT = 13.0
SMALL = 11.0
BOX_HEIGHT = 52.0
CAPTION_HEIGHT = 20.0
LONGEST = 28
"""Characters of a text that the picture shows; the whole text is in the tooltip."""

_PADDING = 12.0
_BAR = 5.0

# For a light and a dark page, mostly from Okabe and Ito's and from Tol's palettes, which were made
# for colour-blind readers. Colour is never the only sign: every leaf also names its class.
_COLOURS = (
    ("#0072b2", "#56a8e0"),
    ("#d55e00", "#f08a3c"),
    ("#009e73", "#2fc89b"),
    ("#aa4499", "#dd88cc"),
    ("#b8860b", "#e6b93c"),
    ("#56b4e9", "#8fd0f5"),
    ("#882255", "#cc6690"),
    ("#6b7280", "#a3aab5"),
)
N_COLOURS = len(_COLOURS)
_LIGHT = {"page": "#ffffff", "box": "#f8fafc", "line": "#94a3b8", "ink": "#0f172a",
          "soft": "#475569", "bar": "#e2e8f0"}  # fmt: skip
_DARK = {"page": "#0f172a", "box": "#1e293b", "line": "#64748b", "ink": "#f1f5f9",
         "soft": "#b6c2d2", "bar": "#334155"}  # fmt: skip


def _colours(tone: dict[str, str], dark: bool) -> str:
    """Colour rules of one scheme; written out, since not every viewer knows CSS variables."""
    classes = "".join(
        f".hedgerow-tree .f{i}{{fill:{pair[dark]}}}.hedgerow-tree .s{i} .box{{stroke:{pair[dark]}}}"
        for i, pair in enumerate(_COLOURS)
    )
    return (
        f".hedgerow-tree .page{{fill:{tone['page']}}}"
        f".hedgerow-tree .edge{{fill:none;stroke:{tone['line']}}}"
        f".hedgerow-tree .box{{fill:{tone['box']};stroke:{tone['line']}}}"
        f".hedgerow-tree text{{fill:{tone['ink']}}}"
        f".hedgerow-tree .small,.hedgerow-tree .key{{fill:{tone['soft']}}}"
        f".hedgerow-tree .when{{stroke:{tone['page']}}}"
        f".hedgerow-tree .bar{{fill:{tone['bar']}}}" + classes
    )


STYLE = (
    ".hedgerow-tree text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',"
    f"sans-serif;font-size:{FONT:g}px;text-anchor:middle}}"
    ".hedgerow-tree .name{font-weight:600}"
    ".hedgerow-tree .head{font-weight:600;text-anchor:start}"
    f".hedgerow-tree .small{{font-size:{SMALL:g}px}}"
    f".hedgerow-tree .key{{font-size:{SMALL:g}px;text-anchor:start}}"
    f".hedgerow-tree .when{{font-size:{SMALL:g}px;paint-order:stroke;stroke-width:4px;"
    "stroke-linejoin:round}"
    ".hedgerow-tree .edge{stroke-width:1.5px}"
    ".hedgerow-tree .leaf .box{stroke-width:2px}"
    ".hedgerow-tree .more .box{stroke-dasharray:4 3}"
    + _colours(_LIGHT, dark=False)
    + f"@media (prefers-color-scheme:dark){{{_colours(_DARK, dark=True)}}}"
)


class Face(NamedTuple):
    """What the box of a node shows.

    Attributes
    ----------
    role : str
        "inner", "leaf" or "more" (there is a tree below that is not drawn).
    colour : int or None
        Which colour frames the box.
    lines : tuple of str
        The name, and a smaller line that may be empty.
    shares : sequence of (int, float)
        Colours of the bar and their fractions of it, from left to right; empty for no bar.
    tooltip : str
    """

    role: str
    colour: int | None
    lines: tuple[str, str]
    shares: Sequence[tuple[int, float]]
    tooltip: str

    @property
    def width(self) -> float:
        """Width of the box in pixels."""
        name, small = self.lines
        return max(72.0, 2 * _PADDING + max(text_width(name, FONT, bold=True), text_width(small)))


def short(text: str) -> str:
    """Shorten a text to what the picture has room for."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def text_width(text: str, size: float = SMALL, *, bold: bool = False) -> float:
    """Estimate the width of a text in pixels, rather too wide than too narrow."""
    em = 0.0
    for c in text:
        if east_asian_width(c) in "WF":
            em += 1.05
        elif c in "iljtfr.,:;'|!()[]{} ":
            em += 0.42
        elif c in "mwMW@%…" or ord(c) > 0x2000:
            em += 1.0
        else:
            em += 0.72 if c.isupper() else 0.64
    return em * size * (1.08 if bold else 1.0)


def document(
    width: float, height: float, title: str, description: str, parts: Sequence[str]
) -> str:
    """Put the picture together, with title and description for screen readers."""
    w, h = f"{width:.0f}", f"{height:.0f}"
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="hedgerow-tree" role="img" '
            f'viewBox="0 0 {w} {h}" width="{w}" height="{h}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{w}" height="{h}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def heading(x: float, y: float, text: str) -> str:
    """Draw the heading, its first letter at (x, y)."""
    return f'<text class="head" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def legend(x: float, y: float, labels: Sequence[str]) -> tuple[str, float]:
    """Draw one coloured key per label; also return where the legend ends on the right."""
    parts = []
    for i, label in enumerate(labels):
        shown = short(label)
        parts.append(
            f'<rect class="f{i % N_COLOURS}" x="{x:.1f}" y="{y:.1f}" '
            'width="11" height="11" rx="2"/>'
            f'<text class="key" x="{x + 17:.1f}" y="{y + 9.5:.1f}">{escape(shown)}</text>'
        )
        x += 17 + text_width(shown) + 16
    return "\n".join(parts), x


def edge(x0: float, y0: float, x1: float, y1: float) -> str:
    """Draw the curve from a parent's lower to a child's upper border."""
    y = (y0 + y1) / 2
    return (
        f'<path class="edge" d="M{x0:.1f} {y0:.1f}C{x0:.1f} {y:.1f} {x1:.1f} {y:.1f} '
        f'{x1:.1f} {y1:.1f}"/>'
    )


def node(face: Face, condition: str, x: float, y: float) -> str:
    """Draw a box with its upper border at y and, above it, the condition that leads there."""
    width, name, small = face.width, *face.lines
    left = x - width / 2
    framed = "" if face.colour is None else f" s{face.colour % N_COLOURS}"
    parts = [f'<g class="{face.role}{framed}"><title>{escape(face.tooltip)}</title>']
    if condition:
        parts.append(f'<text class="when" x="{x:.1f}" y="{y - 7:.1f}">{escape(condition)}</text>')
    parts.append(
        f'<rect class="box" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{BOX_HEIGHT:g}" rx="6"/>'
    )
    middle = y + (21 if small else 27)
    parts.append(f'<text class="name" x="{x:.1f}" y="{middle:.1f}">{escape(name)}</text>')
    if small:
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 36:.1f}">{escape(small)}</text>')
    if face.shares:
        parts.append(_bar(left + _PADDING, y + BOX_HEIGHT - 10, width - 2 * _PADDING, face.shares))
    return "".join(parts) + "</g>"


def _bar(x: float, y: float, width: float, shares: Sequence[tuple[int, float]]) -> str:
    size = f'y="{y:.1f}" height="{_BAR:g}"'
    parts = [f'<rect class="bar" x="{x:.1f}" width="{width:.1f}" {size}/>']
    for colour, share in shares:
        part = share * width
        if part >= 0.05:
            parts.append(
                f'<rect class="f{colour % N_COLOURS}" x="{x:.1f}" width="{part:.1f}" {size}/>'
            )
        x += part
    return "".join(parts)
