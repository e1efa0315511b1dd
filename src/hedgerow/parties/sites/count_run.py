"""`CountRun`: a run of sites at one of the three servers that count for them.

The server signs a sealing key for an attempt, takes part in it, and forgets the key at its end. It
keeps no share and no part of a tree: a server that falls over ends the attempt, and the next one
begins from the beginning, with new keys.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import Certificate, check_keys
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.sealing_keys import SignedKey, checked_keys
from hedgerow.parties.sites.counting import Counting, Progress
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.learned import GROWN, Learned
from hedgerow.parties.sites.nodes import run_folder
from hedgerow.parties.sites.post import OtherSites
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.durable import replacing

Tell = Callable[[str, dict[str, Any]], None]
"""Told what has happened, with particulars: ``failed``, ``grown``, ``refused``."""
_LEAVING = 5.0
"""Seconds for the end of an attempt that is over, before the site is asked to come again."""


class CountRun:
    """A run at one server.

    Parameters
    ----------
    config : PartyConfig
        Of a server.
    policy : Policy
    job : VerticalJob
        This server's own copy.
    tell : callable
        See `Tell`; called from any thread.

    Attributes
    ----------
    folder : Path
        Of the run: job, ledger, traffic, and what was learned.
    done : Event
        Set when the tree is grown, also by an earlier process.

    Raises
    ------
    HedgerowError
        H905 if this party is no server, H908 if it has no ports for sites, H911 for a job that
        needs no servers, H857 if a certificate was not added, H858 if policy or account refuse,
        H811 if the port for counting is taken.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        job: VerticalJob,
        *,
        tell: Tell = lambda what, fields: None,
    ) -> None:
        self.config, self.job, self.note = config, job, tell
        if not job.secret:
            raise Code.JOB_WITHOUT_SERVERS.error(
                expected="cardinality = 'secret', which needs servers",
                found=f"cardinality = {job.cardinality!r}",
            )
        self.parties = job.parties(config)
        # Whoever is no server is told so.
        assert self.parties[len(job.sites) + config.number] == config.name
        check_keys(config)
        for name in self.parties:
            Certificate.of(config, name)
        job.admitted(policy)
        self._accounts = Accounts(config.state, policy)
        self._accounts.check(job.population, job.hash, math.inf)
        self.folder = run_folder(config, job)
        self._others = OtherSites(config, job)
        self._lock = threading.RLock()
        self._key: tuple[str, SealingKey] | None = None
        self._attempt: Counting | None = None
        self._noted = ""
        self.done = threading.Event()
        if any(one.state == GROWN for one in Learned.all_of(self.folder)):
            self.done.set()
        else:
            # Found out now, and not in the middle of an attempt.
            listen(config.listen or config.me.host, config.me.count_port).close()
        with replacing(self.folder / "job.toml") as file:
            file.write(job.to_toml().encode())

    def status(self) -> Progress:
        """Return how far it is."""
        with self._lock:
            attempt = self._attempt
        return Progress("idle") if attempt is None else attempt.status()

    def sign(self, tree: str) -> SignedKey:
        """Return a sealing key for an attempt, made for it alone; an earlier one is over.

        Raises
        ------
        HedgerowError
            H879 while this server has not left the meeting of an earlier one.
        """
        with self._lock:
            attempt = self._attempt
            if attempt is not None and attempt.session != tree:
                if Learned.known(self.folder, tree):
                    raise self._unknown()
                found = f"{self.job.starter} has begun anew"
                attempt.fail(Code.SITE_LOST.error(found=found), tell=False)
        if attempt is not None and attempt.session != tree and not attempt.wait(_LEAVING):
            raise Code.SERVICE_BUSY.error(found="an earlier attempt that is about to end")
        with self._lock:
            if self._key is None or self._key[0] != tree:
                self._key = tree, SealingKey()
            key = self._key[1]
        return SignedKey.sign(key, self.config, self.job, bytes.fromhex(tree), private=True)

    def begin(self, tree: str, keys: Sequence[SignedKey]) -> None:
        """Take part in an attempt for which this server has signed its key.

        Parameters
        ----------
        tree : str
            Its identifier.
        keys : sequence of SignedKey
            Of all three servers.

        Raises
        ------
        HedgerowError
            H760 for keys that the servers have not signed for it, H893 without the own one.
        """
        with self._lock:
            if self._attempt is not None and self._attempt.session == tree:
                return
            if self._key is None or self._key[0] != tree or Learned.known(self.folder, tree):
                raise self._unknown()
            key = self._key[1]
            run = bytes.fromhex(tree)
            checked = checked_keys(keys, self.config, self.job, run, private=True)
            if checked[self.config.number] != key.public:
                raise Code.SEALED_REFUSED.error(
                    expected=f"the key that {self.config.name} has signed for {tree}",
                    found="another one of its keys",
                )
            self._accounts.charge(
                self.job.population,
                self.job.hash,
                math.inf,
                what=f"ppid3 {self.job.run_id}, as {self.config.name}",
            )
            self._attempt = Counting(
                self._others,
                self.job.protocol_job(tuple(one.hex() for one in checked)),
                key,
                tree,
                Learned(self.folder, tree),
                Learned.earlier(self.folder),
                self._look,
            )
        self._look()

    def attempt(self, tree: str) -> Counting:
        """Return the attempt under way; its own error if it has failed, H893 if it is another."""
        with self._lock:
            found = self._attempt
        if found is None or found.session != tree or self.done.is_set():
            raise self._unknown()
        if found.error is not None:
            raise found.error
        return found

    def takes_part(self, tree: str) -> bool:
        """Whether this server is busy with an attempt; raises as `attempt` if it has none of it."""
        with self._lock:
            if self._key is not None and self._key[0] == tree and self._attempt is None:
                return False
        return self.attempt(tree).busy

    def keep(self, tree: str) -> None:
        """Hear that the tree of an attempt is grown."""
        with self._lock:
            found = self._attempt
        if found is not None and found.session == tree:
            found.finish()

    def end(self, tree: str, error: HedgerowError) -> None:
        """Take in that an attempt is over."""
        with self._lock:
            found = self._attempt
        if found is not None and found.session == tree:
            found.fail(error, tell=False)

    def stop(self) -> None:
        """End what is under way, and say so to the sites."""
        with self._lock:
            attempt = self._attempt
        if attempt is not None and not attempt.ended:
            found = f"{self.config.name}, which was told to stop"
            attempt.fail(Code.SITE_LOST.error(found=found))
        if attempt is not None:
            attempt.wait(_LEAVING)
        self._others.close()

    def _unknown(self) -> HedgerowError:
        return Code.WRONG_RUN_STATE.error(
            expected="an attempt that this server takes part in",
            found=f"{self.config.name} knows nothing of it",
            fix=f"have {self.job.starter} run `hedgerow site train` again",
        )

    def _look(self) -> None:
        with self._lock:
            attempt = self._attempt
            if attempt is None or not attempt.ended or attempt.session == self._noted:
                return
            self._noted = attempt.session
            if self._key is not None and self._key[0] == attempt.session:
                self._key = None
        status = attempt.status()
        if status.error is not None:
            fields = {"attempt": status.attempt, "error": str(status.error)}
            self.note("failed", fields)
            return
        self.note("grown", {"tree": status.attempt, "answered": status.answered})
        self.done.set()
