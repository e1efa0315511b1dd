"""An owner's side of a DP-TopDown run: its table, its account, and its own memory.

In which order it checks, keeps and charges is in `hedgerow.parties.topdown.accounted`. `OwnerRun`
keeps the owner's noise and its last answer: the same question again gets the same bytes, also after
a restart. The state is a line with the bytes that were drawn from a repeatable source and what the
owner has pinned, and then that of `hedgerow.protocols.topdown.owner`.

Reveals: to the coordinator, and so to everybody, the answers of `hedgerow.protocols.topdown.owner`,
which the ledger lists; that this owner takes part, and when. The number of rows, none included, and
the rows themselves stay here. In method "secure-counts" the answers are sealed shares, for servers
whose keys this owner has checked itself: the coordinator reads nothing of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.sealing_keys import checked_keys
from hedgerow.parties.store.durable import read_small, replacing, write_once
from hedgerow.parties.topdown.accounted import AccountedRun
from hedgerow.parties.topdown.job import TopDownJob, check_part
from hedgerow.parties.topdown.participant import Participant
from hedgerow.parties.topdown.relay import OwnerLetter
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.topdown.owner import Owner, SecureOwner
from hedgerow.tables import Domain, Encoded, encode, read_table
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.batches import no_rows

OWNER_ONLY_FILE = "owner-only.json"
"""What an owner's run has done to its rows, for the owner's eyes only."""

_KEY_BYTES = 32


def encoded_table(path: Path, domain: Domain, absorbed: AbsorbedRows | None = None) -> Encoded:
    """Read an owner's table under the domain of a job, which others have written.

    One without rows gets a warning, for the owner alone: that is as private as the rows. With
    `absorbed` no row is refused, as for `hedgerow.tables.encode`, the first records up to the
    capacity are kept, and nothing is said: an owner that does not come to a run, or says why, has
    told about its rows.
    """
    assert domain.target is not None
    if absorbed is not None:
        table = read_table(path, domain=domain, absorbed=absorbed)
        encoded = encode(table, domain, domain.target.name, absorbed=absorbed)
        return encoded.within_capacity(domain.capacity, absorbed)
    try:
        return encode(read_table(path, domain=domain), domain, domain.target.name)
    except HedgerowError as error:
        if error.code is not Code.EMPTY_TABLE:
            raise
    warnings.warn(
        f"{path} has no rows: this owner answers with noise alone, and nobody is told",
        HedgerowWarning,
        stacklevel=2,
    )
    return no_rows(domain)


def check_same(folder: Path, encoded: Encoded) -> None:
    """Refuse another table than the first, H119; what is kept of that is a keyed digest."""
    path = folder / "table.json"
    if not path.exists():
        key = secrets.token_bytes(_KEY_BYTES)
        write_once(path, json.dumps({"key": key.hex(), "digest": _digest(key, encoded)}).encode())
    known: dict[str, Any] = json.loads(read_small(path, 1 << 12, Code.JOURNAL_DAMAGED))
    if not hmac.compare_digest(_digest(bytes.fromhex(known["key"]), encoded), known["digest"]):
        raise Code.TABLE_CHANGED.error(
            expected="the table that this run began with", found="other records, or another order"
        )


def forget_table(folder: Path) -> None:
    """Let a run that has charged and answered nothing begin with any table."""
    (folder / "table.json").unlink(missing_ok=True)


def _digest(key: bytes, encoded: Encoded) -> str:
    total = hmac.new(key, digestmod=hashlib.sha256)
    total.update(f"{encoded.bins.shape}".encode())
    total.update(np.ascontiguousarray(encoded.bins.T).data)
    assert encoded.target is not None
    total.update(np.ascontiguousarray(encoded.target).data)
    if not encoded.present.all():
        total.update(np.ascontiguousarray(encoded.present).data)
    return total.hexdigest()


class OwnerRun:
    """An owner that begins a run, and is charged for the worst case now, or goes on with it.

    `pinned` is the run and the servers' keys that the first answer was sealed to, or empty. H840 if
    what was kept is damaged, H119 if the table has changed since.
    """

    def __init__(self, run: AccountedRun, encoded: Encoded, seed: int | None = None) -> None:
        self.memory, self.pinned = run.memory, tuple[bytes, ...]()
        plan, data, ledger = run.job.make_plan(), run.memory.data, run.ledger
        secure = run.job.plan.method == "secure-counts"
        known: dict[str, Any] = {"name": run.name}
        if data is None:
            # Of a start that ended before anything was charged; another table is as good.
            forget_table(run.folder)
        check_same(run.folder, encoded)
        if data is None:
            self._source = known["source"] = _source(seed, 0)
            if secure:
                mark_collusion(ledger)
                known["server_keys"] = None
            kind = SecureOwner if secure else Owner
            self._owner: Owner = kind(encoded, plan, ledger=ledger, **known)
            self._keep()
            return
        drawn, self.pinned, state = _take_apart(data)
        self._source = known["source"] = _source(seed, drawn)
        if secure:
            known["server_keys"] = self.pinned[1:] or None
            self._owner = SecureOwner.resume(encoded, plan, state, **known)
        else:
            self._owner = Owner.resume(encoded, plan, state, **known)

    def answer(self, ask: bytes) -> bytes:
        """Answer a question; what was drawn for it is on the disk when this returns.

        H820 or H821 for a question that the plan does not allow, H869 if the disk does not take the
        state: no answer leaves then.

        Reveals: the answer, to the coordinator and so to everybody; the ledger lists it.
        """
        answer = self._owner.answer(ask)
        self._keep()
        return answer

    def pin(self, run: bytes, keys: tuple[bytes, ...]) -> None:
        """Seal to these servers' keys, of this run, from now on; kept with the next answer."""
        assert isinstance(self._owner, SecureOwner)
        self._owner.take_keys(keys)
        self.pinned = (run, *keys)

    def _keep(self) -> None:
        drawn = self._source.drawn if isinstance(self._source, RepeatableSource) else 0
        line = " ".join([str(drawn), *(one.hex() for one in self.pinned)])
        self.memory.keep(line.encode() + b"\n" + self._owner.state())


