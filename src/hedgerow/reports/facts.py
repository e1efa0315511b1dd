"""`Facts`: what a report tells of a run or a model, as plain data, whoever has gathered it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hedgerow.net.meter import Traffic
from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee
from hedgerow.reports.pictures.trees import HiddenTree
from hedgerow.tables import Domain
from hedgerow.trees.model import Model

Setting = Literal[
    "file", "clear", "holder", "owners", "servers", "hidden servers", "sites", "peers"
]
"""Who computed: not told by a file, one without privacy, one with noise, owners, servers, ..."""


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
    """What a stage has taken: rounds of the slowest, bytes of all, seconds of the longest wait."""

    stage: str
    rounds: int
    payload: int
    wire: int
    waiting: float


class RunCost(NamedTuple):
    """What something has cost, stage by stage; seconds where somebody has noted them."""

    title: str
    stages: tuple[StageCost, ...]
    seconds: float | None = None

    @property
    def total(self) -> StageCost:
        """All stages together."""
        found = Traffic()
        for stage in self.stages:
            found = found.plus(Traffic(*stage[1:]))
        return StageCost("all stages", *found)


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
    is public of hidden trees. `ledger` is None where no statement was made or where
    others have it, who have told its `totals`. `totals` are by audience, `names` say who is behind
    an audience of the ledger. `people`, `parameters` and `provenance` are rows of two for tables.
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
    notes: tuple[str, ...] = ()
    people: tuple[tuple[str, str], ...] = ()
    openings: tuple[Openings, ...] = ()
    costs: tuple[RunCost, ...] = ()
    accuracies: tuple[Accuracy, ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()
    hidden: tuple[HiddenTree, ...] = ()
