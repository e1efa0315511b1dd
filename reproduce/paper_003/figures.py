"""Paper 003's figures 4 and 5 in shape: what was clocked and counted among processes over TLS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reproduce.paper_003.study import BASELINE, OURS, PREDICTED, PUBLISHED, Extent, Record, chosen
from reproduce.paper_003.timing import MANY, METHODS

Figure = dict[str, Any]
Read = Callable[[Record], float]

AXES = {
    "m": "peers m",
    "n": "rows n",
    "each": "attributes of each peer",
    "bins": "bins b",
    "depth": "depth h",
    "trees": "trees W",
}
CLEAR = "clear"
ONLINE = "online"
LABELS = {name: label for name, (label, _) in METHODS.items()} | {
    CLEAR: "CART on the joined table (NPD-DT)"
}


def per_peer(record: Record) -> float:
    """Return the processor seconds of training, of one peer."""
    return float(record["measured"]["cpu"] / record["m"])


def online(record: Record) -> float:
    """Return those without what needs no target."""
    found = record["measured"]
    return float((found["cpu"] - found["offline_cpu"]) / record["m"])


def megabytes(record: Record) -> float:
    """Return what the busiest peer sends."""
    return float(record["measured"]["offline_mb"] + record["measured"]["online_mb"])


def answer(record: Record) -> float:
    """Return the processor milliseconds of one answer, of one peer, without what is made ahead."""
    return float(1000 * record["measured"]["answers_cpu"] / record["m"] / record["asked"])


def series(
    records: Sequence[Record], what: str, axis: str, method: str, read: Read
) -> list[dict[str, float]]:
    """Return a curve."""
    mine = chosen(list(records), what=what, axis=axis, method=method)
    return [{"x": r["x"], "y": read(r)} for r in sorted(mine, key=lambda r: r["x"])]


def _panel(
    records: Sequence[Record],
    what: str,
    axis: str,
    y: str,
    reads: Sequence[tuple[str, str, Read]],
    name: str,
) -> dict[str, Any]:
    curves = [
        {
            "method": method,
            "part": part,
            "label": LABELS[method] + (f", {part}" if part else ""),
            "points": series(records, what, axis, method, read),
        }
        for method, part, read in reads
    ]
    return {
        "axis": axis,
        "x": AXES[axis],
        "y": y,
        "title": name,
        "curves": [curve for curve in curves if curve["points"]],
    }


def _clear(records: Sequence[Record], axis: str) -> dict[str, Any]:
    points = [{"x": r["x"], "y": r["cpu"]} for r in chosen(list(records), what="clear", axis=axis)]
    return {"method": CLEAR, "part": "", "label": LABELS[CLEAR], "points": points}


def figures(records: Sequence[Record], extent: Extent) -> dict[str, Figure]:
    """Make all figures."""
    every, ours = list(extent.axes), (*OURS, "baseline")
    letters = dict(zip(every, "abcde", strict=False))
    seconds = "processor seconds of a peer"

    def both(read: Read, other: Read) -> list[tuple[str, str, Read]]:
        return [(method, "", read) for method in ours] + [(m, ONLINE, other) for m in ours]

    training = [
        _panel(records, "training", axis, seconds, both(per_peer, online), f"4{letters[axis]}")
        for axis in every
    ]
    sent = [
        _panel(
            records,
            "training",
            axis,
            "megabytes that a peer sends",
            both(megabytes, lambda r: r["measured"]["online_mb"]),
            "",
        )
        for axis in every
    ]
    rounds = [
        _panel(
            records,
            "training",
            axis,
            "rounds",
            both(lambda r: r["measured"]["rounds"], lambda r: r["measured"]["online_rounds"]),
            "",
        )
        for axis in every
    ]
    trees = [
        _panel(records, "trees", "trees", seconds, [(m, "", per_peer) for m in MANY], "4f"),
        _panel(
            records,
            "trees",
            "trees",
            "rounds online",
            [(m, "", lambda r: r["measured"]["online_rounds"]) for m in MANY],
            "",
        ),
    ]
    asked = [
        _panel(
            records,
            "training",
            axis,
            y,
            [(m, "", read) for m in OURS],
            f"4{letter}" if read is answer else "",
        )
        for y, read in (
            ("processor ms of a peer for a row", answer),
            ("rounds of all answers", lambda r: r["measured"]["answers_rounds"]),
        )
        for axis, letter in zip(PREDICTED, "gh", strict=True)
    ]
    compared = []
    for axis, letter in zip(BASELINE, "ab", strict=True):
        panel = _panel(
            records, "training", axis, seconds, [(m, "", per_peer) for m in ours], f"5{letter}"
        )
        panel["curves"].append(_clear(records, axis))
        compared.append(panel)
    small = [
        _panel(
            records,
            "small",
            axis,
            y,
            [(m, "", read) for m in (*ours, *PUBLISHED)],
            f"5{letter}, small" if read is per_peer else "",
        )
        for y, read in ((seconds, per_peer), ("of these online", online))
        for axis, letter in zip(extent.small_axes, "ab", strict=True)
    ]
    return {
        "figure4_training": {"figure": "4a-e", "title": "Training a tree", "panels": training},
        "training_bytes": {"figure": "4a-e", "title": "What is sent for a tree", "panels": sent},
        "training_rounds": {"figure": "4a-e", "title": "Rounds of a tree", "panels": rounds},
        "figure4_trees": {"figure": "4f", "title": "Training many trees", "panels": trees},
        "figure4_prediction": {"figure": "4g-h", "title": "Answers", "panels": asked},
        "figure5": {"figure": "5", "title": "Beside the baselines", "panels": compared},
        "figure5_paillier": {"figure": "5", "title": "Beside Paillier", "panels": small},
    }


def _held(base: dict[str, int]) -> str:
    return (
        f"n = {base['n']:,}, m = {base['m']}, attributes of each peer {base['each']}, "
        f"b = {base['bins']}, {base['classes']} classes, h = {base['depth']}, where not on the axis"
    )


def captions(extent: Extent) -> dict[str, str]:
    """Return what stands below each figure."""
    base = _held(extent.base)
    mixed = "Dotted: online alone, without what needs no target and could be made ahead."
    return {
        "figure4_training": f"{base}.\n{mixed} The paper shows online seconds on the wall.",
        "training_bytes": f"{base}.\n{mixed}",
        "training_rounds": f"{base}.\n{mixed}",
        "figure4_trees": f"{_held(extent.of_trees)}.\nAll trees of a forest grow side by side. "
        "Enhanced forests hide cuts and leaves, hidden boosting all of its trees.",
        "figure4_prediction": f"{base}; {extent.asked} rows are answered at once.\nWithout what "
        "needs no rows and could be made ahead.",
        "figure5": f"{base}.\nWith everything that could be made ahead.",
        "figure5_paillier": f"{_held(extent.small)}.\nThreshold Paillier of 2,048 bits, packed; "
        "peer 0 deals the key.",
    }
