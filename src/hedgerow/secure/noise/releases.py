"""Releases from shares: charge the ledger, draw noise that nobody knows, then add or choose.

The mechanisms are those of `hedgerow.privacy.mechanisms` with the same laws; delta is never 0 here,
because coins have finitely many bits, and the charge states it (`noise.discrete.precision`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hedgerow.errors import Code
from hedgerow.privacy import EACH, Ledger, NoisyMax, Release, Scope, TwoSidedGeometric
from hedgerow.secure.argmax import argmax, cost_argmax
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.noise.discrete import (
    Precision,
    cost_geometric,
    cost_two_sided_geometric,
    geometric,
    precision,
    two_sided_geometric,
)
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret

Discrete = TwoSidedGeometric | NoisyMax


class Payer(Protocol):
    """What is asked before noise is drawn: a ledger, or releases that one was charged with."""

    def charge(self, *releases: Release) -> None:
        """Refuse what may not be drawn."""

    def mark_not_private(self, reason: str) -> None:
        """Record that what follows promises nothing."""


class Prepaid:
    """Releases that a ledger was charged with beforehand: each is drawn once, and no others are.

    It says nothing of the ledger, which is charged first. Where a record is in a sample by a secret
    coin, `releases` are those inside of it, and the ledger has what they come to.
    """

    def __init__(self, ledger: Ledger, releases: Iterable[Release]) -> None:
        self._ledger, self._left = ledger, Counter(releases)

    def charge(self, *releases: Release) -> None:
        """Take releases from those that were paid; H306 for another, or for one of them again."""
        for release in releases:
            if not self._left[release]:
                raise Code.NOT_CHARGED.error(
                    expected="what was charged before, each once", found=f"{release}"
                )
            self._left[release] -= 1

    def mark_not_private(self, reason: str) -> None:
        """Record it in the ledger."""
        self._ledger.mark_not_private(reason)


NOBODY: Payer = Prepaid(Ledger(), ())
"""Pays for nothing: for charges that a plan speaks of."""


@lru_cache(maxsize=1024)
def _delta(mechanism: Discrete, m: int) -> float:
    """Return what finite precision costs; a booster has the same few mechanisms in all rounds."""
    return precision(mechanism, m).delta


@dataclass(frozen=True)
class Charge:
    """Who pays for a release, and what the ledger is told about it.

    If the scope ends in a part labelled `EACH`, the first axis of what is released holds the parts,
    and the release is that of one part. The declared opening names the reason.
    """

    ledger: Payer
    scope: Scope
    audience: str
    reason: str

    @property
    def is_in_each_part(self) -> bool:
        """Whether the release is made once in every part of a partition."""
        segments = self.scope.segments
        return bool(segments) and segments[-1].partition is not None and segments[-1].label == EACH

    def times(self, rows: tuple[int, ...]) -> int:
        """Return how many choices count: those of one part if the first axis holds parts."""
        return max(1, math.prod(rows[1:] if self.is_in_each_part else rows))

    def size(self, shape: tuple[int, ...]) -> int:
        """Return the values of one release: all, or those of one part."""
        return math.prod(shape[1:] if self.is_in_each_part else shape)

    def release(self, mechanism: Discrete, m: int, times: int = 1) -> Release:
        """Return what m noisy values, or a choice among m candidates, are charged as."""
        return Release(
            mechanism=mechanism.name,
            epsilon=mechanism.epsilon,
            delta=_delta(mechanism, m),
            sensitivity=mechanism.sensitivity,
            scope=self.scope,
            audience=self.audience,
            reason=self.reason,
            times=times,
            variables=m * (2 if isinstance(mechanism, TwoSidedGeometric) else 1),
        )

    def pay(self, engine: Engine, release: Release) -> None:
        """Charge a release before it is drawn; a seeded engine is recorded as not private."""
        if not engine.private:
            self.ledger.mark_not_private("seeded noise")
        self.ledger.charge(release)

    def draw(self, engine: Engine, mechanism: Discrete, m: int, times: int = 1) -> Precision:
        """Pay for `times` releases of m values or candidates, and return how finely to draw."""
        self.pay(engine, self.release(mechanism, m, times))
        return precision(mechanism, m)


def add_geometric_noise(values: Secret, mechanism: TwoSidedGeometric, charge: Charge) -> Secret:
    """Add two-sided geometric noise to secret integers: one release of all of them.

    Paper: ghosh2012universally.

    1. Charge the ledger for values.size values, or for one part's.
    2. Draw two geometric variables per value, on shares.
    3. Add their difference.

    Reveals: nothing; the sum may be opened to the audience of the charge.
    Cost: `cost_add_geometric_noise`; that of `two_sided_geometric`.

    One record moves the values by at most ``mechanism.sensitivity`` in total (L1). Sums that leave
    the ring wrap around, which costs no privacy.
    """
    drawn = charge.draw(values.engine, mechanism, charge.size(values.shape))
    return values + two_sided_geometric(values.engine, values.shape, drawn, values.ring)


def noisy_max(
    scores: Secret,
    mechanism: NoisyMax,
    charge: Charge,
    *,
    bound: int,
    valid: Secret | ArrayLike | None = None,
) -> Secret:
    """Choose per row the candidate whose score plus geometric noise is largest, kept hidden.

    Paper: dwork2014foundations. There with Laplace noise.

    1. Charge the ledger: one choice among c candidates for every row, or in each part.
    2. Draw one geometric variable per candidate, on shares.
    3. z = (score + bound + noise + 1) * valid, so that a candidate that is not valid has 0, less
       than any other.
    4. Argmax; the lowest index wins ties.

    Reveals: nothing; the choice may be opened to the audience of the charge.
    Cost: `cost_noisy_max`.

    One record moves each score (..., c) by at most ``mechanism.sensitivity``. `bound` is public, at
    least the magnitude of every score; ``2 * bound + 2**L + 1`` fits into the ring without its top
    bit. `valid` must not depend on the data except through earlier releases (hidden ones included);
    a row without a valid candidate yields index 0. The choice (..., c) is one-hot. If the scope
    ends in `EACH`, the first axis holds the parts and the choices of one part are charged.
    """
    engine, c = scores.engine, scores.shape[-1]
    bits = _bits(precision(mechanism, c), bound, scores.ring)
    drawn = charge.draw(engine, mechanism, c, charge.times(scores.shape[:-1]))
    noise = geometric(engine, scores.shape, drawn, scores.ring)
    z = scores + noise + (bound + 1)
    if valid is not None:
        z = z * (valid if isinstance(valid, Secret) else np.asarray(valid, dtype=np.bool_))
    return argmax(z, bits=bits)


def open_noisy_max(
    scores: Secret, mechanism: NoisyMax, charge: Charge, *, bound: int, name: str
) -> NDArray[np.int64] | None:
    """Choose as `noisy_max` does and open the index to the audience of the charge.

    1. `noisy_max`.
    2. Index = sum of i times the one-hot vector, local.
    3. Open it.

    Reveals: the index of every row, to the audience; its release pays.
    Cost: `cost_noisy_max`, and one opening.

    Returns int64 (...,), or None where the audience does not live here.
    """
    chosen = noisy_max(scores, mechanism, charge, bound=bound)
    index = (chosen * np.arange(scores.shape[-1])).sum(axis=-1)
    opened: NDArray[Any] | None = scores.engine.open(index, name, charge.audience)
    return None if opened is None else opened.astype(np.int64)


def cost_add_geometric_noise(
    engine: Engine, shape: tuple[int, ...], mechanism: TwoSidedGeometric, charge: Charge, ring: Ring
) -> Cost:
    """State the cost of `add_geometric_noise`."""
    drawn = precision(mechanism, charge.size(shape))
    return cost_two_sided_geometric(engine, math.prod(shape), drawn, ring)


def cost_noisy_max(
    engine: Engine,
    shape: tuple[int, ...],
    mechanism: NoisyMax,
    *,
    bound: int,
    ring: Ring,
    secret_valid: bool = False,
) -> Cost:
    """State the cost of `noisy_max` for scores of a shape."""
    drawn = precision(mechanism, shape[-1])
    masking = engine.cost("mul", shape=shape, ring=ring) if secret_valid else NOTHING
    return (
        cost_geometric(engine, math.prod(shape), drawn, ring)
        + masking
        + cost_argmax(engine, shape, ring, bits=_bits(drawn, bound, ring))
    )


def _bits(drawn: Precision, bound: int, ring: Ring) -> int:
    """Return the width of differences of noisy scores, which lie in 0, ..., 2 bound + 2^L."""
    bits = (2 * bound + (1 << drawn.variable.length) + 1).bit_length() + 1
    if bound < 0 or bits > ring.bits:
        raise Code.BAD_MECHANISM_INPUT.error(
            expected=f"scores and noise within {ring.bits - 1} bits",
            found=f"scores up to {bound}, noise up to 2**{drawn.variable.length}",
            fix="extend the scores to a larger ring, or put them on a coarser grid",
        )
    return bits
