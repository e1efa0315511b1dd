"""What came out of paper 003's runs: rows beside its table 1, and sentences of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np

from reproduce.paper_003.figures import Read, megabytes, online, per_peer, series
from reproduce.paper_003.models import DEPTH, MODELS, TREES
from reproduce.paper_003.published import SPEEDUP, TABLE_1
from reproduce.paper_003.study import BASELINE, OURS, PUBLISHED, Record, chosen
from reproduce.paper_003.timing import METHODS, REPEATS, SHORT
from reproduce.report import row

Curve = dict[int, float]


def curve(records: Sequence[Record], axis: str, method: str, read: Read = per_peer) -> Curve:
    """Return what was measured over an axis."""
    return {int(p["x"]): p["y"] for p in series(records, "training", axis, method, read)}


def small_curve(records: Sequence[Record], axis: str, method: str, read: Read = per_peer) -> Curve:
    """Return the same of the small setting, beside Paillier."""
    return {int(p["x"]): p["y"] for p in series(records, "small", axis, method, read)}


def tree_curve(records: Sequence[Record], method: str, read: Read = per_peer) -> Curve:
    """Return the same over the number of trees."""
    return {int(p["x"]): p["y"] for p in series(records, "trees", "trees", method, read)}


def over(found: Curve) -> float:
    """Return the last number over the first."""
    *_, last = found.values()
    first, *_ = found.values()
    return last / first


def order(found: Curve) -> float:
    """Return the power with which the last step grows: 1 is linear, 0 is not at all."""
    (x, y), (x1, y1) = list(found.items())[-2:]
    return log(y1 / y) / log(x1 / x)


def ratios(one: Curve, other: Curve) -> dict[int, float]:
    """Return how many times one is the other, where both were measured."""
    return {x: y / other[x] for x, y in one.items() if x in other}


def listed(found: Curve) -> str:
    """Write numbers one after the other."""
    return ", ".join(f"{y:,.0f}" if y >= 100 else f"{y:.3g}" for y in found.values())


def points(found: Curve) -> str:
    """Write where a curve was measured."""
    *most, last = (f"{x:,}" for x in found)
    return f"{', '.join(most)} and {last}" if most else last


def extent_of(records: Sequence[Record]) -> dict[str, Any]:
    """Return how much was run."""
    (found,) = chosen(list(records), what="load")
    return found


def learned(records: Sequence[Record]) -> list[Record]:
    """Return the entries of table 1."""
    order_of = list(MODELS)
    found = chosen(list(records), what="accuracy")
    return sorted(found, key=lambda r: (r["rows"] != 4_521, r["table"], order_of.index(r["model"])))


def is_number(record: Record) -> bool:
    """Tell whether an entry of table 1 is an error, not an accuracy."""
    return record["table"] in ("appliances", "rv2")


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Set table 1, costs and ratios beside what the paper prints."""
    return _table_1(records) + _costs(records) + _ratios(records)


def _table_1(records: Sequence[Record]) -> list[dict[str, Any]]:
    found = []
    for one in learned(records):
        peers, paper = one["peers"], TABLE_1.get((one["table"], one["model"]))
        unit = "mean squared error" if is_number(one) else "accuracy"
        notes = {
            "scikit-learn": f"{np.mean(one['sklearn']):.6g}",
            "paper's scikit-learn": paper and paper[1],
            "a constant": f"{np.mean(one['constant']):.6g}",
            "among peers": f"{peers['same']:,} of {peers['answers']:,} answers as in the clear, "
            f"trees {peers['trees']}, splits {peers['splits']}",
        }
        found.append(
            row(
                f"{one['table']}, {MODELS[one['model']]}: {unit}",
                float(np.mean(one["ours"])),
                paper and paper[0],
                **{key: note for key, note in notes.items() if note is not None},
            )
        )
    return found


def _costs(records: Sequence[Record]) -> list[dict[str, Any]]:
    base = extent_of(records)["base"]
    shown = [("training", base["base"], m) for m in (*OURS, "baseline")]
    shown += [("small", base["small"], m) for m in (*OURS, "baseline", *PUBLISHED)]
    found = []
    for what, at, method in shown:
        fits = [
            r
            for r in chosen(list(records), what=what, method=method, axis="m")
            if r["x"] == at["m"]
        ]
        for one in fits[:1]:
            figures = one["measured"]
            found.append(
                row(
                    f"{METHODS[method][0]}, {at['n']:,} rows, {at['m']} peers: seconds",
                    figures["seconds"],
                    processor=round(figures["cpu"], 2),
                    offline_processor=round(figures["offline_cpu"], 2),
                    offline_mb=round(figures["offline_mb"], 2),
                    online_mb=round(figures["online_mb"], 2),
                    rounds=figures["rounds"],
                    online_rounds=figures["online_rounds"],
                )
            )
    return found


