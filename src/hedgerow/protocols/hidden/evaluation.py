"""How good a hidden model is on held-out rows, computed on shares and released with noise.

Every held-out record falls into one cell of a public table: its class, and what the model answers
for it. One record moves one cell by one, so one draw of two-sided geometric noise pays for the
whole table, and accuracy, confusion and the ROC curve are read from it at no further cost.

What the model answers is one of several places in order: of two classes, ranges of the score, of
which those from `Places.boundary` on are answered as the second; of more classes, the classes.

The table is charged to the population of the held-out rows. For those whom the model was trained
on it is computed from what training has released to the analyst, who alone gets to see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, Leakage, Ledger, Opening, Release, TwoSidedGeometric, step
from hedgerow.protocols.contract import Epsilon, Options, Size
from hedgerow.protocols.growers.layout import counting_ring
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.protocol import HiddenProtocol, Places
from hedgerow.protocols.hidden.server_plan import ChargedPlan, exact_release
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.noise.releases import NOBODY, Charge, Payer, add_geometric_noise
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Secret
from hedgerow.tables import Domain, Target

TABLE = "table of classes and answers"
RANGES, MOST_RANGES = 16, 256
"""Ranges of a score of two classes, by default and at most."""


@dataclass(frozen=True)
class EvaluationPlan(ChargedPlan):
    """Public numbers of one evaluation.

    `n_slots` of the held-out table; `ranges` of a score; `epsilon` of a held-out record, None for a
    table without noise, which has no finite one.
    """

    domain: Domain
    n_slots: int
    places: Places
    epsilon: float | None

    audience: ClassVar[str] = "analyst"

    @property
    def n_classes(self) -> int:
        """Classes of the target."""
        assert self.domain.target is not None
        return len(self.domain.target.classes or ())

    @property
    def shape(self) -> tuple[int, int]:
        """Of the table: classes and places."""
        return self.n_classes, self.places.n

    @cached_property
    def mechanism(self) -> TwoSidedGeometric:
        """Noise of every cell."""
        assert self.epsilon is not None
        return TwoSidedGeometric(self.epsilon)

    @property
    def ring(self) -> Ring:
        """Of the counts."""
        return counting_ring(max(self.n_slots, 1 << 15))

    def charge_of(self, paid: Payer) -> Charge:
        """Return who pays for the table."""
        return Charge(paid, ROOT / step(TABLE), self.audience, TABLE)

    def releases(self) -> Sequence[Release]:
        """Return exactly what an evaluation charges to the held-out population."""
        if self.epsilon is None:
            return (exact_release(TABLE, self.audience),)
        cells = math.prod(self.shape)
        return (self.charge_of(NOBODY).release(self.mechanism, cells),)

    def openings(self) -> Sequence[Opening]:
        """Return exactly what an evaluation may open."""
        return (Opening(TABLE, self.audience, self.shape, release=TABLE),)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return super().to_dict() | {"places": list(self.places)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return super().from_dict(data | {"places": Places(*data["places"])})


class EvaluationOptions(Options):
    """What an evaluation is asked for."""

    epsilon: Epsilon | None = Field(None, description="Budget of a held-out record.")
    noise: Literal["table", "none"] = Field(
        "table", description='"none" counts exactly, without a finite epsilon.'
    )
    ranges: Annotated[int, Strict(), Field(ge=2, le=MOST_RANGES)] = Field(
        RANGES, description="Ranges of a score of two classes, an even number."
    )

    @model_validator(mode="after")
    def _paid(self) -> Self:
        if (self.epsilon is None) != (self.noise == "none"):
            raise Code.BAD_PARAMETER.error(
                expected="epsilon, or noise = 'none' for an evaluation that counts exactly",
                found=f"epsilon={self.epsilon}, noise={self.noise!r}",
            )
        return self

    def size(self, target: Target | None) -> Size:
        """Return the epsilon; an evaluation grows nothing."""
        del target
        return Size(trees=0, epsilon=self.epsilon or 0.0)


def plan_evaluation(
    protocol: HiddenProtocol, plan: Any, n_slots: int, epsilon: float | None, ranges: int = RANGES
) -> EvaluationPlan:
    """Plan to evaluate a model of a plan; H501 for one that has no classes, or that votes."""
    if ranges % 2 or not 2 <= ranges <= MOST_RANGES:
        raise Code.BAD_PARAMETER.error(
            expected=f"an even number of ranges from 2 to {MOST_RANGES}", found=f"ranges={ranges}"
        )
    return EvaluationPlan(plan.domain, n_slots, protocol.places(plan, ranges), epsilon)


def check_derived(plan: Any, evaluation: EvaluationPlan, ledger: Ledger) -> None:
    """Refuse, H306, a table to an audience to which the model's training was not charged."""
    to, shape = evaluation.audience, evaluation.shape
    opening = Opening(TABLE, to, shape, derived=plan.answers_derive_from())
    Leakage([opening], ledger=ledger).check(TABLE, to, shape)


