"""What came out, in sentences made of the measured numbers, beside what the paper's text says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduce.paper_000.figures import LABELS, Figure
from reproduce.paper_000.study import MANY

PAPER = {
    ("heart", 0.2, "accuracy"): (0.71, 0.575),
    ("heart", 0.2, "auc"): (0.71, 0.572),
    ("adult", 0.005, "accuracy"): (0.755, 0.585),
    ("adult", 0.005, "auc"): (0.65, 0.525),
}
"""Hidden and opened tree at an epsilon, as the text of section 4.1.1 prints them."""

SOUND = ("splits+leaves", "splits+leaves wary auto", "splits+leaves binary auto")
METRIC_NAMES = {"accuracy": "accuracy", "auc": "ROC AUC"}


def at(figure: Figure, name: str, metric: str, method: str, x: float) -> dict[str, Any] | None:
    """Return a point of a figure, or None if there is none."""
    for panel in figure["panels"]:
        if (panel["data"], panel["metric"]) != (name, metric):
            continue
        for curve in panel["curves"]:
            if curve["method"] == method:
                return next((p for p in curve["points"] if p["x"] == x), None)
    return None


def beside_the_paper(figure_2: Figure) -> list[dict[str, Any]]:
    """Set our figures beside those that the paper's text states."""
    rows = []
    for (name, x, metric), pair in PAPER.items():
        for method, paper in zip(("leaves laplace", "open laplace"), pair, strict=True):
            found = at(figure_2, name, metric, method, x)
            if found is not None:
                rows.append(
                    {
                        "case": f"figure 2, {name}, ε = {x:g}: {METRIC_NAMES[metric]}, "
                        f"{LABELS[method]}",
                        "ours": found["mean"],
                        "paper": paper,
                        "sd": round(found["sd"], 3),
                        "runs": found["runs"],
                    }
                )
    return rows


def findings(figures: dict[str, Figure], checks: Sequence[dict[str, Any]]) -> list[str]:
    """Return all sentences."""
    said: list[str] = []
    two = figures["figure_2"]
    said += _printed(two) + _overall(two)
    for name in dict.fromkeys(panel["data"] for panel in two["panels"]):
        said += _gains(two, name)
    said += _depths(figures["figure_3"])
    said += _leaf_updates(figures["figure_4"])
    said += _costs(figures["figure_5"])
    said += _forests(figures["figure_6"])
    said += _agreement(checks)
    return said


def _printed(two: Figure) -> list[str]:
    """Set the gains that the paper's text states beside ours."""
    said = []
    for (name, x, metric), (hidden, opened) in PAPER.items():
        ours = [at(two, name, metric, m, x) for m in ("leaves laplace", "open laplace")]
        if ours[0] is not None and ours[1] is not None:
            said.append(
                f"{name}, ε = {x:g}: the paper states {METRIC_NAMES[metric]} {hidden:g} against "
                f"{opened:g}, a gain of {hidden - opened:+.3f}; here it is {_m(ours[0])} against "
                f"{_m(ours[1])}, a gain of {difference(ours[0], ours[1])}."
            )
    return said


def _overall(two: Figure) -> list[str]:
    """Count, for both measures, where a difference is beyond two standard errors."""
    said = []
    for metric, word in METRIC_NAMES.items():
        settings = [
            (panel["data"], point["x"])
            for panel in two["panels"]
            if panel["metric"] == metric
            for curve in panel["curves"]
            if curve["method"] == "leaves laplace"
            for point in curve["points"]
        ]
        # For each method: where it is ahead of the opened tree, of the settings in which the
        # paper's is; and where it is not behind the paper's.
        gained = 0
        kept: dict[str, int] = {}
        near: dict[str, int] = {}
        for name, x in settings:
            leaves, opened = (
                at(two, name, metric, m, x) for m in ("leaves laplace", "open laplace")
            )
            assert leaves is not None
            assert opened is not None
            has_gain = beyond(leaves, opened)
            gained += has_gain
            for method in (*SOUND, "votes", "votes many"):
                found = at(two, name, metric, method, x)
                if found is not None:
                    kept[method] = kept.get(method, 0) + (has_gain and beyond(found, opened))
                    near[method] = near.get(method, 0) + (not beyond(leaves, found))
        said.append(
            f"{word}, over all data sets and ε: the paper's hidden tree is ahead of the opened "
            f"tree, both at the paper's depths, by more than two standard errors in {gained} of "
            f"{len(settings)} settings. Of these gains over the opened tree, so many survive sound "
            f"accounting, beyond two standard errors: {_counts(kept)}. Not behind the paper's "
            f"unsound tree by more than two standard errors, of {len(settings)}: {_counts(near)}."
        )
    return [*said, _trivial(two)]


