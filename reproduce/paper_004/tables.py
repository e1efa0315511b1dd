"""Paper 004's results as tables: data sets, differences between methods, and accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduce.paper_004.checks import WAYS
from reproduce.paper_004.compare import Apart, apart, curves_of
from reproduce.paper_004.data import PAPER_H, PAPER_ROWS, task_of
from reproduce.paper_004.figures import ROWS, Figure
from reproduce.paper_004.findings import ABOVE, SHOWN
from reproduce.paper_004.methods import LABELS, Method
from reproduce.report import table

SHORT = {"published": "as published", "ours": "our defaults"}
PUBLISHED, OURS = "published", "ours"
COMPARED: tuple[tuple[tuple[str, Method], tuple[str, Method], str], ...] = (
    ((PUBLISHED, "local-rnm"), (PUBLISHED, "noisy-counts"), f"above on {', '.join(ABOVE)}"),
    ((PUBLISHED, "single-machine"), (PUBLISHED, "local-rnm"), "above"),
    ((PUBLISHED, "single-machine"), (PUBLISHED, "noisy-counts"), "above"),
    ((OURS, "secure-counts"), (OURS, "single-machine"), ""),
    ((OURS, "noisy-counts"), (PUBLISHED, "local-rnm"), ""),
)
"""A way and method, another that it is compared with, and what the paper has."""


def tables(
    figure_2: Figure, data: Sequence[str], checks: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return all tables."""
    return [
        _data_sets(data),
        _differences(figure_2, data),
        *(_accuracies(figure_2, how) for how in ROWS),
        _three_servers(checks),
    ]


def _data_sets(data: Sequence[str]) -> dict[str, Any]:
    rows = []
    for name in data:
        task = task_of(name)
        numbers = (task.n_records, PAPER_ROWS[name], len(task.candidates), PAPER_H[name])
        rows.append([name, *(f"{one:,}" for one in numbers)])
    head = ("data set", "records", "the paper's", "splitting functions", "the paper's")
    return table("The data sets", head, rows)


def _differences(figure_2: Figure, data: Sequence[str]) -> dict[str, Any]:
    lines = curves_of(figure_2)
    return table(
        "Figure 2: how far methods are apart, mean over α",
        ("how far from", "is", "the paper", *data),
        [
            [
                *(f"{LABELS[method]}, {SHORT[how]}" for how, method in (other, one)),
                paper,
                *(_cell(apart(lines[name, *one], lines[name, *other])) for name in data),
            ]
            for one, other, paper in COMPARED
        ],
        "Points of accuracy with standard errors, runs paired. ≠: surely apart "
        "(95%, Student's law). The paper prints curves without numbers.",
    )


def _cell(found: Apart) -> str:
    said = str(found).removesuffix(" points")
    return said if found.verdict == "no sure difference" else f"{said} ≠"


def _accuracies(figure_2: Figure, how: str) -> dict[str, Any]:
    panels = [panel for panel in figure_2["panels"] if panel["how"] == how]
    drawn = {p["x"] for panel in panels for one in panel["curves"] for p in one["points"]}
    xs = [x for x in SHOWN if x in drawn]
    rows = []
    for panel in panels:
        clear = {one["method"]: f"{one['mean']:.4f}" for one in panel["levels"]}
        for one in panel["curves"]:
            by = {p["x"]: f"{p['mean']:.4f} ± {p['se']:.2g}" for p in one["points"]}
            cells = [by.get(x, "") for x in xs]
            rows.append([panel["data"], one["label"], *cells, clear.get(one["method"], "")])
    return table(
        f"Figure 2, {ROWS[how]}: test accuracy",
        ("data set", "method", *(f"α = {x:g}" for x in xs), "no noise"),
        rows,
        "Behind ±: the standard error of the mean.",
    )


def _three_servers(checks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return table(
        "SecureCounts on three simulated servers: test accuracy",
        ("data set", "α", *WAYS),
        [
            [one["data"], f"{one['alpha']:g}", *(f"{one['means'][way]:.4f}" for way in WAYS)]
            for one in checks
        ],
        "By the protocol on the servers, by the same protocol on plain numbers, and by "
        "SingleMachine with Gini, of which it has the law.",
    )