def last_round(state: bytes) -> int:
    """Return the last round that a kept state has answered, -1 before the first; or H840."""
    with jsonfile.refusing(Code.ANSWERS_LOST):
        return int(json.loads(_take_apart(state)[2])["round"])


def _take_apart(state: bytes) -> tuple[int, tuple[bytes, ...], bytes]:
    """Take a kept state apart: bytes drawn, what was pinned, state of the protocol."""
    line, _, rest = state.partition(b"\n")
    with jsonfile.refusing(Code.ANSWERS_LOST):
        drawn, *pinned = line.decode().split(" ")
        return int(drawn), tuple(bytes.fromhex(one) for one in pinned), rest


class RepeatableSource(NoiseSource):
    """A seeded source that goes on after `drawn` bytes, so that tests may kill who draws."""

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


class Joining(Participant):
    """An owner in a run; use `take_part` to see it through.

    A table without rows is answered for like any other, and no row is refused: others have written
    the domain, and would see that this owner does not come. What was done to rows that do not fit
    is in the folder, for the owner's eyes only. With an `insecure_seed`, for tests, nothing is
    private, and the policy must allow it.

    H905 if this party is no owner, H906 if the job does not name it, H858 if policy or account
    refuse, H840 if what was answered is lost, H119 if the table has changed since, H107 and H115
    for a file without the columns of the domain, or that is no table.
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

    def _after_model(self) -> None:
        """Keep everything: nothing that an owner keeps is secret from itself."""

    def _answer(self, ask: bytes) -> bytes:
        """Answer durably; H760 for servers' keys that are not theirs, of another run or changed."""
        return self._owner.answer(self._check_letter(ask) if self._secure else ask)

    def _check_letter(self, ask: bytes) -> bytes:
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
