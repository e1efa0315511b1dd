"""What came out of paper 004's experiments, in sentences made of the measured numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduce.paper_004.compare import Curves, apart, bound, curves_of
from reproduce.paper_004.data import PAPER_H, PAPER_ROWS, task_of
from reproduce.paper_004.figures import Figure
from reproduce.paper_004.methods import LABELS, METHODS, PAPERS
from reproduce.report import row

ABOVE = ("adult", "bank", "credit", "skin")
"""Data sets on which the paper has LocalRNM consistently above NoisyCounts."""
SHOWN = (0.125, 1.0, 8.0, 64.0, 512.0)
"""Values of α whose accuracies are printed."""
AIM = 0.005
"""SecureCounts is to be within half a point of SingleMachine."""


def rows(figure: Figure, data: Sequence[str]) -> list[dict[str, Any]]:
    """Set records and splitting functions beside the paper's; it draws accuracies alone."""
    found = []
    for name in data:
        task = task_of(name)
        found.append(row(f"rows, {name}", task.n_records, PAPER_ROWS[name]))
        found.append(row(f"splitting functions, {name}", len(task.candidates), PAPER_H[name]))
    for panel in figure["panels"]:
        levels = panel["levels"] if panel["how"] != "strict" else []
        found += [
            row(f"{panel['data']}, {panel['how']}, {one['label']}", one["mean"], se=_short(one))
            for one in levels
        ]
        for one in panel["curves"]:
            for p in one["points"]:
                if p["x"] in SHOWN:
                    case = f"{panel['data']}, {panel['how']}, {one['label']}, α = {p['x']:g}"
                    found.append(row(case, p["mean"], se=_short(p), holds=_holds(p)))
    return found


def _short(p: dict[str, Any]) -> str:
    return f"{p['se']:.2g}"


def _holds(p: dict[str, Any]) -> str:
    return "no finite α" if p["proven"] is None else f"{p['proven']:.4g}"


def findings(drawn: dict[str, Figure], data: Sequence[str]) -> list[str]:
    """Say what came out: the paper's orderings, and our aims."""
    lines = curves_of(drawn["figure_2"])
    return [
        *_single_best(lines, data),
        *_local_above(lines, data),
        *_converges(drawn["figure_2"]),
        *_shapes(lines, data),
        *_lpf(drawn["figure_1"]),
        *_sizes(drawn["figure_3"]),
        *_secure(lines, data),
        *_features(lines, data),
        *_gained(lines, data),
    ]


def _single_best(lines: Curves, data: Sequence[str]) -> list[str]:
    said, best = [], []
    for name in data:
        single = lines[name, "published", "single-machine"]
        against = {
            method: apart(single, lines[name, "published", method])
            for method in ("noisy-counts", "local-rnm")
        }
        if all(found.mean > 0 for found in against.values()):
            best.append(name)
        said.append(
            f"{name}: "
            + "; ".join(
                f"{found} from {LABELS[method]} ({found.verdict}), ahead at {found.ahead} of "
                f"{len(found.at)}"
                for method, found in against.items()
            )
        )
    return [
        "Paper: single machine performs best. As published, mean over α: best on "
        f"{_list(best)} ({len(best)} of {len(data)}); SingleMachine is, {'. '.join(said)}."
    ]


def _local_above(lines: Curves, data: Sequence[str]) -> list[str]:
    said, held = [], []
    here = [name for name in data if name in ABOVE]
    for name in here:
        found = apart(
            lines[name, "published", "local-rnm"], lines[name, "published", "noisy-counts"]
        )
        if found.verdict == "above":
            held.append(name)
        said.append(
            f"{name}: {found} ({found.verdict}), ahead at {found.ahead} of {len(found.at)} values "
            "of α"
        )
    return [
        f"Paper: LocalRNM is above NoisyCounts on {_list(ABOVE)}. As published, it surely is on "
        f"{_list(held)} ({len(held)} of {len(here)}): {'; '.join(said)}."
    ]


def _converges(figure: Figure) -> list[str]:
    """Compare the largest alpha with no noise."""
    said = []
    for panel in figure["panels"]:
        if panel["how"] == "strict":
            continue
        clear = {one["method"]: one["mean"] for one in panel["levels"]}
        parts = [
            f"{one['label']} {100 * (one['points'][-1]['mean'] - clear[one['method']]):+.2f}"
            for one in panel["curves"]
            if one["method"] in clear
        ]
        largest = panel["curves"][0]["points"][-1]["x"]
        said.append(f"{panel['data']}, {panel['how']}, at α = {largest:g}: {', '.join(parts)}")
    return [f"Points from the same method without noise: {'; '.join(said)}."]


def _shapes(lines: Curves, data: Sequence[str]) -> list[str]:
    """Check what the paper says of depths: NoisyCounts the deepest trees, LocalRNM the flattest."""
    deepest = flattest = points = 0
    for name in data:
        mine = [lines[name, "published", method] for method in PAPERS]
        for single, noisy, local in zip(*mine, strict=True):
            points += 1
            deepest += noisy["depth"] >= max(single["depth"], local["depth"])
            flattest += local["depth"] <= min(single["depth"], noisy["depth"])
    return [
        "Paper: NoisyCounts learns the deepest trees, LocalRNM the shallowest. As published, "
        f"NoisyCounts has the largest mean depth at {deepest} of {points} points, LocalRNM the "
        f"smallest at {flattest} (equal ones count)."
    ]


