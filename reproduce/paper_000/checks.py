"""One point of each accuracy figure on three simulated servers, beside the clear engine's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hedgerow.protocols.hidden.plan import HiddenPlan
from reproduce.paper_000.data import DEPTH
from reproduce.paper_000.protocol import Part, Structure, hidden, opened
from reproduce.paper_000.study import (
    auto_plan,
    mechanism_of,
    paper_plan,
    part_of,
    seed_of,
    vote_plan,
)

SPLITS = {"heart": 5, "titanic": 5, "adult": 1}
"""Splits on which each data set is checked; adult's 26,048 rows take seconds a draw."""

_DRAWS = 5
_VOTERS = 10

Train = Callable[..., Any]


def _asked(plan: HiddenPlan, part: Part, seed: int, *, servers: bool) -> Any:
    structure = Structure.of(plan, part, seed, servers=servers)
    return structure.leaves([(plan, seed + 1)])[0]


def _voted(plan: HiddenPlan, part: Part, seed: int, *, servers: bool) -> Any:
    return Structure.of(plan, part, seed, servers=servers).voted(plan, seed + 1)


def _cases(name: str) -> list[tuple[str, Train, Callable[[Part], HiddenPlan]]]:
    depth = DEPTH[name]

    def planned(method: str, epsilon: float, depth: int = depth, **more: Any) -> Any:
        return lambda part: paper_plan(part, epsilon, depth, **mechanism_of(method), **more)

    return [
        ("figure 2: no noise", _asked, planned("none", 1.0)),
        ("figure 2: leaves, Laplace, ε = 1", _asked, planned("leaves laplace", 1.0)),
        (
            "figure 2: splits and leaves, binary, ε = 1",
            hidden,
            lambda p: auto_plan(p, 1.0, "binary"),
        ),
        ("figure 2: votes, ε = 1 for one answer", _voted, lambda p: vote_plan(p, 1.0, _VOTERS)),
        ("figure 3: splits and leaves, depth 2, ε = 0.2", hidden, planned("splits+leaves", 0.2, 2)),
        ("figure 4: opened, exponential, ε = 2", opened, planned("open exponential", 2.0)),
        (
            "figure 6: extra trees, 3 trees of depth 2, ε = 1",
            _asked,
            planned("forest extra", 1.0, 2, n_trees=3),
        ),
    ]


def checks(*, quick: bool = False) -> list[dict[str, Any]]:
    """Compare accuracies of both engines over splits and draws.

    Noise is drawn by each engine in its own way, so that means are compared, in standard errors
    of their difference; without noise the answers have to be the same.
    """
    names = ["heart"] if quick else list(SPLITS)
    return [
        _compared(name, *case, draws=1 if quick else _DRAWS)
        for name in names
        for case in _cases(name)
    ]


def _compared(
    name: str, case: str, train: Train, plan: Callable[[Part], HiddenPlan], draws: int
) -> dict[str, Any]:
    noiseless = plan(part_of(name, 0)).noise == "none"
    means: list[float] = []
    errors: list[float] = []
    for servers in (False, True):
        scores = []
        for split in range(SPLITS[name]):
            part = part_of(name, split)
            for draw in range(1 if noiseless else draws):
                seed = seed_of("check", case, split, draw, servers)
                scores.append(train(plan(part), part, seed, servers=servers).accuracy)
        means.append(float(np.mean(scores)))
        spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
        errors.append(spread / float(np.sqrt(len(scores))))
    error = float(np.hypot(*errors))
    apart = abs(means[0] - means[1]) / error if error else 0.0
    return {
        "case": case,
        "data": name,
        "clear": means[0],
        "servers": means[1],
        "standard_errors_apart": apart,
        "same": means[0] == means[1] if noiseless else apart < 3.5,
    }
