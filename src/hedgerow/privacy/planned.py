"""How plans are written: what will be released, at what cost, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.privacy import statement
from hedgerow.privacy.accounting import Guarantee
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.release import Release


def planned_total(releases: Sequence[Release], delta: float | None = None) -> Guarantee:
    """Return what releases that are charged together cost the public, add/remove neighbours.

    `delta`: at which releases by rho are stated.
    """
    ledger = Ledger(delta=delta)
    ledger.charge(*releases)
    return ledger.total("public")


def planned(heading: str, releases: Sequence[Release], delta: float | None = None) -> str:
    """Return a plan as text: a heading, one line for equal releases, and the total."""
    rows = [{"kind": "", **statement.row(release)} for release in releases]
    total = planned_total(releases, delta)
    return f"{heading}\n\n{statement.text([], rows)}\n\ntotal: {total}"


def cost(total: Guarantee) -> str:
    """Return the figures of a total for one line; without a delta that only rounding brings."""
    at = f" at delta {total.delta:.3g}" if total.delta > 1e-15 else ""
    return f"epsilon {total.epsilon:.6g}{at}"
