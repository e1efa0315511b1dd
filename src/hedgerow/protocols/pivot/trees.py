"""Trees and forests as a `PeerProtocol`.

Paper: wu2020pivot, sections 4 and 5, and 6.1 for forests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.checkpoint import Checkpoints, Stage
from hedgerow.protocols.hidden.id3 import Progress
from hedgerow.protocols.pivot.coins import row_weights
from hedgerow.protocols.pivot.growth import PeerTrees, cost_choices, grow_trees
from hedgerow.protocols.pivot.options import PeerOptions, PivotForestOptions, PivotOptions
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.predict import answer
from hedgerow.protocols.pivot.protocol import PeerData, PeerProtocol
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.cost import Cost
from hedgerow.secure.noise.releases import Prepaid
from hedgerow.secure.secret import Secret
from hedgerow.tables import Domain
from hedgerow.trees.forest import Forest
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.model import Model
from hedgerow.trees.tree import Tree


class PeerTreeProtocol(PeerProtocol):
    """One tree."""

    options_type: ClassVar[type[PeerOptions]] = PivotOptions
    plan_type: ClassVar[type[PeerPlan]] = PivotPlan
    shares: ClassVar[tuple[str, ...]] = ("choices", "leaves")

    def train(
        self, data: PeerData, plan: PivotPlan, progress: Progress, keep: Checkpoints
    ) -> PeerTrees:
        """Grow the trees. See `growth.grow_trees`."""
        k, n = data.columns.shape
        columns = data.columns.reshape(1, k, n)
        weights = row_weights(plan, n)
        if weights is not None:
            columns = columns * weights[:, None]
        elif plan.n_trees > 1:
            columns = columns.broadcast_to((plan.n_trees, k, n))
        paid = Prepaid(data.ledger, plan.model_releases() if plan.is_noisy else ())
        return grow_trees(data.rows(columns), plan, progress, keep, paid)

    def cost_ahead(self, engine: AdditiveEngine, plan: PivotPlan) -> Cost:
        """State what choosing the splits costs. See `growth.cost_choices`."""
        return cost_choices(engine, plan)

    def read(self, engine: AdditiveEngine, plan: PivotPlan, state: Stage) -> PeerTrees:
        """Read trees."""
        del plan
        return PeerTrees.from_state(engine, state)

    def opened(self, plan: PivotPlan, model: PeerTrees) -> Model | None:
        """Return a tree, or several as a forest."""
        if model.opened is None:
            return None
        trees = opened_trees(plan, model)
        return trees[0] if len(trees) == 1 else Forest(tuple(trees))

    def answers(
        self,
        engine: AdditiveEngine,
        plan: PivotPlan,
        model: PeerTrees,
        bins: Mapping[int, NDArray[Any]],
        n: int,
        what: str,
    ) -> Secret:
        """Answer rows. See `predict.answer`."""
        del what
        return answer(engine, plan, model, bins, n)

    def read_answers(
        self, plan: PivotPlan, opened: NDArray[np.int64], what: str
    ) -> NDArray[np.int64] | NDArray[np.float64]:
        """Return classes, or means over the trees."""
        return opened if what == "class" else plan.means(opened / plan.n_trees)


class PeerForestProtocol(PeerTreeProtocol):
    """Many trees that vote, or whose means are averaged."""

    options_type: ClassVar[type[PeerOptions]] = PivotForestOptions


PEER_TREE = PeerTreeProtocol()
PEER_FOREST = PeerForestProtocol()


def opened_trees(plan: PivotPlan, trees: PeerTrees) -> list[Tree]:
    """Return the trees that the peers see; values of inner nodes and weights are not known."""
    assert trees.opened is not None
    values = trees.opened if plan.classes else plan.means(trees.opened)
    return trees_of(plan.domain, plan.layout.candidates, trees, values)


def trees_of(
    domain: Domain, those: Candidates, trees: PeerTrees, values: NDArray[Any]
) -> list[Tree]:
    """Return public trees whose leaves have values (leaves, k)."""
    shape = trees.shape
    index = np.concatenate([*trees.groups, np.zeros(0, dtype=np.int64)])
    n, inner = shape.n_nodes, shape.split >= 0
    kind = np.full(n, SplitKind.LEAF, dtype=np.uint8)
    feature, cut = np.full((2, n), -1, dtype=np.int32)
    kind[inner], feature[inner], cut[inner] = (
        those.kind[index],
        those.feature[index],
        those.cut[index],
    )
    value = np.full((n, values.shape[1]), np.nan)
    value[~inner] = values
    found, tree = [], shape.tree
    for t in range(shape.n_trees):
        own = np.flatnonzero(tree == t)
        # Where the nodes of this tree stand among its own.
        place = np.full(n + 1, -1, dtype=np.int32)
        place[own] = np.arange(own.size)
        first = place[shape.first_child[own]]
        weight = np.full(own.size, np.nan)
        found.append(Tree(domain, kind[own], feature[own], cut[own], first, value[own], weight))
    return found
