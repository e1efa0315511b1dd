"""`Site`: what one site of a vertical ID3 has, keeps and may learn; the algorithms work on it.

Paper: vaidya2005vertical, section 2 (figure 1: constraint tuples and FormTransSet).

A site does nothing by itself: `hedgerow.protocols.vertical_id3.participant.SiteProgram` runs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import CommutativeCipher, Curve25519Cipher, Entropy
from hedgerow.errors import Code
from hedgerow.privacy import Leakage, Ledger, NoiseSource, Opening, Release
from hedgerow.protocols.vertical_id3.cardinality import (
    GainComparison,
    Groups,
    SetCardinality,
    SiteMeter,
)
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import (
    OF_QUESTIONS,
    Announced,
    CountNoise,
    exact_releases,
    possible_groups,
    setup_openings,
    structure_openings,
)
from hedgerow.protocols.vertical_id3.messages import RECORDS, NodeCall, Token
from hedgerow.tables.ids import id_bytes, repeated_rows

AddNoise = Callable[[NDArray[np.int64]], NDArray[np.int64]]

ANY = -1
"""The paper's '?': a value that does not matter."""
_FIRST_CALL = 8


@dataclass(frozen=True, eq=False)
class SiteTable:
    """The columns of one site: `bins` uint8 or uint16 (n, d), of `n_values` (d,) each.

    d may be 0 at a site that holds the class alone; `labels` (n,) are None elsewhere. `ids` (n,)
    are int64 or str, each of them once; H110 otherwise.
    """

    bins: NDArray[Any]
    n_values: NDArray[np.int64]
    labels: NDArray[Any] | None
    ids: NDArray[Any]

    def __post_init__(self) -> None:
        repeated = repeated_rows(self.ids)
        if repeated.size:
            found = f"{self.ids[repeated[0]].item()!r} in row {int(repeated[0])} and another"
            raise Code.DUPLICATE_ID.error(found=found)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.ids)

    def announced(self, job: SiteJob, site: int) -> Announced:
        """Return what this site says of itself before the tree grows."""
        values = tuple(sorted(self.n_values.tolist()))
        return Announced(values, job.n_classes if job.knows_class(site) else 0, self.n_records)

    def rows(self, index: NDArray[np.intp]) -> SiteTable:
        """Return some records."""
        labels = None if self.labels is None else self.labels[index]
        return SiteTable(self.bins[index], self.n_values, labels, self.ids[index])


class Constraints:
    """The constraint tuple of one site, over its own attributes: who may reach the node at hand."""

    def __init__(self, bins: NDArray[Any], n_values: NDArray[np.int64]) -> None:
        self.bins = bins
        self.n_values = n_values
        self.tuple = np.full(bins.shape[1], ANY, dtype=np.int64)
        # The sets of the path so far: `set` narrows the last one, '?' goes back.
        self._sets = [np.ones(len(bins), dtype=np.bool_)]
        self._path: list[int] = []

    def set(self, attribute: int, value: int) -> None:
        """Constrain an attribute to a value, or free it with `ANY`: the latest one only."""
        if self.tuple[attribute] != ANY:
            latest = self._path.pop()
            assert latest == attribute
            self._sets.pop()
        self.tuple[attribute] = value
        if value != ANY:
            self._path.append(attribute)
            self._sets.append(self._sets[-1] & (self.bins[:, attribute] == value))

    @property
    def remaining(self) -> list[int]:
        """Attributes that are not constrained."""
        return np.flatnonzero(self.tuple == ANY).tolist()

    def form_trans_set(self) -> NDArray[np.intp]:
        """Return the rows that satisfy the constraints (FormTransSet), intp (m,)."""
        return np.flatnonzero(self._sets[-1])

    def by(self, labels: NDArray[Any], n: int) -> list[NDArray[np.intp]]:
        """Return the rows that satisfy the constraints, apart for each of n labels."""
        rows = self.form_trans_set()
        mine = labels[rows]
        order = np.argsort(mine, kind="stable")
        ends = np.cumsum(np.bincount(mine, minlength=n))[:-1]
        return np.split(rows[order], ends)


class Interior(NamedTuple):
    """A node that tests an attribute of this site, by its place; a child for each value."""

    attribute: int
    children: tuple[Token, ...]


class Leaf(NamedTuple):
    """Counts of each class, perhaps noisy; the parent's if it is `empty` of transactions."""

    counts: tuple[int, ...]
    empty: bool


Node = Interior | Leaf


