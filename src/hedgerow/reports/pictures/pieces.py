"""Pieces of a tree that lies at several sites, as the one that keeps them sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hedgerow.charts.look import printable, short
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.site import Interior, Leaf, Node
from hedgerow.trees.export.svg import Face, TreeDrawing, place_nodes


@dataclass(frozen=True)
class TreePiece:
    """A node whose parent lies elsewhere, with all below it that lies at the same site.

    `children`: of each node, which come after it; `conditions` lead there. `lines` are the two
    lines of each box. `elsewhere` says which nodes lie at other sites: nothing else is known of
    them.
    """

    children: tuple[tuple[int, ...], ...]
    conditions: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    elsewhere: tuple[bool, ...]


Words = Callable[[Interior], tuple[str, tuple[str, ...]]]
"""The name of the attribute that a node tests, and its values in the order of its children."""


def tree_pieces(
    nodes: Mapping[int, Node], site: int, sites: tuple[str, ...], words: Words
) -> tuple[TreePiece, ...]:
    """Return what a site keeps of a tree, the largest piece first; single leaves are left out."""
    inner = {number: node for number, node in nodes.items() if isinstance(node, Interior)}
    below = {t.node for node in inner.values() for t in node.children if t.site == site}
    tops = [number for number in inner if number not in below]
    found = [_piece(nodes, Token(site, top), site, sites, words) for top in tops]
    return tuple(sorted(found, key=lambda piece: -len(piece.children)))


def piece_drawing(piece: TreePiece) -> TreeDrawing:
    """Lay out a piece of a tree."""
    faces = [
        Face(
            "hidden" if away else "inner" if children else "leaf",
            None,
            (short(first), short(second)),
            (),
            ", ".join(filter(None, (first, second))),
        )
        for children, (first, second), away in zip(
            piece.children, piece.lines, piece.elsewhere, strict=True
        )
    ]
    away = sum(piece.elsewhere)
    return place_nodes(
        piece.children,
        faces,
        [short(condition) for condition in piece.conditions],
        title=f"Nodes that test {printable(piece.lines[0][0])}, and below",
        description=f"Part of a tree that lies at one site. {away} of its branches go on at other "
        "sites, of which nothing more is known here.",
        classes=[],
    )


def _piece(
    nodes: Mapping[int, Node], top: Token, site: int, sites: tuple[str, ...], words: Words
) -> TreePiece:
    children: list[tuple[int, ...]] = []
    conditions, lines, elsewhere = [""], [], []
    waiting = [top]
    for token in waiting:
        node = nodes.get(token.node) if token.site == site else None
        elsewhere.append(node is None)
        below: tuple[Token, ...] = ()
        if node is None:
            lines.append((f"at {sites[token.site]}", "hidden here"))
        elif isinstance(node, Leaf):
            lines.append(("leaf", ", ".join(f"{count:,}" for count in node.counts)))
        else:
            name, values = words(node)
            lines.append((name, ""))
            below = node.children
            conditions += values
        # Nodes are listed level by level: children come behind all that wait already.
        first = len(waiting)
        children.append(tuple(range(first, first + len(below))))
        waiting.extend(below)
    return TreePiece(tuple(children), tuple(conditions), tuple(lines), tuple(elsewhere))
