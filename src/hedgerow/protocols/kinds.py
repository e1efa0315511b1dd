"""`Kind`: what the party programs ask of a family of hidden models, found by its name.

A job names its kind, so that one program at every party trains and asks whatever is listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.checkpoint import Checkpoints
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.hidden.answers import What, answer, answer_openings, answered, distribution
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, no_progress
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.training import train_hidden, training_openings
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.protocols.votes import votes
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret

Arrays = Mapping[str, NDArray[Any]]
Classified = tuple[NDArray[np.int64], NDArray[np.float64] | None]
"""Places among the classes, (n,), and probabilities, (n, k), where they were asked for."""


class Plan(Protocol):
    """Public numbers of a model; `HiddenPlan` is one."""

    @property
    def layout(self) -> Layout:
        """Columns of tables and queries."""

    @property
    def ring(self) -> Ring:
        """Of the shared table."""

    @property
    def n_slots(self) -> int:
        """Slots of the shared table."""

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""


class Model(Protocol):
    """A secret model; `SecretForest` is one."""

    @property
    def ring(self) -> Ring:
        """Of the queries that it answers."""


@dataclass(frozen=True)
class Made:
    """What training leaves behind.

    Attributes
    ----------
    shares : mapping of str to ndarray
        Of the servers that live here, share axes in front.
    public : object
        What everybody may know, as plain data.
    """

    shares: Arrays = field(repr=False)
    public: Any = None


class Train(Protocol):
    """Trains, and returns what is kept of it."""

    def __call__(
        self,
        table: SecretTable,
        plan: Any,
        ledger: Ledger,
        progress: Progress = no_progress,
        keep: Checkpoints = NOTHING_KEPT,
    ) -> Made:
        """Train.

        Parameters
        ----------
        table : SecretTable
        plan : Plan
        ledger : Ledger
            Charged before noise is drawn.
        progress : callable
            Told how many levels are done, of all trees that grow one after the other.
        keep : Checkpoints
            Has the stages that an earlier attempt has done, and gets those of this one.
        """
        ...


def _nothing_to_read(plan: Any, *answers: Any) -> Any:
    """Refuse: the model is not asked through the servers."""
    raise Code.BAD_PARAMETER.error(
        expected="a model that the servers answer for",
        found=f"answers under {type(plan).__name__}",
    )


@dataclass(frozen=True)
class Kind:
    """A family of models.

    Attributes
    ----------
    read_plan : callable
        From plain data to the plan.
    n_columns : callable
        Of the plan: what a table adds up, see `SecretTable.columns`.
    train : Train
    training_openings : callable
        Of the plan: what training opens.
    model : callable
        Of engine, plan and arrays of shares: the model to ask.
    answer : callable
        Of model, plan, secret queries, what is asked and the ledger: the opened answers, None
        where the analyst does not live.
    answer_openings : callable
        Of plan, number of queries and what is asked: what an answer opens.
    asks : callable
        Of the plan and whether probabilities are wanted: what is asked for.
    answered : callable
        Of model, plan, secret queries and what is asked: the answers, before they are opened. Kinds
        whose answers are releases of their own are answered through their budget instead.
    read : callable
        Of the plan, opened whole numbers and what is asked: the answers in the terms of the target.
    classified : callable
        Of the plan, what `read` returns and what is asked: classes and probabilities.
    units : callable
        Of the plan: the scale of a numeric target, None for classes.
    levels : callable
        Of the plan: levels of all trees that grow one after the other.
    nodes : callable
        Of the plan and the levels that are done: nodes of the next, for the expected time.
    admits : callable
        Of the plan, the number of queries and the ledger: refuse what was not paid for, before
        queries are shared.
    spends : callable
        Likewise: record answers that may have been opened in a run that failed.
    """

    read_plan: Callable[[dict[str, Any]], Any]
    n_columns: Callable[[Any], int]
    train: Train
    training_openings: Callable[[Any], list[Opening]]
    model: Callable[[Engine, Any, Arrays], Any]
    answer: Callable[[Any, Any, Secret, Any, Ledger], NDArray[Any] | None]
    answer_openings: Callable[[Any, int, Any], list[Opening]]
    asks: Callable[[Any, bool], str] = _nothing_to_read
    answered: Callable[[Any, Any, Secret, Any], Secret] = _nothing_to_read
    read: Callable[[Any, NDArray[np.int64], Any], NDArray[Any]] = _nothing_to_read
    classified: Callable[[Any, NDArray[Any], Any], Classified] = _nothing_to_read
    units: Callable[[Any], Units | None] = lambda plan: None
    levels: Callable[[Any], int] = lambda plan: int(plan.depth)
    nodes: Callable[[Any, int], int] = lambda plan, done: (
        plan.n_trees * plan.layout.n_nodes(min(done, plan.depth))
    )
    admits: Callable[[Any, int, Ledger], None] = lambda plan, n, ledger: None
    spends: Callable[[Any, int, Ledger], None] = lambda plan, n, ledger: None


def _train(
    table: SecretTable,
    plan: HiddenPlan,
    ledger: Ledger,
    progress: Progress = no_progress,
    keep: Checkpoints = NOTHING_KEPT,
) -> Made:
    return Made(train_hidden(table, plan, ledger, progress, keep).shares())


def stored_forest(engine: Engine, plan: HiddenPlan, arrays: Arrays) -> SecretForest:
    """Put hidden trees together from arrays of shares; their type tells the ring."""
    ring = Ring(8 * np.asarray(arrays["splits"]).dtype.itemsize)
    return SecretForest.from_shares(engine, plan.layout, plan.depth, ring, arrays)


def _answer(
    model: SecretForest, plan: HiddenPlan, queries: Secret, what: What, ledger: Ledger
) -> NDArray[Any] | None:
    if plan.noise == "votes":
        return votes.answer(model, plan, queries, ledger)
    return answer(model, plan, queries, what)


def _answer_openings(plan: HiddenPlan, n: int, what: What) -> list[Opening]:
    if plan.noise == "votes" and what == "class":
        return votes.vote_openings(plan, n)
    return answer_openings(plan, n, what)


def _classified(plan: HiddenPlan, answers: NDArray[Any], what: What) -> Classified:
    if what == "class":
        return answers, None
    shares = distribution(answers)
    return shares.argmax(axis=1), shares


def _admits(plan: HiddenPlan, n: int, ledger: Ledger) -> None:
    if plan.noise == "votes":
        votes.check_answers(ledger, n)


def _spends(plan: HiddenPlan, n: int, ledger: Ledger) -> None:
    if plan.noise == "votes":
        votes.spend_answers(ledger, n)


def asks_value(plan: Any, proba: bool) -> str:
    """Ask for values; H501 for probabilities, which a numeric target does not have."""
    if proba:
        raise Code.BAD_PARAMETER.error(
            expected=f"a question for values of {plan.domain.target.name!r}, which is a number",
            found="one for class probabilities",
            fix="ask without --proba (proba=False)",
        )
    return "value"


TREES = Kind(
    read_plan=HiddenPlan.from_dict,
    n_columns=lambda plan: plan.n_classes,
    train=_train,
    training_openings=training_openings,
    model=stored_forest,
    answer=_answer,
    answer_openings=_answer_openings,
    asks=lambda plan, proba: "distribution" if proba else "class",
    answered=lambda model, plan, queries, what: answered(model, plan, queries, what)[0],
    read=lambda plan, opened, what: opened,
    classified=_classified,
    admits=_admits,
    spends=_spends,
)

KINDS: dict[str, str] = {
    "trees": "hedgerow.protocols.kinds:TREES",
    "open": "hedgerow.protocols.hidden.open_id3:OPEN",
    "regression": "hedgerow.protocols.hidden.regression:REGRESSION",
    "boosting": "hedgerow.protocols.hidden.boosting_answers:BOOSTING",
}
"""Where each kind is found; a module is loaded when its kind is first asked for."""


def kind_named(name: str) -> Kind:
    """Return the kind of that name; H501 for one that nobody listed."""
    place = KINDS.get(name)
    if place is None:
        raise Code.BAD_PARAMETER.error(
            expected=f"a kind of model among {', '.join(KINDS)}", found=repr(name)
        )
    module, _, attribute = place.partition(":")
    kind = getattr(import_module(module), attribute)
    assert isinstance(kind, Kind)
    return kind
