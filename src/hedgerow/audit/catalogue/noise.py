"""Audits of noise that three servers draw together: of what they open, in the simulator."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit.catalogue.hidden import engine_for
from hedgerow.audit.engine import AuditTarget
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    NoiseSource,
    NoisyMax,
    Opening,
    Partition,
    TwoSidedGeometric,
    part,
)
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.releases import Charge, add_geometric_noise, open_noisy_max
from hedgerow.secure.ring import Z32

RUNS = 40_000
# Every run is a part of its own, so that they are drawn side by side and charged once.
RUN = ROOT / part(Partition("runs", By.SLOT), EACH)
RELEASED = "released"
REASON = "an audit"


def noisy_counts(mechanism: TwoSidedGeometric, value: int, runs: int, source: NoiseSource) -> Any:
    """Open one noisy count per run."""
    opening = Opening(RELEASED, "server", (runs,), release=REASON)
    engine, ledger = engine_for([opening], None, source)
    secret = engine.public(np.full(runs, value), Z32)
    noisy = add_geometric_noise(secret, mechanism, Charge(ledger, RUN, "server", REASON))
    opened = engine.open(noisy, RELEASED, "server")
    assert opened is not None
    return Z32.signed(opened).astype(np.int64)


def noisy_choices(
    mechanism: NoisyMax, scores: NDArray[np.int64], runs: int, source: NoiseSource
) -> Any:
    """Open one noisy choice per run."""
    opening = Opening(RELEASED, "server", (runs,), release=REASON)
    engine, ledger = engine_for([opening], None, source)
    secret = engine.public(np.broadcast_to(scores, (runs, scores.size)), Z32)
    return open_noisy_max(
        secret,
        mechanism,
        Charge(ledger, RUN, "server", REASON),
        bound=int(np.abs(scores).max()),
        name=RELEASED,
    )


def three_servers() -> list[AuditTarget]:
    """Targets for the two-sided geometric mechanism and noisy max on three servers."""
    count, choice, monotone = TwoSidedGeometric(1.0), NoisyMax(1.0), NoisyMax(1.0, monotone=True)
    behind = np.array([0, 2]), np.array([1, 1])
    alone = np.array([0, 1]), np.array([1, 1])
    return [
        AuditTarget(
            "three-servers/two-sided-geometric@1",
            partial(noisy_counts, count),
            [("0 and 1", 0, 1)],
            claimed=1.0,
            delta=precision(count, 1).delta,
            runs=RUNS,
        ),
        *(
            AuditTarget(
                f"three-servers/noisy-max{suffix}@1",
                partial(noisy_choices, mechanism),
                [("two candidates", *pair)],
                claimed=1.0,
                delta=precision(mechanism, 2).delta,
                runs=RUNS,
            )
            for suffix, mechanism, pair in (
                ("", choice, behind),
                ("-monotone", monotone, alone),
            )
        ),
    ]
