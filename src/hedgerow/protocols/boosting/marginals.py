"""What noisy marginals say, for free: prior, groups of bins, and how useful each attribute is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.boosting.plan import COUNT_UNITS, HALF, BoostPlan

Floats = NDArray[np.float64]

# A group holds so many times the noise of a cell, and this share of all records; but never more
# than a sixth of them: where all is noise there still are cuts.
_GROUP_NOISE, _GROUP_SHARE, _GROUP_MOST = 6.0, 0.002, 1 / 6
# Cells are put in order by means that this many times the noise pulls towards 0.
_ORDER_NOISE = 3.0
# Standard deviations of doubt that count for an attribute.
_DOUBTS = 2.0
# Variance of a useful step, in log-odds, or in half the range of a number.
_PRIOR, _PRIOR_NUMBER = 0.5, 0.05


@dataclass(frozen=True, eq=False)
class Profile:
    """One attribute: the group of each bin, (bins,), and noisy shares of the records, (groups,).

    Groups are neighbours in the order of the attribute, or of its noisy means if it has categories.
    `use` is how much of the loss this attribute alone would explain, noise taken off, and how much
    more it could be: two standard deviations of the noise. At least 0.
    """

    group: NDArray[np.int64]
    share: Floats
    use: float


class Marginals(NamedTuple):
    """All attributes together, and the noisy number of records, at least 1.

    `start`, (k,), are the scores before the first round, and `hessian`, (k,), the second derivative
    of the loss there, per record.
    """

    records: float
    start: Floats
    hessian: Floats
    profiles: list[Profile]


class _Prior(NamedTuple):
    """What is true of all records: gradients in a cell are `cells @ turn`, of this noise."""

    start: Floats
    hessian: Floats
    turn: Floats
    noise: Floats
    variance: float


def read_marginals(plan: BoostPlan, noisy: Sequence[NDArray[np.int64]]) -> Marginals:
    """Read noisy histograms as they were released, (bins, classes or 2) each."""
    sigma = math.sqrt(plan.marginals.sigma2)
    if plan.n_classes is None:
        scale = np.array([1 / COUNT_UNITS, 1 / HALF])
    else:
        scale = np.ones(plan.n_classes)
    cells = [histogram * scale for histogram in noisy]
    totals, doubt = _totals(cells, sigma * scale)
    if plan.n_classes is None:
        prior, records = _number(totals, doubt, sigma * scale), float(totals[0])
    else:
        prior, records = _classes(totals, doubt, sigma), float(totals.sum())
    records = max(min(records, float(plan.domain.capacity or math.inf)), 1.0)
    # Noise of a cell, in records.
    noise = sigma / COUNT_UNITS if plan.n_classes is None else sigma
    least = max(min(_GROUP_NOISE * noise, _GROUP_MOST * records), _GROUP_SHARE * records)
    profiles = []
    for attribute, cell in zip(plan.domain.attributes, cells, strict=True):
        count = cell[:, 0] if plan.n_classes is None else cell.sum(axis=1)
        slope = cell @ prior.turn
        order = np.arange(len(count))
        if attribute.bounds is None:
            order = _order(slope / (np.maximum(count, 0) + _ORDER_NOISE * noise)[:, None], count)
        group = _groups(count, order, least)
        profiles.append(_profile(group, count, slope, prior, records))
    return Marginals(records, prior.start, prior.hessian, profiles)


def _totals(cells: list[Floats], sigma: Floats) -> tuple[Floats, Floats]:
    """Every histogram has all records: the mean of their sums, those of few cells count more.

    Returns the means and the standard deviations of their noise, which has `sigma` in a cell.
    """
    weight = np.array([1 / len(cell) for cell in cells])
    sums = np.stack([cell.sum(axis=0) for cell in cells])
    totals: Floats = weight @ sums / weight.sum()
    return totals, sigma / math.sqrt(weight.sum())


def _classes(totals: Floats, doubt: Floats, sigma: float) -> _Prior:
    # As many more records of each class as noise makes: alike where all is noise.
    shares = np.maximum(totals, 0.0) + np.maximum(doubt, 1.0)
    share = np.clip(shares / shares.sum(), 0.02 / len(shares), 1.0)
    share /= share.sum()
    k = len(share)
    # The gradient of class c in a cell: its records less their share of all records there.
    turn = np.eye(k) - share
    noise = sigma**2 * ((1 - share) ** 2 + (k - 1) * share**2)
    hessian = share * (1 - share)
    start = np.log(share)
    if k == 2:
        start = start[1:] - start[:1]
        return _Prior(start, hessian[1:], turn[:, 1:], noise[1:], _PRIOR)
    return _Prior(start, hessian, turn, noise, _PRIOR)


def _number(totals: Floats, doubt: Floats, sigma: Floats) -> _Prior:
    # Pulled towards the middle of the range by as many records as noise makes.
    mean = float(np.clip(totals[1] / (max(totals[0], 1.0) + float(doubt.max())), -1, 1))
    noise = sigma[1] ** 2 + mean**2 * sigma[0] ** 2
    return _Prior(
        np.array([mean]),
        np.ones(1),
        np.array([[-mean], [1.0]]),
        np.array([noise]),
        _PRIOR_NUMBER,
    )


def _order(means: Floats, count: Floats) -> NDArray[np.int64]:
    """Order categories by their means, along the direction in which these differ most."""
    if means.shape[1] == 1:
        return np.argsort(means[:, 0], kind="stable")
    weighted = np.sqrt(np.maximum(count, 0))[:, None] * means
    _, _, directions = np.linalg.svd(weighted, full_matrices=False)
    return np.argsort(means @ directions[0], kind="stable")


def _groups(count: Floats, order: NDArray[np.int64], least: float) -> NDArray[np.int64]:
    """Join neighbours until each group holds `least` records; large bins stand alone."""
    group = np.zeros(len(count), dtype=np.int64)
    at, held, bins = 0, 0.0, 0
    for one in order.tolist():
        if bins and count[one] >= 2 * least and held >= least / 2:
            at, held, bins = at + 1, 0.0, 0
        group[one] = at
        held, bins = held + count[one], bins + 1
        if held >= least:
            at, held, bins = at + 1, 0.0, 0
    if bins and at:
        # What is left over at the end joins the last group.
        group[group == at] = at - 1
    return group


def _profile(
    group: NDArray[np.int64], count: Floats, slope: Floats, prior: _Prior, records: float
) -> Profile:
    n = int(group.max()) + 1
    held = np.maximum(np.bincount(group, weights=count, minlength=n), 1.0)
    bins = np.bincount(group, minlength=n)
    use = 0.0
    for channel, (hessian, noise) in enumerate(zip(prior.hessian, prior.noise, strict=True)):
        sums = np.bincount(group, weights=slope[:, channel], minlength=n)
        stiff, variance = held * hessian, noise * bins
        # The step that noise and prior allow, and what it would bring, less what noise brings.
        share = stiff / (stiff**2 + variance / prior.variance)
        gain = max(float(((sums**2 - variance) * share).sum()), 0.0)
        # A useful attribute that happens to look useless must not be left out for good.
        doubt = math.sqrt(2 * float(((variance * share) ** 2).sum()))
        use += (gain + _DOUBTS * doubt) / (records * hessian)
    return Profile(group, held / held.sum(), use)
