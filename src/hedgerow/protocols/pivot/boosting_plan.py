"""`PivotBoostingPlan`: what is fixed, and public, about boosting among peers.

Paper: wu2020pivot, section 6.2. What peers see by `hide`:

- ``"nothing"``: the splits and leaf values of all trees, round by round. Labels, gradients and
  scores of rows stay shared.
- ``"everything"``: nothing. Trees are complete, of a public depth.

None of this has noise, and the ledger says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from hedgerow.errors import Code
from hedgerow.privacy import Opening, Release
from hedgerow.protocols.growers.scores import Scores
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan, Loss
from hedgerow.protocols.hidden.plan import split_name
from hedgerow.protocols.hidden.server_plan import LABELS, STRUCTURE, exact_release
from hedgerow.protocols.pivot.peer_plan import PeerPlan, chosen_from
from hedgerow.secure.fixed.softmax import MOST_CLASSES
from hedgerow.secure.ring import Z32, Ring

HideAll = Literal["nothing", "everything"]


Joint = Literal["softmax", "one-vs-rest"]


@dataclass(frozen=True)
class PeerNumbers(BoostingPlan):
    """Widths and bounds of exact boosting among peers; `joint` is how more than two classes are."""

    joint: Joint = "softmax"

    knots: ClassVar[int] = 2

    @property
    def loss(self) -> Loss:
        """Loss: logistic for two classes, or for each against the rest; squared for numbers."""
        joint = self.n_classes > 2 and self.joint == "softmax"
        return "softmax" if joint else super().loss

    @property
    def rate(self) -> int:
        """Learning rate; of k scores whose sum is free, (k - 1) / k of it."""
        if self.loss != "softmax":
            return super().rate
        return max(1, super().rate * (self.n_classes - 1) // self.n_classes)

    @property
    def score_bits(self) -> int:
        """Bits of a row's score and of its fraction; differences of joint scores take one more."""
        return super().score_bits - int(self.loss == "softmax")


@dataclass(frozen=True, kw_only=True)
class PivotBoostingPlan(PeerPlan):
    """Boosting among peers in public numbers; made by `PivotBoostingOptions.plan`.

    Of each score there are `n_rounds` trees. `subsample` is the share of the rows from which the
    trees of a round are grown, `max_features` the number of attributes among which each node
    chooses: public coins draw them. Rows are in one order: H501 for ``align="hidden"``. `joint`:
    the loss of more than two classes, of which `softmax` takes 15 at most.
    """

    n_rounds: int
    depth: int
    learning_rate: float
    hide: HideAll = "nothing"
    subsample: float = 1.0
    max_features: Literal["sqrt"] | int | None = None
    public_seed: int = 0
    joint: Joint = "softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.align == "hidden":
            raise Code.BAD_PARAMETER.error(
                expected="rows in one order that the peers know, for boosting",
                found="align='hidden'",
                fix='align rows in a ring (align = "ring")',
            )
        if self.classes == 1:
            raise Code.BAD_TARGET.error(found="a target of one class: there is nothing to learn")
        if self.numbers.loss == "softmax" and self.numbers.n_classes > MOST_CLASSES:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {MOST_CLASSES} classes with loss='softmax'",
                found=f"{self.numbers.n_classes}",
                fix="choose loss='one-vs-rest'",
            )
        self.layout.check_depth(self.depth)
        self.numbers.check_scores()
        # Asks for the bounds of the target, and whether every number fits into its ring.
        _ = self.score

    @cached_property
    def numbers(self) -> PeerNumbers:
        """Widths and bounds."""
        return PeerNumbers(
            self.domain,
            self.capacity,
            self.n_rounds,
            self.depth,
            self.learning_rate,
            joint=self.joint,
        )

    @cached_property
    def score(self) -> Scores:
        """Score of the candidates: squared error of the gradients."""
        of = self.numbers
        return Scores(self.layout.candidates, of.score, of.public, prefer_nonempty=True)

    @property
    def hides(self) -> bool:
        """Whether the trees stay shared."""
        return self.hide != "nothing"

    @property
    def levels(self) -> int:
        """Levels of all rounds."""
        return self.n_rounds * self.depth

    @property
    def units(self) -> Units:
        """Scale of a target that is a number."""
        return self.numbers.units

    @property
    def ring(self) -> Ring:
        """Of all columns, and of scores."""
        return Z32

    @property
    def n_trees(self) -> int:
        """Trees in all: in every round one for each score."""
        return self.numbers.n_trees

    @property
    def n_chosen_from(self) -> int:
        """Attributes among which each node chooses."""
        return chosen_from(self.max_features, len(self.owners))

    def model_releases(self) -> Sequence[Release]:
        """See `PeerPlan.model_releases`: nothing of it has noise."""
        shown = [opening.name for opening in self.model_openings(self.audience)]
        reasons = [STRUCTURE, LABELS] if self.hides else shown
        return [exact_release(reason, self.audience) for reason in reasons]

    def model_openings(self, to: str) -> list[Opening]:
        """Return what opens: the trees, round by round and level by level, or nothing."""
        found: list[Opening] = []
        for turn in range(0 if self.hides else self.n_rounds):
            names = [level_name(turn, level) for level in range(self.depth)]
            for level, name in enumerate([*names, round_values(turn)]):
                shape = (self.numbers.n_scores, self.layout.n_nodes(level))
                found.append(Opening(name, to, shape, release=name))
        return found


def round_values(turn: int) -> str:
    """Return the name of the opening of a round's leaves, and of its release."""
    return f"leaf values of round {turn}"


def level_name(turn: int, level: int) -> str:
    """Return the name of the opening of a level's splits in a round, and of its release."""
    return f"{split_name(level)} of round {turn}"
