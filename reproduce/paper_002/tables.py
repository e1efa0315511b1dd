"""Paper 002's costs as tables: its formulas beside what is counted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduce.paper_002.findings import ring_example
from reproduce.paper_002.methods import COUNTINGS, WIDTH
from reproduce.paper_002.study import Record, chosen
from reproduce.report import table

MEASURED = ("intersections", "encryptions", "bytes", "messages", "rounds")
NAMES = {"intersections": "set intersections", "rounds": "rounds (messages in a row)"}
FORMULAS = {"intersections": "c q (1 + p r)", "encryptions": "c q n k² (1 + p r)"}


def tables(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return all tables."""
    return [_example(records), *_real(records)]


def _example(records: Sequence[Record]) -> dict[str, Any]:
    one = ring_example(records)
    literal = one["literal"]
    counted = literal | {"bytes": literal["encryptions"] * WIDTH}
    ways = {
        way: chosen(list(records), what="example", k=2, class_at="first", counting=way)[0]
        for way in COUNTINGS
    }
    rows = []
    for name in MEASURED:
        formula = one["paper"].get(name)
        said = f"{FORMULAS[name]} = {formula:,}" if name in FORMULAS else _said(formula)
        cells = [f"{found['measured'][name]:,}" for found in ways.values()]
        if name == "rounds":
            cells[-1] += f", and {ways['secret']['measured']['server_rounds']:,} among the servers"
        rows.append([NAMES.get(name, name), said, _said(counted.get(name)), *cells])
    return table(
        "The worked example (section 3) at its two sites",
        ("", "the paper's formula", "a protocol for each (counted)", *COUNTINGS.values()),
        rows,
        f"Algorithm 6 as printed calls set intersection {literal['calls']:,} times: its first line "
        "counts a node again for each attribute.",
    )


def _said(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


def _real(records: Sequence[Record]) -> list[dict[str, Any]]:
    cars, whole = (chosen(list(records), what=what) for what in ("car", "whole"))
    return [
        *(
            table(
                f"Car evaluation, {cars[0]['n']:,} records at {cars[0]['k']} sites",
                ("", "the paper's formula", *(COUNTINGS[one["counting"]] for one in cars)),
                [
                    [
                        NAMES.get(name, name),
                        _said(cars[0]["paper"].get(name)),
                        *(f"{one['measured'][name]:,}" for one in cars),
                    ]
                    for name in MEASURED
                ],
            )
            for _ in cars[:1]
        ),
        *(
            table(
                "Set intersections of whole trees",
                ("table", "records", "nodes", "the paper's formula", "needed (counted)"),
                [
                    [
                        one["table"],
                        *(f"{one[key]:,}" for key in ("n", "q")),
                        f"{one['paper']['intersections']:,}",
                        f"{one['literal']['intersections']:,}",
                    ]
                    for one in whole
                ],
                "Counted from the table and its finished tree, not grown among sites.",
            )
            for _ in whole[:1]
        ),
    ]
