"""The privacy curve of a ledger, for pages and as a file."""

from __future__ import annotations

import io

from hedgerow.charts.axes import draw_panel, needs_matplotlib
from hedgerow.charts.svg import panels_svg
from hedgerow.privacy import Ledger
from hedgerow.privacy.curve import epsilon_after_releases, epsilon_over_delta, privacy_panels

__all__ = ["epsilon_after_releases", "epsilon_over_delta", "privacy_curve", "privacy_curve_svg"]


def privacy_curve_svg(ledger: Ledger, audience: str = "public") -> str:
    """Draw epsilon over delta and epsilon after each release, as SVG for a page."""
    total = ledger.total(audience)
    return panels_svg(
        privacy_panels(ledger, audience),
        title=f"What the model costs {audience}",
        description=f"{total}. Above: epsilon at each delta. Below: epsilon after each release.",
    )


def privacy_curve(ledger: Ledger, *, title: str = "", audience: str = "public") -> bytes:
    """Draw both as a PNG picture; H406 without matplotlib."""
    needs_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for panel, ax in zip(
        privacy_panels(ledger, audience), figure.subplots(1, 2).tolist(), strict=True
    ):
        draw_panel(panel, ax)
    figure.suptitle(title)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()
