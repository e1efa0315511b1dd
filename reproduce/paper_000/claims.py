"""Paper 000's claims, each with a verdict that follows from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from reproduce.paper_000.figures import Figure
from reproduce.paper_000.findings import METRIC_NAMES, PAPER, SOUND, at, beyond, difference, paired
from reproduce.paper_000.study import MANY
from reproduce.report import claim, verdict_on

Claim = dict[str, Any]
Point = dict[str, Any]

NEAR = 0.05
"""An accuracy or AUC that is no farther from the printed one is reproduced."""
GREAT = 0.03
"""A loss of AUC of this much is great."""
HUGE = 0.05
SMALL = ("titanic", "heart")
HIDDEN, OPENED = "leaves laplace", "open laplace"


def claims(figures: dict[str, Figure], checks: Sequence[dict[str, Any]]) -> list[Claim]:
    """Judge all claims, in the order of the paper; those whose data were not run are left out."""
    two, five = figures["figure_2"], figures["figure_5"]
    judged = [_guarantee(two), _survival(two), _answers(two), _ahead(two)]
    judged += [_printed(two, name) for name in dict.fromkeys(key[0] for key in PAPER)]
    judged += [_no_noise(checks), _beats_no_noise(two), _smaller_epsilon(two)]
    three = figures["figure_3"]
    judged += [_deeper(three), _adult_deeper(three), _every_depth(three), _robust(three)]
    judged += [_laplace(figures["figure_4"]), _dearer(five), _depth_costs(five)]
    judged += [_exponential_costs(five), _forests(figures["figure_6"])]
    judged += [_more_trees(figures["figure_6"])]
    return [one for one in judged if one is not None]


def _pairs(
    figure: Figure, first: str, second: str, *metrics: str
) -> list[tuple[str, Point, Point]]:
    """Return the points of two methods that stand at the same place, with the data set."""
    found = []
    for panel in figure["panels"]:
        if metrics and panel["metric"] not in metrics:
            continue
        lines = {c["method"]: {p["x"]: p for p in c["points"]} for c in panel["curves"]}
        for x, point in lines.get(first, {}).items():
            if x in lines.get(second, {}):
                found.append((panel["data"], point, lines[second][x]))
    return found


def _both(two: Figure, first: str, second: str) -> list[tuple[str, Point, Point]]:
    return _pairs(two, first, second, *METRIC_NAMES)


def _guarantee(two: Figure) -> Claim:
    points = [a for _, a, _ in _pairs(two, HIDDEN, HIDDEN, "accuracy")]
    finite = [p for p in points if p["proven"] is not None]
    return claim(
        "abstract, appendix C.2",
        "Noise at the leaves alone gives the same ε-DP, since the tree stays hidden.",
        verdict_on([p["proven"] is not None for p in points]),
        f"The ledger has a finite ε for whoever gets answers at {len(finite)} of {len(points)} "
        "settings: splits without noise follow from the rows, and answers show them (see hidden "
        "trees, with a counterexample).",
    )


def _survival(two: Figure) -> Claim:
    name, method = "hidden, noise in splits and leaves", SOUND[-1]
    gained = [
        (sound, opened)
        for (_, hidden, opened), (_, sound, _) in zip(
            _both(two, HIDDEN, OPENED), _both(two, method, OPENED), strict=True
        )
        if beyond(hidden, opened)
    ]
    kept = [beyond(sound, opened) for sound, opened in gained]
    return claim(
        "abstract",
        "Hiding the tree improves accuracy at the same privacy guarantee.",
        verdict_on(kept),
        f"Where ε has to hold ({name}, depth by rule): of {len(kept)} settings in which the "
        f"paper's tree is ahead of the opened one by more than two standard errors, so is the "
        f"sound one in {sum(kept)}.",
    )


def _answers(two: Figure) -> Claim | None:
    found = _pairs(two, "votes", "votes many", "accuracy")
    if not found:
        return None
    lost = [a["mean"] - b["mean"] for _, a, b in found]
    return claim(
        "appendix C.2",
        "The number of queries does not matter for a hidden model.",
        verdict_on([p["proven"] is not None for _, p, _ in _pairs(two, HIDDEN, HIDDEN)]),
        f"It does where answers are all that has noise: voting trees lose {np.mean(lost):.3f} of "
        f"accuracy on average if {MANY} answers and not one may cost ε. It does not where splits "
        "and leaves have noise.",
    )


def _ahead(two: Figure) -> Claim:
    found = _both(two, HIDDEN, OPENED)
    ahead = [a["mean"] > b["mean"] for _, a, b in found]
    sure = [beyond(a, b) for _, a, b in found]
    return claim(
        "section 4.1.1, figure 2",
        "The hidden tree is consistently more accurate than the opened one.",
        verdict_on(ahead),
        f"Mean accuracy or ROC AUC is higher in {sum(ahead)} of {len(ahead)} settings, by more "
        f"than two standard errors in {sum(sure)}. For the promises behind both see the first two "
        "claims.",
    )


def _printed(two: Figure, name: str) -> Claim | None:
    said, parts, near, gains = [], [], [], []
    for (data, x, metric), printed in PAPER.items():
        ours = [at(two, data, metric, method, x) for method in (HIDDEN, OPENED)]
        if data != name or ours[0] is None or ours[1] is None:
            continue
        word = METRIC_NAMES[metric]
        said.append(f"{word} {printed[0]:g} against {printed[1]:g}")
        parts.append(
            f"{word} {ours[0]['mean']:.3f} against {ours[1]['mean']:.3f}, a gain of "
            f"{difference(ours[0], ours[1])}"
        )
        near += [abs(a["mean"] - b) <= NEAR for a, b in zip(ours, printed, strict=True)]
        gains.append(beyond(ours[0], ours[1]))
        epsilon = x
    if not said:
        return None
    return claim(
        "section 4.1.1, figure 2",
        f"{name.capitalize()}, ε = {epsilon:g}: {', '.join(said)}.",
        verdict_on(near),
        f"Here {'; '.join(parts)}; {sum(near)} of {len(near)} figures are within {NEAR:g} of the "
        f"paper's, {sum(gains)} of {len(gains)} gains beyond two standard errors.",
    )


def _no_noise(checks: Sequence[dict[str, Any]]) -> Claim:
    exact = [check for check in checks if "no noise" in check["case"]]
    same = [check["clear"] == check["servers"] for check in exact]
    listed = ", ".join(f"{check['data']} {check['servers']:.4f}" for check in exact)
    return claim(
        "section 4.1.1",
        "MPC-ID3 has the accuracy of centralized learning without noise.",
        verdict_on(same),
        f"Equal to the last digit on {sum(same)} of {len(same)} data sets: {listed}.",
    )


def _beats_no_noise(two: Figure) -> Claim | None:
    found = [
        (a, b) for data, a, b in _both(two, HIDDEN, "none") if data == "adult" and a["x"] >= 0.1
    ]
    if not found:
        return None
    ahead = [a["mean"] > b["mean"] for a, b in found]
    apart = [paired(a, b)[0] for a, b in found]
    return claim(
        "section 4.1.1, figure 2",
        "Adult, ε from 0.1 to 1: the hidden tree even beats learning without noise.",
        verdict_on(ahead),
        f"It does at {sum(ahead)} of {len(ahead)} points of accuracy and ROC AUC; differences go "
        f"from {min(apart):+.4f} to {max(apart):+.4f}.",
    )


def _smaller_epsilon(two: Figure) -> Claim:
    gains: dict[str, dict[float, float]] = {}
    for data, a, b in _pairs(two, HIDDEN, OPENED, "accuracy"):
        gains.setdefault(data, {})[a["x"]] = a["mean"] - b["mean"]
    larger = [of[min(of)] > of[max(of)] for of in gains.values()]
    parts = ", ".join(
        f"{data} {of[min(of)]:+.3f} at ε = {min(of):g} and {of[max(of)]:+.3f} at {max(of):g}"
        for data, of in gains.items()
    )
    return claim(
        "section 4.1.1, figure 2",
        "The gain is larger at smaller ε.",
        verdict_on(larger),
        f"Gain in accuracy over the opened tree: {parts}.",
    )


def _lines(three: Figure) -> dict[str, dict[str, list[Point]]]:
    return {
        panel["data"]: {c["method"]: c["points"] for c in panel["curves"]}
        for panel in three["panels"]
    }


def _loss(points: Sequence[Point]) -> float:
    return float(points[0]["mean"] - points[-1]["mean"])


def _deeper(three: Figure) -> Claim | None:
    small = {data: of for data, of in _lines(three).items() if data in SMALL}
    if not small:
        return None
    losses = {
        (data, method): _loss(of[method])
        for data, of in small.items()
        for method in (HIDDEN, OPENED)
    }
    parts = ", ".join(
        f"{data} {loss:.3f} ({'hidden' if method == HIDDEN else 'opened'})"
        for (data, method), loss in losses.items()
    )
    great = [loss >= GREAT for loss in losses.values()]
    return claim(
        "section 4.1.2, figure 3",
        "On titanic and heart deeper trees are much less accurate.",
        verdict_on(great),
        f"ROC AUC lost from depth 2 to the deepest: {parts}.",
    )


def _adult_deeper(three: Figure) -> Claim | None:
    lines = _lines(three).get("adult")
    if lines is None:
        return None
    losses = {method: _loss(lines[method]) for method in (HIDDEN, OPENED, SOUND[0])}
    return claim(
        "section 4.1.2, figure 3",
        "On adult, ε = 0.1, depth 2 to 5 does not lower the accuracy.",
        verdict_on([losses[HIDDEN] <= 0]),
        f"ROC AUC lost from depth 2 to 5: hidden {losses[HIDDEN]:+.3f}, opened "
        f"{losses[OPENED]:+.3f}; hidden with noise in the splits, too, {losses[SOUND[0]]:+.3f}.",
    )


def _every_depth(three: Figure) -> Claim:
    found = _pairs(three, HIDDEN, OPENED)
    ahead = [a["mean"] > b["mean"] for _, a, b in found]
    sure = [beyond(a, b) for _, a, b in found]
    return claim(
        "section 4.1.2, figure 3",
        "The hidden tree is better at every depth.",
        verdict_on(ahead),
        f"ROC AUC is higher at {sum(ahead)} of {len(ahead)} depths, by more than two standard "
        f"errors at {sum(sure)}.",
    )


def _robust(three: Figure) -> Claim:
    losses = {data: (_loss(of[HIDDEN]), _loss(of[OPENED])) for data, of in _lines(three).items()}
    less = [hidden < opened for hidden, opened in losses.values()]
    parts = ", ".join(f"{data} {a:+.3f} and {b:+.3f}" for data, (a, b) in losses.items())
    return claim(
        "section 4.1.2, figure 3",
        "The hidden tree is more robust to the depth: its leaves have all of ε.",
        verdict_on(less),
        f"ROC AUC lost from the least to the largest depth, hidden and opened: {parts}.",
    )


def _laplace(four: Figure) -> Claim:
    found = [
        (data, a, b)
        for kind in ("leaves", "open")
        for data, a, b in _pairs(four, f"{kind} laplace", f"{kind} exponential")
    ]
    least: dict[str, float] = {}
    for data, a, _ in found:
        least[data] = min(least.get(data, a["x"]), a["x"])
    at_least = [a["mean"] > b["mean"] for data, a, b in found if a["x"] == least[data]]
    ahead = [a["mean"] > b["mean"] for _, a, b in found]
    most = max(a["mean"] - b["mean"] for _, a, b in found)
    within = [0 < a["mean"] - b["mean"] <= HUGE for _, a, b in found]
    return claim(
        "section 4.1.3, figure 4",
        "Laplace leaves are better than exponential ones by up to 5%, always at small ε.",
        verdict_on(within),
        f"Ahead at {sum(ahead)} of {len(ahead)} points, by {most:.3f} at most and by no more than "
        f"{HUGE:g} at {sum(within)}; at the smallest ε of each data set in {sum(at_least)} of "
        f"{len(at_least)} cases.",
    )


def _costs(five: Figure, method: str, key: str) -> dict[tuple[str, int], float]:
    return {
        (r["data"], r["depth"]): r[key]
        for r in five["settings"]
        if r["method"] == method and key in r
    }


def _dearer(five: Figure) -> Claim:
    ratios = {}
    for key in ("seconds", "megabytes"):
        hidden, opened = (_costs(five, method, key) for method in (HIDDEN, OPENED))
        ratios[key] = [hidden[at] / opened[at] for at in hidden]
    every = [r > 1 for of in ratios.values() for r in of]
    parts = "; ".join(
        f"{key} {min(of):.2g} to {max(of):.2g} times, more in {sum(r > 1 for r in of)} of {len(of)}"
        for key, of in ratios.items()
        if of
    )
    return claim(
        "section 4.2, figure 5",
        "The hidden tree takes more time and traffic than the opened one.",
        verdict_on(every),
        f"Hidden over opened, Laplace leaves, all depths: {parts}.",
    )


def _depth_costs(five: Figure) -> Claim:
    parts, grows = [], []
    for key in ("seconds", "megabytes"):
        cost = _costs(five, HIDDEN, key)
        steps = [
            (data, depth, cost[data, deeper] / cost[data, depth])
            for data in dict.fromkeys(data for data, _ in cost)
            for depth, deeper in pairwise(sorted(d for name, d in cost if name == data))
        ]
        twice = [ratio >= 2 for *_, ratio in steps]
        grows += twice
        if steps:
            listed = ", ".join(f"{data} {ratio:.1f} (from {at})" for data, at, ratio in steps)
            parts.append(f"{key} at least double in {sum(twice)} of {len(twice)}: {listed}")
    return claim(
        "section 4.2, figure 5",
        "Runtime and traffic of the hidden tree grow greatly with the depth.",
        verdict_on(grows),
        f"One more level over one less, {'; '.join(parts)}.",
    )


def _exponential_costs(five: Figure) -> Claim:
    parts, dearer = [], []
    for kind in ("leaves", "open"):
        for key in ("seconds", "megabytes"):
            laplace, other = (_costs(five, f"{kind} {m}", key) for m in ("laplace", "exponential"))
            ratios = [other[at] / laplace[at] for at in laplace]
            if ratios:
                word = "hidden" if kind == "leaves" else "opened"
                parts.append(f"{word}, {key} {min(ratios):.2f} to {max(ratios):.2f} times")
            if kind == "leaves":
                more = [ratio > 1 for ratio in ratios]
                dearer += more
                parts[-1:] = [f"{one}, more in {sum(more)} of {len(more)}" for one in parts[-1:]]
    return claim(
        "section 4.2, figure 5",
        "For the hidden tree, exponential leaves take more time and traffic than Laplace leaves.",
        verdict_on(dearer),
        f"Exponential over Laplace leaves: {'; '.join(parts)}. Theirs need a secure "
        "exponentiation; ours do not, and exponential leaves need fewer logarithms.",
    )


def _forests(six: Figure) -> Claim:
    parts, ahead = [], []
    for method in ("forest leaves", "forest splits+leaves"):
        apart = [a - b for a, b in _beside_extra(six, method)]
        won = [d > 0 for d in apart]
        if method == "forest leaves":
            ahead = won
        word = "as published" if method == "forest leaves" else "with noise in the splits, too"
        if won:
            parts.append(
                f"{word} in {sum(won)} of {len(won)} settings, by {np.mean(apart):+.3f} on average"
            )
    return claim(
        "appendix D, figure 6",
        "Random forests of hidden trees are more accurate than extra trees.",
        verdict_on(ahead),
        f"Ahead {'; '.join(parts)}.",
    )


def _beside_extra(six: Figure, method: str) -> list[tuple[float, float]]:
    found = []
    for panel in six["panels"]:
        means = {
            (c["method"], c["trees"], p["x"]): p["mean"]
            for c in panel["curves"]
            for p in c["points"]
        }
        found += [
            (mean, means["forest extra", trees, x])
            for (name, trees, x), mean in means.items()
            if name == method
        ]
    return found


def _more_trees(six: Figure) -> Claim:
    best: dict[str, dict[int, list[float]]] = {}
    for panel in six["panels"]:
        of = best.setdefault(panel["data"], {})
        for c in panel["curves"]:
            if c["method"] == "forest leaves":
                of.setdefault(c["trees"], []).extend(p["mean"] for p in c["points"])
    gained = {data: np.mean(of[max(of)]) - np.mean(of[min(of)]) for data, of in best.items()}
    small = [gain <= 0 for data, gain in gained.items() if data in SMALL]
    most = max(max(of) for of in best.values())
    return claim(
        "appendix D, figure 6",
        "More trees do not necessarily help, especially on small data sets.",
        verdict_on(small),
        f"Accuracy of {most} trees on disjoint records over that of one, mean over depths and ε: "
        + ", ".join(f"{data} {gain:+.3f}" for data, gain in gained.items())
        + ".",
    )
