"""`SecureOwner`: an owner whose counts leave as shares, and without noise of its own.

It checks questions as every owner does (`hedgerow.protocols.topdown.owner`): each node is shared
once, whatever the coordinator or the servers ask for, so that no second release about the same
records can be made without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hedgerow.crypto.sealed import KEY_BYTES
from hedgerow.errors import Code
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.topdown.numbers import SecureSplits
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.parts import seal_parts, shared_array
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.shape import Shape
from hedgerow.protocols.topdown.wire import Arrays, Ask
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.tables import Encoded
from hedgerow.trees.counts.leaves import LeafCounts

_ROUNDS = 2
"""Of a question: one of the owners, one of the servers."""


class SecureOwner(Owner):
    """An owner with its table, in method "secure-counts".

    Reveals: nothing by itself. Once the servers have added noise, what the plan's releases list,
    to the public.
    Cost: `hedgerow.protocols.topdown.parts.sealed_sizes` for each answer.

    Parameters
    ----------
    table, plan, name, ledger
        As for `Owner`.
    source : NoiseSource
        Of the randomness of shares and seals; the noise is the servers'.
    server_keys : three public keys, bytes of length 32
        In the order of the servers. They must be authentic: taken from the job that all parties
        have agreed on, or checked by `hedgerow.crypto.sealed.check_signed`. Whoever could put two
        keys of its own in their place would read the counts. None: `take_keys` comes before the
        first answer.

    Raises
    ------
    HedgerowError
        As `Owner`, and H760 for keys that are not three different ones.
    """

    def __init__(
        self,
        table: Encoded | LeafCounts,
        plan: TopDownPlan,
        *,
        name: str,
        source: NoiseSource,
        ledger: Ledger | None = None,
        server_keys: Sequence[bytes] | None = (),
    ) -> None:
        self._splits = SecureSplits(plan)
        self.server_keys: tuple[bytes, ...] = ()
        if server_keys is not None:
            self.take_keys(server_keys)
        super().__init__(table, plan, name=name, source=source, ledger=ledger)

    def take_keys(self, server_keys: Sequence[bytes]) -> None:
        """Take the servers' public keys, as for the parameter `server_keys`."""
        self.server_keys = _checked(server_keys)

    def _check(self, ask: Ask) -> None:
        _checked(self.server_keys)
        due = 0 if self._round < 0 else self._round + _ROUNDS
        if self._round < ask.round != due:
            raise Code.BAD_ASK.error(expected=f"round {due}", found=f"round {ask.round}")
        super()._check(replace(ask, round=self._round + 1) if ask.round == due else ask)

    def _draw(self, ask: Ask, shape: Shape, table: LeafCounts) -> Arrays:
        nodes = np.asarray(ask.nodes, dtype=np.int64)
        if ask.phase == "leaves":
            counts = table.class_counts(nodes)
        else:
            counts = table.histogram(nodes).transpose(0, 2, 1)
        expected, ring = shared_array(self._splits, ask.phase, len(nodes))
        assert counts.shape == expected
        keys = self.server_keys
        return seal_parts(counts, ring, ask, shape.splits, self.name, keys, self._entropy)

    def _entropy(self, n: int) -> bytes:
        return self.source.bytes(n).tobytes()


def _checked(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    found = tuple(bytes(key) for key in keys)
    if len(set(found)) != SERVERS or any(len(key) != KEY_BYTES for key in found):
        raise Code.SEALED_REFUSED.error(
            expected=f"{SERVERS} different public keys of {KEY_BYTES} bytes, one for each server",
            found=f"{len(set(found))} keys",
            fix="pass server_keys= as the servers have published them",
        )
    return found
