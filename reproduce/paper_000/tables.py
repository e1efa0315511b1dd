"""Paper 000's tables: its table 1, the figures that its text prints, and the two engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduce.paper_000.data import DATA, TABLE_1
from reproduce.paper_000.figures import LABELS, Figure
from reproduce.paper_000.findings import METRIC_NAMES, PAPER, at
from reproduce.paper_000.study import Extent
from reproduce.report import number, row, table

SIZES = ("rows", "attributes", "values")


def sizes(extent: Extent) -> list[dict[str, Any]]:
    """Set the data sets beside the paper's table 1."""
    rows = []
    for name in extent.names:
        frame, target, domain = DATA[name]()
        found = (len(target), frame.num_columns, int(domain.n_bins.max()))
        for what, ours, paper in zip(SIZES, found, TABLE_1[name], strict=True):
            rows.append(row(f"table 1, {name}: {what}", ours, paper))
    return rows


def tables(
    extent: Extent, figure_2: Figure, checks: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return all tables."""
    return [_data_sets(extent), _printed(figure_2), _engines(checks)]


def _data_sets(extent: Extent) -> dict[str, Any]:
    found = {one["case"]: one for one in sizes(extent)}
    rows = []
    for name in extent.names:
        ones = [found[f"table 1, {name}: {what}"] for what in SIZES]
        rows.append([name, *(f"{one['ours']:,} ({one['paper']:,})" for one in ones)])
    return table(
        "Table 1: the data sets",
        ("data set", "records", "attributes", "most values of an attribute"),
        rows,
        "In brackets the paper's.",
    )


def _printed(figure_2: Figure) -> dict[str, Any]:
    rows = []
    for (name, x, metric), pair in PAPER.items():
        for method, paper in zip(("leaves laplace", "open laplace"), pair, strict=True):
            one = at(figure_2, name, metric, method, x)
            if one is not None:
                ours = f"{one['mean']:.3f} ± {one['sd']:.3f}"
                label = LABELS[method]
                rows.append([name, f"{x:g}", METRIC_NAMES[metric], label, ours, f"{paper:g}"])
    return table(
        "Figure 2: what the paper's text prints",
        ("data set", "ε", "measure", "tree", "ours", "the paper (section 4.1.1)"),
        rows,
        "Behind ±: the standard deviation over all runs.",
    )


def _engines(checks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return table(
        "Spot checks: the clear engine and three servers",
        ("data set", "case", "clear engine", "three servers", "standard errors apart", ""),
        [
            [
                one["data"],
                one["case"],
                f"{one['clear']:.3f}",
                f"{one['servers']:.3f}",
                number(one["standard_errors_apart"], 2),
                "agree" if one["same"] else "differ",
            ]
            for one in checks
        ],
        "Mean accuracies. Without noise they have to be equal.",
    )
