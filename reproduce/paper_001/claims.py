"""Paper 001's claims, each with a verdict that follows from the runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.paper_001.figures import Figure
from reproduce.paper_001.methods import CLEAR, DIPRIME
from reproduce.report import claim, verdict_on

Claim = dict[str, Any]
Table = dict[str, Any]
DATA_DRIVEN = ("DiPriMeExp", "DiPriMeFlip")
MOST = 0.5
"""Most leaves are a larger share of them than this."""
CLOSE = 0.1
"""Errors that differ by no larger share are comparable."""
LOW = 1e-3
"""A leaf with no larger share of the records has low occupancy."""


def claims(first: Table, second: Table, figures: dict[str, Figure]) -> list[Claim]:
    """Judge all claims, in the order of the paper."""
    one, two = figures["figure_1"], figures["figure_2"]
    return [
        _guarantee(first, second),
        _printed(first),
        _ahead(first, DATA_DRIVEN, ("DP-ERT", "DP-RF"), "section 4.1, table 1", "Numbers"),
        _most_settings(one),
        _trees(one),
        _clear(second),
        _ahead(second, DIPRIME, ("DP-ERT", "DP-RF", "DP-DF"), "section 4.2, table 2", "Classes"),
        _comparable(two),
        _behind(two),
        _occupancy(figures["figure_3"]),
        _balance(figures["figure_4"]),
    ]


def _means(table: Table, mode: str | None) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for entry in table["entries"]:
        if entry["accounting"] == mode:
            found.setdefault(entry["data"], {})[entry["method"]] = entry["mean"]
    return found


def _guarantee(first: Table, second: Table) -> Claim:
    said, kept = [], []
    for table, what in ((first, "numbers"), (second, "classes")):
        mine = [
            e for e in table["entries"] if e["accounting"] == "paper" and e["method"] in DIPRIME
        ]
        good = [e["proven"] is not None and e["proven"] <= e["claimed"] * (1 + 1e-9) for e in mine]
        none = sum(e["proven"] is None for e in mine)
        kept += good
        whose = {
            m: sum(g for e, g in zip(mine, good, strict=True) if e["method"] == m) for m in DIPRIME
        }
        listed = ", ".join(f"{m} {held}" for m, held in whose.items())
        said.append(f"{what}: {sum(good)} of {len(good)} forests ({listed}), {none} no finite ε")
    return claim(
        "section 3",
        "DiPriMe and its variants are ε-differentially private.",
        verdict_on(kept),
        f"What the ledger holds is no more than the ε claimed for {'; '.join(said)}. The noise of "
        "a mean is scaled by a private number of records, and each of K medians costs what all "
        "together are said to.",
    )


def _printed(first: Table) -> Claim:
    mine = [
        e for e in first["entries"] if e["accounting"] != "strict" and e["verdict"] != "other data"
    ]
    near = [e["verdict"].startswith("within") for e in mine]
    far = [f"{e['data']}, {e['method']} {e['verdict']}" for e in mine if "differs" in e["verdict"]]
    return claim(
        "table 1",
        "The mean squared errors that are printed.",
        verdict_on(near),
        f"As published, {sum(near)} of {len(near)} are within two of the paper's spreads; others: "
        f"{', '.join(far) or 'none'}. Flight is of other data and is not counted.",
    )


def _ahead(
    table: Table, ours: tuple[str, ...], others: tuple[str, ...], where: str, what: str
) -> Claim:
    won, parts = {}, []
    for mode in ("paper", "strict"):
        means = _means(table, mode)
        won[mode] = [
            of[a] < of[b] for of in means.values() for a in ours for b in others if b in of
        ]
        word = "as published" if mode == "paper" else f"where ε = {table['epsilon']:g} holds"
        parts.append(f"{word} at {sum(won[mode])} of {len(won[mode])} comparisons")
    every = won["paper"]
    return claim(
        where,
        f"{what}: {' and '.join(ours) if len(ours) == 2 else 'all variants of DiPriMe'} are ahead "
        f"of {', '.join(others[:-1])} and {others[-1]}.",
        verdict_on(every),
        f"The error is less {'; '.join(parts)} over {len(_means(table, 'paper'))} data sets.",
    )


def _curves(panel: dict[str, Any]) -> dict[tuple[str, str | None], list[dict[str, Any]]]:
    return {(c["method"], c["accounting"]): c["points"] for c in panel["curves"]}


def _most_settings(one: Figure) -> Claim:
    won: dict[str, list[bool]] = {}
    for mode in ("paper", "strict"):
        won[mode] = [
            mine["mean"] < rival["mean"]
            for panel in one["panels"]
            for method in DIPRIME
            for mine, rival in zip(
                _curves(panel)[method, mode], _curves(panel)["DP-ERT", mode], strict=True
            )
        ]
    return claim(
        "section 4.1, figure 1",
        "For most settings all variants of DiPriMe are ahead of DP-ERT.",
        verdict_on(won["paper"]),
        f"As published at {sum(won['paper'])} of {len(won['paper'])} points, where ε holds at "
        f"{sum(won['strict'])} of {len(won['strict'])}.",
    )


def _trees(one: Figure) -> Claim:
    panel = next(panel for panel in one["panels"] if panel["x"] == "trees")
    lines = _curves(panel)
    parts, inside = [], []
    for method in DIPRIME:
        points = lines[method, "paper"]
        best = min(points, key=lambda p: p["mean"])["x"]
        inside.append(points[0]["x"] < best < points[-1]["x"])
        parts.append(f"{method} {best:g}")
    return claim(
        "section 4.1, figure 1(b)",
        "More trees help only up to a number: each has less data.",
        verdict_on(inside),
        f"Least error as published at this number of trees: {', '.join(parts)}; drawn are "
        f"{lines['DiPriMe', 'paper'][0]['x']:g} to {lines['DiPriMe', 'paper'][-1]['x']:g}.",
    )


def _clear(second: Table) -> Claim:
    means = _means(second, None)
    worse = [of["Median"] > of["RF"] for of in means.values()]
    parts = ", ".join(
        f"{name} {' '.join(f'{of[m]:.3g}' for m in CLEAR)}" for name, of in means.items()
    )
    return claim(
        "section 4.2, table 2",
        "Without noise median forests are consistently worse than random forests.",
        verdict_on(worse),
        f"On {sum(worse)} of {len(worse)} data sets. Shares of wrong classes of "
        f"{', '.join(CLEAR)}: {parts}.",
    )


def _comparable(two: Figure) -> Claim:
    lines = _curves(two["panels"][0])
    clear = max(lines[m, None][-1]["mean"] for m in CLEAR if (m, None) in lines)
    apart = {m: clear - lines[m, "paper"][-1]["mean"] for m in DIPRIME}
    near = [a <= CLOSE / 2 for a in apart.values()]
    return claim(
        "section 4.2, figure 2",
        "Banknote: as ε increases DiPriMe becomes comparable to learning without noise.",
        verdict_on(near),
        "Accuracy below the best forest without noise at "
        f"ε = {lines['DiPriMe', 'paper'][-1]['x']:g}: "
        f"{', '.join(f'{m} {a:.3f}' for m, a in apart.items())}; comparable is "
        f"{CLOSE / 2:g} or less.",
    )


def _behind(two: Figure) -> Claim:
    lines = _curves(two["panels"][0])
    rivals = ("DP-ERT", "DP-DF")
    behind = {
        rival: [
            max(lines[m, "paper"][at]["mean"] for m in DIPRIME) > point["mean"]
            for at, point in enumerate(lines[rival, "paper"])
        ]
        for rival in rivals
    }
    every = [one for of in behind.values() for one in of]
    return claim(
        "section 4.2, figure 2",
        "Banknote: DP-ERT and DP-DF stay behind DiPriMe even as ε increases.",
        verdict_on(every),
        "As published the best variant is ahead of "
        + " and of ".join(f"{r} at {sum(of)} of {len(of)} ε" for r, of in behind.items())
        + ".",
    )


def _occupancy(three: Figure) -> Claim:
    shares = {
        curve["method"]: min(curve["points"], key=lambda p: abs(np.log(p["x"] / LOW)))["mean"]
        for curve in three["panels"][0]["curves"]
    }
    rivals = [share for method, share in shares.items() if method not in DIPRIME]
    fewer = [shares[m] < min(rivals) for m in DIPRIME]
    majority = [share > MOST for share in rivals]
    return claim(
        "section 4.3, figure 3",
        "Most leaves of DP-ERT, DP-RF and DP-DF have very low occupancy, those of DiPriMe do not.",
        verdict_on([*fewer, *majority]),
        f"Leaves with at most {LOW:.1%} of the records, as published: "
        f"{', '.join(f'{method} {share:.0%}' for method, share in shares.items())}. Fewer than all "
        f"rivals have: {sum(fewer)} of {len(fewer)} variants of DiPriMe; most of theirs: "
        f"{sum(majority)} of {len(majority)} rivals.",
    )


def _balance(four: Figure) -> Claim:
    off = {c["method"]: c["points"][0]["off_balance"] for c in four["panels"][0]["curves"]}
    nearer = [off[m] < off["DP-ERT"] for m in DIPRIME]
    return claim(
        "section 3.4, figure 4",
        "Splits of DiPriMe are more balanced than those of DP-ERT.",
        verdict_on(nearer),
        "Mean distance of a split from halves, as published: "
        + ", ".join(f"{method} {distance:.2f}" for method, distance in off.items())
        + ".",
    )
