"""Pieces of the picture: widths, escapes, colours."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from hedgerow.trees.export import svg

NASTY = "</title><script>alert('x')</script>\"&"


def contrast(one, other):
    """Contrast ratio of two colours as in WCAG 2."""

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    a, b = sorted((light(one), light(other)))
    return (b + 0.05) / (a + 0.05)


def test_every_text_is_escaped():
    face = svg.Face("leaf", 1, (NASTY, NASTY), [(0, 0.5), (1, 0.5)], NASTY)
    legend, _ = svg.legend(0, 0, [NASTY])
    parts = [svg.heading(0, 0, NASTY), legend, svg.node(face, NASTY, 50, 50)]
    root = ElementTree.fromstring(svg.document(100, 100, NASTY, NASTY, parts))
    tags = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
    assert tags == {"svg", "title", "desc", "style", "rect", "text", "g"}
    assert [e.text for e in root.iter() if e.tag.endswith(("title", "desc"))] == [NASTY] * 3


def test_long_texts_are_shortened():
    assert svg.short("x" * svg.LONGEST) == "x" * svg.LONGEST
    assert svg.short("x" * 100) == "x" * (svg.LONGEST - 1) + "…"


def test_width_grows_with_the_text():
    assert svg.text_width("") == 0
    assert svg.text_width("iii") < svg.text_width("nnn") < svg.text_width("MMM")
    assert svg.text_width("漢字") >= 2 * svg.SMALL
    assert svg.text_width("n", bold=True) > svg.text_width("n")
    wide = svg.Face("inner", None, ("a rather long name", ""), (), "")
    assert wide.width > svg.text_width("a rather long name", svg.FONT)


def test_a_bar_is_filled_by_its_shares():
    face = svg.Face("leaf", 0, ("x", ""), [(0, 0.25), (9, 0.0), (10, 0.75)], "")
    widths = re.findall(r'class="f(\d)" x="[-\d.]+" width="([\d.]+)"', svg.node(face, "", 0, 0))
    inner = face.width - 24
    assert widths == [("0", f"{inner / 4:.1f}"), ("2", f"{inner * 3 / 4:.1f}")]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_can_be_read(dark):
    scheme = svg._DARK if dark else svg._LIGHT
    for surface in ("page", "box"):
        assert contrast(scheme["ink"], scheme[surface]) > 7
        assert contrast(scheme["soft"], scheme[surface]) > 4.5
    for pair in svg._COLOURS:
        assert contrast(pair[dark], scheme["box"]) > 2


def test_style_is_confined_to_the_picture_and_has_both_schemes():
    assert "prefers-color-scheme:dark" in svg.STYLE
    rules = re.findall(r"([^{}]+)\{", svg.STYLE.replace("@media (prefers-color-scheme:dark){", ""))
    for rule in rules:
        for selector in rule.split(","):
            assert selector.startswith(".hedgerow-tree "), selector
    assert "http" not in svg.STYLE
    assert "@import" not in svg.STYLE
