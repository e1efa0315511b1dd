"""`ServerProtocol`: what party programs ask of what three servers train; one for each family."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, no_progress
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.options import ServerOptions
from hedgerow.protocols.hidden.server_plan import ServerPlan, TreePlan
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret, concatenate
from hedgerow.trees.tree import Tree

Arrays = Mapping[str, NDArray[Any]]
Classified = tuple[NDArray[np.int64], NDArray[np.float64] | None]
"""Places among the classes, (n,), and probabilities, (n, k), where they were asked for."""


@dataclass(frozen=True)
class Made:
    """What training leaves behind: shares, share axes in front, and plain data that is public."""

    shares: Arrays = field(repr=False)
    public: Any = None


class ServerProtocol(ABC):
    """A family of results: how it is trained, and what is published of it.

    Models that stay hidden, and are asked, are of a `HiddenProtocol`; all others are published.
    """

    options_type: ClassVar[type[ServerOptions]]
    """The table ``[plan]`` of its jobs."""
    plan_type: ClassVar[type[ServerPlan]]

    @abstractmethod
    def train(
        self,
        table: SecretTable,
        plan: Any,
        ledger: Ledger,
        progress: Progress = no_progress,
        keep: Checkpoints = NOTHING_KEPT,
    ) -> Made:
        """Charge the plan, train, and return what is kept of it.

        `progress` is told how many levels are done, of all trees that grow one after the other.
        `keep` has the stages that an earlier attempt has done, and gets those of this one.
        """

    def document(self, public: Any, privacy: Any) -> str:
        """Return, as a JSON object, what servers publish: the public result and its ledger."""
        return json.dumps({**public, "privacy": privacy}, allow_nan=False)

    def tree(self, document: Any) -> Tree | None:
        """Return the tree that `document` has written, if it is one: it answers anywhere."""
        del document
        return None


class Places(NamedTuple):
    """Where held-out rows may fall: so many places, in order.

    Of two classes the places from `boundary` on are answered as the second; None of more classes,
    which are the places themselves. `ranges` of a score were asked for.
    """

    n: int
    boundary: int | None
    ranges: int


class HiddenProtocol(ServerProtocol):
    """Models of which nothing is published: how their answers are made and read."""

    grow: ClassVar[Callable[..., SecretForest]]
    """Trains, given all that `train` is."""

    def train(
        self,
        table: SecretTable,
        plan: Any,
        ledger: Ledger,
        progress: Progress = no_progress,
        keep: Checkpoints = NOTHING_KEPT,
    ) -> Made:
        """Train. See `grow`."""
        return Made(type(self).grow(table, plan, ledger, progress, keep).shares())

    def places(self, plan: Any, ranges: int) -> Places:
        """Return where a row may fall in an evaluation; H501 for numbers, and for votes."""
        raise Code.BAD_PARAMETER.error(
            expected="a model of classes whose answers cost nothing by themselves",
            found=f"one under {type(plan).__name__}",
        )

    def place(self, model: SecretForest, plan: Any, rows: Secret, places: Places) -> Secret:
        """Return where secret rows (n, B) fall, one-hot (n, places). Reveals: nothing."""
        del model, rows
        self.places(plan, places.ranges)
        raise AssertionError("places without a way to them")

    def model(self, engine: Engine, plan: Any, arrays: Arrays) -> SecretForest:
        """Put a model together from arrays of shares; their type tells the ring."""
        return stored_forest(engine, plan, arrays)

    def asks(self, plan: Any, proba: bool) -> str:
        """Return what is asked for, with probabilities or without; H501 for none of a number."""
        if proba:
            raise Code.BAD_PARAMETER.error(
                expected=f"a question for values of {plan.domain.target.name!r}, which is a number",
                found="one for class probabilities",
                fix="ask without --proba (proba=False)",
            )
        return "value"

    @abstractmethod
    def answer_openings(self, plan: Any, n: int, what: str) -> list[Opening]:
        """Return the one opening of answers to n queries, to the analyst."""

    @abstractmethod
    def answers(
        self, model: SecretForest, plan: Any, queries: Secret, what: str, ledger: Ledger
    ) -> Secret:
        """Answer secret queries, (n, B), without opening the answers.

        Answers that are releases of their own were taken out of the budget before (`spend`).
        Reveals: nothing.
        """

    @abstractmethod
    def read(self, plan: Any, opened: NDArray[np.int64], what: str) -> NDArray[Any]:
        """Return opened whole numbers in the terms of the target."""

    def classified(self, plan: Any, answers: NDArray[Any], what: str) -> Classified:
        """Return classes and probabilities of what `read` returned; H501 for numbers."""
        raise Code.BAD_PARAMETER.error(
            expected="a model of classes", found=f"one under {type(plan).__name__}"
        )

    def check_budget(self, plan: Any, n: int, ledger: Ledger) -> None:
        """Refuse n queries that the budget does not hold; nothing is recorded."""
        return

    def spend(self, plan: Any, n: int, ledger: Ledger) -> None:
        """Take n answers out of the budget, for good, before they are computed."""
        return


def between(steps: Secret) -> Secret:
    """Return how many of falling zeros and ones (n, s) are one, as one-hot (n, s + 1); local."""
    ends = steps.engine.public(np.ones((steps.shape[0], 1), dtype=np.uint8), steps.ring)
    reached = concatenate([ends, steps], axis=1)
    return concatenate([reached[:, :-1] - steps, steps[:, -1:]], axis=1)


def stored_forest(engine: Engine, plan: TreePlan, arrays: Arrays) -> SecretForest:
    """Put hidden trees together from arrays of shares; their type tells the ring."""
    ring = Ring(8 * np.asarray(arrays["splits"]).dtype.itemsize)
    return SecretForest.from_shares(engine, plan.layout, plan.depth, ring, arrays)
