"""The methods of paper 004, each as one call: grow a tree among four owners, and test it.

Three ways to run a method:

"published"
    As the paper has it: entropy, one histogram for every split, half of alpha for the leaves, the
    budget of a depth halved with each (or 1/M of it), noise scaled by private counts.
"strict"
    The paper's parameters with releases at their true cost, so that alpha holds, and one histogram
    for every attribute. Secret counts have no entropy: Gini takes its place.
"ours"
    What a user gets who gives nothing but alpha: Gini, equal budgets, depth by rule, our shares.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.topdown.coordinator import CoordinatorTraffic
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.run import run_topdown
from hedgerow.trees.tree import Tree
from reproduce.jobs import seed_of
from reproduce.paper_004.data import Counts, Task, dealt, task_of

Method = Literal["single-machine", "noisy-counts", "local-rnm", "secure-counts"]
How = Literal["published", "strict", "ours"]

OWNERS = 4
SPLITS = 512
"""M."""
DEEPEST = 24
"""Of what is published, with halved budgets. The paper has no limit below M; at this depth a node's
share of alpha is below 10^-7, and far below it noise leaves 64 bits."""
PAPERS: tuple[Method, ...] = ("single-machine", "noisy-counts", "local-rnm")
METHODS: tuple[Method, ...] = (*PAPERS, "secure-counts")
LABELS: dict[str, str] = {
    "single-machine": "SingleMachine",
    "noisy-counts": "NoisyCounts",
    "local-rnm": "LocalRNM",
    "secure-counts": "SecureCounts",
}


@dataclass(frozen=True)
class Setting:
    """One run, in public numbers.

    `alpha`: 0 without noise. `leaf_share`: LPF; the paper's 0.5 or our default if absent. `budget`:
    "decay" in the paper, "uniform" by default. `engine`: of secret counts: the protocol on plain
    numbers, or on three simulated servers.
    """

    method: Method
    how: How
    alpha: float = 0.0
    leaf_share: float | None = None
    budget: Literal["decay", "uniform"] | None = None
    share: float = 1.0
    splits: int = SPLITS
    engine: Literal["clear", "simulate"] = "clear"

    @property
    def plain(self) -> dict[str, Any]:
        """The setting as plain data."""
        return asdict(self)

    @property
    def owners(self) -> int:
        """Owners of the records."""
        return 1 if self.method == "single-machine" else OWNERS


def run(setting: Setting, name: str, number: int) -> dict[str, Any]:
    """Grow the tree of a setting on one split and test it.

    `number`: of the run: it decides who has which record, what is tested on, and, with the setting,
    the noise.
    """
    task = task_of(name)
    train, tests = task.split(number, setting.share)
    plan = plan_of(setting, name, int(train.sum()))
    seed = seed_of(name, number, *setting.plain.values())
    tree, traffic = grow(plan, setting, task, train, number, seed)
    right = tree.predict_class(task.bins) == task.label
    return {
        "data": name,
        "run": number,
        **setting.plain,
        "test": float((tests * right).sum() / tests.sum()),
        "train": float((train * right).sum() / train.sum()),
        "depth": tree.depth,
        "leaves": tree.n_leaves,
        "max_depth": plan.max_depth,
        "rounds": traffic.rounds,
        "bytes": traffic.sent + traffic.received,
        **costs(setting, plan),
    }


def grow(
    plan: TopDownPlan, setting: Setting, task: Task, train: Counts, number: int, seed: int
) -> tuple[Tree, CoordinatorTraffic]:
    """Grow a tree from records that are dealt among the owners."""
    held = [train] if setting.owners == 1 else dealt(train, setting.owners, number)
    tables = {f"owner {i}": task.counts(mine) for i, mine in enumerate(held)}
    if setting.method == "secure-counts":
        done = run_topdown(plan, tables, setting.engine, seed=seed)
    else:
        sources = {owner: NoiseSource.insecure_seeded(seed_of(seed, owner)) for owner in tables}
        done = run_topdown(plan, tables, sources=sources)
    return done.tree, done.traffic


@lru_cache(maxsize=1024)
def plan_of(setting: Setting, name: str, n_train: int) -> TopDownPlan:
    """Plan a setting for so many records; the capacity is that number in whole thousands."""
    more: dict[str, Any] = {}
    if setting.how != "ours":
        halved = setting.budget in (None, "decay")
        more = {
            "criterion": "gini" if setting.method == "secure-counts" else "entropy",
            "leaf_share": 0.5,
            "budget": "decay",
            "min_gain": 0.01,
            "error": 0.1,
        }
        if setting.how == "published":
            deepest = DEEPEST if halved and setting.alpha else setting.splits
            more |= {"accounting": "paper", "histograms": "split", "max_depth": deepest}
    for given in ("leaf_share", "budget"):
        if getattr(setting, given) is not None:
            more[given] = getattr(setting, given)
    options = TopDownOptions(
        epsilon=setting.alpha or None,
        method=setting.method,
        n_splits=setting.splits,
        capacity=max(1, math.ceil(n_train / 1_000)) * 1_000,
        **more,
    )
    return options.plan(task_of(name).domain, n_owners=setting.owners)


def costs(setting: Setting, plan: TopDownPlan) -> dict[str, float | None]:
    """Return the alpha that holds for every owner's records, None for none, and the one claimed."""
    if not setting.alpha:
        return {"proven": None, "claimed": None}
    proven = _proven(plan)
    return {"proven": proven if math.isfinite(proven) else None, "claimed": setting.alpha}


@lru_cache(maxsize=1024)
def _proven(plan: TopDownPlan) -> float:
    ledger = Ledger(delta=1e-9)
    ledger.charge(*plan.releases(joint=plan.n_owners > 1))
    return float(np.float64(ledger.formal_total().epsilon))
