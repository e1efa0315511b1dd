"""A protocol that makes no tree and needs no target: the noisy number of records, published."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from hedgerow.privacy import ROOT, Ledger, Opening, Release, TwoSidedGeometric, step
from hedgerow.protocols.checkpoint import Checkpoints, restored
from hedgerow.protocols.contract import AtLeastOne, Epsilon
from hedgerow.protocols.growers.choices import fitting_ring, widen
from hedgerow.protocols.hidden.id3 import NOTHING_KEPT, Progress, no_progress
from hedgerow.protocols.hidden.options import ServerOptions
from hedgerow.protocols.hidden.protocol import Made, ServerProtocol
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.sharing.table import SecretTable, check_slots
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.releases import NOBODY, Charge, Payer, add_geometric_noise
from hedgerow.secure.replicated import EVERYONE
from hedgerow.tables import Domain

RECORDS = "number of records"


@dataclass(frozen=True)
class CountPlan(ServerPlan):
    domain: Domain
    capacity: int
    epsilon: float

    @property
    def mechanism(self) -> TwoSidedGeometric:
        return TwoSidedGeometric(self.epsilon)

    def charge_of(self, payer: Payer) -> Charge:
        return Charge(payer, ROOT / step("records"), self.audience, RECORDS)

    def releases(self) -> Sequence[Release]:
        return (self.charge_of(NOBODY).release(self.mechanism, 1),)

    def openings(self, to: str = EVERYONE) -> list[Opening]:
        return [Opening(RECORDS, to, (1,), release=RECORDS)]


class CountOptions(ServerOptions):
    """The number of records."""

    epsilon: Epsilon | None = Field(None, description="Budget.")
    capacity: AtLeastOne | None = Field(None, description="Slots of all uploads together.")

    def plan(self, domain: Domain, capacity: int | None = None) -> CountPlan:
        bare = domain.select(domain.names, target=False)
        return CountPlan(bare, self.slots(domain, capacity), self.budget())


class CountProtocol(ServerProtocol):
    options_type: ClassVar[type[ServerOptions]] = CountOptions
    plan_type: ClassVar[type[ServerPlan]] = CountPlan

    def train(
        self,
        table: SecretTable,
        plan: CountPlan,
        ledger: Ledger,
        progress: Progress = no_progress,
        keep: Checkpoints = NOTHING_KEPT,
    ) -> Made:
        check_slots(table, plan)
        charge = plan.charge_of(plan.charge(ledger))
        known = keep.load(RECORDS)
        if known is None:
            largest = plan.capacity + (1 << precision(plan.mechanism, 1).variable.length)
            total = widen(table.columns.sum(axis=0), fitting_ring(table.ring, largest), 0)
            noisy = add_geometric_noise(total, plan.mechanism, charge)
            keep.save(RECORDS, {"records": noisy.data})
        else:
            noisy = restored(table.engine, known["records"])
        opened = table.engine.open(noisy, RECORDS, table.engine.everyone)
        assert opened is not None
        progress(1)
        return Made({}, {"records": int(noisy.ring.signed(opened)[0])})
