"""`Site`: one party of a vertical ID3, without any I/O.

`begin` and `receive` return the bytes that are to be sent; whoever drives the site carries them.
Messages of one sender have to arrive in the order in which they were sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.commutative import CommutativeCipher, Curve25519Cipher, Entropy
from hedgerow.errors import Code
from hedgerow.privacy import Leakage, Ledger, NoiseSource, Opening
from hedgerow.protocols.vertical_id3 import messages as wire
from hedgerow.protocols.vertical_id3.align import align, pass_marks
from hedgerow.protocols.vertical_id3.checks import (
    ANNOUNCE,
    READY,
    check_announced,
    check_groups,
    check_time,
)
from hedgerow.protocols.vertical_id3.classify import Collected, classify_instances, pass_on
from hedgerow.protocols.vertical_id3.constraints import Constraints
from hedgerow.protocols.vertical_id3.counts import answer_leaf
from hedgerow.protocols.vertical_id3.empty import add_flag
from hedgerow.protocols.vertical_id3.gain import answer_gain
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import (
    ANNOUNCED,
    OF_QUESTIONS,
    Announced,
    exact_releases,
    growth_openings,
    published_releases,
    setup_openings,
)
from hedgerow.protocols.vertical_id3.nodes import Node
from hedgerow.protocols.vertical_id3.noise import CountNoise
from hedgerow.protocols.vertical_id3.ppid3 import answer_split, ppid3
from hedgerow.protocols.vertical_id3.ring_cardinality import RingCardinality
from hedgerow.protocols.vertical_id3.secret.cardinality import SecretCardinality
from hedgerow.protocols.vertical_id3.secret.leakage import (
    earlier_releases,
    mark_secret,
    secret_releases,
    secret_setup_openings,
    site_openings,
)
from hedgerow.protocols.vertical_id3.set_cardinality import RECORDS, Groups, Meter, SetCardinality
from hedgerow.protocols.vertical_id3.table import SiteTable
from hedgerow.protocols.vertical_id3.tasks import Desk, Outgoing, Send, Task, Wait
from hedgerow.tables.ids import id_bytes

_FIRST_CALL = 8
_EARLY = (
    *(wire.Announce, wire.Ready, wire.Common, wire.CompareStart),
    *(wire.Answers, wire.Kept),
)


class Site:
    """One site.

    Parameters
    ----------
    index : int
        Its number, from 0.
    job : SiteJob
        The same at all sites.
    table : SiteTable
    cipher : CommutativeCipher, optional
        Curve25519 by default.
    entropy : callable, optional
        Keys, shuffles and masks; the operating system's by default.
    source : NoiseSource, optional
        Noise, where the job has an epsilon; the operating system's by default.
    ledger : Ledger, optional
        Charged with what this site and the public learn, before the tree grows.
    cardinality : callable, optional
        Of this site: how it counts. By default the ring of `RingCardinality`, which is also what
        aligns records, or `SecretCardinality` where the job has servers.
    earlier : int
        Attempts at the same tree that failed after they had begun to count: on shares, their noisy
        counts were seen too, and are charged too.

    Attributes
    ----------
    nodes : dict of int to Node
        What this site stores of the tree.
    root : Token or None
        Where the tree begins; known to the site that began.
    meter : Meter
    leakages : list of Leakage
        What was learned here: while setting up, and while growing and answering.
    kept : list
        Answers that the class site kept to itself.
    collected : dict
        At the class site, questions of which some instances have come and some not yet.
    most_asked : int
        Instances that one question may have.
    """

    most_asked = 1 << 20

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
        cardinality: Callable[[Site], SetCardinality] | None = None,
        earlier: int = 0,
    ) -> None:
        if job.knows_class(index) != (table.labels is not None):
            raise Code.BAD_SITES.error(
                found=f"site {index} {'without' if table.labels is None else 'with'} the class"
            )
        self.index, self.job, self.table = index, job, table
        self.cipher = cipher or Curve25519Cipher()
        self.ledger = ledger or Ledger()
        self.earlier = earlier
        self.meter = Meter()
        self.nodes: dict[int, Node] = {}
        self.root: wire.Token | None = None
        self.best: dict[int, int] = {}
        # The node for which this site's best gain was given last, to whom; the last one decided.
        self.offered, self.offered_to, self.decided = wire.NodeCall(0, 0, 0, ()), index, 0
        self.open_questions: set[int] = set()
        self.collected: dict[tuple[int, int, bytes, int], Collected] = {}
        self.grown = False
        self.n_common: int | None = None
        self.distributions: dict[int, NDArray[np.int64]] = {}
        self.kept: list[tuple[tuple[bytes, ...], tuple[int, ...]]] = []
        self.announced: dict[int, Announced] = {}
        self.finished = False
        self.constraints = Constraints(table.bins, table.n_values)
        self.leakages: list[Leakage] = []
        setup = secret_setup_openings if job.secret else setup_openings
        self._declare(setup(job, index, table.n_records))
        self._noise: CountNoise | None = None
        self._instances: dict[bytes, int] = {}
        self._instance_bins = table.bins[:0]
        self._calls = 0
        self._wire(entropy, source, cardinality)

    def _wire(
        self,
        entropy: Entropy = os.urandom,
        source: NoiseSource | None = None,
        cardinality: Callable[[Site], SetCardinality] | None = None,
    ) -> None:
        """Make what lives in one process only."""
        self.entropy = entropy
        self.source = source or NoiseSource.system()
        self.ring = RingCardinality(
            self.index,
            self.cipher,
            self.form,
            learn=self.learn,
            check=self._check_groups,
            meter=self.meter,
            entropy=entropy,
        )
        self.secret = SecretCardinality(self) if self.job.secret else None
        self.cardinality: SetCardinality = self.secret or self.ring
        if cardinality:
            self.cardinality = cardinality(self)
        parties = self.job.n_sites + len(self.job.server_keys)
        self._desk = Desk(self.index, parties, self._handle, _EARLY)

    def begin(self) -> list[Outgoing]:
        """Take part from now on; returns what is to be sent."""
        self.ring.elements = self.cipher.hash(id_bytes(self.table.ids), "records")
        return self._sent(self._desk.start(self._take_part(), lambda _: None))

    def receive(self, sender: int, data: bytes) -> list[Outgoing]:
        """Take in a message of another site; returns what is to be sent.

        Raises
        ------
        HedgerowError
            H751 to H755 for what an honest site does not send; the run is over then.
        """
        return self._sent(self._desk.receive(sender, data))

    def ask(
        self,
        root: wire.Token,
        instances: Sequence[bytes],
        done: Callable[[NDArray[np.int64] | None], None],
    ) -> list[Outgoing]:
        """Ask for the classes of instances; `done` gets what `classify_instances` returns."""
        self.end_growth()
        return self._sent(self._desk.start(classify_instances(self, root, instances), done))

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

    def what_was_learned(self) -> list[dict[str, Any]]:
        """Return one row for every sort of value that this site learned."""
        who = f"site {self.index}"
        return [row for leakage in self.leakages for row in leakage.what_was_learned(who)]

    def learn(self, name: str, shape: tuple[int, ...], times: int = 1) -> None:
        """Record what is about to be learned; what was not declared raises."""
        leakage, who = self.leakages[-1], f"site {self.index}"
        if name in OF_QUESTIONS:
            # A tree that nobody is asked about costs nothing of this.
            asked = [one for one in leakage.openings if one.name == name and one.release]
            due = [one for one in asked if not self.ledger.charged(str(one.release), who)]
            self.ledger.charge(*exact_releases(due))
        leakage.check(name, who, shape, times)

    def end_growth(self) -> None:
        """Take part in questions only from here on: nobody can have this site count any more."""
        self.grown = True
        self.best.clear()
        self.distributions.clear()

    def noisy(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return counts as they may be used: with noise, where the job says so."""
        # On shares the noise is in the counts already.
        return counts if self.secret is not None else self.own_noise(counts)

    def own_noise(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add noise that this site draws and knows, where the job says so."""
        return counts if self._noise is None else self._noise(counts, self.source)

    def new_call(self) -> int:
        """Return a number that no site has used."""
        self._calls += 1
        return (self.index + 1) << 48 | (_FIRST_CALL + self._calls)

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Leave out all records but these."""
        self.table = self.table.rows(rows)
        self.constraints = Constraints(self.table.bins, self.table.n_values)
        self.ring.elements = self.ring.elements[rows]

    def __getstate__(self) -> dict[str, Any]:
        # A stored part is the tree's, without the records that it was grown from.
        table = self.table.rows(np.empty(0, dtype=np.intp))
        dropped = {"entropy", "source", "ring", "secret", "cardinality", "_desk"}
        dropped |= {"best", "distributions", "open_questions", "collected"}
        state = {key: value for key, value in vars(self).items() if key not in dropped}
        empty = Constraints(table.bins, table.n_values)
        offered = {"_instances": {}, "_instance_bins": table.bins}
        return {**state, "table": table, "constraints": empty, **offered}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, best={}, distributions={}, open_questions=set(), collected={})
        self._wire()

    @property
    def idle(self) -> bool:
        """Whether this site waits for nothing."""
        return self._desk.idle

    def _take_part(self) -> Task[None]:
        """Align, announce, and, at the site that begins, grow the tree."""
        job, k = self.job, self.job.n_sites
        if job.align:
            yield from align(self)
        values = tuple(sorted(self.table.n_values.tolist()))
        classes = job.n_classes if job.knows_class(self.index) else 0
        own = Announced(values, classes, self.table.n_records)
        for other in range(k):
            if other != self.index:
                yield Send(other, wire.Announce(ANNOUNCE, job.digest(), *own))
        heard = yield Wait(ANNOUNCE, wire.Announce, k - 1)
        self.announced = {self.index: own}
        for sender, message in heard:
            self.learn(ANNOUNCED, ())
            again = sender in self.announced
            said = check_announced(job, sender, message, self.table.n_records, again)
            self.announced[sender] = said
        self._prepare()
        if self.index != job.starter:
            yield Send(job.starter, wire.Ready(READY))
            self.finished = True
            return
        yield Wait(READY, wire.Ready, k - 1)
        if self.secret is not None:
            yield from self.secret.begin()
        grown = yield from ppid3(self, wire.NodeCall(0, 1, 0, ()))
        self.root, self.finished = grown.token, True
        self.end_growth()

    def _prepare(self) -> None:
        """Declare what growing reveals, and charge for what the public may see of it."""
        job = self.job
        self.ledger.charge(*published_releases(job))
        widths = [p for said in self.announced.values() for p in said.values]
        if job.epsilon is not None and job.max_depth is not None:
            self._noise = CountNoise(
                job.epsilon, job.max_depth, len(widths), job.n_classes, max(widths, default=1)
            )
            if not self.source.private:
                self.ledger.mark_not_private("the noise was seeded")
        if self.secret is not None:
            session = self.secret.prepare()
            mark_secret(self.ledger, job)
            self.ledger.charge(*secret_releases(session))
            self.ledger.charge(*earlier_releases(session, self.earlier))
            self._declare(site_openings(session, self.index))
            return
        self.ledger.charge(*(self._noise.releases() if self._noise else ()))
        self._declare(growth_openings(job, self.index, self.announced))

    def _declare(self, openings: list[Opening]) -> None:
        due = [one for one in openings if one.name not in OF_QUESTIONS]
        self.ledger.charge(*exact_releases(due))
        self.leakages.append(Leakage(openings, ledger=self.ledger))

    def form(self, purpose: int) -> Groups:
        """Return this site's set: all records, or those that may reach the node (FormTransSet)."""
        if purpose == RECORDS:
            return [np.arange(self.table.n_records)]
        if self.job.class_at == self.index:
            assert self.table.labels is not None
            return self.constraints.by(self.table.labels, self.job.n_classes)
        return [self.constraints.form_trans_set()]

    def _check_groups(self, owner: int, purpose: int, sizes: list[int]) -> None:
        check_groups(self.job, self.announced, owner, purpose, sizes)

    def _handle(self, sender: int, message: wire.Message) -> Task[None] | None:
        check_time(self.job, sender, message, begun=bool(self.announced), grown=self.grown)
        match message:
            case wire.Answers() | wire.Kept() if message.call not in self.open_questions:
                raise wire.bad_message(f"site {sender}", "an answer that was not asked for")
            case wire.Ready() if self.index != self.job.starter or self.grown:
                raise wire.bad_message(f"site {sender}", "Ready, which is not for this site")
            case wire.Common() if message.owner != self.index:
                return pass_marks(self, sender, message)
            case wire.Sum():
                return add_flag(self, sender, message)
            case wire.AskLeaf():
                return answer_leaf(self, sender, message)
            case wire.AskGain():
                return answer_gain(self, sender, message)
            case wire.Split():
                return answer_split(self, sender, message)
            case wire.Classify():
                return pass_on(self, sender, message)
        task = self.cardinality.handle(sender, message)
        return task or (
            None if self.cardinality is self.ring else self.ring.handle(sender, message)
        )

    def _sent(self, outgoing: list[Outgoing]) -> list[Outgoing]:
        self.meter.messages += len(outgoing)
        self.meter.bytes += sum(len(item.data) for item in outgoing)
        return outgoing
