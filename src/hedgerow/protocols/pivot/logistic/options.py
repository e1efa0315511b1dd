"""`LogisticOptions`: the parameters of logistic regression among peers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, Strict

from hedgerow.protocols.contract import AtLeastOne, Count, Size
from hedgerow.protocols.pivot.logistic.plan import HideWeights, LogisticPlan
from hedgerow.protocols.pivot.options import PeerOptions
from hedgerow.tables import Target

Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]


class LogisticOptions(PeerOptions):
    """Logistic regression over the columns of two to ten peers."""

    C: Positive = Field(1.0, description="Inverse of the penalty, as in scikit-learn.")
    fit_intercept: Annotated[bool, Strict()] = Field(True, description="Add a constant feature.")
    max_iter: AtLeastOne = Field(
        10, description="Passes over the rows, each of which a policy counts as a tree."
    )
    batch_size: AtLeastOne | None = Field(
        None,
        description="Rows of a batch; a 64th of all, but 16 to 512, if it is left out.",
    )
    learning_rate: Positive | None = Field(
        None,
        description="Of the first batch; it falls to 0 in equal steps. 4 / (attributes + 1) if it "
        "is left out.",
    )
    momentum: Annotated[float, Strict(), Field(ge=0, lt=1, allow_inf_nan=False)] = Field(
        0.95, description="Nesterov's: how much of a step the next one keeps."
    )
    hide: HideWeights = Field(
        "nothing", description="What stays secret of the model: nothing, or all weights."
    )
    public_seed: Count = Field(
        0, description="What the order of rows and batches is drawn from; everybody may know it."
    )

    def _plan(self, **public: Any) -> LogisticPlan:
        rate = self.learning_rate
        return LogisticPlan(
            **public,
            epochs=self.max_iter,
            batch_rows=self.batch_size,
            rate=4.0 / (len(public["owners"]) + 1) if rate is None else rate,
            momentum=self.momentum,
            C=self.C,
            intercept=self.fit_intercept,
            hide=self.hide,
            public_seed=self.public_seed,
        )

    def size(self, target: Target | None) -> Size:
        """See `Options.size`."""
        del target
        return Size(trees=self.max_iter)
