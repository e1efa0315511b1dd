"""Paper 004's claims, each with a verdict that follows from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reproduce.paper_004.compare import Curves, apart, curves_of
from reproduce.paper_004.figures import Figure
from reproduce.paper_004.findings import ABOVE
from reproduce.paper_004.methods import LABELS, PAPERS
from reproduce.report import claim, verdict_on

Claim = dict[str, Any]
CLOSE = 0.005
"""A curve that ends no farther from learning without noise has converged to it."""
SMALL = (0.01, 0.05)


def claims(drawn: dict[str, Figure], data: Sequence[str]) -> list[Claim]:
    """Judge all claims, in the order of the paper; those whose data were not run are left out."""
    lines = curves_of(drawn["figure_2"])
    judged = [
        _guarantee(lines, data),
        _ends(drawn["figure_1"]),
        _decay(drawn["figure_1"]),
        _converges(drawn["figure_2"]),
        _single_best(lines, data),
        _local_above(lines, data),
        _larger(drawn["figure_3"]),
        _small(drawn["figure_3"]),
        _depths(lines, data),
    ]
    return [one for one in judged if one is not None]


def _published(figure: Figure) -> list[dict[str, Any]]:
    return [panel for panel in figure["panels"] if panel["how"] == "published"]


def _guarantee(lines: Curves, data: Sequence[str]) -> Claim:
    holds = {
        method: [
            p["proven"] is not None and p["proven"] <= p["claimed"] * (1 + 1e-9)
            for name in data
            for p in lines[name, "published", method]
        ]
        for method in PAPERS
    }
    every = [one for of in holds.values() for one in of]
    return claim(
        "section 3",
        "All three algorithms are α-differentially private.",
        verdict_on(every),
        "The ledger holds no more than the α claimed for "
        + ", ".join(f"{LABELS[m]} at {sum(of)} of {len(of)} points" for m, of in holds.items())
        + ": noise that is scaled by private counts has no finite α.",
    )


def _ends(one: Figure) -> Claim:
    curves = [curve["points"] for panel in _published(one) for curve in panel["curves"]]
    best = [max(points, key=lambda p: p["mean"])["x"] for points in curves]
    inside = [p[0]["x"] < x < p[-1]["x"] for x, p in zip(best, curves, strict=True)]
    return claim(
        "section 4, figure 1",
        "Accuracy suffers as the leaves' share of α (LPF) approaches 0 or 1.",
        verdict_on(inside),
        f"The best LPF is at neither end for {sum(inside)} of {len(inside)} curves.",
    )


def _decay(one: Figure) -> Claim:
    more = []
    for panel in _published(one):
        by = {(curve["alpha"], curve["budget"]): curve["points"] for curve in panel["curves"]}
        for alpha in dict.fromkeys(key[0] for key in by):
            lost = {
                budget: max(p["mean"] for p in by[alpha, budget]) - by[alpha, budget][0]["mean"]
                for budget in ("decay", "uniform")
            }
            more.append(lost["decay"] > lost["uniform"])
    return claim(
        "section 4, figure 1",
        "Toward LPF 0 accuracy falls more with halved budgets than with equal ones.",
        verdict_on(more),
        f"From its best point to the least LPF that is drawn, it does in {sum(more)} of "
        f"{len(more)} pairs of curves.",
    )


def _converges(two: Figure) -> Claim:
    near, parts = [], []
    for panel in _published(two):
        clear = {level["method"]: level["mean"] for level in panel["levels"]}
        ends = {
            curve["method"]: curve["points"][-1]["mean"] - clear[curve["method"]]
            for curve in panel["curves"]
            if curve["method"] in clear
        }
        near += [abs(end) <= CLOSE for end in ends.values()]
        farthest = max(ends.values(), key=abs)
        parts.append(f"{panel['data']} {100 * farthest:+.2f}")
    return claim(
        "section 4, figure 2",
        "Accuracy converges to that without noise as α grows.",
        verdict_on(near),
        f"At the largest α, {sum(near)} of {len(near)} curves are within {100 * CLOSE:g} points of "
        f"it; the farthest of each data set, in points: {', '.join(parts)}.",
    )


def _single_best(lines: Curves, data: Sequence[str]) -> Claim:
    best, sure = [], 0
    for name in data:
        found = [
            apart(lines[name, "published", "single-machine"], lines[name, "published", method])
            for method in ("noisy-counts", "local-rnm")
        ]
        if all(one.mean > 0 for one in found):
            best.append(name)
        sure += all(one.verdict == "above" for one in found)
    return claim(
        "section 4, figure 2",
        "Overall, the single machine performs best.",
        verdict_on([name in best for name in data]),
        f"Mean over all α: best on {len(best)} of {len(data)} data sets ({', '.join(best)}), "
        f"surely so on {sure}.",
    )


def _local_above(lines: Curves, data: Sequence[str]) -> Claim | None:
    found = {
        name: apart(lines[name, "published", "local-rnm"], lines[name, "published", "noisy-counts"])
        for name in data
        if name in ABOVE
    }
    if not found:
        return None
    above = [one.verdict == "above" for one in found.values()]
    return claim(
        "sections 1 and 4, figure 2",
        "LocalRNM is consistently above NoisyCounts on adult, bank, credit and skin.",
        verdict_on(above),
        f"Surely above on {sum(above)} of {len(above)}; mean over all α: "
        + ", ".join(f"{name} {one} ({one.verdict})" for name, one in found.items())
        + ". The noise here is that of the paper's text; the authors' program has less of it.",
    )


def _larger(three: Figure) -> Claim:
    ahead: list[bool] = []
    for panel in _published(three):
        for small, large in zip(panel["curves"][:-1], panel["curves"][1:], strict=True):
            found = apart(large["points"], small["points"])
            ahead += [mean > 0 for _, mean, _ in found.at]
    return claim(
        "section 4, figure 3",
        "Larger training sizes consistently give better accuracy.",
        verdict_on(ahead),
        f"The larger of two sizes is ahead at {sum(ahead)} of {len(ahead)} points.",
    )


def _small(three: Figure) -> Claim | None:
    panels = [p for p in _published(three) if (p["data"], p["method"]) == ("bank", "noisy-counts")]
    ahead: dict[float, list[bool]] = {}
    for panel in panels:
        for curve, level in zip(panel["curves"], panel["levels"], strict=True):
            if curve["share"] in SMALL:
                ahead[curve["share"]] = [p["mean"] > level["mean"] for p in curve["points"]]
    if not ahead:
        return None
    every = [one for of in ahead.values() for one in of]
    return claim(
        "section 4, figure 3",
        "Bank, NoisyCounts: with 1% and 5% of the records noise consistently helps.",
        verdict_on(every),
        "Ahead of the same without noise: "
        + ", ".join(f"{share:.0%} at {sum(of)} of {len(of)} α" for share, of in ahead.items())
        + ".",
    )


def _depths(lines: Curves, data: Sequence[str]) -> Claim:
    deepest, flattest = [], []
    for name in data:
        for single, noisy, local in zip(
            *(lines[name, "published", method] for method in PAPERS), strict=True
        ):
            deepest.append(noisy["depth"] >= max(single["depth"], local["depth"]))
            flattest.append(local["depth"] <= min(single["depth"], noisy["depth"]))
    return claim(
        "appendix A.8",
        "NoisyCounts consistently learns the deepest trees, LocalRNM the shallowest.",
        verdict_on([*deepest, *flattest]),
        f"NoisyCounts has the largest mean depth at {sum(deepest)} of {len(deepest)} points, "
        f"LocalRNM the least at {sum(flattest)} (equal ones count).",
    )
