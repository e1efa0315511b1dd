"""What came out of paper 001's experiments, in sentences made of the measured numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduce.paper_001.data import label
from reproduce.paper_001.figures import Figure
from reproduce.paper_001.methods import CLEAR, DIPRIME
from reproduce.paper_001.published import UNIT
from reproduce.report import row

Table = dict[str, Any]
Entry = dict[str, Any]


def rows(first: Table, second: Table) -> list[dict[str, Any]]:
    """Set the tables beside the paper's, one row for each figure."""
    found = []
    for entry in first["entries"]:
        unit = UNIT[entry["data"]]
        found.append(
            row(
                f"table 1, {_case(entry)}",
                entry["mean"] / unit,
                entry["paper"] / unit,
                unit=f"{unit:g}",
                sd=f"{entry['sd'] / unit:.3g}",
                paper_spread=f"{entry['paper_spread'] / unit:.3g}",
                **_promise(entry),
                **({"verdict": entry["verdict"]} if "verdict" in entry else {}),
            )
        )
    return found + [
        row(
            f"table 2, {_case(entry)}",
            entry["mean"],
            sd=f"{entry['sd']:.3g}",
            authors=f"{entry['authors']:.4g}",
            **_promise(entry),
        )
        for entry in second["entries"]
    ]


def _case(entry: Entry) -> str:
    mode = f", {entry['accounting']}" if entry["accounting"] else ""
    return f"{label(entry['data'])}, {entry['method']}{mode} (depth {entry['depth']})"


def _promise(entry: Entry) -> dict[str, str]:
    if entry["accounting"] is None:
        return {"holds": "no noise"}
    return {"holds": _holds(entry)}


def _holds(entry: Entry) -> str:
    return "no finite ε" if entry["proven"] is None else f"ε = {entry['proven']:.3g}"


def findings(first: Table, second: Table, figures: dict[str, Figure]) -> list[str]:
    """Say what was reproduced, what differs, and what is left when epsilon has to hold."""
    return [
        *_reproduced(first),
        *_baselines(first),
        *_strict(first, "mean squared error"),
        *_strict(second, "share of wrong classes"),
        *_order(first),
        *_figure_1(figures["figure_1"]),
        *_figure_2(figures["figure_2"]),
        *_figure_3(figures["figure_3"]),
        *_figure_4(figures["figure_4"]),
    ]


def _reproduced(first: Table) -> list[str]:
    """Judge the DiPriMe entries of table 1, as published."""
    mine = [e for e in first["entries"] if e["method"] in DIPRIME and e["accounting"] == "paper"]
    judged = [e for e in mine if e["verdict"] != "other data"]
    off = [e for e in judged if e["verdict"].startswith("differs")]
    said = [
        f"Table 1, DiPriMe and its variants as published: {len(judged) - len(off)} of "
        f"{len(judged)} mean squared errors are within two of the paper's spreads."
    ]
    for e in off:
        unit = UNIT[e["data"]]
        side = "below" if e["mean"] < e["paper"] else "above"
        said.append(
            f"{e['data']}, {e['method']}: {e['mean'] / unit:.3g} ± {e['sd'] / unit:.2g} (unit "
            f"{unit:g}) against the paper's {e['paper'] / unit:.3g} ± "
            f"{e['paper_spread'] / unit:.2g}; {e['verdict']}, {side} it."
        )
    return said + [
        f"{label(e['data'])}, {e['method']}: {e['mean']:.3g}; the paper's {e['paper']:.3g} is of "
        "other data and is not compared."
        for e in mine
        if e["verdict"] == "other data"
    ]


def _baselines(first: Table) -> list[str]:
    judged = [
        e
        for e in first["entries"]
        if e["method"] not in DIPRIME
        and e["accounting"] != "strict"
        and e["verdict"] != "other data"
    ]
    off = [e for e in judged if e["verdict"].startswith("differs")]
    if not judged:
        return []
    listed = "; ".join(f"{e['data']}, {e['method']} {e['verdict']}" for e in off) or "none"
    return [
        f"Table 1, the methods compared with: {len(judged) - len(off)} of {len(judged)} are "
        f"within two of the paper's spreads. Others: {listed}."
    ]


def _strict(found: Table, metric: str) -> list[str]:
    """Say what the same epsilon costs when it has to hold."""
    said = []
    for name in dict.fromkeys(e["data"] for e in found["entries"]):
        mine = {(e["method"], e["accounting"]): e for e in found["entries"] if e["data"] == name}
        parts = []
        for method in DIPRIME:
            paper, strict = mine[method, "paper"], mine[method, "strict"]
            change = _paired(strict, paper)
            parts.append(
                f"{method} {paper['mean']:.3g} as published ({_holds(paper)}) and "
                f"{strict['mean']:.3g} where ε = {found['epsilon']:g} holds ({change})"
            )
        private = [e for (_, mode), e in mine.items() if mode == "strict"]
        best = min(private, key=lambda e: e["mean"])
        clear = min((mine[m, None] for m in CLEAR), key=lambda e: e["mean"])
        said.append(
            f"{label(name)}, ε = {found['epsilon']:g}, {metric}: {'; '.join(parts)}. Least "
            f"where ε holds: {best['method']}, {best['mean']:.3g}; without noise: "
            f"{clear['method']}, {clear['mean']:.3g}."
        )
    return said


