"""What may be seen of a model whose plan is public: a model, its shape, or its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from hedgerow.protocols.hidden.server_plan import ServerPlan, TreePlan
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.logistic.plan import LogisticPlan
from hedgerow.protocols.pivot.logistic.training import LinearModel
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.registry import peer_protocol
from hedgerow.reports.facts import NumberTable
from hedgerow.reports.pictures.pieces import TreePiece
from hedgerow.reports.pictures.trees import HiddenTree
from hedgerow.trees.model import Model


class Visible(NamedTuple):
    """What may be seen of a model, in the words of `Facts`; `note` says what is left out."""

    model: Model | None = None
    hidden: tuple[HiddenTree | TreePiece, ...] = ()
    numbers: tuple[NumberTable, ...] = ()
    note: str = ""


def visible_on_servers(plan: ServerPlan) -> Visible:
    """Return what everybody knows of a model that three servers keep hidden."""
    if not isinstance(plan, TreePlan):
        return Visible()
    tree = HiddenTree.complete(plan.depth, plan.layout.arity)
    # Each kind of plan says how many trees it has, if with a field or without.
    return Visible(hidden=(tree,) * int(plan.n_trees))  # type: ignore[attr-defined]


def visible_of_state(plan: PeerPlan, public: Mapping[str, Any]) -> Visible:
    """Return what all peers see of a model, of the public arrays of its state alone."""
    # An engine is for shares, of which there are none.
    model = peer_protocol(plan).read(cast("Any", None), plan, dict(public))
    return visible_among_peers(plan, model)


def visible_among_peers(plan: PeerPlan, model: object) -> Visible:
    """Return what all peers see of a model; nothing of its shares is looked at."""
    if isinstance(plan, LogisticPlan) and isinstance(model, LinearModel):
        return Visible() if model.opened is None else Visible(numbers=(_weights(plan, model),))
    if not isinstance(model, PeerTrees):
        return Visible()
    seen = peer_protocol(plan).opened(plan, model)
    if seen is not None:
        return Visible(seen)
    return Visible(
        hidden=tuple(HiddenTree.among_peers(plan, model, t) for t in range(model.shape.n_trees))
    )


def _weights(plan: LogisticPlan, model: LinearModel) -> NumberTable:
    values, names = model.values, list(plan.features.names)
    names += ["intercept"] * (values.shape[1] - len(names))
    target = plan.domain.target
    classes = [] if target is None else [str(one) for one in target.classes or ()]
    columns = classes if len(classes) == len(values) else classes[-1:]
    rows = zip(names, np.transpose(values).tolist(), strict=True)
    return NumberTable(
        "Weights of the score",
        tuple(f"for {one}" for one in columns),
        tuple((name, tuple(row)) for name, row in rows),
    )
