"""Secret counts on three servers beside what the curves are drawn with.

The curves of SecureCounts come from the protocol's own code on plain numbers. Here it runs on three
simulated servers too, with counts and noise on shares; and SingleMachine, of which SecureCounts has
the law, runs beside it. If all is well the three differ by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from reproduce.paper_004.compare import bound
from reproduce.paper_004.methods import LABELS, Setting, run

WAYS = ("three servers", "plain numbers", "one curator")
SURE = 0.997
"""Confidence with which two means are said to differ. There are two dozen differences: with less,
one of them would pass by chance."""


def checked(name: str, number: int, alpha: float, splits: int) -> Iterator[dict[str, Any]]:
    """Run one setting in the three ways."""
    for way in WAYS:
        setting = Setting(
            "single-machine" if way == "one curator" else "secure-counts",
            "ours",
            alpha,
            splits=splits,
            engine="simulate" if way == "three servers" else "clear",
        )
        yield run(setting, name, number) | {"way": way}


def compared(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Set the three ways side by side, for every data set and alpha.

    Runs of one number have the same records, so their differences are taken.
    """
    mine = [r for r in records if r["what"] == "check"]
    found = []
    for name, alpha in dict.fromkeys((r["data"], r["alpha"]) for r in mine):
        here = [r for r in mine if (r["data"], r["alpha"]) == (name, alpha)]
        tests = {way: np.array([r["test"] for r in here if r["way"] == way]) for way in WAYS}
        entry: dict[str, Any] = {
            "data": name,
            "alpha": alpha,
            "splits": here[0]["splits"],
            "runs": len(tests[WAYS[0]]),
            "means": {way: float(found.mean()) for way, found in tests.items()},
            "apart": {},
        }
        for way in WAYS[1:]:
            apart = tests[WAYS[0]] - tests[way]
            error = float(apart.std(ddof=1) / apart.size**0.5) if apart.size > 1 else 0.0
            entry["apart"][way] = {"mean": float(apart.mean()), "se": error}
        entry["same"] = all(
            abs(apart["mean"]) <= max(bound(entry["runs"], SURE) * apart["se"], 1e-3)
            for apart in entry["apart"].values()
        )
        found.append(entry)
    return found


def said(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Say whether the three servers agree with what is drawn."""
    sentences = []
    for entry in entries:
        means = ", ".join(f"{entry['means'][way]:.4f} {_with(way)}" for way in WAYS)
        apart = " and ".join(
            f"{100 * one['mean']:+.2f} ± {100 * one['se']:.2f} points from {_what(way)}"
            for way, one in entry["apart"].items()
        )
        sentences.append(
            f"{entry['data']}, α = {entry['alpha']:g}, M = {entry['splits']}, {entry['runs']} "
            f"runs: {means}; the servers are {apart}: they "
            f"{'agree' if entry['same'] else 'DIFFER'}."
        )
    return sentences


def _with(way: str) -> str:
    return {
        "three servers": "on three simulated servers",
        "plain numbers": "by the protocol on plain numbers",
        "one curator": f"by {LABELS['single-machine']} with Gini",
    }[way]


def _what(way: str) -> str:
    return {"plain numbers": "plain numbers", "one curator": LABELS["single-machine"]}[way]
