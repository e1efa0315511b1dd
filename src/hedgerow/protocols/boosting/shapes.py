"""Which leaves each round has: public randomness over what was released before."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.boosting.marginals import Marginals, Profile
from hedgerow.protocols.boosting.plan import BoostPlan
from hedgerow.protocols.public_choices import public_sample, public_uniform
from hedgerow.trees.counts.boosting import Shape

PAIR_PARTS = 3
"""Parts of each attribute of a pair."""

_USE_POWER, _EVEN = 0.25, 0.1
_CUT_POWER = 0.5
# A pair's worth is kept above this, has so much doubt before it was seen, and is read as a running
# mean in which a new round counts at least so much.
_PAIR_LEAST, _PAIR_DOUBT, _PAIR_NEWS = 0.1, 1.5, 0.3


class Shapes:
    """The shape of each round, one after the other.

    Attributes take turns in proportion to a power of their use, mixed with equal turns, so that
    one whose use drowned in noise is not lost. Cuts lie between groups, more often between groups
    of many records. The last rounds cut pairs of attributes; which of them, the noisy sums of
    earlier rounds tell for free: the more a pair's leaves differ beyond what each attribute says
    alone, and beyond noise, the more often it is drawn again.
    """

    def __init__(self, plan: BoostPlan, marginals: Marginals) -> None:
        self._plan, self._profiles = plan, marginals.profiles
        self._turns = _turns(marginals.profiles)
        self._credit = self._turns * public_uniform(
            plan.public_seed, "boosting/turns", len(self._turns)
        )
        self._first_pair = plan.rounds - int(plan.rounds * plan.pair_share)
        self._pairs = np.stack(np.triu_indices(len(self._turns), 1), axis=1)
        self._chance = self._turns[self._pairs].prod(axis=1)
        # How often a pair was cut, and how much it told beyond noise, in units of the noise.
        self._seen = np.zeros(len(self._pairs))
        self._gain = np.zeros(len(self._pairs))

    def at(self, number: int) -> Shape:
        """Return the shape of a round; ask for one after the other."""
        if number >= self._first_pair and self._chance.any():
            features, parts = self._next_pair(number), PAIR_PARTS
        else:
            features, parts = [self._next_turn()], self._plan.leaves
        cut = [
            _cut(
                self._profiles[feature],
                parts,
                self._plan.public_seed,
                f"boosting/cuts/{number}/{feature}",
            )
            for feature in features
        ]
        return Shape(
            np.array(features, dtype=np.int64),
            tuple(cut),
            tuple(int(part.max()) + 1 for part in cut),
        )

    def learn(self, shape: Shape, sums: NDArray[np.int64]) -> None:
        """Take note of the noisy sums of a round."""
        if len(shape.features) < 2 or min(shape.n_parts) < 2:
            return
        grid = sums.reshape(*shape.n_parts[::-1], -1) / math.sqrt(self._plan.sums.sigma2)
        grid = grid - grid.mean(axis=0, keepdims=True)
        grid -= grid.mean(axis=1, keepdims=True)
        freedom = math.prod(parts - 1 for parts in shape.n_parts) * grid.shape[-1]
        gain = float((grid**2).sum()) / freedom - 1
        at = np.flatnonzero((self._pairs == np.sort(shape.features)).all(axis=1))[0]
        self._seen[at] += 1
        self._gain[at] += max(1 / (self._seen[at] + 1), _PAIR_NEWS) * (gain - self._gain[at])

    def _next_turn(self) -> int:
        self._credit += self._turns
        one = int(np.argmax(self._credit))
        self._credit[one] -= 1
        return one

    def _next_pair(self, number: int) -> list[int]:
        worth = np.maximum(self._gain + _PAIR_DOUBT / np.sqrt(self._seen + 1), _PAIR_LEAST)
        seed, address = self._plan.public_seed, f"boosting/pair/{number}"
        drawn = public_sample(seed, address, self._chance * worth**2, 1)
        pair: list[int] = self._pairs[drawn[0]].tolist()
        return pair


def shares(shape: Shape, marginals: Marginals) -> NDArray[np.float64]:
    """Return the noisy share of all records in each leaf, as if attributes were independent."""
    found = np.ones(1)
    for feature, part, n in zip(shape.features, shape.parts, shape.n_parts, strict=True):
        profile = marginals.profiles[feature]
        # Bins of a group are in the same part.
        of_group = np.zeros(len(profile.share), dtype=np.int64)
        of_group[profile.group] = part
        found = np.outer(np.bincount(of_group, weights=profile.share, minlength=n), found).ravel()
    return found


def _turns(profiles: list[Profile]) -> NDArray[np.float64]:
    """Return the share of the rounds of each attribute; 0 where there is nothing to cut."""
    possible = np.array([len(profile.share) > 1 for profile in profiles], dtype=np.float64)
    if not possible.any():
        # Noise has joined all bins everywhere: rounds without cuts move the mean alone.
        return np.full(len(profiles), 1 / len(profiles))
    weight = possible * np.array([profile.use for profile in profiles]) ** _USE_POWER
    weight = weight / weight.sum() if weight.sum() > 0 else possible / possible.sum()
    mixed: NDArray[np.float64] = (1 - _EVEN) * weight + _EVEN * possible / possible.sum()
    return mixed


def _cut(profile: Profile, parts: int, seed: int, address: str) -> NDArray[np.int64]:
    """Draw cuts between the groups; return the part of each bin."""
    share = profile.share
    if len(share) == 1:
        return np.zeros_like(profile.group)
    weight = (share[:-1] + share[1:]) ** _CUT_POWER
    cuts = public_sample(seed, address, weight, parts - 1)
    return np.searchsorted(cuts, np.arange(len(share)))[profile.group]
