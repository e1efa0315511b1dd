"""Noise for a whole level of a tree: the biased-coin sampler beside OpenDP's samplers.

OpenDP's noisy max draws exponential noise, which is the law of permute-and-flip; it stands beside
both of our mechanisms because it is what one would use in their place.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from bench import opendp_samplers as opendp
from bench.harness import row, seconds
from hedgerow.privacy import (
    DiscreteGaussian,
    NoiseSource,
    NoisyMax,
    PermuteAndFlip,
    TwoSidedGeometric,
)

NODES = 4096


def run() -> list[dict[str, Any]]:
    """Time per level of 4,096 nodes; OpenDP is timed on a part and scaled (it is linear)."""
    source = NoiseSource.system()
    rows = []
    counts = np.zeros((NODES, 10), dtype=np.int64)
    ours = seconds(lambda: TwoSidedGeometric(epsilon=0.1)(counts, source))
    part = counts[:100].ravel()
    scale = counts.size / part.size
    rows.append(
        row(
            "two-sided geometric, 4,096 nodes x 10 classes, OpenDP vector call",
            ours,
            seconds(lambda: opendp.two_sided(part, Fraction(0.1))) * scale,
        )
    )
    # By inversion on a table, and by a table with low digits.
    for sigma in (10, 10_000):
        rho = 1 / (2 * sigma**2)
        noise = DiscreteGaussian(rho)
        ours = seconds(lambda m=noise: m(counts, source))
        peer_time = seconds(lambda s=sigma: opendp.gaussian(part, Fraction(s**2))) * scale
        case = f"discrete Gaussian, sigma {sigma:,}, 4,096 nodes x 10 classes, OpenDP vector call"
        rows.append(row(case, ours, peer_time))
    for candidates in (100, 2000):
        # Scores of a level of splits: most candidates are far behind the best ones.
        scores = np.random.default_rng(0).integers(0, 1000, (NODES, candidates))
        for name, mechanism in (
            ("noisy max", NoisyMax(epsilon=0.1, monotone=True)),
            ("permute-and-flip", PermuteAndFlip(epsilon=0.1, monotone=True)),
        ):
            ours = seconds(lambda m=mechanism, s=scores: m(s, source), repeats=3)
            few, a = scores[:20], mechanism.a
            choose = partial(opendp.choose, few, a, replace=False)
            peer_time = seconds(choose) * NODES / len(few)
            case = f"{name}, 4,096 nodes x {candidates} candidates, OpenDP noisy max"
            rows.append(row(case, ours, peer_time))
    return rows
