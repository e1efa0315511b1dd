"""Whole drawings: text and SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.domain import Domain
from hedgerow.trees.export import svg
from hedgerow.trees.export.svg import to_svg
from hedgerow.trees.export.text import to_text
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.tree import Tree
from tests.trees.tree_strategies import chain, quick, random_tree, single_split, trees

SVG = "{http://www.w3.org/2000/svg}"
DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), edges=(37.5, 60)),
        Attribute(name="colour", kind="categorical", categories=("red", "green", "blue")),
    ),
    target=Target(name="buys", classes=("no", "yes")),
)
TREE = Tree(
    DOMAIN,
    kind=[SplitKind.THRESHOLD, SplitKind.VALUE, SplitKind.WARY, 0, 0, 0, 0, 0],
    feature=[0, 1, 1, -1, -1, -1, -1, -1],
    cut=[0, 0, -1, -1, -1, -1, -1, -1],
    first_child=[1, 3, 5, -1, -1, -1, -1, -1],
    value=[[20, 30], [8, 12], [12, 18], [8, 0], [0, 12], [1, 9], [9, 1], [2, 8]],
    weight=[50, 20, 30, 8, 12, 10, 10, 10],
)


def test_text():
    assert to_text(TREE) == (
        "Decision tree for buys\n"
        "├── age <= 37.5\n"
        "│   ├── colour = red → no  (no: 8, yes: 0)\n"
        "│   └── colour != red → yes  (no: 0, yes: 12)\n"
        "└── age > 37.5\n"
        "    ├── colour = red → yes  (no: 1, yes: 9)\n"
        "    ├── colour = green → no  (no: 9, yes: 1)\n"
        "    └── colour = blue → yes  (no: 2, yes: 8)"
    )


def test_text_and_picture_of_a_subset():
    colours = ("red", "green", "blue", "grey")
    colour = Attribute(name="colour", kind="categorical", categories=colours)
    tree = single_split(colour, SplitKind.SUBSET, 0, [1, 1, 0, 0], value=[[4, 4], [3, 1], [1, 3]])
    assert to_text(tree) == (
        "Decision tree for target\n"
        "├── colour in {red, green} → no  (no: 3, yes: 1)\n"
        "└── colour in {blue, grey} → yes  (no: 1, yes: 3)"
    )
    texts = [t.text for t in ElementTree.fromstring(to_svg(tree)).iter(SVG + "text")]
    assert {"in {red, green}", "in {blue, grey}"} <= set(texts)


def test_text_of_a_part_says_what_is_left_out():
    assert to_text(TREE, max_depth=1, noisy=True) == (
        "Decision tree for buys\n├── age <= 37.5 … 2 leaves\n└── age > 37.5 … 3 leaves"
    )
    assert to_text(TREE, 0) == "Decision tree for buys … 5 leaves"


def test_text_says_noisy():
    assert "colour = red → no  (noisy; no: 8, yes: 0)" in to_text(TREE, noisy=True)


def test_text_of_a_single_regression_leaf():
    domain = Domain(attributes=DOMAIN.attributes, target=Target(name="price", bounds=(0, 10)))
    leaf = Tree(domain, [0], [-1], [-1], [-1], [[2.5]], [40])
    assert to_text(leaf) == "Decision tree for price → 2.5  (40 records)"
    assert to_text(leaf, noisy=True) == "Decision tree for price → 2.5  (noisy; 40 records)"
    picture = ElementTree.fromstring(to_svg(leaf))
    assert [t.text for t in picture.iter(SVG + "text")] == [
        "Decision tree for price",
        "2.5",
        "n = 40",
    ]


@quick
@given(trees(), st.one_of(st.none(), st.integers(0, 4)))
def test_text_has_a_line_per_drawn_node(tree, max_depth):
    lines = to_text(tree, max_depth).split("\n")
    deepest = tree.depth if max_depth is None else max_depth
    assert len(lines) == np.count_nonzero(tree.node_depths <= deepest)


def boxes(picture):
    """Left, top, right and bottom of every node's box, with the caption's text above it."""
    for group in picture.iter(SVG + "g"):
        box = next(r for r in group.iter(SVG + "rect") if r.get("class") == "box")
        x, y, width, height = (float(box.get(a)) for a in ("x", "y", "width", "height"))
        when = [t for t in group.iter(SVG + "text") if t.get("class") == "when"]
        half = max(width, svg.text_width(when[0].text) if when else 0.0) / 2
        middle = x + width / 2
        top = y - (svg.CAPTION_HEIGHT if when else 0.0)
        yield middle - half, top, middle + half, y + height


@quick
@given(trees(), st.one_of(st.none(), st.integers(0, 4)))
def test_boxes_and_captions_do_not_overlap_and_stay_on_the_page(tree, max_depth):
    picture = ElementTree.fromstring(to_svg(tree, max_depth))
    found = np.array(list(boxes(picture)))
    deepest = tree.depth if max_depth is None else max_depth
    assert len(found) == np.count_nonzero(tree.node_depths <= deepest)
    left, top, right, bottom = found.T
    overlap = (
        (left[:, None] < right - 0.2)
        & (left < right[:, None] - 0.2)
        & (top[:, None] < bottom)
        & (top < bottom[:, None])
    )
    assert overlap.sum() == len(found)
    assert left.min() >= 0
    assert top.min() >= 0
    assert right.max() <= float(picture.get("width"))
    assert bottom.max() <= float(picture.get("height"))


def test_the_picture_can_be_read_aloud():
    picture = ElementTree.fromstring(to_svg(TREE, 1, noisy=True))
    assert picture.get("role") == "img"
    assert picture.find(SVG + "title").text == "Decision tree for buys"
    assert picture.find(SVG + "desc").text == (
        "Classification tree with 5 leaves and depth 2. 5 leaves are below what is drawn. "
        "The first split is on age. Counts are noisy."
    )
    whole = ElementTree.fromstring(to_svg(TREE, title="Our tree"))
    assert whole.find(SVG + "title").text == "Our tree"
    tooltips = [group.find(SVG + "title").text for group in whole.iter(SVG + "g")]
    assert tooltips[0] == "split on age (no: 20, yes: 30)"
    assert tooltips[3] == "colour = red: no (no: 8, yes: 0)"
    texts = [t.text for t in whole.iter(SVG + "text")]
    assert "≤ 37.5" in texts
    assert "≠ red" in texts
    assert "90%, n = 10" in texts


NASTY = '<script>alert("x")</script>\x00\x1b]0;\u202e&amp;' + "long " * 30


def test_hostile_names_stay_text():
    domain = Domain(
        attributes=(Attribute(name=NASTY, kind="categorical", categories=(NASTY, "]]>")),),
        target=Target(name=NASTY + "y", classes=(NASTY, "--><x/>")),
    )
    tree = random_tree(np.random.default_rng(0), domain, kinds=[SplitKind.VALUE], max_splits=2)
    for title in (None, NASTY):
        text = to_svg(tree, title=title)
        tags = {e.tag.removeprefix(SVG) for e in ElementTree.fromstring(text).iter()}
        assert tags == {"svg", "title", "desc", "style", "rect", "text", "path", "g"}
        assert "<script" not in text
    assert all(c.isprintable() for c in to_text(tree).replace("\n", ""))


def test_deep_trees_do_not_exhaust_the_stack():
    deep = chain(DOMAIN, 2_000)
    assert to_text(deep).count("\n") == deep.n_nodes - 1
    assert to_svg(deep, None).count("<g ") == deep.n_nodes


@pytest.mark.parametrize("max_depth", [-1, 1.5, "2"])
def test_max_depth_is_checked(max_depth):
    for draw in (to_text, to_svg):
        with pytest.raises(HedgerowError) as caught:
            draw(TREE, max_depth)
        assert caught.value.code is Code.BAD_PARAMETER
