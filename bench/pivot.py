"""Trees among peers over TLS on loopback: a process each, offline and online apart.

(a) The default of wu2020pivot: 50,000 rows, 15 attributes at each of 3 peers, 8 bins, 4 classes,
depth 4, of which the paper prints no seconds. (b) The same tree as published, under Paillier of
2,048 bits, packed and not, on fewer rows. (c) Growth in rows, peers, attributes, bins and depth,
one at a time. (d) What hiding costs. (e) Answers. (f) Round trips of 40 ms: peers behind relays
that hold every byte back for 20 ms one way and limit nothing else. A round, in which all send at
once, takes one way; `computed_at_40_ms` adds that for every round to the seconds on loopback. (g)
A run that was prepared, in `ahead_s`. (h) Ten boosted trees of two classes, for 50,000 x 45 among
three peers and for 50,000 x 15 between two, of which `published` seconds stand beside ours; the
logistic function and softmax of as many rows, alone. (i) Logistic regression on the rows of (a),
with few bins and many: an epoch alone, with what is made ahead for it.

Megabytes are payload that the busiest peer sends, memory that of the largest process. Every peer
makes its columns from a seed; the target follows from attributes of all peers, with noise.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from typing import Any, Self

import numpy as np

from bench.consortium.links import Links
from bench.consortium.wan import DELAY
from bench.harness import row
from hedgerow.crypto.paillier import KeyShare, PublicKey
from hedgerow.net.launch import Outcome, run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.contract import Context
from hedgerow.protocols.pivot.logistic.options import LogisticOptions
from hedgerow.protocols.pivot.options import (
    PeerOptions,
    PivotBoostingOptions,
    PivotForestOptions,
    PivotOptions,
)
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.programs import (
    OFFLINE,
    PeerAnswers,
    PeerQuestion,
    PeerTable,
    peer,
    prepare_stock,
    respond,
)
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.additive.ciphertexts import JointKey
from hedgerow.secure.additive.punctured import PuncturedBins
from hedgerow.secure.additive.transfers import Transfers
from hedgerow.secure.fixed.sigmoid import cost_sigmoid, sigmoid
from hedgerow.secure.fixed.softmax import cost_softmax, softmax
from hedgerow.secure.ring import Z32
from hedgerow.tables import Attribute, Domain, Target

LIMIT = 1800.0
MAKERS: tuple[tuple[type, str], ...] = (
    (Transfers, "make"),
    (Transfers, "translations"),
    (Transfers, "begin"),
    (PuncturedBins, "_plant"),
    (JointKey, "insecure_dealt"),
)
"""What makes all that is sent in `OFFLINE` steps, and nothing else."""
DECRYPTS: tuple[tuple[type, str], ...] = ((KeyShare, "partial"), (PublicKey, "combine"))
"""What decrypts, together."""
PUBLISHED = {"Pivot": 1_680, "Squirrel": 60, "AnonGBDT": 39, "on": "far larger machines"}
"""Seconds of ten boosted trees for 50,000 x 15 between two parties."""


@dataclass(frozen=True)
class Case:
    """One setting.

    `each` are attributes of every peer, or of one peer after the other; `asked` are rows that are
    answered after. `classes` are 0 for a number. In place of one tree are `trees` of a forest,
    `rounds` of boosting or `epochs` of logistic regression. `ahead`: peers have prepared the run
    before.
    """

    n: int = 50_000
    m: int = 3
    each: int | Sequence[int] = 15
    bins: int = 8
    classes: int = 4
    depth: int = 4
    hide: str = "nothing"
    linear: str = "transfers"
    asked: int = 0
    ahead: bool = False
    rounds: int = 0
    epochs: int = 0
    trees: int = 0

    def __str__(self) -> str:
        each = f"{self.each} attributes each"
        if not isinstance(self.each, int):
            each = f"{' + '.join(map(str, self.each))} attributes"
        return (
            f"{self.n:,} rows, {self.m} peers, {each}, {self.bins} bins, "
            f"{self.classes} classes, "
            + (f"{self.epochs} epochs" if self.epochs else f"depth {self.depth}")
            + f", hide {self.hide}"
            + ("" if self.linear == "transfers" else f", {self.linear}")
            + (", prepared ahead" if self.ahead else "")
            + (f", {self.rounds} rounds" if self.rounds else "")
            + (f", {self.trees} trees" if self.trees else "")
        )

    @property
    def owners(self) -> list[int]:
        """The peer of each attribute."""
        each = [self.each] * self.m if isinstance(self.each, int) else self.each
        return [peer for peer, held in enumerate(each) for _ in range(held)]

    def options(self) -> PeerOptions:
        """Return the options of the model."""
        if self.epochs:
            hide: Any = self.hide
            return LogisticOptions(max_iter=self.epochs, hide=hide)
        every: dict[str, Any] = {"max_depth": self.depth, "hide": self.hide}
        if self.rounds:
            return PivotBoostingOptions(**every, n_estimators=self.rounds)
        if self.trees:
            return PivotForestOptions(**every, n_estimators=self.trees, max_features=None)
        dealt = self.linear.startswith("paillier")
        return PivotOptions(**every, linear=self.linear, insecure_dealer=dealt)  # type: ignore[arg-type]

    def plan(self) -> PeerPlan:
        """Return what the peers agree on."""
        attributes = [
            Attribute(name=f"x{j}", kind="numeric", bounds=(0.0, 1.0), bins=self.bins)
            for j in range(len(self.owners))
        ]
        target = Target(name="y", bounds=(0.0, 1.0))
        if self.classes:
            target = Target(name="y", classes=tuple(map(str, range(self.classes))))
        return self.options().plan(
            Domain(attributes=tuple(attributes), target=target),
            self.n,
            owners=self.owners,
            n_peers=self.m,
            target_at=0,
        )

    def column(self, attribute: int, n: int, seed: int = 0) -> np.ndarray:
        """Return the bins of an attribute."""
        rng = np.random.default_rng([seed, attribute])
        return rng.integers(0, self.bins, n).astype(np.uint8)

    def target(self) -> np.ndarray:
        """Return classes, or a number as a share of its bounds.

        They follow from the first attribute of every peer, a tenth at random.
        """
        firsts = (self.owners.index(peer) for peer in range(self.m))
        total = sum(self.column(first, self.n).astype(np.int64) for first in firsts)
        rng = np.random.default_rng(1)
        noisy = rng.random(self.n) < 0.1
        if not self.classes:
            return np.where(noisy, rng.random(self.n), total / (self.m * (self.bins - 1)))
        label = total * self.classes // (self.m * (self.bins - 1) + 1)
        return np.where(noisy, rng.integers(0, self.classes, self.n), label)

    def joined(self) -> np.ndarray:
        """Return the bins of all attributes, (n, d), as no peer has them."""
        return np.stack([self.column(j, self.n) for j in range(len(self.owners))], axis=1)


TWO_PARTIES = Case(m=2, each=(8, 7), classes=2, rounds=10)
"""What the figures of `PUBLISHED` are for, nearly: ours has two classes and 8 bins."""


@dataclass
class OfflineClock:
    """Seconds, on the wall and of this process, in what needs no target, while it is entered.

    Or in other `makers`.
    """

    makers: Sequence[tuple[type, str]] = MAKERS
    wall: float = 0.0
    cpu: float = 0.0
    _kept: list[tuple[type, str, Any]] = field(default_factory=list)
    _inside: bool = False

    def __enter__(self) -> Self:
        for owner, name in self.makers:
            kept = owner.__dict__[name]
            self._kept.append((owner, name, kept))
            bound = isinstance(kept, classmethod)
            timed = self._timed(kept.__func__ if bound else kept)
            setattr(owner, name, classmethod(timed) if bound else timed)
        return self

    def __exit__(self, *error: object) -> None:
        while self._kept:
            setattr(*self._kept.pop())

    def _timed(self, make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def timed(*args: Any, **named: Any) -> Any:
            if self._inside:
                return make(*args, **named)
            self._inside, begin, cpu = True, time.perf_counter(), time.process_time()
            try:
                return make(*args, **named)
            finally:
                self._inside = False
                self.wall += time.perf_counter() - begin
                self.cpu += time.process_time() - cpu

        return timed


def member(network: Network, case: dict[str, Any]) -> dict[str, float]:
    """Be one peer: train once, and answer rows with the model."""
    setting = Case(**case)
    plan, (me,) = setting.plan(), network.local
    own = [j for j, owner in enumerate(plan.owners) if owner == me]
    target = None
    if me == plan.target_at:
        target = setting.target()
        if not plan.classes:
            target = np.rint((2 * target - 1) * plan.units.most)
    table = PeerTable({j: setting.column(j, setting.n) for j in own}, setting.n, target)
    ledger = Ledger()
    plan.charge(ledger)
    members = tuple(map(str, range(setting.m)))
    ends: list[tuple[float, float, Reading]] = []

    def end(_: Any) -> None:
        ends.append((time.perf_counter(), time.process_time(), network.meter.snapshot()))

    begin = time.perf_counter()
    stock = prepare_stock(network, plan) if setting.ahead else None
    ahead = time.perf_counter() - begin
    context = Context(
        network,
        members,
        plan,
        table=table,
        ledger=ledger,
        prepared=stock,
        progress=end,
    )
    begin, cpu = time.perf_counter(), time.process_time()
    with OfflineClock() as clock, OfflineClock(DECRYPTS) as decrypting:
        part = peer(context)
    offline, online = part.traffic.only(*OFFLINE), part.traffic.without(*OFFLINE)
    found = {
        "seconds": time.perf_counter() - begin,
        "offline_s": clock.wall,
        "cpu": time.process_time() - cpu,
        "offline_cpu": clock.cpu,
        "decrypt_cpu": decrypting.cpu,
        "ahead_s": ahead,
        "offline_mb": max(offline.payload) / 1e6,
        "online_mb": max(online.payload) / 1e6,
        "rounds": part.traffic.rounds,
        "online_rounds": online.rounds,
    }
    if not setting.epochs:
        found["nodes"] = part.model.shape.n_nodes
    elif len(ends) > 1:
        spent = ends[-1][2] - ends[-2][2]
        found["epoch_seconds"] = (ends[-1][0] - ends[0][0]) / (len(ends) - 1)
        found["epoch_cpu"] = (ends[-1][1] - ends[0][1]) / (len(ends) - 1)
        found["epoch_mb"], found["epoch_rounds"] = max(spent.payload) / 1e6, spent.rounds
    if setting.asked:
        bins = {j: setting.column(j, setting.asked, seed=2) for j in own}
        before = network.meter.snapshot()
        begin, cpu = time.perf_counter(), time.process_time()
        answers = PeerAnswers(part.model.to_state(), bins)
        ledger.charge(*plan.answer_releases(0))
        question = PeerQuestion(0, setting.asked, "class" if plan.classes else "value")
        with OfflineClock() as clock:
            respond(replace(context, job=question, table=answers))
        found["answers"] = time.perf_counter() - begin
        found["answers_offline"] = clock.wall
        found["answers_cpu"] = time.process_time() - cpu - clock.cpu
        sent = network.meter.since(before).without(*OFFLINE)
        found["answers_rounds"], found["answers_mb"] = sent.rounds, max(sent.payload) / 1e6
    found["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


def members(network: Network, cases: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """Be one peer in one case after the other."""
    return [member(network, case) for case in cases]


def run_far(
    program: Callable[..., Any], n: int, args: Sequence[Any] = (), *, delay: float = 0.0
) -> list[Outcome]:
    """Run a program at n parties, as `run_parties`; bytes take so many seconds one way."""
    with ExitStack() as stack:

        def relayed(ports: Sequence[int]) -> list[int]:
            behind = {str(port): [port] for port in ports}
            links = stack.enter_context(Links(behind, ["a peer"], delay))
            return [links.doors["a peer", port] for port in ports]

        doors = relayed if delay else tuple
        return run_parties(program, n, args, timeout=LIMIT, limit=LIMIT, doors=doors)


def activation(network: Network, n: int, classes: int) -> dict[str, float]:
    """Be one peer: probabilities of n rows of secret scores, of two classes or of more."""
    with AdditiveEngine(network, Leakage([])) as engine:
        scores = engine.random_bits((16, n * max(1, classes)))
        weights = np.left_shift(1, 8 + np.arange(16))[:, None]
        x = (engine.b2a(scores, Z32) * weights).sum(axis=0).reshape(max(1, classes), n) - (1 << 23)
        public = {"bits": 24, "fraction": 20, "out": 14}
        cost = (cost_softmax if classes else cost_sigmoid)(engine, x.shape, Z32, **public)
        begin = time.perf_counter()
        engine.prepare(cost)
        ahead = time.perf_counter() - begin
        (softmax if classes else sigmoid)(x, **public)
        return {
            "seconds": time.perf_counter() - begin,
            "ahead_s": ahead,
            "offline_mb": max(cost.preprocessing) / 1e6,
            "online_mb": max(cost.bytes) / 1e6,
            "online_rounds": cost.rounds,
        }


def activations(n: int, m: int, classes: int) -> list[dict[str, Any]]:
    """Measure `activation`."""
    values = [end.value for end in run_far(activation, m, [n, classes])]
    found = {name: max(value[name] for value in values) for name in values[0]}
    name = f"softmax of {classes} classes" if classes else "logistic function"
    notes = {key: round(value, 2) for key, value in found.items() if key != "seconds"}
    notes["us_per_row"] = round(found["seconds"] / n * 1e6, 1)
    return [row(f"(h) {name}, {n:,} rows, {m} peers", found["seconds"], **notes)]


def boosted() -> list[dict[str, Any]]:
    """Measure ten boosted trees, and what they compute of scores."""
    found = []
    settings = ((Case(classes=2, rounds=10), {}), (TWO_PARTIES, {"published": PUBLISHED}))
    for case, notes in settings:
        for hide in ("nothing", "everything"):
            found += rows_of("(h)", replace(case, hide=hide, asked=1_000), **notes)
    for m in (2, 3):
        found += activations(50_000, m, 0) + activations(50_000, m, 4)
    return found


def measure(case: Case, delay: float = 0.0) -> dict[str, float]:
    """Run a case with a process for each peer; their largest figures, seconds of CPU of all."""
    return measure_each([case], delay)[0]


def measure_each(cases: Sequence[Case], delay: float = 0.0) -> list[dict[str, float]]:
    """Run cases of as many peers one after the other in the same processes.

    What the first one has compiled and loaded is there for all others, and its memory, too.
    """
    given = [asdict(case) for case in cases]
    ends = [end.value for end in run_far(members, cases[0].m, [given], delay=delay)]
    return [
        {
            name: (sum if name.endswith("cpu") else max)(value[name] for value in values)
            for name in values[0]
        }
        for values in zip(*ends, strict=True)
    ]


def rows_of(name: str, case: Case, **more: Any) -> list[dict[str, Any]]:
    """Measure a case; seconds with everything that is made ahead. `more` stands beside them."""
    found = measure(case)
    notes = {key: round(value, 2) for key, value in found.items() if key != "seconds"} | more
    far = found["seconds"] + DELAY * found["rounds"]
    return [row(f"{name} {case}", found["seconds"], **notes, computed_at_40_ms=round(far, 1))]


def far_rows(case: Case) -> list[dict[str, Any]]:
    """Measure a case without and with the delay."""
    near, far = measure(case), measure(case, DELAY)
    each = (far["seconds"] - near["seconds"]) / far["rounds"]
    figures = {
        "near_s": round(near["seconds"], 1),
        "rounds": far["rounds"],
        "computed_s": round(near["seconds"] + DELAY * far["rounds"], 1),
        "delay_per_round_ms": round(1000 * each, 1),
    }
    return [row(f"(f) at 40 ms: {case}", far["seconds"], **figures)]


def published(rows: Sequence[int] = (2_000, 4_000)) -> list[dict[str, Any]]:
    """Measure ours beside the linear step as published, packed and not; that grows with rows."""
    found = []
    for n in rows:
        case = Case(n=n, each=5, depth=2)
        ours = measure(case)
        for name, linear in (("packed", "paillier"), ("unpacked", "paillier unpacked")):
            theirs = measure(replace(case, linear=linear))
            notes = {"ours_cpu": round(ours["cpu"], 1), "peer_cpu": round(theirs["cpu"], 1)}
            for key in ("offline_mb", "online_mb"):
                notes[f"ours_{key}"], notes[f"peer_{key}"] = round(ours[key]), round(theirs[key])
            name_of = f"(b) paillier {name}: {case}"
            found.append(row(name_of, ours["seconds"], theirs["seconds"], **notes))
    return found


def growth() -> list[dict[str, Any]]:
    """Measure what more rows, peers, attributes, bins and levels cost, one at a time."""
    default, small = Case(), Case(n=10_000)
    cases = [replace(default, n=n) for n in (20_000, 100_000, 200_000)]
    cases.append(Case(n=1 << 20, each=5))
    cases += [replace(small, m=m) for m in (2, 3, 4, 5, 6)]
    cases += [replace(small, each=d) for d in (5, 30, 60)]
    cases += [replace(small, bins=b) for b in (2, 16, 32, 64)]
    cases += [replace(small, depth=h) for h in (2, 3, 5, 6)]
    return [r for case in cases for r in rows_of("(c)", case)]


def hiding(rows: int = 50_000) -> list[dict[str, Any]]:
    """Measure what hiding costs (d), and answers of each level (e)."""
    found = []
    for hide in ("nothing", "thresholds", "features", "peers"):
        case = Case(n=rows, hide=hide, asked=1_000)
        (training,) = rows_of("(d)", case)
        each = training["answers"] / case.asked
        spent = {key: training[f"answers_{key}"] for key in ("offline", "cpu", "rounds", "mb")}
        found += [training, row(f"(e) an answer of {case.asked:,}: {case}", each, **spent)]
    return found


def far() -> list[dict[str, Any]]:
    """Measure the default with round trips of 40 ms."""
    return [r for hide in ("nothing", "thresholds") for r in far_rows(Case(hide=hide))]


def lines() -> list[dict[str, Any]]:
    """Measure logistic regression."""
    linear = Case(classes=2, epochs=3, asked=1_000)
    settings = ((8, "nothing"), (8, "weights"), (64, "nothing"))
    cases = [replace(linear, bins=bins, hide=hide) for bins, hide in settings]
    return [r for case in cases for r in rows_of("(i)", case)]


GROUPS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "a": lambda: rows_of("(a)", Case()),
    "b": published,
    "c": growth,
    "d": hiding,
    "f": far,
    "g": lambda: rows_of("(g)", Case(ahead=True)),
    "h": boosted,
    "i": lines,
}


def run(groups: Sequence[str] = tuple(GROUPS)) -> list[dict[str, Any]]:
    """Measure all cases, or those of some groups."""
    warm = Case(n=500, depth=2)
    for hide in ("nothing", "peers"):
        measure(replace(warm, hide=hide, asked=10))
    return [found for group in groups for found in GROUPS[group]()]
