"""Stages of a run in the vault: what a member has done of a training, so that it can go on.

A folder ``state/runs/<run>/stages`` with one encrypted file for every stage; a stage is kept when
the store of the party has its row. Every stage has a tag, a hash over the session in which it was
made and over the tag of the stage before: two members with the same tag hold shares of the same
numbers, which those of different attempts are not.

`Stages.save` returns when all members, three servers or peers, have the stage, and that is written
down, too, as it is for the stages that all have at the beginning of an attempt. So a value that is
opened after its stage was saved or loaded is never drawn again: the next attempt finds it at all of
them, or, where one has lost what it had, or says so, does not begin.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.parties.store.database import Transaction, open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.vault import About, read_arrays, write_arrays

Arrays = dict[str, NDArray[Any]]
Confirm = Callable[[bytes], None]
"""Told the tag of a stage that is on the disk; returns when the other members have it too."""
PREPARED = "prepared"
"""Folder of a run with what was made ahead for it."""


@dataclass(frozen=True)
class KeptStage:
    """One stage; `entries` of the ledger were charged for it and for all before."""

    number: int
    stage: str
    tag: bytes
    entries: int
    session: bytes = field(repr=False)


def _alone(tag: bytes) -> None:
    del tag


class Stages:
    """Checkpoints of one run at one member; `confirmed` of them all are known to have."""

    def __init__(
        self, state: StateFolder, run: str, job: str, server: int, key: bytes | None
    ) -> None:
        self._state, self._run, self._server, self._key = state, run, server, key
        self._job = job
        self._session = b""
        self._confirm: Confirm = _alone
        self._entries: Callable[[], int] = lambda: 0
        self.on_load: Callable[[KeptStage], None] = lambda kept: None
        self.on_save: Callable[[KeptStage], None] = lambda kept: None
        self.kept: list[KeptStage] = []
        self.confirmed = 0
        state.folder("runs", run, "stages")
        self._store = open_store(state)
        with self._store.snapshot() as made:
            rows = made.rows("stages", run=run)
        for row in rows:
            tag, session = self._next_tag(row["stage"], row["session"]), row["session"]
            self.kept.append(KeptStage(row["number"], row["stage"], tag, row["entries"], session))
            self.confirmed += row["confirmed"]

    def last(self) -> KeptStage | None:
        """Return the last stage that is kept here."""
        return self.kept[-1] if self.kept else None

    def begin(self, session: bytes, common: int, entries: Callable[[], int]) -> None:
        """Begin an attempt on the first `common` stages, which have the same tags at all members.

        All beyond are forgotten. H893 if a stage that all members had is not there any more at one
        of them: what it holds may have been opened, and is not drawn again.
        """
        if common < self.confirmed:
            raise Code.WRONG_RUN_STATE.error(
                expected=f"the {self.confirmed} stages that all members have confirmed",
                found=f"{common} that all of them still have: a member has lost some of its state",
                fix="restore the state folder of that member from a copy, or post a new job",
            )
        self._session, self._entries = session, entries
        gone = self.kept[common:]
        # A member that has read what is opened now may claim next time that it never had it.
        if common > self.confirmed or gone:
            with self._store.transaction("begin on common stages") as made:
                self._confirm_stages(made, common)
                for stage in gone:
                    made.drop("stages", run=self._run, number=stage.number)
            self.confirmed = common
        del self.kept[common:]
        for stage in gone:
            with contextlib.suppress(FileNotFoundError):
                self._path(stage.number).unlink()

    def confirm_with(self, confirm: Confirm) -> None:
        """Let `save` wait for the other members."""
        self._confirm = confirm

    def load(self, stage: str) -> Arrays | None:
        """Return the arrays of a stage that all members have, else None."""
        for kept in self.kept:
            if kept.stage == stage:
                assert self._key is not None
                arrays = read_arrays(self._path(kept.number), self._key, about=self._about(kept))
                self.on_load(kept)
                return arrays
        return None

    def save(self, stage: str, arrays: Arrays) -> None:
        """Keep the arrays of a stage, durably, and wait until the other members have it too."""
        if any(kept.stage == stage for kept in self.kept):
            raise ValueError(f"stage {stage!r} a second time")
        tag = self._next_tag(stage, self._session)
        kept = KeptStage(len(self.kept), stage, tag, self._entries(), self._session)
        assert self._key is not None
        write_arrays(self._path(kept.number), arrays, self._key, about=self._about(kept))
        with self._store.transaction("keep a stage") as made:
            made.put("stages", self._row(kept, confirmed=False))
        self.kept.append(kept)
        self._confirm(tag)
        with self._store.transaction("confirm a stage") as made:
            self._confirm_stages(made, len(self.kept))
        self.confirmed = len(self.kept)
        self.on_save(kept)

    def mark(self, opening: str) -> None:
        """Make sure that a value is never drawn again, before any share of it leaves.

        H307 if it is in no stage that all members are known to have.
        """
        if all(kept.stage != opening for kept in self.kept[: self.confirmed]):
            raise Code.OPENING_NOT_KEPT.error(found=f"{opening!r}, which is in no such stage")

    def _confirm_stages(self, made: Transaction, stages: int) -> None:
        """Write down that all members have so many stages; that never becomes less."""
        for kept in self.kept[self.confirmed : stages]:
            made.put("stages", self._row(kept, confirmed=True))
            made.tell("confirmed", {"run": self._run, "stage": kept.stage, "tag": kept.tag.hex()})

    def _row(self, kept: KeptStage, *, confirmed: bool) -> dict[str, str | int | bytes]:
        return {
            "run": self._run,
            "number": kept.number,
            "stage": kept.stage,
            "session": kept.session,
            "entries": kept.entries,
            "confirmed": int(confirmed),
        }

    def _next_tag(self, stage: str, session: bytes) -> bytes:
        before = self.kept[-1].tag if self.kept else self._job.encode()
        made = hashlib.blake2b(digest_size=32, person=b"hedgerow/stage/1")
        for part in (self._run.encode(), before, stage.encode(), session):
            made.update(len(part).to_bytes(8, "big") + part)
        return made.digest()

    def _path(self, number: int) -> Any:
        return self._state.path("runs", self._run, "stages", f"{number}.bin")

    def _about(self, kept: KeptStage) -> About:
        return {
            "kind": "stage",
            "run": self._run,
            "server": self._server,
            "number": kept.number,
            "stage": kept.stage,
            "tag": kept.tag.hex(),
        }


def forget_stages(state: StateFolder, run: str) -> None:
    """Remove the shares of a run that is over: its model, if there is one, is kept elsewhere."""
    for room in ("stages", PREPARED):
        folder = state.path("runs", run, room)
        if folder.exists():
            for path in folder.iterdir():
                path.unlink(missing_ok=True)
