"""Which private model of one table to train: a rule over public numbers alone.

The rule was set by measurement, see docs/explanation/choice-of-model.md, which also says where it
is not the best; ``python -m bench small`` repeats it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from hedgerow.errors import Code
from hedgerow.protocols.boosting.options import BoostOptions
from hedgerow.protocols.contract import Epsilon, Options, Plan
from hedgerow.protocols.median.options import MedianOptions
from hedgerow.protocols.private_tree import PrivateTreeOptions
from hedgerow.tables import Domain

BUDGET_FOR_BOOSTING = 200.0
"""Capacity times epsilon from which noise leaves enough of many small steps."""


class ModelChoice(NamedTuple):
    """A model and why it was chosen; both follow from public numbers."""

    model: str
    reason: str


def choose_model(
    domain: Domain, epsilon: float, capacity: int | None, *, in_memory: bool = True
) -> ModelChoice:
    """Choose by capacity and epsilon, never by rows; H116 without a target, H208 without capacity.

    Below a product of `BUDGET_FOR_BOOSTING` the one best split is all that can be told from noise,
    and a tree finds it with one noisy maximum over all attributes; above, boosting adds up more
    than one tree can hold. A single tree wants its rows in memory.
    """
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(
            found="no capacity, by which a model is chosen",
            fix="declare capacity in the domain, or name a model",
        )
    budget = capacity * epsilon
    reason = f"capacity * epsilon = {budget:g}, "
    if budget >= BUDGET_FOR_BOOSTING:
        return ModelChoice("boosting", f"{reason}at least {BUDGET_FOR_BOOSTING:g}")
    reason = f"{reason}below {BUDGET_FOR_BOOSTING:g}"
    if domain.target.classes is None:
        return ModelChoice("median-forest", f"{reason}, and numbers to predict")
    if not in_memory:
        return ModelChoice("median-forest", f"{reason}, and a table that is not in memory")
    return ModelChoice("tree", reason)


class ModelOptions(Options):
    """A private model of one curator's table, of a kind that public numbers choose."""

    code: ClassVar[Code] = Code.BAD_PARAMETER

    epsilon: Epsilon = Field(1.0, description="Budget of the whole model, add/remove neighbours.")
    model: Literal["auto", "tree", "median-forest", "boosting"] = Field(
        "auto", description="What to train; `auto` chooses by capacity and epsilon."
    )
    delta: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        1e-6, description="Probability with which epsilon may not hold; for boosting alone."
    )
    public_seed: Annotated[int, Field(ge=0)] = Field(
        0, description="Of the choices that depend on no row; public."
    )

    def choose(self, domain: Domain | None, *, in_memory: bool = True) -> ModelChoice:
        """Return what a fit trains; without a domain, where nothing is claimed, boosting."""
        if self.model != "auto":
            return ModelChoice(self.model, "it was named")
        if domain is None:
            return ModelChoice("boosting", "no domain was declared")
        return choose_model(domain, self.epsilon, domain.capacity, in_memory=in_memory)

    def plan(self, domain: Domain, capacity: int | None = None) -> Plan:
        """Plan the model that is chosen for a table in memory."""
        chosen = self.choose(domain).model
        return MODELS[chosen](**self.passed_on(chosen)).plan(domain, capacity)

    def passed_on(self, model: str) -> dict[str, object]:
        """Return those of these parameters that a model has."""
        return {
            name: getattr(self, name)
            for name in ("epsilon", "delta", "public_seed")
            if name in MODELS[model].model_fields
        }


MODELS: dict[str, type[Options]] = {
    "tree": PrivateTreeOptions,
    "median-forest": MedianOptions,
    "boosting": BoostOptions,
}
