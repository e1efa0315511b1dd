"""`Joining`: an owner's side of a DP-TopDown run: its table, its account, and its own memory.

In which order it checks, keeps and charges is in `hedgerow.parties.topdown.accounted`; what it
keeps is in `hedgerow.parties.topdown.owner_run`.

Reveals: to the coordinator, and so to everybody, the answers of `hedgerow.protocols.topdown.owner`,
which the ledger lists; that this owner takes part, and when. The number of rows, none included, and
the rows themselves stay here. In method "secure-counts" the answers are sealed shares, for servers
whose keys this owner has checked itself: the coordinator reads nothing of them.
"""

from __future__ import annotations

from pathlib import Path

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.sealing_keys import checked_keys
from hedgerow.parties.store.durable import replacing
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.letters import OwnerLetter
from hedgerow.parties.topdown.owner_run import OwnerRun
from hedgerow.parties.topdown.participant import Participant
from hedgerow.parties.topdown.parts import check_part
from hedgerow.parties.topdown.table import OWNER_ONLY_FILE, encoded_table
from hedgerow.tables.absorbing import AbsorbedRows


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
        CSV, Parquet or Arrow file. One without rows is answered for like any other, and no row is
        refused: others have written the domain, and would see that this owner does not come. What
        was done to rows that do not fit is in the folder, for the owner's eyes only.
    insecure_seed : int, optional
        Repeatable noise, for tests: nothing is private then, and the policy must allow it.

    Attributes
    ----------
    folder : Path
        Of the run: job, ledger, model.

    Raises
    ------
    HedgerowError
        H905 if this party is no owner, H906 if the job does not name it, H858 if policy or account
        refuse, H840 if what was answered is lost, H119 if the table has changed since, H107 and
        H115 for a file without the columns of the domain, or that is no table.
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
            raise Code.NOT_IN_JOB.error(
                expected=f"an owner that the job names: {', '.join(job.owners)}", found=config.name
            )
        super().__init__(config, policy, job, private=insecure_seed is None)
        self._seed = insecure_seed
        self._secure = job.plan.method == "secure-counts"
        absorbed = AbsorbedRows()
        self._encoded = encoded_table(table, job.domain, absorbed)
        self._open()
        with replacing(self.folder / OWNER_ONLY_FILE) as file:
            file.write(absorbed.to_json().encode("utf-8"))

    def _begin(self) -> None:
        self._owner = OwnerRun(self, self._encoded, self._seed)

    def _finished(self) -> None:
        """Keep everything: nothing that an owner keeps is secret from itself."""

    def _answered(self, ask: bytes) -> bytes:
        """Answer a question; what was drawn for it is on the disk when this returns.

        Raises
        ------
        HedgerowError
            As `OwnerRun.answer`; H760 for servers' keys that are not theirs, not of this run or
            others than before.
        """
        return self._owner.answer(self._opened(ask) if self._secure else ask)

    def _opened(self, ask: bytes) -> bytes:
        """Check the servers' keys that come with a question; return the question."""
        letter = OwnerLetter.from_bytes(ask)
        keys = checked_keys(letter.keys, self.config, self.job, letter.run, private=self.private)
        pinned = self._owner.pinned
        if pinned and pinned != (letter.run, *keys):
            raise Code.SEALED_REFUSED.error(
                expected="the run and the servers' keys that this owner has sealed to before",
                found="others",
                fix="have the coordinator and the servers go on with what they have kept, or begin "
                "a new job",
            )
        if not pinned:
            self._owner.pin(letter.run, keys)
        return letter.ask