def _lpf(figure: Figure) -> list[str]:
    """Check that both ends of LPF suffer, and which budget is ahead."""
    said = []
    for how in ("published", "ours"):
        panels = [panel for panel in figure["panels"] if panel["how"] == how]
        every = [one for panel in panels for one in panel["curves"]]
        best = [max(one["points"], key=lambda p: p["mean"])["x"] for one in every]
        ends = [(one["points"][0]["x"], one["points"][-1]["x"]) for one in every]
        inside = sum(low < x < high for x, (low, high) in zip(best, ends, strict=True))
        halved = won = 0
        for panel in panels:
            by = {(one["alpha"], one["budget"]): one["points"] for one in panel["curves"]}
            for alpha in dict.fromkeys(key[0] for key in by):
                found = apart(by[alpha, "decay"], by[alpha, "uniform"])
                won, halved = won + found.ahead, halved + len(found.at)
        said.append(
            f"{how}: the best LPF is at neither end for {inside} of {len(every)} curves (median "
            f"{np.median(best):g}); halved budgets are ahead of equal ones at {won} of {halved} "
            "points"
        )
    return [f"Figure 1. Paper: accuracy suffers at both ends of LPF. {'; '.join(said)}."]


def _sizes(figure: Figure) -> list[str]:
    said = []
    for how in ("published", "ours"):
        better = pairs = ahead = points = 0
        for panel in figure["panels"]:
            if panel["how"] != how:
                continue
            for small, large in zip(panel["curves"][:-1], panel["curves"][1:], strict=True):
                found = apart(large["points"], small["points"])
                better, pairs = better + found.ahead, pairs + len(found.at)
            clear = [one["mean"] for one in panel["levels"]]
            for one, without in zip(panel["curves"][:2], clear[:2], strict=True):
                ahead += sum(p["mean"] > without for p in one["points"])
                points += len(one["points"])
        said.append(
            f"{how}: the larger of two sizes is ahead at {better} of {pairs} points; of the two "
            f"smallest sizes noisy trees are ahead of those without noise at {ahead} of {points}"
        )
    return [f"Figure 3. Paper: larger training sizes are better. {'; '.join(said)}."]


def _secure(lines: Curves, data: Sequence[str]) -> list[str]:
    said, within = [], 0
    total, sure = 0, 0
    for name in data:
        found = apart(lines[name, "ours", "secure-counts"], lines[name, "ours", "single-machine"])
        total += len(found.at)
        within += sum(abs(mean) <= AIM for _, mean, _ in found.at)
        sure += sum(abs(mean) - AIM > bound(found.n) * se for _, mean, se in found.at)
        x, mean, se = max(found.at, key=lambda one: abs(one[1]))
        said.append(
            f"{name} {found} over all α, farthest {100 * mean:+.2f} ± {100 * se:.2f} at α = {x:g}"
        )
    return [
        "Aim: SecureCounts within 0.5 points of SingleMachine. By default settings the means are "
        f"within it at {within} of {total} points, and surely farther at {sure}: "
        f"{'; '.join(said)}."
    ]


def _features(lines: Curves, data: Sequence[str]) -> list[str]:
    said = []
    for how in ("ours", "strict"):
        parts, above = [], []
        for name in data:
            found = apart(lines[name, how, "noisy-counts"], lines[name, "published", "local-rnm"])
            if found.verdict == "above":
                above.append(name)
            parts.append(f"{name} {found}, ahead at {found.ahead} of {len(found.at)}")
        said.append(
            f"{how}: surely above on {_list(above)} ({len(above)} of {len(data)}): "
            f"{'; '.join(parts)}"
        )
    return [
        "Aim: NoisyCounts with one histogram for every attribute, where α holds, above the paper's "
        f"LocalRNM. {'. '.join(text[0].upper() + text[1:] for text in said)}."
    ]


def _gained(lines: Curves, data: Sequence[str]) -> list[str]:
    said = []
    for name in data:
        parts = []
        for method in METHODS:
            base = method if method in PAPERS else "single-machine"
            found = apart(lines[name, "ours", method], lines[name, "published", base])
            against = "" if base == method else f" (from {LABELS[base]})"
            parts.append(f"{LABELS[method]}{against} {found}")
        said.append(f"{name}: {', '.join(parts)}")
    return [
        "Default settings, where α holds, from the same method as published, mean over α: "
        f"{'; '.join(said)}."
    ]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def captions(runs: int) -> dict[str, str]:
    """Return what stands below each figure."""
    means = f"Means over {runs} runs; bands: one standard error of the mean."
    holds = (
        "Dashed: as published, α is the paper's claim. Solid: α holds. Dotted: the same without "
        "noise."
    )
    drawn = (
        "SecureCounts is the protocol on plain numbers, with Gini; runs on three servers are in "
        "the JSON."
    )
    return {
        "figure_1": f"{means}\nDashed: budgets halve with each depth. Solid: equal budgets.",
        "figure_2": f"{means} {holds}\n{drawn}",
        "figure_3": f"{means}\n{holds}",
    }