def _paired(a: Entry, b: Entry) -> str:
    """Say how far two methods are apart over the splits, in per cent of the second."""
    apart = np.subtract(a["splits"], b["splits"])
    base = max(b["mean"], 1e-12)
    error = apart.std(ddof=1) / np.sqrt(apart.size) if apart.size > 1 else 0.0
    return f"{apart.mean() / base:+.0%}, s.e. {error / base:.0%}"


def _order(first: Table) -> list[str]:
    """Check the paper's claim that data-driven DiPriMe is ahead of DP-ERT and DP-RF."""
    said = []
    for mode in ("paper", "strict"):
        ahead, names = 0, list(dict.fromkeys(e["data"] for e in first["entries"]))
        for name in names:
            mine = {
                e["method"]: e["mean"]
                for e in first["entries"]
                if (e["data"], e["accounting"]) == (name, mode)
            }
            best = min(mine[m] for m in DIPRIME)
            ahead += best < min(mine["DP-ERT"], mine["DP-RF"])
        said.append(
            f"Table 1, {mode} accounting: the best DiPriMe variant is ahead of both DP-ERT and "
            f"DP-RF on {ahead} of {len(names)} data sets."
        )
    return said


def _curves(panel: dict[str, Any]) -> dict[tuple[str, str | None], list[dict[str, Any]]]:
    return {(c["method"], c["accounting"]): c["points"] for c in panel["curves"]}


def _figure_1(figure: Figure) -> list[str]:
    said = []
    for panel in figure["panels"]:
        lines = _curves(panel)
        parts = []
        for mode in ("paper", "strict"):
            won = [
                lines[m, mode][i]["mean"] < lines["DP-ERT", mode][i]["mean"]
                for m in DIPRIME
                for i in range(len(lines["DP-ERT", mode]))
            ]
            best = min((p["mean"], m, p["x"]) for m in DIPRIME for p in lines[m, mode])
            parts.append(
                f"{mode}: DiPriMe variants are ahead of DP-ERT at {sum(won)} of {len(won)} points; "
                f"least error {best[0]:.3g} ({best[1]} at {panel['x']} = {best[2]:g})"
            )
        said.append(f"Figure 1, {panel['title']}, over {panel['x']}: {'; '.join(parts)}.")
    return said


def _figure_2(figure: Figure) -> list[str]:
    said = []
    for panel, mode in zip(figure["panels"], ("paper", "strict"), strict=True):
        lines = _curves(panel)
        xs = [p["x"] for p in lines["DP-ERT", mode]]
        ranked = []
        for i, x in enumerate(xs):
            at = {m: p[i]["mean"] for (m, how), p in lines.items() if how == mode}
            best = max(at, key=lambda m: at[m])
            ranked.append(f"{best} {at[best]:.3f} at ε = {x:g}")
        said.append(f"Figure 2, {panel['title']}: highest accuracy: {', '.join(ranked)}.")
    return said


def _figure_3(figure: Figure) -> list[str]:
    said = []
    for panel in figure["panels"]:
        parts = []
        for curve in panel["curves"]:
            low = min(curve["points"], key=lambda p: abs(np.log(p["x"] / 1e-3)))
            printed = figure["paper_nodes"].get(curve["method"])
            paper = f", the paper {printed}" if printed else ""
            parts.append(
                f"{curve['method']} {curve['nodes']:.0f} nodes{paper}, {low['mean']:.0%} of leaves "
                "with at most 0.1% of the records"
            )
        said.append(f"Figure 3, {panel['title']}: {'; '.join(parts)}.")
    return said


def _figure_4(figure: Figure) -> list[str]:
    said = []
    for panel in figure["panels"]:
        parts = [
            f"{curve['method']} {curve['points'][0]['off_balance']:.2f}"
            for curve in panel["curves"]
        ]
        said.append(
            f"Figure 4, {panel['title']}: mean distance of a split from halves: {', '.join(parts)}."
        )
    return said


def captions(splits: Sequence[int]) -> dict[str, str]:
    """Return what stands below each figure; `splits` are those of tables and figures."""
    lines = (
        "Solid: ε holds (strict accounting). Dashed: as published; ε is the paper's claim, and "
        "what holds is in the JSON. Dotted: no noise."
    )
    tables, few = (f"{n} seeded 90-10 split{'s' * (n > 1)}" for n in splits)
    return {
        "figure_1": f"Means over {few}; bars: standard deviation.\n{lines}",
        "figure_2": f"Means over {tables}; bars: standard deviation.\n{lines}",
        "figure_3": f"All leaves of 10 trees, {few}; the paper draws a histogram.\n{lines}",
        "figure_4": f"All splits of 10 trees, {few}.\n{lines}",
    }
