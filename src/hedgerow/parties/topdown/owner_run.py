"""`OwnerRun`: an owner's table, its noise and its last answer, as its run folder keeps them.

The same question again gets the same bytes, also after a restart. The state that is kept is a line,
and then that of `hedgerow.protocols.topdown.owner`. The line has the bytes that were drawn from a
repeatable source (0 from any other), and what the owner has pinned.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.topdown.accounted import AccountedRun
from hedgerow.parties.topdown.table import check_same, forget_table
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.secure_owner import SecureOwner
from hedgerow.tables import Encoded


class OwnerRun:
    """An owner that begins a run, or goes on from what was kept of it.

    Parameters
    ----------
    run : AccountedRun
        Its ledger is charged now for the worst case, where the run begins.
    encoded : Encoded
        The table.
    seed : int, optional
        Repeatable noise, for tests.

    Attributes
    ----------
    pinned : tuple of bytes
        The run and the servers' keys that the first answer was sealed to; empty before, and where
        there are no servers.

    Raises
    ------
    HedgerowError
        H840 if what was kept is damaged, H119 if the table has changed since.
    """

    def __init__(self, run: AccountedRun, encoded: Encoded, seed: int | None = None) -> None:
        self._kept, self.pinned = run.kept, tuple[bytes, ...]()
        plan, data, ledger = run.job.make_plan(), run.kept.data, run.ledger
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
        drawn, self.pinned, state = _parts(data)
        self._source = known["source"] = _source(seed, drawn)
        if secure:
            known["server_keys"] = self.pinned[1:] or None
            self._owner = SecureOwner.resume(encoded, plan, state, **known)
        else:
            self._owner = Owner.resume(encoded, plan, state, **known)

    def answer(self, ask: bytes) -> bytes:
        """Answer a question; what was drawn for it is on the disk when this returns.

        Reveals: the answer, to the coordinator and so to everybody; the ledger lists it.

        Raises
        ------
        HedgerowError
            H820 or H821 for a question that the plan does not allow, H869 if the disk does not take
            the state: no answer leaves then.
        """
        said = self._owner.answer(ask)
        self._keep()
        return said

    def pin(self, run: bytes, keys: tuple[bytes, ...]) -> None:
        """Seal to these servers' keys, of this run, from now on; kept with the next answer."""
        assert isinstance(self._owner, SecureOwner)
        self._owner.take_keys(keys)
        self.pinned = (run, *keys)

    def _keep(self) -> None:
        drawn = self._source.drawn if isinstance(self._source, RepeatableSource) else 0
        line = " ".join([str(drawn), *(one.hex() for one in self.pinned)])
        self._kept.keep(line.encode() + b"\n" + self._owner.state())


def last_round(state: bytes) -> int:
    """Return the last round that a state has answered, as `OwnerRun` keeps it; H840 if it is none.

    -1 before the first.
    """
    with jsonfile.refusing(Code.ANSWERS_LOST):
        return int(json.loads(_parts(state)[2])["round"])


def _parts(state: bytes) -> tuple[int, tuple[bytes, ...], bytes]:
    """Take a kept state apart: bytes drawn, what was pinned, state of the protocol."""
    line, _, rest = state.partition(b"\n")
    with jsonfile.refusing(Code.ANSWERS_LOST):
        drawn, *pinned = line.decode().split(" ")
        return int(drawn), tuple(bytes.fromhex(one) for one in pinned), rest


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
