"""`PeerProtocol`: what programs of peers ask of a family of models; trees, boosting, and so on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.checkpoint import Checkpoints, Stage
from hedgerow.protocols.hidden.id3 import Progress
from hedgerow.protocols.pivot.columns import PeerRows
from hedgerow.protocols.pivot.options import PeerOptions
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.secret import Secret
from hedgerow.trees.model import Model

Array = NDArray[Any]
ANSWERS = "answers"
"""Name of the opening of answers."""


@dataclass(frozen=True, eq=False)
class PeerData:
    """Rows that all peers have, in one order.

    `columns` (k, n) are shares of what `PeerTable.columns` says: classes, or presence and target.
    `rows` takes such columns of several trees, (trees, k, n), and returns the rows at their roots.
    `seeds` are what `PeerPlan.plant` makes of the attributes where they lie at their owners, and
    None where they are shared or encrypted. The `ledger` was charged with what the plan releases.
    """

    engine: AdditiveEngine
    columns: Secret
    rows: Callable[[Secret], PeerRows] = field(repr=False)
    seeds: PuncturedBins | None = field(default=None, repr=False)
    ledger: Ledger = field(default_factory=Ledger, repr=False)


class PeerModel(Protocol):
    """What a peer has of a model in the end."""

    def to_state(self) -> Stage:
        """Return all of it as arrays; shares are those of the peers that live here."""


class PeerProtocol(ABC):
    """A family of models among peers: how it is trained, kept, asked and read."""

    options_type: ClassVar[type[PeerOptions]]
    """The table ``[plan]`` of its jobs."""
    plan_type: ClassVar[type[PeerPlan]]
    shares: ClassVar[tuple[str, ...]]
    """Names of those arrays of a state that are shares; all others are public integers."""

    @abstractmethod
    def train(self, data: PeerData, plan: Any, progress: Progress, keep: Checkpoints) -> PeerModel:
        """Train; the ledger was charged, and openings are declared.

        `progress` is told how many levels are done. `keep` has the stages that an earlier attempt
        has done, and gets those of this one.
        """

    def cost_ahead(self, engine: AdditiveEngine, plan: Any) -> Cost:
        """State what of the cost of `train` can be prepared without rows, from the plan alone."""
        del engine, plan
        return NOTHING

    @abstractmethod
    def read(self, engine: AdditiveEngine, plan: Any, state: Stage) -> PeerModel:
        """Read what `PeerModel.to_state` wrote; arrays of several peers may be put together."""

    @abstractmethod
    def opened(self, plan: Any, model: Any) -> Model | None:
        """Return a model that all peers see, as one that answers; None of one that is hidden."""

    @abstractmethod
    def answers(
        self,
        engine: AdditiveEngine,
        plan: Any,
        model: Any,
        bins: Mapping[int, Array],
        n: int,
        what: str,
    ) -> Secret:
        """Answer n rows whose bins (n,) are given for each attribute that a peer here has.

        Returns shares of what `read_answers` reads, of shape `shape_of_answers`. Reveals: nothing.
        """

    @abstractmethod
    def read_answers(self, plan: Any, opened: NDArray[np.int64], what: str) -> NDArray[Any]:
        """Return class indices, values, or probabilities (n, k), of what was opened."""

    def asks(self, plan: Any, proba: bool) -> str:
        """Return what is asked for: "class" or "value"; H501 for probabilities."""
        if proba:
            raise Code.BAD_PARAMETER.error(
                expected="a question for classes or values, which peers answer",
                found="one for probabilities",
                fix="leave out --proba",
            )
        return "class" if plan.classes else "value"

    def shape_of_answers(self, plan: Any, n: int, what: str) -> tuple[int, ...]:
        """Return the shape of n answers."""
        del plan, what
        return (n,)

    def answers_opening(self, plan: Any, n: int, what: str, asker: int) -> Opening:
        """Return what n answers open: to who asks, alone."""
        due = (*plan.model_releases(), *plan.answer_releases(asker))
        reasons = tuple(release.reason for release in due)
        shape = self.shape_of_answers(plan, n, what)
        return Opening(ANSWERS, f"peer {asker}", shape, derived=reasons)
