"""What peers learn beside the model: attacks on all that they see, what runs open, and deviation.

The attacks are those of `hedgerow audit`: all peers but one put together every message and their
shares. Of a sound view the claim is 0; each is worth as much as what it finds where a protocol is
broken on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.audit import audit, lookup, verdict
from hedgerow.errors import HedgerowError
from hedgerow.net.network import Route
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.options import PeerOptions, PivotBoostingOptions, PivotOptions
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.secure.additive.punctured import SUMS
from reproduce.paper_003.attacks import patients
from reproduce.paper_003.models import plan_of, train

VIEWS = {
    "basic": ("pivot/basic/view@0", "pivot/basic/answers@0"),
    "enhanced": ("pivot/enhanced/view@0", "pivot/enhanced/answers@0"),
    "boosting": ("pivot/boosting/view@0", "pivot/hidden-boosting/view@0"),
    "broken": tuple(
        f"pivot/broken-{mistake}@0"
        for mistake in ("triples-reused", "addresses-repeated", "key-told")
    ),
    "noise": tuple(
        f"pivot-tree/{name}@1" for name in ("mostly-splits", "mostly-stops", "mostly-leaves")
    ),
}
"""Targets of the auditor, by what they are evidence of."""
EVERY = tuple(name for names in VIEWS.values() for name in names)
NOISY_RUNS = 10_000
"""Of trees with noise; of the others as many as the catalogue says."""
SEED, TESTS = 7, len(EVERY)
BASIC, ENHANCED = "basic", "enhanced"
SHOWN: dict[str, PeerOptions] = {
    BASIC: PivotOptions(max_depth=2),
    ENHANCED: PivotOptions(max_depth=2, hide="thresholds"),
    "boosting": PivotBoostingOptions(max_depth=2, n_estimators=3),
    "hidden boosting": PivotBoostingOptions(max_depth=2, n_estimators=3, hide="everything"),
}
WRONG = (1, 10, 100, 1_000)
"""What a peer that deviates adds to the sums that it sends."""

Record = dict[str, Any]


def attacked(name: str, runs: int | None) -> Record:
    """Attack a view; `runs` per input, or the usual number."""
    target = lookup(name)
    most = target.runs if target.claimed == 0 else NOISY_RUNS
    source = NoiseSource.insecure_seeded(SEED)
    found = audit(target, min(most, runs or most), source, tests=TESTS)
    figures = ("target", "sound", "claimed", "attacked", "ceiling", "runs", "false_alarm")
    return {key: getattr(found, key) for key in figures} | {"verdict": verdict(found)}


def opened() -> list[Record]:
    """Train models among peers; what the run's record says was opened."""
    rows, found = patients(), []
    for name, options in SHOWN.items():
        plan = plan_of(rows, options)
        run = train(rows, plan)
        trees = run.model
        assert isinstance(trees, PeerTrees)
        found.append(
            {
                "model": name,
                "opened": [one["name"] for one in run.leakage.what_was_learned("peer 0")],
                "as_declared": all(one["equal"] for one in run.leakage.compare()),
                "splits": [int(one) for group in trees.groups for one in group],
                "attribute_of": plan.layout.candidates.feature.tolist(),
            }
        )
    return found


class Deviating(Simulator):
    """Its last peer adds something to the sums that it sends."""

    def __init__(self, n: int, wrong: int) -> None:
        super().__init__(n)
        self._wrong = wrong

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, NDArray[Any]]
    ) -> dict[int, NDArray[Any]]:
        if step == SUMS:
            last = self.n - 1
            outbox = {
                k: array + array.dtype.type(self._wrong * (plan[k].source == last))
                for k, array in outbox.items()
            }
        return super()._move(step, plan, outbox)


def deviations() -> list[Record]:
    """Let a peer send wrong sums: whether the others find out, and what becomes of the tree."""
    rows = patients()
    plan = plan_of(rows, PivotOptions(max_depth=2))
    honest, found = _grown(train(rows, plan).model), []
    for wrong in WRONG:
        try:
            spoiled = _grown(train(rows, plan, Deviating(plan.n_peers, wrong)).model)
        except HedgerowError as error:
            found.append({"wrong": wrong, "found_out": error.code.name, "same": False})
        else:
            found.append({"wrong": wrong, "found_out": None, "same": spoiled == honest})
    return found


def _grown(model: Any) -> list[Any]:
    groups = [group.tolist() for group in model.groups]
    return [model.shape.first_child.tolist(), groups, model.opened.tolist()]


def charged() -> Record:
    """Return whether the ledger has a finite epsilon of trees with the noise of section 8.2."""
    rows, found = patients(), {}
    for noise in ("as published", "splits+leaves"):
        options = PivotOptions.from_parameters({"noise": noise, "epsilon": 1.0, "max_depth": 2})
        plan, ledger = plan_of(rows, options), Ledger()
        assert isinstance(plan, PivotPlan)
        plan.charge(ledger)
        total = ledger.total("public").epsilon
        found[noise] = float(np.round(total, 6)) if isfinite(total) else None
    return found