def _trivial(two: Figure) -> str:
    """Count where a method is no better than answering the most frequent class always."""
    panels = [panel for panel in two["panels"] if panel["metric"] == "accuracy"]
    found: dict[str, int] = {}
    for panel in panels:
        for curve in panel["curves"]:
            for point in curve["points"]:
                level = point | {"splits": [panel["majority"]] * len(point["splits"])}
                found[curve["method"]] = found.get(curve["method"], 0) + (not beyond(point, level))
    n = sum(len(panel["curves"][0]["points"]) for panel in panels)
    return (
        f"Accuracy not above that of always answering the most frequent class by more than two "
        f"standard errors, of {n} settings: {_counts(found)}."
    )


def _counts(found: dict[str, int]) -> str:
    return "; ".join(f"{LABELS[method]}: {count}" for method, count in found.items())


def _gains(two: Figure, name: str) -> list[str]:
    """Say what is left of the paper's gain, at the smallest, a middle and the largest epsilon."""
    said = []
    (panel,) = (p for p in two["panels"] if (p["data"], p["metric"]) == (name, "accuracy"))
    grid = sorted({p["x"] for c in panel["curves"] for p in c["points"]})
    for x in dict.fromkeys((grid[0], grid[len(grid) // 2], grid[-1])):
        points = {
            method: [at(two, name, metric, method, x) for metric in METRIC_NAMES]
            for method in ("none", "leaves laplace", "open laplace", *SOUND, "votes", "votes many")
        }
        if any(None in pair for pair in points.values()):
            continue
        said.append(_sentence(name, x, panel["majority"], points))
        one, many, leaves, ours = (
            points[m] for m in ("votes", "votes many", "leaves laplace", SOUND[-1])
        )
        said.append(
            f"{name}, ε = {x:g}: votes reach {_both(one)} if ONE answer may cost ε, "
            f"{_apart(one, leaves)} against the paper's tree and {_apart(one, ours)} against our "
            f"default, whose ε is for all answers for ever; {MANY} answers of votes cost "
            f"{MANY * x:g}, and within ε together they reach {_both(many)}."
        )
    return said


def _sentence(name: str, x: float, majority: float, points: dict[str, list[Any]]) -> str:
    leaves, opened, same = (points[m] for m in ("leaves laplace", "open laplace", SOUND[0]))
    by_rule = ", ".join(
        f"{_both(points[m])} ({LABELS[m].split(', ')[2]}, depth {points[m][0]['depth']})"
        for m in SOUND[1:]
    )
    left = " and ".join(
        f"of the gain in {word} {_survives(*triple)}"
        for word, triple in zip(
            METRIC_NAMES.values(), zip(same, leaves, opened, strict=True), strict=True
        )
    )
    return (
        f"{name}, ε = {x:g}: the paper's hidden tree with noise in its leaves only reaches "
        f"{_both(leaves)} against {_both(opened)} of the opened tree, a gain of "
        f"{_apart(leaves, opened)}; its ledger has no finite ε. With noise in the splits as well "
        f"(ε = {x:g} holds) the same tree of the same depth reaches {_both(same)}; "
        f"{left}. With depth and score by public rules: {by_rule}; the binary one, our default, is "
        f"{_apart(points[SOUND[-1]], leaves)} against the paper's tree. Without noise: "
        f"{_both(points['none'])}; always the most frequent class: {majority:.3f}."
    )


def _depths(three: Figure) -> list[str]:
    said = []
    for panel in three["panels"]:
        lines = {c["method"]: c["points"] for c in panel["curves"]}
        if not {"leaves laplace", "splits+leaves", "open laplace"} <= set(lines):
            continue
        parts = []
        for method in ("leaves laplace", "splits+leaves", "open laplace"):
            first, last = lines[method][0], lines[method][-1]
            parts.append(
                f"{LABELS[method].split(':')[0]} {first['mean']:.3f} to {last['mean']:.3f}"
            )
        depths = [p["x"] for p in lines["open laplace"]]
        said.append(
            f"{panel['data']}, ε = {panel['epsilon']:g}, ROC AUC from depth {depths[0]} to "
            f"{depths[-1]}: {'; '.join(parts)}. {_best_depths(lines)}"
        )
    return said


def _best_depths(lines: dict[str, list[dict[str, Any]]]) -> str:
    """Say how the paper's trees fare at the depth that suits them best, which nobody knows."""
    best = {
        m: max(lines[m], key=lambda p: p["mean"])
        for m in ("leaves laplace", "splits+leaves", "open laplace")
    }
    listed = ", ".join(
        f"{LABELS[m].split(':')[0]} {p['mean']:.3f} (depth {p['x']})" for m, p in best.items()
    )
    ours = lines.get("splits+leaves binary auto")
    rule = f"; our default, by its rule, {ours[0]['mean']:.3f}" if ours else ""
    return f"Each at the depth that suits it best in hindsight: {listed}{rule}."


def _leaf_updates(four: Figure) -> list[str]:
    said = []
    for panel in four["panels"]:
        mean = {c["method"]: np.array([p["mean"] for p in c["points"]]) for c in panel["curves"]}
        for kind in ("leaves", "open"):
            laplace, exponential = (mean.get(f"{kind} {m}") for m in ("laplace", "exponential"))
            if laplace is None or exponential is None:
                continue
            ahead = laplace - exponential
            said.append(
                f"{panel['data']}, {'hidden' if kind == 'leaves' else 'opened'} tree: Laplace "
                f"leaves are ahead of exponential ones at {int(np.sum(ahead > 0))} of "
                f"{ahead.size} values of ε; the difference goes from {ahead.min():+.3f} to "
                f"{ahead.max():+.3f} (the paper: ahead by up to 5%, always at small ε)."
            )
        if "leaves labels" in mean and "leaves laplace" in mean:
            ahead = mean["leaves labels"] - mean["leaves laplace"]
            said.append(
                f"{panel['data']}: exact noisy max over the counts, {ahead.mean():+.3f} on average "
                f"against the paper's Laplace leaves, where labels alone are wanted."
            )
    return said


def _costs(five: Figure) -> list[str]:
    said = []
    for name in dict.fromkeys(r["data"] for r in five["settings"]):
        rows = {(r["method"], r["depth"]): r for r in five["settings"] if r["data"] == name}
        depth = max(d for _, d in rows)
        hidden, opened = rows["leaves laplace", depth], rows["open laplace", depth]
        ours, slow = rows["splits+leaves", depth], rows["leaves exponential", depth]
        text = (
            f"{name}, depth {depth}: a hidden tree with Laplace leaves costs each server "
            f"{hidden['megabytes']:.2f} MB, an opened one {opened['megabytes']:.2f} MB, a hidden "
            f"one with exponential leaves {slow['megabytes']:.2f} MB, one with discrete noise in "
            f"splits and leaves {ours['megabytes']:.2f} MB. Exponential leaves send "
            f"{'less' if slow['megabytes'] < hidden['megabytes'] else 'more'} than Laplace leaves "
            f"(the paper: more)."
        )
        timed = [d for (m, d), r in rows.items() if m == "splits+leaves" and "seconds" in r]
        if timed:
            deep = max(timed)
            seconds = {m: r["seconds"] for (m, d), r in rows.items() if d == deep}
            text += (
                f" Over TLS at depth {deep}, one training each: {seconds['leaves laplace']:.2f} s, "
                f"{seconds['open laplace']:.2f} s, {seconds['leaves exponential']:.2f} s and "
                f"{seconds['splits+leaves']:.2f} s."
            )
        said.append(text)
    return said


def _forests(six: Figure) -> list[str]:
    said = []
    for name in dict.fromkeys(panel["data"] for panel in six["panels"]):
        pairs: dict[str, list[tuple[float, float]]] = {
            "forest leaves": [],
            "forest splits+leaves": [],
        }
        best: dict[str, float] = {}
        for panel in (p for p in six["panels"] if p["data"] == name):
            means = {
                (c["method"], c["trees"], p["x"]): p["mean"]
                for c in panel["curves"]
                for p in c["points"]
            }
            for (method, trees, x), mean in means.items():
                best[method] = max(best.get(method, 0.0), mean)
                if method in pairs:
                    pairs[method].append((mean, means["forest extra", trees, x]))
        text = f"{name}, forests: "
        parts = []
        for method, found in pairs.items():
            if found:
                ahead = np.array([a - b for a, b in found])
                parts.append(
                    f"{LABELS[method].split(':')[0]} is ahead of extra trees in "
                    f"{int(np.sum(ahead > 0))} of {ahead.size} settings, by {ahead.mean():+.3f} on "
                    "average"
                )
        highest = ", ".join(f"{LABELS[m].split(':')[0]} {value:.3f}" for m, value in best.items())
        said.append(text + "; ".join(parts) + f"; highest accuracies: {highest}.")
    return said


def _agreement(checks: Sequence[dict[str, Any]]) -> list[str]:
    same = sum(1 for check in checks if check["same"])
    apart = max((check["standard_errors_apart"] for check in checks), default=0.0)
    return [
        f"Three simulated servers and the clear engine agree in {same} of {len(checks)} spot "
        f"checks; means are at most {apart:.1f} standard errors apart."
    ]


def _survives(sound: dict[str, Any], leaves: dict[str, Any], opened: dict[str, Any]) -> str:
    """Say which share of a gain is left, where the gain itself is beyond its standard error."""
    if not beyond(leaves, opened):
        return "nothing can be said (it is within two standard errors)"
    kept = paired(sound, opened)[0] / paired(leaves, opened)[0]
    return f"{max(kept, 0.0):.0%} survives sound accounting"


def beyond(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether a is ahead of b by more than two standard errors."""
    mean, error = paired(a, b)
    return mean > 2 * error and mean > 0


def paired(a: dict[str, Any], b: dict[str, Any]) -> tuple[float, float]:
    """Return the mean difference over the splits, and its standard error."""
    apart = np.subtract(a["splits"], b["splits"])
    error = apart.std(ddof=1) / np.sqrt(apart.size) if apart.size > 1 else 0.0
    return float(apart.mean()), float(error)


def _apart(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> str:
    """Say how far two methods are apart, in accuracy and in AUC."""
    return f"{difference(a[0], b[0])} in accuracy and {difference(a[1], b[1])} in ROC AUC"


def _both(found: Sequence[dict[str, Any]]) -> str:
    return f"accuracy {_m(found[0])}, ROC AUC {_m(found[1])}"


def difference(a: dict[str, Any], b: dict[str, Any]) -> str:
    """Print the mean difference over the splits with its standard error."""
    mean, error = paired(a, b)
    return f"{mean:+.3f} (s.e. {error:.3f})"


def _m(found: dict[str, Any]) -> str:
    return f"{found['mean']:.3f} ± {found['sd']:.3f}"
