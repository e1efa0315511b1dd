"""`PreparedStock`: what peers have made ahead for a run, in the vault, for one use.

A stock of correlated randomness belongs to the session in which all peers made it, and is good with
theirs alone. The first attempt of the run takes it, whether it can be used or not. That it is gone
is on the disk, and in the trail, before anything of it is used: an attempt that is killed has used
it up, and a state folder that was set back to before that is found out by the others (H936).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.parties.runs.agreement import exchange_all
from hedgerow.parties.runs.stages import PREPARED, Arrays
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.vault import About, read_arrays, write_arrays

MOST_TIMES = 8
"""For one run; what is made takes time of all peers."""
NO_SESSION = bytes(16)


class PreparedStock:
    """The stock of one run at one peer."""

    def __init__(self, state: StateFolder, run: str) -> None:
        self._state, self._run = state, run
        self._store = open_store(state)

    def check_times(self) -> None:
        """Refuse, H893, to make a stock once more."""
        with self._store.snapshot() as made:
            row = made.row("prepared", run=self._run)
        if row is not None and row["times"] >= MOST_TIMES:
            raise Code.WRONG_RUN_STATE.error(
                expected=f"a run that was prepared fewer than {MOST_TIMES} times",
                found=f"{self._run}, which was",
                fix="let it begin: it makes what it lacks",
            )

    def count(self) -> None:
        """Count a preparation before it begins, whether it succeeds or not; H893 for one too many.

        What was prepared before stays good until another stock takes its place.
        """
        self.check_times()
        with self._store.transaction("count a preparation") as made:
            row = made.row("prepared", run=self._run)
            times, session = (0, NO_SESSION) if row is None else (row["times"], row["session"])
            made.put("prepared", {"run": self._run, "session": session, "times": times + 1})

    def keep(self, session: bytes, stock: Arrays, key: bytes) -> None:
        """Keep a stock in the place of any before; durable when this returns."""
        folder = self._state.folder("runs", self._run, PREPARED)
        write_arrays(self._path(session), stock, key, about=self._about(session))
        with self._store.transaction("keep what was prepared") as made:
            row = made.row("prepared", run=self._run)
            times = 0 if row is None else row["times"]
            made.put("prepared", {"run": self._run, "session": session, "times": times})
            made.tell("prepared", {"run": self._run, "session": session.hex()})
        for path in folder.iterdir():
            if path != self._path(session):
                path.unlink(missing_ok=True)

    def take(self, network: Network, key: bytes | None) -> Arrays | None:
        """Return the stock, if all peers have it, and never again; None if one lacks it.

        Reveals: to the peers, which stock each of them has. Cost: 1 round.
        """
        with self._store.snapshot() as made:
            row = made.row("prepared", run=self._run)
        session = NO_SESSION if row is None else bytes(row["session"])
        told = exchange_all(network, "prepared", np.frombuffer(session, np.uint8))
        if row is None or session == NO_SESSION:
            return None
        with self._store.transaction("take what was prepared") as made:
            made.put("prepared", {**row, "session": NO_SESSION})
            made.tell("took", {"run": self._run, "session": session.hex()})
        try:
            if any(other.tobytes() != session for other in told.values()):
                return None
            assert key is not None
            return read_arrays(self._path(session), key, about=self._about(session))
        finally:
            self._path(session).unlink(missing_ok=True)

    def _path(self, session: bytes) -> Path:
        return self._state.path("runs", self._run, PREPARED, f"{session.hex()}.bin")

    def _about(self, session: bytes) -> About:
        return {"kind": "prepared", "run": self._run, "session": session.hex()}
