"""The privacy curve of a ledger: epsilon over delta, and epsilon after each release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hedgerow.charts.axes import draw_panel, needs_matplotlib
from hedgerow.charts.panel import Axis, Panel, Series, axis_around
from hedgerow.privacy.accounting import Guarantee, has_rho, tightest
from hedgerow.privacy.entries import seen_by
from hedgerow.privacy.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTAS = np.logspace(-12, -2, 21)
_MOST_STEPS = 100
_MOST_NAMES = 8
METHODS = (
    "basic composition",
    "zCDP",
    "RDP",
    "Gaussian curve",
    "Gaussian losses (PLD)",
    "optimal composition (PLD)",
)


class ChargedLedger(Protocol):
    """What a ledger says of its charges."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases."""

    def calls(self, audience: str) -> list[list[Release]]:
        """Return releases that an audience sees, by the calls that charged them."""

    def figure(self, calls: list[list[Release]]) -> Guarantee:
        """Return what calls cost together."""

    def formal_total(self, audience: str) -> Guarantee:
        """Return what all charges cost, marks aside."""

    def total(self, audience: str) -> Guarantee:
        """Return what holds."""


def epsilon_over_delta(ledger: ChargedLedger, audience: str = "public") -> list[Guarantee]:
    """Return the smallest epsilon that an accountant proves for the charges, for every delta.

    Marks are left aside: what the charges would be worth, all of them fixed in advance.
    """
    releases = seen_by(ledger.releases, [audience])
    return [tightest(releases, float(delta)) for delta in DELTAS]


def epsilon_after_releases(
    ledger: ChargedLedger, audience: str = "public"
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


def privacy_panels(ledger: ChargedLedger, audience: str = "public") -> list[Panel]:
    """Return both as charts; below each stands why nothing is promised, where that is so."""
    total = ledger.total(audience)
    notes = [] if total.private else [f"NOT PRIVATE: {total.why}"]
    advance = len(ledger.calls(audience)) > 1
    return [
        _over_delta(epsilon_over_delta(ledger, audience), notes, advance=advance),
        _after_releases(epsilon_after_releases(ledger, audience), notes),
    ]


def plot_curve(
    ledger: ChargedLedger, audience: str = "public", axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Draw both on two Axes, by default those of a new figure; H406 without matplotlib."""
    needs_matplotlib()
    if axes is None:
        import matplotlib.pyplot as plt

        axes = plt.figure(figsize=(10, 4), layout="constrained").subplots(1, 2).tolist()
    return [draw_panel(p, ax) for p, ax in zip(privacy_panels(ledger, audience), axes, strict=True)]


def _first(calls: list[list[Release]], n: int) -> list[list[Release]]:
    """Return the first n releases, by calls."""
    starts = [0, *accumulate(len(call) for call in calls)]
    return [call[: n - start] for call, start in zip(calls, starts, strict=False) if start < n]


def _over_delta(points: Sequence[Guarantee], notes: list[str], *, advance: bool) -> Panel:
    finite = [p for p in points if math.isfinite(p.epsilon)]
    series = [Series("line", [p.delta for p in finite], [p.epsilon for p in finite], colour=None)]
    for colour, method in enumerate(METHODS):
        here = [p for p in finite if p.method == method]
        if here:
            series.append(
                Series(
                    "points",
                    [p.delta for p in here],
                    [p.epsilon for p in here],
                    method,
                    colour,
                    tips=[f"epsilon {p.epsilon:.4g} at delta {p.delta:.3g}" for p in here],
                )
            )
    said = "at each delta, charges fixed in advance" if advance else "at each delta"
    return Panel(
        f"Epsilon {said}",
        Axis("delta", float(DELTAS[0]) / 1.6, float(DELTAS[-1]) * 1.6, log=True),
        axis_around("epsilon", [p.epsilon for p in finite]),
        series if finite else [],
        [*notes, *([] if finite else ["No finite epsilon at any of these deltas."])],
    )


def _after_releases(points: Sequence[tuple[Release, Guarantee]], notes: list[str]) -> Panel:
    finite = [
        (number, release, total)
        for number, (release, total) in enumerate(points, 1)
        if math.isfinite(total.epsilon)
    ]
    # Not a delta that only rounding brings.
    delta = points[-1][1].delta if points else 0.0
    at = f" at delta {delta:.3g}" if delta > 1e-15 else ""
    ticks = None
    if len(points) <= _MOST_NAMES:
        ticks = tuple((float(i), _name(release)) for i, (release, _) in enumerate(points, 1))
    places = [float(number) for number, _, _ in finite]
    heights = [total.epsilon for _, _, total in finite]
    return Panel(
        f"Epsilon release by release{at}",
        Axis("release", 0.5, max(len(points), 1) + 0.5, ticks=ticks),
        axis_around("epsilon so far", heights),
        [
            Series("stairs", _edges(places), heights),
            Series(
                "points",
                places,
                heights,
                tips=[f"{_name(r)}: epsilon {t.epsilon:.4g} so far" for _, r, t in finite],
            ),
        ]
        if finite
        else [],
        notes,
    )


def _edges(places: list[float]) -> list[float]:
    """Return the borders of steps around places, which follow each other by 1."""
    return [places[0] - 0.5, *(place + 0.5 for place in places)]


def _name(release: Release) -> str:
    return release.reason if release.times == 1 else f"{release.reason} (x {release.times})"
