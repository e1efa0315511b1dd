"""What an owner hands to each of the three servers: its part of the shares, sealed.

An owner cuts the counts of the nodes that it is asked about into shares
(`hedgerow.secure.replicated.outside`): server 0 gets two seeds, servers 1 and 2 a seed and the
correction. Each part is sealed to the key of its server and bound to the plan, the question, the
owner and the server, so that the coordinator, who passes it on, can do nothing with it but that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.sealed import SealingKey
from hedgerow.protocols.sharing.sealed_parts import open_dealt, seal_dealt, sealed_size
from hedgerow.protocols.topdown.numbers import SecureSplits
from hedgerow.protocols.topdown.wire import Ask
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.replicated.outside import Dealt
from hedgerow.secure.ring import Ring

SERVER_NAMES = tuple(f"server {i}" for i in range(SERVERS))
"""Participants beside the owners."""
OF_SERVERS = {"nodes": "servers", "leaves": "servers, leaves"}
"""Phase in which the servers hear what owners answered in a phase."""
OF_OWNERS = {after: before for before, after in OF_SERVERS.items()}
Splits = Sequence[tuple[int, int]]


def shared_array(splits: SecureSplits, phase: str, nodes: int) -> tuple[tuple[int, ...], Ring]:
    """Return shape and ring of what an owner shares in a phase of the owners."""
    if phase == "leaves":
        return (nodes, splits.plan.n_classes), splits.leaf_ring
    return splits.histogram_shape(nodes), splits.ring


def question_of(ask: Ask, splits: Splits) -> bytes:
    """Return the digest of a question to the owners, also as the servers hear of it later.

    It names the whole tree that was looked at, not only what is new: noise follows the depth that
    the servers have for a node, and the charge the depth that the owner has.

    Parameters
    ----------
    ask : Ask
        To an owner, or the one to the servers that follows in the next round.
    splits : sequence of (node, candidate)
        All that were made, those of the question included, as whoever asks for the digest has
        them: who was shown another tree gets another digest.
    """
    behind = ask.phase in OF_OWNERS
    public = [
        ask.plan,
        ask.round - behind,
        OF_OWNERS.get(ask.phase, ask.phase),
        [list(pair) for pair in splits],
        list(ask.nodes),
    ]
    text = json.dumps(public, separators=(",", ":"))
    return hashlib.sha256(b"hedgerow/topdown question/v2" + text.encode()).digest()


def context_of(ask: Ask, splits: Splits, owner: str, server: int) -> bytes:
    """Return what a part is bound to: question (plan and round included), owner and server."""
    bound = ["topdown part 2", question_of(ask, splits).hex(), owner, server]
    return json.dumps(bound, separators=(",", ":")).encode()


def seal_parts(
    counts: NDArray[np.int64],
    ring: Ring,
    ask: Ask,
    splits: Splits,
    owner: str,
    keys: Sequence[bytes],
    entropy: Callable[[int], bytes],
) -> dict[str, NDArray[np.uint8]]:
    """Share counts and seal the part of each server.

    Reveals: nothing; a server alone sees uniform numbers, and all others sealed ones.
    Cost: `sealed_sizes`.

    Parameters
    ----------
    counts : int64 array
    ring : Ring
        In which they are shared.
    ask : Ask
        The question that they answer.
    splits : sequence of (node, candidate)
        As for `question_of`.
    owner : str
    keys : three public keys
        Of the servers, in their order; authentic.
    entropy : callable
        Returns so many random bytes.

    Returns
    -------
    dict of str to uint8 array
        By the name of the server.
    """
    sealed = seal_dealt(
        counts, ring, lambda server: context_of(ask, splits, owner, server), keys, entropy
    )
    return {
        name: np.frombuffer(part, dtype=np.uint8)
        for name, part in zip(SERVER_NAMES, sealed, strict=True)
    }


def open_part(
    sealed: NDArray[np.uint8],
    key: SealingKey,
    ask: Ask,
    splits: Splits,
    owner: str,
    server: int,
    shape: tuple[int, ...],
    ring: Ring,
) -> Dealt:
    """Open the part of an owner at a server.

    Raises
    ------
    HedgerowError
        H760 for one that was changed, or is that of another question, owner or server.
    """
    context = context_of(ask, splits, owner, server)
    return open_dealt(sealed.tobytes(), key, context, server, shape, ring, repr(owner))


def sealed_sizes(shape: tuple[int, ...], ring: Ring) -> Mapping[str, int]:
    """Return the bytes of every server's sealed part, from public numbers."""
    return {name: sealed_size(shape, ring, server) for server, name in enumerate(SERVER_NAMES)}