def _ratios(records: Sequence[Record]) -> list[dict[str, Any]]:
    found = []
    for axis in BASELINE:
        baseline = curve(records, axis, "baseline")
        for method in OURS:
            times = ratios(baseline, curve(records, axis, method))
            at, most = max(times.items(), key=lambda pair: pair[1])
            found.append(
                row(
                    f"the baseline over {method}, growing {axis}: processor time at most",
                    most,
                    SPEEDUP[axis][method],
                    at=f"{axis} = {at:,}",
                )
            )
    return found


def findings(records: Sequence[Record]) -> list[str]:
    """Say what the runs show beside the claims."""
    load = extent_of(records)
    found = [
        f"Chosen where the paper says nothing: depth {DEPTH} and 8 bins (its table 2), {TREES} "
        f"trees or rounds, all attributes at every node, learning rate 0.1, leaves of one row.",
        _equality(records),
        _offline(records),
        f"{load['cases']} cases were clocked at a load of {load['before']:.1f} before and "
        f"{load['after']:.1f} after: seconds on the wall are those of a shared machine where this "
        "is above 1, and ratios are of processor seconds.",
        _repeats(records),
    ]
    if any(one["table"] == "rv2" for one in learned(records)):
        found.insert(2, _what_212_is(records))
    return found


def _repeats(records: Sequence[Record]) -> str:
    clocked = [r for r in records if "measured" in r]
    several = [r["apart"] for r in clocked if r["repeats"] > 1]
    if not several:
        return "Every case was measured once."
    return (
        f"{len(several)} of {len(clocked)} points are medians of {REPEATS} measurements in "
        f"processes of their own, all that did not take {SHORT:g} seconds on the wall; their "
        f"processor seconds are {np.median(several):.2f} times apart in the median, "
        f"{max(several):.2f} at most."
    )


def _equality(records: Sequence[Record]) -> str:
    every = learned(records)
    exact = [one for one in every if one["peers"]["same"] == one["peers"]["answers"]]
    off = "; ".join(
        f"{one['table']}, {MODELS[one['model']]}: {one['peers']['same']:,} of "
        f"{one['peers']['answers']:,}"
        for one in every
        if one not in exact
    )
    return (
        f"Ours in table 1 are scores of models that were trained among three peers: {len(exact)} "
        f"of {len(every)} entries answer every test row as the same learner does in the clear"
        + (f" (others: {off}). " if off else ". ")
        + "Gradients of classes are read off lines between knots, so that boosting of classes may "
        "choose other splits than scikit-learn's floating-point numbers."
    )


def _what_212_is(records: Sequence[Record]) -> str:
    said = []
    for one in learned(records):
        if one["table"] == "rv2":
            name, paper = MODELS[one["model"]], TABLE_1["appliances", one["model"]]
            said.append(
                f"{name} {np.mean(one['ours']):.2f} (paper {paper[0]:.2f}), scikit-learn "
                f"{np.mean(one['sklearn']):.2f} (paper {paper[1]:.2f})"
            )
            constant = np.mean(one["constant"])
    return (
        "The paper's 211 to 212 for appliances are what one gets for its last column, rv2, which "
        f"is random numbers from 0 to 50: {'; '.join(said)}; and {constant:.2f} for who answers "
        "with the mean. The program may have taken the last column for the target."
    )


def _offline(records: Sequence[Record]) -> str:
    said = []
    for method in (*OURS, "baseline"):
        ones = chosen(list(records), what="training", method=method)
        share = [1 - online(r) / per_peer(r) for r in ones]
        sent = [r["measured"]["offline_mb"] / megabytes(r) for r in ones]
        said.append(
            f"{METHODS[method][0]} {100 * np.median(share):.0f}% of the processor time and "
            f"{100 * np.median(sent):.0f}% of the bytes"
        )
    return (
        "The paper reports online time alone. Offline, with what needs no target, are in the "
        f"median of all cases: {'; '.join(said)}."
    )
