"""Pieces of the picture: widths, escapes, colours."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.trees.export import svg
from hedgerow.trees.export.svg import tidy
from tests.trees.tree_strategies import quick, trees

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
    legend, _ = svg._legend(0, 0, [NASTY])
    parts = [svg._heading(0, 0, NASTY), legend, svg._node(face, NASTY, 50, 50)]
    root = ElementTree.fromstring(svg._document(100, 100, NASTY, NASTY, parts))
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
    widths = re.findall(r'class="f(\d)" x="[-\d.]+" width="([\d.]+)"', svg._node(face, "", 0, 0))
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


GAP = 3.0


def children_of(tree):
    return [
        list(range(first, first + arity)) if arity else []
        for first, arity in zip(tree.first_child.tolist(), tree.arity.tolist(), strict=True)
    ]


@quick
@given(trees(), st.randoms(use_true_random=False))
def test_nothing_on_a_level_overlaps_and_order_is_kept(tree, random):
    children = children_of(tree)
    widths = [random.uniform(1, 30) for _ in children]
    x = tidy(children, widths, GAP)
    left, right = x - np.array(widths) / 2, x + np.array(widths) / 2
    assert np.isclose(left.min(), 0.0, atol=1e-9)
    # From left to right as a walk over the tree meets the nodes.
    order, stack = [], [0]
    while stack:
        v = stack.pop()
        order.append(v)
        stack += reversed(children[v])
    for depth in range(tree.depth + 1):
        level = [v for v in order if tree.node_depths[v] == depth]
        gaps = left[level[1:]] - right[level[:-1]]
        assert np.all(gaps >= GAP - 1e-9)


@quick
@given(trees())
def test_parents_stand_in_the_middle(tree):
    children = children_of(tree)
    x = tidy(children, [10.0] * len(children), GAP)
    for v, below in enumerate(children):
        if below:
            assert np.isclose(x[v], (x[below[0]] + x[below[-1]]) / 2, atol=1e-9)


@quick
@given(trees())
def test_a_mirrored_tree_has_the_mirrored_picture(tree):
    children = children_of(tree)
    widths = [5.0 + v % 7 for v in range(len(children))]
    x = tidy(children, widths, GAP)
    mirrored = tidy([below[::-1] for below in children], widths, GAP)
    width = max(x + np.array(widths) / 2)
    assert np.allclose(mirrored, width - x, atol=1e-8)


def test_small_trees_by_hand():
    assert tidy([[]], [10.0], GAP).tolist() == [5.0]
    assert tidy([[1], []], [10.0, 4.0], GAP).tolist() == [5.0, 5.0]
    # Two leaves of width 10 are 13 apart.
    assert tidy([[1, 2], [], []], [10.0] * 3, GAP).tolist() == [11.5, 5.0, 18.0]
