"""`Joining`: an owner's side of a DP-TopDown run: its table, its account, and its own memory.

In which order it checks, keeps and charges is in `hedgerow.parties.topdown_participant`. The same
question again gets the same bytes, also after a restart.

Reveals: to the coordinator, and so to everybody, the answers of `hedgerow.protocols.topdown_owner`,
which the ledger lists; that this owner takes part, and when. The number of rows, none included, and
the rows themselves stay here. In method "secure-counts" the answers are sealed shares, for servers
whose keys this owner has checked itself: the coordinator reads nothing of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.config import PartyConfig
from hedgerow.parties.policy import Policy
from hedgerow.parties.sealing_keys import checked_keys
from hedgerow.parties.topdown_job import TopDownJob
from hedgerow.parties.topdown_letters import OwnerLetter
from hedgerow.parties.topdown_participant import Participant
from hedgerow.parties.topdown_parts import check_part
from hedgerow.parties.topdown_table import check_same, encoded_table, forget_table
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.programs import mark_collusion
from hedgerow.protocols.topdown_owner import Owner
from hedgerow.protocols.topdown_secure_owner import SecureOwner


class Joining(Participant):
    """An owner in a run; use `take_part` to see it through.

    Parameters
    ----------
    config : PartyConfig
        Of an owner.
    policy : Policy
    job : TopDownJob
        This owner's own copy.
    table : Path
        CSV, Parquet or Arrow file. One without rows is answered for like any other.
    insecure_seed : int, optional
        Repeatable noise, for tests: nothing is private then, and the policy must allow it.

    Attributes
    ----------
    folder : Path
        Of the run: job, ledger, model.

    Raises
    ------
    HedgerowError
        H850 if this party is no owner or not in the job, H858 if policy or account refuse, H840 if
        what was answered is lost, H119 if the table has changed since, and whatever is wrong with
        the table: that names rows, for the owner's eyes alone.
    """

    def __init__(
        self,
        config: PartyConfig,
        policy: Policy,
        job: TopDownJob,
        table: Path,
        *,
        insecure_seed: int | None = None,
    ) -> None:
        check_part(config, "owner")
        if config.name not in job.owners:
            raise Code.UNKNOWN_MEMBER.error(
                expected=f"an owner that the job names: {', '.join(job.owners)}", found=config.name
            )
        super().__init__(config, policy, job, private=insecure_seed is None)
        self._seed = insecure_seed
        self._secure = job.plan.method == "secure-counts"
        # The run and the servers' keys that the first answer was sealed to.
        self._pinned: tuple[bytes, ...] = ()
        self._encoded = encoded_table(table, job.domain)
        self._open()

    def _begin(self) -> None:
        plan, name, encoded = self.job.make_plan(), self.config.name, self._encoded
        data = self._kept.data
        if data is None:
            # Of a start that ended before anything was charged; another table is as good.
            forget_table(self.folder)
        check_same(self.folder, encoded)
        if data is None:
            self._source = _source(self._seed, 0)
            if self._secure:
                mark_collusion(self._ledger)
                self._owner: Owner = SecureOwner(
                    encoded,
                    plan,
                    name=name,
                    source=self._source,
                    ledger=self._ledger,
                    server_keys=None,
                )
            else:
                self._owner = Owner(
                    encoded, plan, name=name, source=self._source, ledger=self._ledger
                )
            self._keep()
            return
        line, _, state = data.partition(b"\n")
        with jsonfile.refusing(Code.ANSWERS_LOST):
            drawn, *pinned = line.decode().split(" ")
            self._source = _source(self._seed, int(drawn))
            self._pinned = tuple(bytes.fromhex(one) for one in pinned)
        if self._secure:
            self._owner = SecureOwner.resume(
                encoded,
                plan,
                state,
                name=name,
                source=self._source,
                server_keys=self._pinned[1:] or None,
            )
        else:
            self._owner = Owner.resume(encoded, plan, state, name=name, source=self._source)

    def _finished(self) -> None:
        """Keep everything: nothing that an owner keeps is secret from itself."""

    def _answered(self, ask: bytes) -> bytes:
        """Answer a question; what was drawn for it is on the disk when this returns.

        Raises
        ------
        HedgerowError
            H820 or H821 for a question that the plan does not allow, H760 for servers' keys that
            are not theirs, not of this run or others than before, H869 if the disk does not take
            the state: no answer leaves then.
        """
        said = self._owner.answer(self._opened(ask) if self._secure else ask)
        self._keep()
        return said

    def _opened(self, ask: bytes) -> bytes:
        """Check the servers' keys that come with a question; return the question."""
        letter = OwnerLetter.from_bytes(ask)
        keys = checked_keys(letter.keys, self.config, self.job, letter.run, private=self.private)
        found = (letter.run, *keys)
        if self._pinned and found != self._pinned:
            raise Code.SEALED_REFUSED.error(
                expected="the run and the servers' keys that this owner has sealed to before",
                found="others",
                fix="have the coordinator and the servers go on with what they have kept, or begin "
                "a new job",
            )
        if not self._pinned:
            assert isinstance(self._owner, SecureOwner)
            self._owner.take_keys(keys)
            self._pinned = found
        return letter.ask

    def _keep(self) -> None:
        drawn = self._source.drawn if isinstance(self._source, RepeatableSource) else 0
        line = " ".join([str(drawn), *(one.hex() for one in self._pinned)])
        self._kept.keep(line.encode() + b"\n" + self._owner.state())


class RepeatableSource(NoiseSource):
    """A seeded source that goes on where it was, so that a test may kill whoever draws from it.

    Attributes
    ----------
    drawn : int
        Bytes so far.
    """

    drawn = 0

    def bytes(self, n: int) -> NDArray[np.uint8]:
        """Draw uniform bytes, and count them."""
        self.drawn += n
        return super().bytes(n)


def _source(seed: int | None, drawn: int) -> NoiseSource:
    if seed is None:
        return NoiseSource.system()
    source = RepeatableSource.insecure_seeded(seed)
    source.bytes(drawn)
    return source
