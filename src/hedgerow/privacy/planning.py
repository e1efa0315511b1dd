"""Plans: how much noise a guarantee asks for, what releases will cost, and how that is written.

Figures are those of `Ledger.total`, with the same bounds and roundings, so that a budget of the
same figures never refuses a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from hedgerow.errors import Code
from hedgerow.privacy import statement
from hedgerow.privacy.accounting import Guarantee, tightest
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.privacy.release import PUBLIC, Release
from hedgerow.privacy.scopes import ROOT

# The releases of a plan share the rho that is found here, and their sum is rounded.
_DOWN = 1 - 1e-12
_PRECISION = 1e-11
# How far values move is not known here: next to nothing, so that only what rho says is counted.
_UNKNOWN = 1e-150


def rho_for(epsilon: float, delta: float) -> float:
    """Return the largest rho that all releases of a plan may add up to; delta in (0, 1).

    Rounded down: a list of releases by rho, fixed in advance and without samples, that add up to it
    costs at most epsilon at delta, however far they move. 0 if no noise is enough. A ledger, which
    knows their sensitivities, counts less (`hedgerow.privacy.gaussian`): a plan may use the room
    with `largest`.
    """
    return noise_for_rate(epsilon, delta, 1.0, 1)


def noise_for_rate(epsilon: float, delta: float, sample_rate: float, rounds: int) -> float:
    """Return the largest rho of each of several rounds, every one on a fresh secret sample.

    The number of rounds is fixed in advance; epsilon is that of all together. zCDP of one round
    inside its sample, rounded down; 0 if no noise is enough.
    """
    epsilon = check_whole_epsilon(epsilon)
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 < delta < 1:
        raise Code.BAD_RELEASE.error(
            expected="0 < delta < 1", found=f"delta={delta!r}", fix="choose a delta such as 1e-6"
        )

    return _noise_for_rate(epsilon, float(delta), sample_rate, rounds)


@lru_cache(maxsize=256)
def _noise_for_rate(epsilon: float, delta: float, sample_rate: float, rounds: int) -> float:
    def enough(rho: float) -> bool:
        plan = Release(
            DiscreteGaussian.name,
            math.inf,
            0.0,
            _UNKNOWN,
            ROOT,
            PUBLIC,
            "plan",
            times=rounds,
            rho=rho,
            sample_rate=sample_rate,
        )
        return tightest([plan], delta).epsilon <= epsilon

    # Without a sample rho is below epsilon: zCDP alone adds a root to it. With one, more fits in.
    return largest(enough, epsilon, _PRECISION) * _DOWN


def largest(enough: Callable[[float], bool], start: float, precision: float) -> float:
    """Return the largest number that is enough, where all below one that is enough are.

    Rounded down, by a relative `precision`; 0 if there is none.
    """
    low, high = 0.0, start
    while enough(high):
        low, high = high, 2 * high
    while low == 0.0 and high > 0.0:
        low = high / 2
        if not enough(low):
            low, high = 0.0, low
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def plan_total(releases: Sequence[Release], delta: float | None = None) -> Guarantee:
    """Return what releases charged together cost the public; those by rho at `delta`."""
    ledger = Ledger(delta=delta)
    ledger.charge(*releases)
    return ledger.total(PUBLIC)


def plan_text(heading: str, releases: Sequence[Release], delta: float | None = None) -> str:
    """Return a plan as text: a heading, one line for equal releases, and the total."""
    rows = [{"kind": "", **statement.row(release)} for release in releases]
    total = plan_total(releases, delta)
    return f"{heading}\n\n{statement.text([], rows)}\n\ntotal: {total}"


def cost_text(total: Guarantee) -> str:
    """Return the figures of a total for one line; without a delta that only rounding brings."""
    at = f" at delta {total.delta:.3g}" if total.delta > 1e-15 else ""
    return f"epsilon {total.epsilon:.6g}{at}"
