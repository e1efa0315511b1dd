"""Which leaves each round has: public randomness over what the noisy marginals say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.boost_marginals import Marginals, Profile
from hedgerow.protocols.boost_plan import BoostPlan
from hedgerow.protocols.public_choices import public_sample, public_uniform
from hedgerow.trees.boost_counts import Shape

PAIR_PARTS = 3
"""Parts of each attribute of a pair."""

_USE_POWER, _EVEN = 0.25, 0.1
_CUT_POWER = 0.5


def shapes(plan: BoostPlan, marginals: Marginals) -> Iterator[Shape]:
    """Yield the shape of each round.

    Attributes take turns in proportion to a power of their use, mixed with equal turns, so that
    one whose use drowned in noise is not lost. Cuts lie between groups, more often between groups
    of many records.
    """
    seed = plan.public_seed
    turns = _turns(marginals.profiles)
    credit = public_uniform(seed, "boosting/turns", len(turns)) * turns
    first_pair = plan.rounds - int(plan.rounds * plan.pair_share)
    splittable = int(np.count_nonzero(turns))
    for at in range(plan.rounds):
        credit += turns
        one = int(np.argmax(credit))
        credit[one] -= 1
        features, parts = [one], plan.leaves
        if at >= first_pair and splittable > 1:
            others = np.where(np.arange(len(turns)) == one, 0.0, turns)
            features.append(int(public_sample(seed, f"boosting/partner/{at}", others, 1)[0]))
            parts = PAIR_PARTS
        cut = [
            _cut(marginals.profiles[feature], parts, seed, f"boosting/cuts/{at}/{feature}")
            for feature in features
        ]
        yield Shape(
            np.array(features, dtype=np.int64),
            tuple(cut),
            tuple(int(part.max()) + 1 for part in cut),
        )


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
