"""`Facts`: what a report tells of a run or a model, as plain data, whoever has gathered it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee
from hedgerow.reports.pictures.pieces import TreePiece
from hedgerow.reports.pictures.trees import HiddenTree
from hedgerow.tables import Domain
from hedgerow.trees.model import Model

Setting = Literal[
    "file",
    "clear",
    "holder",
    "owners",
    "owners and servers",
    "servers",
    "hidden servers",
    "evaluating servers",
    "sites",
    "sites and servers",
    "peers",
    "told",
]
"""Who computed: not told by a file, one without privacy, one with noise, owners, servers, ...;
told: others, who say little of it."""


class OpenedValue(NamedTuple):
    """A value that was opened: to whom, how often, how many numbers in all, and why in order."""

    name: str
    audience: str
    times: int
    values: int
    why: str


class Openings(NamedTuple):
    """What somebody has seen, or what was opened while something was done."""

    title: str
    rows: tuple[OpenedValue, ...]


class StageCost(NamedTuple):
    """What a stage has taken: rounds and seconds of the slowest, bytes of all, the longest wait.

    `waiting` and `seconds` are None where nobody has told them.
    """

    stage: str
    rounds: int
    payload: int
    wire: int
    waiting: float | None = None
    seconds: float | None = None


class RunCost(NamedTuple):
    """What something has cost, by steps, stages, attempts or parties.

    Steps, stages and attempts come one after the other; parties compute at the same time.
    """

    title: str
    stages: tuple[StageCost, ...]
    by: Literal["step", "stage", "attempt", "party"] = "step"

    @property
    def total(self) -> StageCost:
        """All of them together."""
        each = self.stages
        together = max if self.by == "party" else sum
        waits = [one.waiting for one in each if one.waiting is not None]
        taken = [one.seconds for one in each if one.seconds is not None]
        return StageCost(
            "all of them" if self.by == "party" else f"all {self.by}s",
            together(one.rounds for one in each),
            sum(one.payload for one in each),
            sum(one.wire for one in each),
            together(waits) if waits else None,
            together(taken) if taken else None,
        )


class NumberTable(NamedTuple):
    """Numbers that a model is made of, such as weights: a row for each name."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]


class Accuracy(NamedTuple):
    """How good a model is, as far as that was released.

    `confusion` has records by true and by answered class, with the noise that they were given.
    """

    title: str
    accuracy: float | None
    auc: float | None
    classes: tuple[str, ...]
    confusion: tuple[tuple[float, ...], ...]
    cost: Guarantee | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of a model or of a run that makes one.

    `model` is what may be seen of it, None where it is hidden or does not exist; `hidden` is what
    is public of hidden trees, `numbers` what is seen besides. `ledger` is None where no statement
    was made or where others have it, who have told its `totals`. `totals` are by audience, `names`
    say who is behind an audience of the ledger. `by` says who has made the page, `job` what was to
    be done, in sentences; `notes` are what a reader must not miss. `people`, `parameters` and
    `provenance` are rows of two for tables.
    """

    name: str
    kind: str
    setting: Setting
    domain: Domain | None = None
    model: Model | None = None
    ledger: Ledger | None = None
    totals: Mapping[str, Guarantee] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    by: str = ""
    job: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    people: tuple[tuple[str, str], ...] = ()
    openings: tuple[Openings, ...] = ()
    costs: tuple[RunCost, ...] = ()
    accuracies: tuple[Accuracy, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()
    hidden: tuple[HiddenTree | TreePiece, ...] = ()
    numbers: tuple[NumberTable, ...] = ()
