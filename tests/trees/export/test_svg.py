"""Pieces of the picture: widths, escapes, colours."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.charts.look import FONT, text_width
from hedgerow.trees.export import svg
from hedgerow.trees.export.svg import tidy
from tests.charts.test_look import check_style
from tests.trees.tree_strategies import quick, trees

NASTY = "</title><script>alert('x')</script>\"&"


def test_every_text_is_escaped():
    face = svg.Face("leaf", 1, (NASTY, NASTY), [(0, 0.5), (1, 0.5)], NASTY)
    drawing = svg.place_nodes(
        [()], [face], [NASTY], title=NASTY, description=NASTY, classes=[NASTY]
    )
    for style in (svg.STYLE, svg.THEMED):
        root = ElementTree.fromstring(svg.drawing_svg(drawing, style))
        tags = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
        assert tags == {"svg", "title", "desc", "style", "rect", "text", "g"}
        assert [e.text for e in root.iter() if e.tag.endswith(("title", "desc"))] == [NASTY] * 3


def test_a_box_is_as_wide_as_its_name():
    wide = svg.Face("inner", None, ("a rather long name", ""), (), "")
    assert wide.width > text_width("a rather long name", FONT)


def test_a_bar_is_filled_by_its_shares():
    face = svg.Face("leaf", 0, ("x", ""), [(0, 0.25), (9, 0.0), (10, 0.75)], "")
    widths = re.findall(r'class="f(\d)" x="[-\d.]+" width="([\d.]+)"', svg._node(face, "", 0, 0))
    inner = face.width - 24
    assert widths == [("0", f"{inner / 4:.1f}"), ("2", f"{inner * 3 / 4:.1f}")]


@pytest.mark.parametrize("style", [svg.STYLE, svg.THEMED])
def test_style_is_confined_to_the_picture_and_has_both_schemes(style):
    check_style(style, ".hedgerow-tree ")


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
