"""Paper 002's costs as curves: its formulas beside what was counted and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reproduce.paper_002.methods import COUNTINGS, WIDTH
from reproduce.paper_002.study import Extent, Record, chosen

Figure = dict[str, Any]
Read = Callable[[Record], float]

AXES = {
    "n": "records n",
    "k": "sites k",
    "r": "attributes r",
    "p": "values of an attribute p",
    "c": "classes c",
    "depth": "depth of the tree",
}
FORMULA, LITERAL, PRINTED = "paper's formula", "one protocol per intersection", "as printed"
LABELS = {
    FORMULA: "the paper's formula",
    LITERAL: "each intersection by itself (counted)",
    PRINTED: "algorithm 6 as printed (counted)",
    **{name: f"{label} (measured)" for name, label in COUNTINGS.items()},
    "servers": "rounds among the servers of secret counts",
}


def _of(part: str, name: str) -> Read:
    return lambda record: record[part][name]


def _panel(
    records: Sequence[Record],
    axis: str,
    y: str,
    formulas: dict[str, Read],
    measured: dict[str, Read],
) -> dict[str, Any]:
    """Return curves over one axis; what is computed from the tree is the same for all countings."""
    mine = sorted(chosen(list(records), what="growth", axis=axis), key=lambda r: r["x"])
    curves = []
    for name, read in formulas.items():
        points = [{"x": r["x"], "y": read(r)} for r in mine if r["counting"] == "ring"]
        curves.append({"method": name, "label": LABELS[name], "points": points})
    for name, read in measured.items():
        counting = "secret" if name == "servers" else name
        points = [{"x": r["x"], "y": read(r)} for r in mine if r["counting"] == counting]
        curves.append({"method": name, "label": LABELS[name], "points": points})
    return {"axis": axis, "x": AXES[axis], "y": y, "curves": curves}


def figures(records: Sequence[Record], extent: Extent) -> dict[str, Figure]:
    """Make all figures."""
    every = list(extent.axes)
    sizes = [axis for axis in every if axis not in ("n", "k")] or every

    def figure(
        letter: str,
        title: str,
        y: str,
        formulas: dict[str, Read],
        measured: dict[str, Read],
        axes: Sequence[str],
    ) -> Figure:
        panels = [_panel(records, axis, y, formulas, measured) for axis in axes]
        return {"figure": letter, "title": title, "panels": panels}

    rings = ("ring", "needed")
    return {
        "intersections": figure(
            "A",
            "Set intersections of a tree",
            "set intersections",
            {
                FORMULA: _of("paper", "intersections"),
                PRINTED: _of("literal", "calls"),
            },
            {"ring": _of("measured", "intersections")},
            sizes,
        ),
        "encryptions": figure(
            "B",
            "Encryptions of a tree",
            "encryptions",
            {
                FORMULA: _of("paper", "encryptions"),
                LITERAL: _of("literal", "encryptions"),
            },
            {name: _of("measured", "encryptions") for name in rings},
            every,
        ),
        "bytes": figure(
            "C",
            "Bytes of a tree",
            "bytes",
            {
                FORMULA: _of("paper", "bytes"),
                LITERAL: lambda r: r["literal"]["encryptions"] * WIDTH,
            },
            {name: _of("measured", "bytes") for name in COUNTINGS},
            every,
        ),
        "rounds": figure(
            "D",
            "Messages of a tree that have to follow each other",
            "rounds",
            {},
            {name: _of("measured", "rounds") for name in COUNTINGS}
            | {"servers": _of("measured", "server_rounds")},
            every,
        ),
    }


def captions(base: dict[str, int]) -> dict[str, str]:
    """Return what stands below each figure."""
    held = (
        f"Random tables: n = {base['n']}, k = {base['k']}, r = {base['r']}, p = {base['p']}, "
        f"c = {base['c']}, depth {base['depth']}, where not on the axis; class at the last site."
    )
    return {
        "intersections": held,
        "encryptions": f"{held}\nEach pass of a ring counts all values and classes at "
        "once. Which sites matter follows from the splits: chance, here.",
        "bytes": f"{held}\nElements of 32 bytes. Of secret counts, with what the servers send.",
        "rounds": f"{held}\nThe paper does not count them. Within a round no message "
        "waits for another.",
    }
