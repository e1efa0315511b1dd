"""What `hedgerow estimate` says of jobs, beside what they took: processes over TLS on this machine.

Processor seconds are compared, of all parties together and with the start of their processes, which
other work on the machine changes little; and seconds on the wall, for which the parties share the
cores of this machine: these say something on a quiet one alone. `TUNED` jobs made the coefficients
of `hedgerow.protocols.estimate.seconds`; `UNSEEN` ones were first run after these stood. ``python
-m bench.estimate`` writes the tables of the page about cost.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from bench.harness import row
from hedgerow.net.meter import Reading
from hedgerow.privacy import Ledger
from hedgerow.protocols.estimate.seconds import (
    PROBED,
    JobEstimate,
    Link,
    Speed,
    amounts,
    processor_seconds,
)
from hedgerow.protocols.estimate.traffic import (
    Rehearsed,
    peers_traffic,
    servers_traffic,
    topdown_traffic,
    vertical_traffic,
)
from hedgerow.protocols.pivot.programs import PeerTable
from hedgerow.protocols.pivot.run import run_pivot
from hedgerow.protocols.registry import PEER_PROTOCOLS, server_protocol
from hedgerow.protocols.run import train
from hedgerow.protocols.sharing.integrate import dealt
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.run import run_topdown
from hedgerow.protocols.vertical_id3.options import VerticalOptions
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.run import run_vertical
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.tables import Domain, Encoded


@dataclass(frozen=True)
class Case:
    """A job: rows, attributes, bins and options; `owners` hold rows, or columns."""

    protocol: str
    n: int
    d: int
    bins: int
    plan: Mapping[str, Any] = field(default_factory=dict)
    owners: int = 3
    numeric: bool = False
    align: str = "given"

    def __str__(self) -> str:
        options = " ".join(f"{key}={value}" for key, value in self.plan.items())
        return f"{self.protocol} {self.n:,} x {self.d}, {self.bins} bins, {options}"

    @property
    def domain(self) -> Domain:
        """The columns, all alike."""
        numbers = {"kind": "numeric", "bounds": [0.0, 1.0], "bins": self.bins}
        target = {"bounds": [0.0, 1.0]} if self.numeric else {"classes": ["no", "yes"]}
        attributes = [{"name": f"a{i}", **numbers} for i in range(self.d)]
        data = {"attributes": attributes, "target": {"name": "y", **target}, "capacity": self.n}
        return Domain.from_dict(data)

    def table(self) -> Encoded:
        """Make up rows whose target follows from a few columns, with errors."""
        rng = np.random.default_rng(1)
        bins = rng.integers(0, self.bins, (self.n, self.d))
        score = bins[:, : min(self.d, 5)].sum(axis=1) + rng.normal(0, self.bins / 2, self.n)
        ranks = np.argsort(np.argsort(score)) / self.n
        target = ranks if self.numeric else (ranks > 0.5).astype(np.uint8)
        domain = self.domain
        present = np.ones(self.n, np.bool_)
        return Encoded(domain, np.asfortranarray(bins.astype(domain.dtype)), target, present)


Place = Literal["simulate", "processes"]
Job = tuple[Callable[[], Rehearsed], Callable[[Place], Reading]]


def _servers(case: Case) -> Job:
    options = server_protocol(case.protocol).options_type.from_table(dict(case.plan))
    plan: Any = options.plan(case.domain, None)

    def measured(place: Place) -> Reading:
        owners = dealt(plan.layout, case.table(), plan.n_slots)
        return train(case.protocol, plan, owners, place)[1].meter

    return lambda: servers_traffic(plan, case.protocol), measured


def _peers(case: Case) -> Job:
    options: Any = PEER_PROTOCOLS[case.protocol].options_type.from_table(dict(case.plan))
    owners = [j * case.owners // case.d for j in range(case.d)]
    more: dict[str, Any] = {"owners": owners, "n_peers": case.owners, "target_at": 0}
    plan = options.plan(case.domain, **more, align=case.align)

    def measured(place: Place) -> Reading:
        table, ledger = case.table(), Ledger(domain=plan.domain)
        assert table.target is not None
        plan.charge(ledger)
        target = plan.units.count(table).target if case.numeric else table.target
        tables = [
            PeerTable(
                {j: table.bins[:, j].astype(np.int64) for j, at in enumerate(owners) if at == i},
                case.n,
                np.asarray(target) if i == 0 else None,
                np.arange(case.n),
            )
            for i in range(case.owners)
        ]
        return run_pivot(plan, tables, ledger, place).traffic

    return lambda: peers_traffic(plan), measured


def _topdown(case: Case) -> Job:
    plan = TopDownOptions.from_table(dict(case.plan)).plan(case.domain, n_owners=case.owners)
    names = [f"owner {i}" for i in range(case.owners)]

    def measured(place: Place) -> Reading:
        table = case.table()
        parts = [np.arange(i, case.n, case.owners) for i in range(case.owners)]
        tables = {name: table.rows(part) for name, part in zip(names, parts, strict=True)}
        return run_topdown(plan, tables, place).sent

    return lambda: topdown_traffic(plan, names), measured


def sites_of(case: Case) -> tuple[Session, list[list[int]], list[SiteTable]]:
    """Return the plan of a job of sites, the numbers of values of their attributes, their rows."""
    groups = [group.tolist() for group in np.array_split(np.arange(case.d), case.owners)]
    options = VerticalOptions.from_table(dict(case.plan))
    whole = options.plan(case.domain, columns=groups, class_at=0, align=True)
    plan = Session(whole.job, {}, whole.secret)
    values, table = [[case.bins] * len(group) for group in groups], case.table()
    tables = [
        SiteTable(
            np.asfortranarray(table.bins[:, group]),
            np.array(own, np.int64),
            table.target if site == 0 else None,
            np.arange(case.n),
        )
        for site, (group, own) in enumerate(zip(groups, values, strict=True))
    ]
    return plan, values, tables


def _sites(case: Case) -> Job:
    plan, values, tables = sites_of(case)
    return (
        lambda: vertical_traffic(plan, values, case.n),
        lambda place: run_vertical(plan, tables, place).sent,
    )


def job_of(case: Case) -> Job:
    """Return what rehearses a case, and what runs it."""
    makers = {"topdown": _topdown, "vertical-id3": _sites}
    made = makers.get(case.protocol, _peers if case.protocol in PEER_PROTOCOLS else _servers)
    return made(case)


SHORT = {"epsilon": 1.0, "max_depth": 2}
TUNED = (
    Case("hidden-tree", 2_000, 6, 8, {"epsilon": 1.0, "max_depth": 3}),
    Case("hidden-tree", 20_000, 10, 16, {"epsilon": 1.0, "max_depth": 5}),
    Case("hidden-tree", 100_000, 8, 8, {"noise": "none", "max_depth": 4}),
    Case("hidden-tree", 5_000, 6, 8, {"epsilon": 1.0, "max_depth": 4, "grower": "grouped"}),
    Case("hidden-boosting", 2_000, 6, 8, {"epsilon": 1.0, "max_depth": 3, "n_rounds": 10}),
    Case("hidden-regression", 20_000, 6, 16, {"epsilon": 1.0, "max_depth": 4}, numeric=True),
    Case("pivot-tree", 500, 6, 8, {"max_depth": 3}),
    Case("pivot-tree", 5_000, 6, 8, {"max_depth": 3}, owners=2),
    Case("pivot-tree", 2_000, 6, 8, {"max_depth": 3, "noise": "splits+leaves", "epsilon": 2.0}),
    Case("pivot-boosting", 500, 6, 8, {"max_depth": 2, "n_estimators": 3}),
    Case("pivot-logistic", 2_000, 6, 8, {"max_iter": 3}),
    Case("topdown", 9_000, 6, 8, {"epsilon": 4.0, "n_splits": 8, "max_depth": 4}),
    Case(
        *("topdown", 9_000, 6, 8),
        {"method": "secure-counts", "epsilon": 4.0, "n_splits": 4, "max_depth": 3},
    ),
    Case("vertical-id3", 1_000, 6, 3, {"max_depth": 2}),
    Case("vertical-id3", 1_000, 6, 3, {"max_depth": 2, "cardinality": "secret"}),
    Case("hidden-tree", 600_000, 8, 8, {"noise": "none", "max_depth": 4}),
    Case("hidden-boosting", 20_000, 8, 16, {"epsilon": 1.0, "max_depth": 3, "n_rounds": 20}),
    Case("pivot-tree", 20_000, 9, 16, {"max_depth": 4}),
    Case("pivot-logistic", 20_000, 9, 8, {"max_iter": 2}),
    Case("vertical-id3", 4_000, 6, 4, {"max_depth": 2}),
    Case("pivot-forest", 3_000, 8, 4, {"max_depth": 3, "n_estimators": 8}, owners=4),
    Case("pivot-boosting", 4_000, 6, 10, {"max_depth": 3, "n_estimators": 4}),
)


UNSEEN = (
    Case("open-tree", 50_000, 12, 10, {"epsilon": 1.0, "max_depth": 4}),
    Case(
        *("hidden-tree", 30_000, 8, 6),
        {"noise": "votes", "epsilon": 1.0, "max_depth": 3, "n_trees": 10, "queries": 50},
    ),
    Case("hidden-boosting", 10_000, 5, 8, SHORT | {"n_rounds": 25}, numeric=True),
    Case("pivot-forest", 8_000, 6, 12, {"max_depth": 2, "n_estimators": 5}),
    Case(
        *("pivot-tree", 10_000, 12, 32, {"max_depth": 3, "hide": "thresholds"}),
        owners=2,
        align="ring",
    ),
    Case(
        *("pivot-boosting", 1_500, 8, 6),
        {"max_depth": 2, "n_estimators": 8, "hide": "everything"},
        owners=2,
    ),
    Case("pivot-logistic", 30_000, 4, 16, {"max_iter": 1}, owners=2),
    Case(
        *("topdown", 200_000, 10, 16),
        {"method": "noisy-counts", "epsilon": 2.0, "n_splits": 30, "max_depth": 6},
        owners=4,
    ),
    Case("vertical-id3", 3_000, 8, 3, {"max_depth": 2}, owners=4),
)


WIDE = {"epsilon": 1.0, "max_depth": 4}
TYPICAL = {
    "rows": [Case("hidden-tree", n, 10, 16, WIDE) for n in (1_000, 10_000, 100_000, 1_000_000)]
    + [Case("pivot-tree", n, 10, 16, {"max_depth": 4}) for n in (1_000, 10_000, 100_000)],
    "attributes": [Case("hidden-tree", 10_000, d, 16, WIDE) for d in (5, 20, 80)]
    + [Case("pivot-tree", 10_000, d, 16, {"max_depth": 4}) for d in (5, 20, 80)],
    "bins": [Case("hidden-tree", 10_000, 10, bins, WIDE) for bins in (4, 16, 64)]
    + [Case("pivot-tree", 10_000, 10, bins, {"max_depth": 4}) for bins in (4, 16, 64)],
    "depth": [
        *(Case("hidden-tree", 10_000, 10, 16, WIDE | {"max_depth": depth}) for depth in (2, 4, 8)),
        *(Case("pivot-tree", 10_000, 10, 16, {"max_depth": depth}) for depth in (2, 4, 8)),
    ],
    "protocols": [
        Case("open-tree", 10_000, 10, 16, WIDE),
        Case("hidden-regression", 10_000, 10, 16, WIDE, numeric=True),
        Case("hidden-boosting", 10_000, 10, 16, WIDE | {"n_rounds": 20}),
        Case("pivot-forest", 10_000, 10, 16, {"max_depth": 4, "n_estimators": 10}),
        Case("pivot-boosting", 10_000, 10, 16, {"max_depth": 3, "n_estimators": 10}),
        Case("pivot-logistic", 10_000, 10, 16, {"max_iter": 5}),
        Case("topdown", 10_000, 10, 16, {"method": "noisy-counts", "epsilon": 1.0}),
        Case("topdown", 10_000, 10, 16, {"method": "secure-counts", "epsilon": 1.0}),
        Case("vertical-id3", 10_000, 9, 4, {"max_depth": 2}),
        Case("vertical-id3", 10_000, 9, 4, {"max_depth": 2, "cardinality": "secret"}),
    ],
}
"""Jobs of the page about cost: three owners, peers or sites each, and what varies."""

LAN, WAN, LOOPBACK = Link(0.5, 1000), Link(40, 100), Link(0.1, 10_000)
CORES = len(os.sched_getaffinity(0))


def page() -> Iterator[str]:
    """Write the tables of the page about cost, for the machine that was tuned on."""
    for what, cases in TYPICAL.items():
        yield f"\n### {what.capitalize()}\n"
        yield "| job | rounds | each sends | computes | LAN | WAN |\n|---|---|---|---|---|---|"
        for case in cases:
            found = JobEstimate.of(job_of(case)[0](), LAN, Speed(dict.fromkeys(PROBED, 1.0)))
            most = max(one.sent for one in found.parties) / 1e6
            figures = (found.computing, found.seconds, replace(found, link=WAN).seconds)
            times = " | ".join(f"{seconds:,.0f} s" for seconds in figures)
            yield f"| {case} | {found.latencies:,} | {most:,.1f} MB | {times} |"


def run() -> list[dict[str, Any]]:
    """Compare the jobs that nothing was tuned on."""
    rows = []
    for case in UNSEEN:
        foreseen, sent, measured, wall = measure(case)
        speed, parties = Speed.here(), range(len(foreseen.parties))
        estimated = sum(processor_seconds(amounts(foreseen, i), speed) for i in parties)
        waiting = LOOPBACK.seconds(foreseen.latencies, 0)
        estimated_wall = max(estimated / CORES, estimated / len(parties)) + waiting
        bytes_of = [sum(reading.payload) for reading in (foreseen.reading, sent)]
        more = {
            "estimated_seconds": estimated,
            "seconds_ratio": estimated / measured,
            "wall": wall,
            "estimated_wall": estimated_wall,
            "wall_ratio": estimated_wall / wall,
            "bytes": bytes_of[1],
            "estimated_bytes": bytes_of[0],
            "bytes_ratio": bytes_of[0] / bytes_of[1],
            "rounds": sent.rounds,
            "estimated_rounds": foreseen.reading.rounds,
        }
        rows.append(row(str(case), measured, unit="processor seconds of all parties", **more))
    return rows


def measure(case: Case) -> tuple[Rehearsed, Reading, float, float]:
    """Return what was foreseen, what was sent, processor seconds of all parties, and the wall's."""
    foreseen, run = job_of(case)
    before, begin = _children(), time.perf_counter()
    sent = run("processes")
    return foreseen(), sent, _children() - before, time.perf_counter() - begin


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    for line in page():
        print(line, flush=True)