@dataclass
class CollectedAnswers:
    """What the class site has of a question so far; nothing grows with what is only said to come.

    Places in the asker's list that have come; rows that came to a leaf together, and its counts.
    """

    rows: set[int] = field(default_factory=set)
    leaves: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)

    def counts(self) -> NDArray[np.int64]:
        """Return the class counts of all instances in the order of the asker's list."""
        found = np.zeros((len(self.rows), len(self.leaves[0][1])), dtype=np.int64)
        for rows, counts in self.leaves:
            found[list(rows)] = counts
        return found


class Site:
    """One site, with its number from 0 and the job that all sites have.

    Keys, shuffles and masks come from `entropy`, noise from `source`: the operating system's unless
    a test passes seeded ones. The ledger is charged with what this site and the public learn,
    before the tree grows.

    `nodes` are all that this site stores of the tree, `root` is known at its end, `kept` are
    answers that the class site kept to itself. `open_questions` are calls that wait for answers,
    `collected` at the class site those of which some instances have come. `best` is the attribute
    that this site has offered, by node; `offered` and `offered_to` the node of the last gain that
    it gave, and to whom; `decided` the last node decided. `distributions` are class counts (c,) of
    the present path, by depth, at a site with the class.
    """

    cardinality: SetCardinality
    gains: GainComparison

    def __init__(
        self,
        index: int,
        job: SiteJob,
        table: SiteTable,
        *,
        cipher: CommutativeCipher | None = None,
        entropy: Entropy = os.urandom,
        source: NoiseSource | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        if job.knows_class(index) != (table.labels is not None):
            raise Code.BAD_SITES.error(
                found=f"site {index} {'without' if table.labels is None else 'with'} the class"
            )
        self.index, self.job, self.table = index, job, table
        self.cipher = cipher or Curve25519Cipher()
        self.entropy, self.source = entropy, source or NoiseSource.system()
        self.ledger = ledger or Ledger()
        self.meter = SiteMeter()
        self.leakages: list[Leakage] = []
        self.announced: dict[int, Announced] = {}
        self.constraints = Constraints(table.bins, table.n_values)
        self.noise: CountNoise | None = None
        self.nodes: dict[int, Node] = {}
        self.root: Token | None = None
        self.finished = self.grown = False
        self.best: dict[int, int] = {}
        self.offered, self.offered_to, self.decided = NodeCall(0, 0, 0, ()), index, 0
        self.distributions: dict[int, NDArray[np.int64]] = {}
        self.kept: list[tuple[tuple[bytes, ...], tuple[int, ...]]] = []
        self.open_questions: set[int] = set()
        self.collected: dict[tuple[int, int, bytes, int], CollectedAnswers] = {}
        self._instances: dict[bytes, int] = {}
        self._instance_bins = table.bins[:0]
        self._calls = 0
        openings = setup_openings(job, index, secret=job.secret)
        self.declare(openings, exact_releases(openings))

    def declare(self, openings: Iterable[Opening], releases: Iterable[Release]) -> None:
        """Charge, and let this be learned from here on and nothing else."""
        self.ledger.charge(*releases)
        records = self.table.n_records
        self.leakages.append(Leakage(openings, ledger=self.ledger, records=records))

    def learn(self, name: str, shape: tuple[int, ...], times: int = 1) -> None:
        """Record what is about to be learned; what was not declared raises.

        What questions show is charged with the first: a tree that nobody is asked about costs
        nothing of that.
        """
        leakage, who = self.leakages[-1], f"site {self.index}"
        if name in OF_QUESTIONS:
            asked = exact_releases(one for one in leakage.openings if one.name == name)
            self.ledger.charge(*(one for one in asked if not self.ledger.charged(one.reason, who)))
        leakage.check(name, who, shape, times)

    def what_was_learned(self) -> list[dict[str, Any]]:
        """Return one row for every sort of value that this site learned."""
        who = f"site {self.index}"
        return [row for leakage in self.leakages for row in leakage.what_was_learned(who)]

    def form(self, purpose: int) -> Groups:
        """Return this site's set: all records, or those that may reach the node (FormTransSet)."""
        if purpose == RECORDS:
            return [np.arange(self.table.n_records)]
        if self.job.class_at == self.index:
            assert self.table.labels is not None
            return self.constraints.by(self.table.labels, self.job.n_classes)
        return [self.constraints.form_trans_set()]

    def check_groups(self, owner: int, purpose: int, sizes: list[int]) -> None:
        """Refuse a set in groups that contradict what its owner announced; H754 names it."""
        allowed, most, limit = {1}, None, "any number"
        if purpose != RECORDS:
            said = self.announced[owner]
            allowed, most = possible_groups(self.job, owner, said), said.records
            limit = f"{most:,}"
        if len(sizes) not in allowed or (most is not None and sum(sizes) > most):
            raise Code.SITE_CONTRADICTS.error(
                expected=f"{' or '.join(map(str, sorted(allowed)))} groups of records, at most "
                f"{limit} in all",
                found=f"{len(sizes)} groups with {sum(sizes):,} records of site {owner}",
            )

    def next_noise(self) -> AddNoise:
        """Return what adds noise to the next table that is asked for, where the job says so.

        It is a source of its own: what is drawn does not depend on which table comes back first.
        """
        noise = self.noise
        if noise is None:
            return lambda counts: counts
        source = self.source.spawn()
        return lambda counts: noise(counts, source)

    def new_call(self) -> int:
        """Return a number that no site has used."""
        self._calls += 1
        return (self.index + 1) << 48 | (_FIRST_CALL + self._calls)

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Leave out all records but these."""
        self.table = self.table.rows(rows)
        self.constraints = Constraints(self.table.bins, self.table.n_values)

    def end_growth(self) -> None:
        """Take part in questions only from here on: nobody can have this site count any more."""
        self.grown = True
        self.best.clear()
        self.distributions.clear()

    def take_up(self, nodes: dict[int, Node], root: Token) -> None:
        """Answer for a part of a tree; only what questions show may be learned from here on."""
        own = Announced(tuple(sorted(self.table.n_values.tolist())), 0, 0)
        self.nodes, self.root, self.finished = nodes, root, True
        self.announced = {self.index: own}
        openings = structure_openings(self.job, self.index, self.announced)
        openings = [one for one in openings if one.name in OF_QUESTIONS]
        self.ledger.charge(*exact_releases(openings))
        self.leakages = [Leakage(openings, ledger=self.ledger)]

    def offer(self, ids: NDArray[Any], bins: NDArray[Any]) -> None:
        """Hold this site's columns of the instances that will be asked for."""
        self._instances = {name: row for row, name in enumerate(id_bytes(ids))}
        self._instance_bins = bins

    def values_of(self, instances: Sequence[bytes], attribute: int) -> NDArray[np.int64]:
        """Return an attribute of instances by their ids; H111 for one that is not here."""
        rows = [self._instances.get(name, -1) for name in instances]
        if -1 in rows:
            raise Code.IDS_DO_NOT_ALIGN.error(
                expected="instances that every site on their path has",
                found=f"{rows.count(-1)} instances that site {self.index} does not have",
                fix="give all sites their columns of the instances first",
            )
        return self._instance_bins[rows, attribute].astype(np.int64)

    def to_state(self) -> dict[str, Any]:
        """Return the site after a run as plain data; records are named by their ids alone."""
        announced = self.announced.items()
        return {
            "nodes": [[number, *_write_node(node)] for number, node in sorted(self.nodes.items())],
            "root": None if self.root is None else list(self.root),
            "announced": [[i, list(s.values), s.classes, s.records] for i, s in announced],
            "meter": asdict(self.meter),
            "ledger": self.ledger.to_json(),
            "leakages": [leakage.to_json() for leakage in self.leakages],
            "ids": self.table.ids,
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], index: int, job: SiteJob, table: SiteTable
    ) -> Site:
        """Return a site as it was after its run, from that and from its table as it was before."""
        site = cls(index, job, table.rows(np.flatnonzero(np.isin(table.ids, state["ids"]))))
        site.nodes = {int(number): _read_node(*node) for number, *node in state["nodes"]}
        site.root = None if state["root"] is None else Token(*map(int, state["root"]))
        site.announced = {
            int(i): Announced(tuple(values), classes, records)
            for i, values, classes, records in state["announced"]
        }
        site.meter = SiteMeter(**state["meter"])
        site.ledger = Ledger.from_json(state["ledger"])
        site.leakages = [Leakage.from_json(text, site.ledger) for text in state["leakages"]]
        site.finished = site.grown = True
        return site

    def __getstate__(self) -> dict[str, Any]:
        # A stored part is the tree's, without the records that it was grown from.
        table = self.table.rows(np.empty(0, dtype=np.intp))
        dropped = {"entropy", "source", "cardinality", "gains"}
        state = {key: value for key, value in vars(self).items() if key not in dropped}
        return {
            **state,
            "table": table,
            "constraints": Constraints(table.bins, table.n_values),
            "best": {},
            "distributions": {},
            "open_questions": set(),
            "collected": {},
            "_instances": {},
            "_instance_bins": table.bins,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, entropy=os.urandom, source=NoiseSource.system())


def _write_node(node: Node) -> list[Any]:
    if isinstance(node, Leaf):
        return ["leaf", list(node.counts), node.empty]
    return ["interior", node.attribute, [list(token) for token in node.children]]


def _read_node(kind: str, first: Any, second: Any) -> Node:
    if kind == "leaf":
        return Leaf(tuple(map(int, first)), bool(second))
    return Interior(int(first), tuple(Token(int(site), int(node)) for site, node in second))