def cross_table(
    protocol: HiddenProtocol,
    model: SecretForest,
    plan: Any,
    rows: SecretTable,
    evaluation: EvaluationPlan,
) -> Secret:
    """Count held-out records by class and place, shape (classes, places), without noise.

    1. The place of every row, one-hot (`HiddenProtocol.place`); `rows` are over the model's ring.
    2. One secret matrix product with the classes; empty slots have none.

    Reveals: nothing. Cost: that of `place`, and one product over the slots.
    """
    hot = _over(protocol.place(model, plan, rows.onehot, evaluation.places), evaluation.ring)
    return _over(rows.columns, evaluation.ring).transpose() @ hot


def noisy_table(table: Secret, evaluation: EvaluationPlan, paid: Payer) -> Secret:
    """Add the noise that the plan has paid for; the sum may be opened to the analyst.

    Reveals: nothing. Cost: `cost_add_geometric_noise`.
    """
    if evaluation.epsilon is None:
        return table
    return add_geometric_noise(table, evaluation.mechanism, evaluation.charge_of(paid))


def _over(x: Secret, ring: Ring) -> Secret:
    """Return zeros and ones over a ring."""
    if x.ring.bits < ring.bits:
        return x.engine.extend(x, ring)
    return x if x.ring.bits == ring.bits else x.engine.reduce(x, ring)


@dataclass(frozen=True)
class Evaluation:
    """What a noisy table (classes, places) says of a model; cells may be negative.

    All figures are computed from the table alone, in which cells below zero count as zero.
    """

    table: NDArray[np.int64]
    boundary: int | None
    classes: tuple[Any, ...]
    privacy: Ledger

    @property
    def _cells(self) -> NDArray[np.float64]:
        return np.maximum(self.table, 0).astype(np.float64)

    @property
    def confusion(self) -> NDArray[np.float64]:
        """Records by true class (rows) and answered class (columns)."""
        if self.boundary is None:
            return self._cells
        parts = self._cells[:, : self.boundary], self._cells[:, self.boundary :]
        return np.stack([part.sum(axis=1) for part in parts], axis=1)

    @property
    def accuracy(self) -> float:
        """Share of records that are answered with their class; NaN of none."""
        found = self.confusion
        return float(np.trace(found) / found.sum()) if found.sum() > 0 else math.nan

    @property
    def auc(self) -> float | None:
        """Area under the ROC curve, a pair within one range counted half; None of many classes."""
        if self.boundary is None:
            return None
        negative, positive = self._cells
        if not (negative.any() and positive.any()):
            return math.nan
        below = np.cumsum(negative) - negative
        pairs = (positive * (below + negative / 2)).sum()
        return float(pairs / (negative.sum() * positive.sum()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which knows no NaN."""
        figures = {"accuracy": self.accuracy, "auc": self.auc}
        return {
            **{key: None if x is None or math.isnan(x) else x for key, x in figures.items()},
            "classes": list(self.classes),
            "confusion": self.confusion.tolist(),
            "table": self.table.tolist(),
        }
