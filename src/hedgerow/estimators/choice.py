"""Which private model of one table to train: a rule over public numbers alone.

The rule was set by measurement, see docs/explanation/choice-of-model.md, which also says where it
is not the best; ``python -m bench small`` repeats it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from hedgerow.errors import Code
from hedgerow.tables import Domain

BUDGET_FOR_BOOSTING = 200.0
"""Capacity times epsilon from which noise leaves enough of many small steps."""


class PrivateKind(StrEnum):
    """Models to choose among."""

    tree = "tree"
    median_forest = "median-forest"
    boosting = "boosting"


class Choice(NamedTuple):
    """A model and why it was chosen; both follow from public numbers.

    Attributes
    ----------
    model : str
    reason : str
    """

    model: str
    reason: str


def choose_model(
    domain: Domain, epsilon: float, capacity: int | None, *, in_memory: bool = True
) -> Choice:
    """Choose by capacity and epsilon, never by rows.

    Below a product of `BUDGET_FOR_BOOSTING` the one best split is all that can be told from noise,
    and a tree finds it with one noisy maximum over all attributes; above, boosting adds up more
    than one tree can hold.

    Parameters
    ----------
    domain : Domain
    epsilon : float
    capacity : int or None
        Public upper bound on the number of rows.
    in_memory : bool, default=True
        Whether the rows are: a single tree wants them there.

    Raises
    ------
    HedgerowError
        H116 without a target, H208 without a capacity.
    """
    if domain.target is None:
        raise Code.BAD_TARGET.error(found="a domain without a target")
    if capacity is None:
        raise Code.MISSING_CAPACITY.error(
            found="no capacity, by which a model is chosen",
            fix="declare capacity in the domain, or name a model",
        )
    budget = capacity * epsilon
    said = f"capacity * epsilon = {budget:g}, "
    if budget >= BUDGET_FOR_BOOSTING:
        return Choice(PrivateKind.boosting, f"{said}at least {BUDGET_FOR_BOOSTING:g}")
    said = f"{said}below {BUDGET_FOR_BOOSTING:g}"
    if domain.target.classes is None:
        return Choice(PrivateKind.median_forest, f"{said}, and numbers to predict")
    if not in_memory:
        return Choice(PrivateKind.median_forest, f"{said}, and a table that is not in memory")
    return Choice(PrivateKind.tree, said)
