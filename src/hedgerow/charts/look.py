"""How every picture looks: colours for light and dark pages, letters, and the room they take.

Texts come from outside. What cannot be printed (control characters, line breaks, marks that change
the direction of writing) is shown as an escape, so that a caption is always one harmless line.
"""

from __future__ import annotations

from unicodedata import east_asian_width

FONT = 13.0
SMALL = 11.0
FAMILY = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
LONGEST = 28
"""Characters of a text that a picture shows; the whole text is in the tooltip."""
LONGEST_TICK = 44
"""Characters of a name below an axis, which differ at their ends, such as by a level."""

# For a light and a dark page, mostly from Okabe and Ito's and from Tol's palettes, which were made
# for colour-blind readers. Colour is never the only sign: what it stands for is named as well.
PALETTE = (
    ("#0072b2", "#56a8e0"),
    ("#d55e00", "#f08a3c"),
    ("#009e73", "#2fc89b"),
    ("#aa4499", "#dd88cc"),
    ("#b8860b", "#e6b93c"),
    ("#56b4e9", "#8fd0f5"),
    ("#882255", "#cc6690"),
    ("#6b7280", "#a3aab5"),
)
N_COLOURS = len(PALETTE)

Tone = dict[str, str]
LIGHT: Tone = {"page": "#ffffff", "box": "#f8fafc", "line": "#94a3b8", "ink": "#0f172a",
               "soft": "#475569", "bar": "#e2e8f0"}  # fmt: skip
DARK: Tone = {"page": "#0f172a", "box": "#1e293b", "line": "#64748b", "ink": "#f1f5f9",
              "soft": "#b6c2d2", "bar": "#334155"}  # fmt: skip
# Names in the theme of Hedgerow's pages. Its own lines are too faint for what a picture says.
_THEME = {"page": "card", "box": "page", "line": "soft", "ink": "ink", "soft": "soft", "bar": "bar"}


def themed(tone: Tone) -> Tone:
    """Return a tone that follows the theme of a page, and is itself where there is no theme."""
    return {name: f"var(--{_THEME[name]},{colour})" for name, colour in tone.items()}


def short(text: str, longest: int = LONGEST) -> str:
    """Shorten a text to what a picture has room for."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def printable(text: object) -> str:
    """Show text on one line, with escapes for everything that is not printable."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )


def printable_lines(text: object) -> str:
    """Show text as `printable` does, but with its line breaks."""
    return "\n".join(map(printable, str(text).split("\n")))


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
