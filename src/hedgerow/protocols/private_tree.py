"""`PrivateTreeOptions`, whose plan and grower are those of `hedgerow.trees.growing.private`."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from hedgerow.errors import Code
from hedgerow.protocols.contract import AtLeastOne, Auto, Epsilon, Options, Share
from hedgerow.tables import Domain
from hedgerow.trees.growing.budget import SPLIT_SHARE
from hedgerow.trees.growing.candidates import Branching
from hedgerow.trees.growing.private import PrivatePlan, plan_private


class PrivateTreeOptions(Options):
    """One curator's private tree: splits by noisy max, leaves by noisy counts."""

    code: ClassVar[Code] = Code.BAD_PARAMETER

    epsilon: Epsilon = Field(1.0, description="Budget of the whole tree, add/remove neighbours.")
    max_depth: Auto | AtLeastOne = Field(
        "auto", description="Levels of splits; by a public rule from capacity and epsilon."
    )
    criterion: Literal["auto", "max", "gini", "entropy"] = Field(
        "auto", description="Score of a split; `auto` takes `max` or `gini` by a public rule."
    )
    branching: Branching = Field(
        "binary", description="Thresholds and single values, or one branch per bin."
    )
    split_share: Share = Field(SPLIT_SHARE, description="Share of epsilon for the splits.")

    def plan(self, domain: Domain, capacity: int | None = None) -> PrivatePlan:
        """Plan a tree from public numbers; H116, H208 and H501 as `plan_private`."""
        return plan_private(
            domain,
            epsilon=self.epsilon,
            depth=None if self.max_depth == "auto" else self.max_depth,
            criterion=None if self.criterion == "auto" else self.criterion,
            branching=self.branching,
            split_share=self.split_share,
            capacity=domain.capacity if capacity is None else capacity,
        )
