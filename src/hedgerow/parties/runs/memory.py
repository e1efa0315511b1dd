"""`RunMemory`: what a member must not forget of a run, in the store of its party.

From the moment at which the run is charged there is a row, at first an empty one: a run that was
charged and has none has lost what it answered, and answers no more (H840).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hedgerow.errors import Code
from hedgerow.parties.store.database import Row, Store
from hedgerow.parties.store.vault import About, open_bytes, seal_bytes


class RunMemory:
    """A `hedgerow.protocols.contract.Memory` for one process at a time.

    With the operator's `key` all is encrypted (`store.vault`) for this run of this `party`.
    `on_keep` is told whenever something was kept. H867 if the store does not fit together, H861 to
    H864 for another key, run or party.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        party: str,
        key: bytes | None = None,
        *,
        on_keep: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._run, self._party, self._key = store, run, party, key
        self._on_keep = on_keep
        with store.snapshot() as made:
            row = made.row("memories", run=run)
            self._length = made.count_heard(run)
        self.is_begun = row is not None
        # At first it is empty.
        self._state = self._open(row["data"], "memory") if row and row["data"] else None

    def begin(self, *, charged: bool) -> None:
        """Make the row before anything is charged; H840 if it is gone since."""
        if self.is_begun:
            return
        if charged:
            raise Code.ANSWERS_LOST.error(
                found=f"run {self._run}, which was charged, and nothing kept of it in "
                f"{self._store.path}"
            )
        with self._store.transaction("begin a memory") as made:
            made.put("memories", {"run": self._run, "data": b""})
        self.is_begun = True

    def load(self) -> bytes | None:
        """Return the state that was kept last."""
        return self._state

    def keep(self, state: bytes) -> None:
        """Keep a state in the place of the one before; on the disk when this returns, or H869."""
        if state != self._state:
            with self._store.transaction("keep a memory") as made:
                made.put("memories", {"run": self._run, "data": self._seal(state, "memory")})
            self._state = state
            self._on_keep()

    def lines(self) -> Iterator[bytes]:
        """Yield all that was appended, in order; one at a time is in memory."""
        for number in range(self._length):
            with self._store.snapshot() as made:
                row = made.row("heard", run=self._run, number=number)
            if row is None:
                raise Code.JOURNAL_DAMAGED.error(
                    found=f"{self._store.path}: what was heard of {self._run}, at {number}, is gone"
                )
            yield self._open(row["answer"], f"line {number}")

    def append(self, line: bytes) -> None:
        """Keep a line after those before; on the disk when this returns, or H869."""
        with self._store.transaction("append to a memory") as made:
            sealed = self._seal(line, f"line {self._length}")
            numbered: Row = {"run": self._run, "number": self._length}
            made.add("heard", {**numbered, "entry": "", "answer": sealed})
        self._length += 1
        self._on_keep()

    def _about(self, what: str) -> About:
        return {"kind": what, "run": self._run, "party": self._party}

    def _seal(self, data: bytes, what: str) -> bytes:
        return data if self._key is None else seal_bytes(data, self._key, about=self._about(what))

    def _open(self, data: bytes, what: str) -> bytes:
        return data if self._key is None else open_bytes(data, self._key, about=self._about(what))
