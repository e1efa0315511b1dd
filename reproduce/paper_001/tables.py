"""Paper 001's tables 1 and 2 beside what it prints, as published and where epsilon holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reproduce.paper_001.data import PAPER_ROWS, STAND_INS, label, task_of
from reproduce.paper_001.figures import ALLOWED, Figure
from reproduce.paper_001.published import UNIT
from reproduce.paper_001.study import MODES, Extent
from reproduce.report import number, row, table

Entry = dict[str, Any]


def sizes(extent: Extent) -> list[dict[str, Any]]:
    """Set the numbers of rows beside the paper's."""
    return [
        row(f"rows, {label(name)}", task_of(name).fine.n_slots, PAPER_ROWS[name])
        for name in (*extent.regression, *extent.classification)
    ]


def tables(
    extent: Extent, first: dict[str, Any], second: dict[str, Any], figure_3: Figure
) -> list[dict[str, Any]]:
    """Return all tables."""
    one, two = first["epsilon"], second["epsilon"]
    return [
        _data_sets(extent),
        _matrix(
            first,
            "paper",
            f"Table 1, as published: mean squared error, ε = {one:g}",
            _beside_table_1,
            "In brackets the paper's, with what it has behind ±; ours has the standard deviation "
            f"over the splits. ≠: more than {ALLOWED:g} of the paper's spreads apart. Figures of "
            "other data are not compared.",
        ),
        _matrix(
            first,
            "strict",
            f"Table 1, where ε = {one:g} holds: mean squared error",
            lambda e: _spread(e, UNIT[e["data"]]),
            "The same depths, trees and ε; releases at their true cost.",
        ),
        _matrix(
            second,
            "paper",
            f"Table 2, as published: share of wrong classes, ε = {two:g}",
            lambda e: f"{_spread(e)} ({e['authors']:.4g})",
            "In brackets those of the authors' notebook (shoryaconsul/DiPriMeFlip_Forest), where "
            "DP-DF has ε = 1; the figures of table 2 itself are not at hand.",
        ),
        _matrix(
            second,
            "strict",
            f"Table 2, where ε = {two:g} holds: share of wrong classes",
            _spread,
            "The same depths, trees and ε; releases at their true cost.",
        ),
        _held(first, second),
        _nodes(figure_3),
    ]


def _data_sets(extent: Extent) -> dict[str, Any]:
    return table(
        "The data sets",
        ("data set", "rows", "the paper's", ""),
        [
            [name, f"{task_of(name).fine.n_slots:,}", f"{PAPER_ROWS[name]:,}", _other(name)]
            for name in (*extent.regression, *extent.classification)
        ],
    )


def _other(name: str) -> str:
    return f"other data: {STAND_INS[name]}" if name in STAND_INS else ""


def _matrix(
    found: dict[str, Any], accounting: str, title: str, cell: Callable[[Entry], str], note: str
) -> dict[str, Any]:
    """Set methods below and data sets beside each other; methods without noise are in both."""
    mine = [e for e in found["entries"] if e["accounting"] in (None, accounting)]
    drawn = {e["data"] for e in mine}
    names = [name for name in PAPER_ROWS if name in drawn]
    units = {name: f" (unit {UNIT[name]:g})" for name in names if name in UNIT}
    by = {(e["method"], e["data"]): cell(e) for e in mine}
    methods = dict.fromkeys(e["method"] for e in mine)
    return table(
        title,
        ("method", *(name + units.get(name, "") for name in names)),
        [[method, *(by.get((method, name), "") for name in names)] for method in methods],
        note,
    )


def _spread(entry: Entry, unit: float = 1.0) -> str:
    return f"{number(entry['mean'] / unit, 3)} ± {number(entry['sd'] / unit, 2)}"


def _beside_table_1(entry: Entry) -> str:
    unit = UNIT[entry["data"]]
    paper = f"{entry['paper'] / unit:.3g} ± {entry['paper_spread'] / unit:.3g}"
    differs = " ≠" if entry["verdict"].startswith("differs") else ""
    return f"{_spread(entry, unit)} ({paper}){differs}"


def _held(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Say which epsilon the ledger holds for what is trained as published."""
    entries = [
        (kind, e)
        for kind, found in (("numbers", first), ("classes", second))
        for e in found["entries"]
        if e["accounting"] == "paper"
    ]
    keys = dict.fromkeys((e["method"], kind) for kind, e in entries)
    rows = []
    for method, kind in keys:
        mine = [e for k, e in entries if (e["method"], k) == (method, kind)]
        claimed = ", ".join(dict.fromkeys(f"{e['claimed']:.3g}" for e in mine))
        proven = [e["proven"] for e in mine if e["proven"] is not None]
        ends = dict.fromkeys(f"{end(proven):.3g}" for end in (min, max) if proven)
        holds = " to ".join(ends) if len(proven) == len(mine) else "no finite ε"
        rows.append([method, kind, claimed, holds])
    return table(
        "What ε holds for what is trained as published",
        ("method", "target", "ε claimed", "ε that the ledger holds"),
        rows,
    )


def _nodes(figure: Figure) -> dict[str, Any]:
    by = {(c["method"], c["accounting"]): c for p in figure["panels"] for c in p["curves"]}
    rows = []
    for method in dict.fromkeys(method for method, _ in by):
        ours = [by.get((method, mode)) for mode in MODES]
        paper = figure["paper_nodes"].get(method)
        rows.append(
            [
                method,
                *(number(one["nodes"], 3) if one else "" for one in ours),
                "" if paper is None else f"{paper}",
            ]
        )
    return table(
        "Figure 3: nodes of a tree, on average",
        ("method", "as published", "where ε holds", "the paper (section 4.3)"),
        rows,
    )
