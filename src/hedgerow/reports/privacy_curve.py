"""The privacy curve of a ledger: epsilon over delta, and epsilon after each release."""

from __future__ import annotations

import io
import math
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.errors import Code
from hedgerow.privacy import Guarantee, Ledger, Release
from hedgerow.privacy.accounting import has_rho, tightest
from hedgerow.privacy.entries import seen_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTAS = np.logspace(-12, -2, 21)
_MOST_STEPS = 100
_COLOURS = {
    "basic composition": "C0",
    "zCDP": "C1",
    "RDP": "C2",
    "Gaussian curve": "C4",
    "Gaussian losses (PLD)": "C5",
    "optimal composition (PLD)": "C3",
}


def epsilon_over_delta(ledger: Ledger, audience: str = "public") -> list[Guarantee]:
    """Return the smallest epsilon that an accountant proves for the charges, for every delta.

    Marks are left aside: what the charges would be worth, all of them fixed in advance.
    """
    releases = seen_by(ledger.releases, [audience])
    return [tightest(releases, float(delta)) for delta in DELTAS]


def epsilon_after_releases(
    ledger: Ledger, audience: str = "public"
) -> list[tuple[Release, Guarantee]]:
    """Return what all releases so far cost together, for the first of them, the first two, ...

    It is stated as the ledger states its total: calls with a release that needs a delta at that of
    the ledger, else by basic composition. Of very many releases some are left out, never the last.
    """
    calls = ledger.calls(audience)
    releases = [release for call in calls for release in call]
    at = np.unique(np.linspace(0, len(releases) - 1, min(len(releases), _MOST_STEPS)).astype(int))
    if len(calls) == 1 and has_rho(releases):
        # The delta at which the whole is stated serves its beginnings, too.
        delta = ledger.formal_total(audience).delta
        return [(releases[i], tightest(releases[: i + 1], delta)) for i in at.tolist()]
    return [(releases[i], ledger.figure(_first(calls, i + 1))) for i in at.tolist()]


def privacy_curve(ledger: Ledger, *, title: str = "", audience: str = "public") -> bytes:
    """Draw both as a PNG picture.

    `title`: of the picture; that the ledger promises nothing is added where it does not. Raises
    H406 without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Code.MISSING_EXTRA.error(
            expected="matplotlib", found="it is not installed", fix="pip install 'hedgerow[plots]'"
        ) from None
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_curve(left, epsilon_over_delta(ledger, audience))
    if len(ledger.calls(audience)) > 1:
        left.set_title("at each delta, charges fixed in advance")
    _draw_steps(right, epsilon_after_releases(ledger, audience))
    total = ledger.total(audience)
    figure.suptitle(title if total.private else f"{title} NOT PRIVATE: {total.why}".strip())
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()


def _first(calls: list[list[Release]], n: int) -> list[list[Release]]:
    """Return the first n releases, by calls."""
    starts = [0, *accumulate(len(call) for call in calls)]
    return [call[: n - start] for call, start in zip(calls, starts, strict=False) if start < n]


def _draw_curve(axes: Axes, points: list[Guarantee]) -> None:
    for method, colour in _COLOURS.items():
        here = [p for p in points if p.method == method and math.isfinite(p.epsilon)]
        axes.plot([p.delta for p in here], [p.epsilon for p in here], "o", c=colour, label=method)
        if not here:
            axes.lines[-1].remove()
    finite = [p for p in points if math.isfinite(p.epsilon)]
    axes.plot([p.delta for p in finite], [p.epsilon for p in finite], c="0.7", zorder=0)
    axes.set(xscale="log", xlabel="delta", ylabel="epsilon", title="what holds at each delta")
    axes.set_ylim(bottom=0)
    if finite:
        axes.legend(title="smallest by", loc="lower left")


def _draw_steps(axes: Axes, points: list[tuple[Release, Guarantee]]) -> None:
    finite = [
        (i, total.epsilon) for i, (_, total) in enumerate(points, 1) if math.isfinite(total.epsilon)
    ]
    axes.step([i for i, _ in finite], [e for _, e in finite], where="mid", marker="o")
    at = f" at delta {points[-1][1].delta:.3g}" if points else ""
    axes.set(xlabel="release", ylabel="epsilon so far", title=f"release by release{at}")
    axes.set_ylim(bottom=0)
    if len(points) <= 8:
        names = [_name(release) for release, _ in points]
        axes.set_xticks(range(1, len(points) + 1), names, rotation=20, ha="right", fontsize=7)


def _name(release: Release) -> str:
    return release.reason if release.times == 1 else f"{release.reason} (x {release.times})"
