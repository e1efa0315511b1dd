"""What came out of paper 002's runs: rows beside its formulas, and sentences of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduce.paper_002.methods import COUNTINGS
from reproduce.paper_002.study import Record, chosen
from reproduce.report import row


def trees_of(records: Sequence[Record]) -> list[Record]:
    """Return the trees that were grown among sites."""
    return [r for r in records if "measured" in r]


def leaks_of(records: Sequence[Record]) -> dict[str, Any]:
    """Return what was found out about the example."""
    (found,) = chosen(list(records), what="leaks")
    return found


def ring_example(records: Sequence[Record]) -> Record:
    """Return the example as published: two sites, the class at the first."""
    (found,) = _examples(records, "ring")
    return found


def _examples(records: Sequence[Record], counting: str) -> list[Record]:
    return chosen(list(records), what="example", k=2, class_at="first", counting=counting)


def spread(numbers: Sequence[float]) -> str:
    """Say from where to where numbers reach."""
    low, high = min(numbers), max(numbers)
    return f"{low:.3g} to {high:.3g}" if f"{low:.3g}" != f"{high:.3g}" else f"{low:.3g}"


def percent(share: float) -> str:
    """Write a share."""
    return f"{100 * share:.2g}%"


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Set what was measured beside the paper's formulas: the example, then the tables that grow."""
    found = []
    for counting, label in COUNTINGS.items():
        (one,) = _examples(records, counting)
        found += _beside(f"example, {label}", one)
    for one in chosen(list(records), what="car"):
        found += _beside(f"car, {one['n']} records, {COUNTINGS[one['counting']]}", one)
    for one in chosen(list(records), what="whole"):
        case = f"{one['table']}, {one['n']:,} records, {one['q']} nodes: set intersections"
        counted, formula = one["literal"]["intersections"], one["paper"]["intersections"]
        found.append(row(case, counted, formula, counted="not grown among sites"))
    growth = chosen(list(records), what="growth", counting="ring")
    axes = list(dict.fromkeys(one["axis"] for one in growth))
    for one in sorted(growth, key=lambda r: (axes.index(r["axis"]), r["x"])):
        case = f"{one['axis']} = {one['x']}, {COUNTINGS['ring']}"
        found += _beside(case, one, ("intersections", "encryptions", "bytes"))
    return found


def _beside(
    case: str,
    one: Record,
    names: Sequence[str] = ("intersections", "encryptions", "bytes", "messages", "rounds"),
) -> list[dict[str, Any]]:
    more = {}
    if one["counting"] == "secret":
        more = {"among servers": f"{one['measured']['server_rounds']} rounds"}
    return [
        row(
            f"{case}: {name}",
            one["measured"][name],
            # Servers encrypt nothing: the formula is of another protocol.
            one["paper"].get(name)
            if one["counting"] != "secret" or name == "intersections"
            else None,
            **more,
        )
        for name in names
    ]


def findings(records: Sequence[Record]) -> list[str]:
    """Say how costs grow, and what secret counts cost in place of the ring."""
    return [
        *(found for counting in COUNTINGS for found in _growth(records, counting)),
        *_secret(records),
        *_rounds(records),
        *_seconds(records),
    ]


def _growth(records: Sequence[Record], counting: str) -> list[str]:
    """Fit a power to the encryptions, or bytes where there are none, over each axis."""
    what = "bytes" if counting == "secret" else "encryptions"
    mine = chosen(list(records), what="growth", counting=counting)
    parts = []
    for axis in dict.fromkeys(r["axis"] for r in mine):
        points = [(r["x"], r["measured"][what]) for r in mine if r["axis"] == axis]
        if len(points) > 1:
            power = np.polyfit(*np.log(np.array(points, dtype=np.float64)).T, 1)[0]
            parts.append(f"{axis}^{power:.2f}")
    return [f"{COUNTINGS[counting].capitalize()}: {what} grow as {', '.join(parts)}."]


def _secret(records: Sequence[Record]) -> list[str]:
    """Compare bytes and seconds of secret counts with those of the ring."""
    pairs = _pairs(records)
    over_n = sorted(
        (ring["x"], secret["measured"]["bytes"] / ring["measured"]["bytes"])
        for ring, secret in pairs
        if ring.get("axis") == "n"
    )
    parts = [f"{factor:.2g} at n = {x}" for x, factor in over_n]
    (example,) = _examples(records, "secret")
    factor = example["measured"]["bytes"] / ring_example(records)["measured"]["bytes"]
    seconds = [ring["seconds"] / secret["seconds"] for ring, secret in pairs]
    return [
        "Secret counts, all that sites and servers send, over the bytes of the ring of all sites: "
        f"{factor:.2g} on the example, {', '.join(parts)}. The ring took {spread(seconds)} times "
        "as long, in one process."
    ]


def _rounds(records: Sequence[Record]) -> list[str]:
    mine = [r["measured"]["rounds"] / r["q"] for r in chosen(trees_of(records), counting="ring")]
    theirs = [
        (r["measured"]["rounds"] / r["q"], r["measured"]["server_rounds"] / r["q"])
        for r in chosen(trees_of(records), counting="secret")
    ]
    return [
        f"Messages that follow each other, for each node (the paper does not count them): "
        f"{spread(mine)} in the ring of all sites, {spread([a for a, _ in theirs])} on secret "
        f"counts and {spread([b for _, b in theirs])} more among the servers."
    ]


def _seconds(records: Sequence[Record]) -> list[str]:
    return [
        f"{one['table']}, {one['n']} records at {one['k']} sites, {one['q']} nodes, "
        f"{COUNTINGS[one['counting']]}: {one['seconds']:.1f} s in one process, "
        f"{one['measured']['bytes'] / 1e6:.3g} MB."
        for one in chosen(list(records), what="car")
    ]


def _pairs(records: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Return runs of the ring with those on secret counts of the same setting."""
    same = ("what", "table", "sizes", "k", "class_at", "max_depth", "axis")
    trees = trees_of(records)
    of = {tuple(str(r.get(key)) for key in same): r for r in chosen(trees, counting="secret")}
    keyed = ((tuple(str(r.get(key)) for key in same), r) for r in chosen(trees, counting="ring"))
    return [(ring, of[key]) for key, ring in keyed if key in of]
