"""`SiteRun`: a run at one site: attempts at growing the tree, its own nodes, and answers.

The site that begins conducts an attempt: the others begin and go when all of them are there; when
the tree is grown they write their parts as pending; it keeps its own part, and has them keep
theirs. A fault before that ends the attempt for all, and nobody keeps anything. The next attempt is
a new one, with new keys.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import SERVERS, PartyConfig
from hedgerow.parties.consortium.members import Certificate, check_keys
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.sealing_keys import SignedKey
from hedgerow.parties.sites.answering import InstanceAnswers
from hedgerow.parties.sites.attempt import AttemptStatus, SiteAttempt
from hedgerow.parties.sites.job import VerticalJob, not_the_starter
from hedgerow.parties.sites.post import OtherSites
from hedgerow.parties.sites.store import LearnedRecord, NodeStore, RunRoom, StoredNodes
from hedgerow.parties.sites.table import OwnColumns
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.durable import replacing
from hedgerow.privacy import Ledger
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import parties_of
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site, SiteTable

Tell = Callable[[str, dict[str, Any]], None]
"""Told what has happened, with particulars: ``failed``, ``grown``, ``token``, ``refused``."""


OTHERS = "what this party learned is in a ledger of its own"


class SiteRun:
    """A run at one site, with its own copy of the job, its domain, and its rows.

    Instances, by default the table, are what may be asked about. `tell` is called from any thread.
    The folder has job, nodes, ledger, and what was learned.

    Raises
    ------
    HedgerowError
        H906 if this party is no site of the job, H857 if a certificate was not added, H858 if
        policy or account refuse, H755 if its domain does not fit the job, H110 for a repeated id,
        and whatever else is wrong with its files.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        job: VerticalJob,
        domain: Path,
        table: Path,
        ids: str,
        *,
        instances: Path | None = None,
        tell: Tell = lambda what, fields: None,
    ) -> None:
        self.config, self.job, self.note = config, job, tell
        self.index = job.index(config)
        check_keys(config)
        for name in job.parties(config):
            Certificate.of(config, name)
        job.check_policy(policy)
        self._accounts = Accounts(config.state, policy)
        self._accounts.check(job.population, job.account_key, math.inf)
        self._own = OwnColumns.load(domain, job, self.index)
        self._room = RunRoom.of(config, job)
        self.folder = self._room.folder
        self._store = NodeStore(self._room, job, config.name, self._own)
        # Read before anybody is spoken to: what is wrong with it, its operator is told at once.
        self._table = None if self._store.kept else self._own.table(table, ids)
        self._instances = self._own.instances(instances or table, ids)
        self._others = OtherSites(config, job)
        self._lock = threading.RLock()
        self._changed, self._version = threading.Condition(), 0
        self._attempt: SiteAttempt | None = None
        self._noted = ""
        self._answering: InstanceAnswers | None = None
        with replacing(self.folder / "job.toml") as file:
            file.write(job.to_toml().encode())
        if self._store.kept is not None:
            self._answer_for(self._store.kept)

    @property
    def begins(self) -> bool:
        """Whether this is the site that begins."""
        return self.config.name == self.job.starter

    @property
    def parties(self) -> tuple[str, ...]:
        """All who take part: the sites, and the servers if they count."""
        return self._others.parties

    @property
    def instance_ids(self) -> NDArray[Any]:
        """Ids of the instances that this site knows."""
        return self._instances[0]

    def start(self) -> None:
        """Tell the others, at the site that begins, that a tree which was grown before counts."""
        if self.begins and self._store.kept is not None:
            self._confirm(self._store.kept.tree)

    def stop(self) -> None:
        """End what is under way, and say so to the others."""
        with self._lock:
            attempt, answering = self._attempt, self._answering
        if attempt is not None and not attempt.ended:
            name = self.config.name
            attempt.fail(Code.SITE_LOST.error(found=f"{name}, which was told to stop"))
        if answering is not None:
            answering.stop()
        self._others.close()

    def status(self, seen: int = -1, wait: float = 0.0) -> tuple[int, AttemptStatus]:
        """Return the version of the status, and the status; wait for another one than `seen`."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, wait)
            version = self._version
        with self._lock:
            attempt, kept = self._attempt, self._store.kept
        if kept is not None:
            here = attempt is not None and attempt.session == kept.tree
            records = attempt.status().records if here and attempt is not None else None
            return version, AttemptStatus(
                "grown", kept.tree, nodes=len(kept.nodes), records=records
            )
        return version, AttemptStatus("idle") if attempt is None else attempt.status()

    @property
    def root(self) -> Token | None:
        """Where the tree begins, once it is grown."""
        kept = self._store.kept
        return None if kept is None else kept.root

    def train(self) -> None:
        """Begin an attempt, unless the tree is grown or one is under way; H905 elsewhere."""
        if not self.begins:
            raise not_the_starter(self.job, self.config.name)
        with self._lock:
            under_way = self._attempt is not None and not self._attempt.ended
            if self._store.kept is not None or under_way:
                return
            attempt = self._new_attempt(secrets.token_hex(16))
        threading.Thread(target=self._conduct, args=(attempt,), daemon=True).start()

    def begin(self, tree: str, keys: Sequence[SignedKey] = ()) -> None:
        """Begin an attempt of the site that begins; one that is under way is over.

        `keys` are those of the servers, where they count; H760 for one that is not theirs.
        """
        with self._lock:
            kept, attempt = self._store.kept, self._attempt
            if kept is not None and kept.tree != tree:
                raise Code.MODEL_EXISTS.error(
                    expected=f"no tree of {self.job.run_id} at {self.config.name}",
                    found="one that was grown before",
                    fix="grow another tree under another name of the job, or restore the run "
                    f"folder of {self.job.starter}",
                )
            if kept is not None or (attempt is not None and attempt.session == tree):
                return
            if LearnedRecord.exists(self._room, tree):
                raise Code.WRONG_RUN_STATE.error(
                    expected="an attempt with an identifier of its own",
                    found=f"one that is over at {self.config.name}",
                    fix=f"have {self.job.starter} run `hedgerow site train` again",
                )
            if attempt is not None and not attempt.ended:
                found = f"{self.job.starter} has begun anew"
                attempt.fail(Code.SITE_LOST.error(found=found), tell=False)
            self._store.discard()
            self._new_attempt(tree, keys)

    def attempt(self, tree: str) -> SiteAttempt:
        """Return the attempt under way; its own error if it has failed, H893 if it is another."""
        with self._lock:
            found = self._attempt
        if found is None or found.session != tree:
            raise Code.WRONG_RUN_STATE.error(
                expected="an attempt that this site takes part in",
                found=f"{self.config.name} knows nothing of it",
                fix=f"have {self.job.starter} run `hedgerow site train` again",
            )
        if found.error is not None:
            raise found.error
        return found

    def takes_part(self, tree: str) -> bool:
        """Whether this site is busy with an attempt; raises as `attempt` if it has none of it."""
        kept = self._store.kept
        return (kept is None or kept.tree != tree) and self.attempt(tree).busy

    def store(self, tree: str, root: Token) -> None:
        """Write this site's part as pending."""
        kept = self._store.kept
        if kept is not None and kept.tree == tree:
            return
        self._store.prepare(self.attempt(tree).store(root))

    def keep(self, tree: str) -> None:
        """Keep this site's part: the site that begins has kept its own."""
        with self._lock:
            new = self._store.kept is None
            kept = self._store.keep(tree)
            if new:
                self._finish(kept)

    def end(self, tree: str, sender: str, error: HedgerowError) -> None:
        """Take in that an attempt is over."""
        with self._lock:
            attempt, pending = self._attempt, self._store.pending
            decides = sender == self.job.starter
            if attempt is None or attempt.session != tree or (pending is not None and not decides):
                # Once its part is written, a site waits for the decision.
                return
            self._store.discard()
        attempt.fail(error, tell=False)

    def counts(self, tree: str) -> bool:
        """Whether a tree is kept here."""
        kept = self._store.kept
        return kept is not None and kept.tree == tree

    def answering(self, tree: str | None = None) -> InstanceAnswers:
        """Return what answers questions; a pending tree counts if the site that begins says so."""
        with self._lock:
            pending = self._store.pending
        if tree is not None and pending is not None and pending.tree == tree and not self.begins:
            said = self._others.call(self.job.starter, "site-alive", {"tree": tree})
            if said.fields.get("kept") is True:
                self.keep(tree)
        with self._lock:
            if self._answering is None or tree not in (None, self._answering.tree):
                found = "none" if self._answering is None else "another"
                raise Code.NOT_GROWN.error(
                    expected=f"a tree of {self.job.run_id}", found=f"{found} at {self.config.name}"
                )
            return self._answering

    def _new_attempt(self, tree: str, keys: Sequence[SignedKey] = ()) -> SiteAttempt:
        self._accounts.charge(
            self.job.population,
            self.job.account_key,
            math.inf,
            what=f"ppid3 {self.job.run_id}, as {self.config.name}",
        )
        assert self._table is not None
        table, earlier = self._table, LearnedRecord.earlier(self._room)

        def make(server_keys: tuple[str, ...]) -> SiteProgram:
            job = self.job.protocol_job(server_keys)
            return new_program(self.index, job, table, self._own, earlier)

        learned = LearnedRecord(self._room, tree)
        self._attempt = SiteAttempt(self._others, make, tree, learned, self._look, keys)
        self._look()
        return self._attempt

    def _conduct(self, attempt: SiteAttempt) -> None:
        try:
            attempt.gather()
            root = attempt.wait()
            self._store.prepare(attempt.store(root))
            attempt.store_everywhere(root)
            attempt.decide()
            self.keep(attempt.session)
        except HedgerowError as error:
            if self._store.kept is None:
                self._store.discard()
            attempt.fail(error)
            return
        self._confirm(attempt.session)

    def _finish(self, kept: StoredNodes) -> None:
        if self._attempt is not None and self._attempt.session == kept.tree:
            self._attempt.finish()
        self._answer_for(kept)
        _, status = self.status()
        fields = {"tree": kept.tree, "root": str(kept.root), "nodes": len(kept.nodes)}
        self.note("grown", {**fields, "records": status.records})
        self._look()

    def _confirm(self, tree: str) -> None:
        """Have the others keep their parts; those that are away do so when they are asked."""

        def one(name: str) -> None:
            try:
                self._others.patient(name, "site-keep", {"tree": tree}, self.job.timeouts.join)
            except HedgerowError as error:
                self.note("not told", {"site": name, "error": str(error)})

        for name in self._others.everybody:
            threading.Thread(target=one, args=(name,), daemon=True).start()

    def _answer_for(self, kept: StoredNodes) -> None:
        def saw(sender: str, n: int, path: list[str]) -> None:
            self.note("token", {"from": sender, "instances": n, "path": path})

        self._answering = InstanceAnswers(
            self._others, self._own, kept, self._instances, self._room, saw
        )
        # The rows that the tree was grown from are needed no more.
        self._table = None

    def _look(self) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.error is not None and attempt.session != self._noted:
            self._noted = attempt.session
            self.note("failed", {"attempt": attempt.session, "error": str(attempt.error)})
        with self._changed:
            self._version += 1
            self._changed.notify_all()


def new_program(
    index: int, job: SiteJob, table: SiteTable, own: OwnColumns, earlier: int
) -> SiteProgram:
    """Return the program of a site for one attempt: fresh keys, and a ledger of its own."""
    parties = parties_of(job, servers=SERVERS if job.secret else 0)
    ledger = Ledger(own.domain if job.epsilon is not None else None, parties=parties)
    others = [f"site {i}" for i in range(job.n_sites) if i != index]
    for audience in (*others, *(["server"] if job.secret else [])):
        ledger.mark_not_private(OTHERS, [audience])
    return SiteProgram(Site(index, job, table, ledger=ledger, earlier=earlier))
