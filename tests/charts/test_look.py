"""Colours can be read, letters have their room, and what cannot be printed is escaped."""

from __future__ import annotations

import re

import pytest

from hedgerow.charts import look
from hedgerow.charts import svg as chart_svg


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours as in WCAG 2."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    a, b = sorted((light(one), light(other)))
    return (b + 0.05) / (a + 0.05)


def check_style(style: str, inside: str) -> None:
    """Every rule is about one picture, in light and dark, and asks for no file."""
    dark = "@media screen and (prefers-color-scheme:dark){"
    assert dark in style
    for rule in re.findall(r"([^{}]+)\{", style.replace(dark, "")):
        for selector in rule.split(","):
            assert selector.startswith(inside), selector
    assert "http" not in style
    assert "@import" not in style


def test_long_texts_are_shortened() -> None:
    assert look.short("x" * look.LONGEST) == "x" * look.LONGEST
    assert look.short("x" * 100) == "x" * (look.LONGEST - 1) + "…"


def test_width_grows_with_the_text() -> None:
    assert look.text_width("") == 0
    assert look.text_width("iii") < look.text_width("nnn") < look.text_width("MMM")
    assert look.text_width("漢字") >= 2 * look.SMALL
    assert look.text_width("n", bold=True) > look.text_width("n")


@pytest.mark.parametrize("dark", [False, True])
def test_colours_can_be_read(dark: bool) -> None:
    scheme = look.DARK if dark else look.LIGHT
    for surface in ("page", "box"):
        assert contrast(scheme["ink"], scheme[surface]) > 7
        assert contrast(scheme["soft"], scheme[surface]) > 4.5
    for pair in look.PALETTE:
        assert contrast(pair[dark], scheme["box"]) > 2


def test_the_style_of_charts_is_confined_to_them() -> None:
    check_style(chart_svg.STYLE, ".hedgerow-chart ")


def test_a_theme_has_the_tone_to_fall_back_on() -> None:
    for tone in (look.LIGHT, look.DARK):
        for name, colour in look.themed(tone).items():
            assert re.fullmatch(rf"var\(--\w+,{tone[name]}\)", colour)
