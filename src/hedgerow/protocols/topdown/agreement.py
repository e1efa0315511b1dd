"""How three servers make sure that they work on the same question, and from the same point.

Two short messages between any two of them. The first goes before anything is computed: it finds out
a coordinator who asks them different things, and names the draw whose shares a server has kept,
since shares of two draws do not fit together. The second, empty, says that a result is kept.

A server marks on its disk that it gives away a share of a result before it does. While one of the
three says that it has, the others go on from that draw or not at all: a server that read the
result and then claims to stand before it gets no other.
"""

from __future__ import annotations

import hashlib
import os
from enum import IntEnum
from typing import NamedTuple

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.protocols.sharing.saying import said_by_all
from hedgerow.protocols.topdown.wire import Ask
from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated.core import SERVERS

DIGEST_BYTES = 32
TAG_BYTES = 32
_FRESH_BYTES = 16
_MESSAGE_BYTES = DIGEST_BYTES + 1 + TAG_BYTES + _FRESH_BYTES


class Stage(IntEnum):
    """How far a server is with a question."""

    FRESH = 0
    """Nothing is computed."""
    KEPT = 1
    """Shares of the numbers are kept, and none has left here."""
    OPENING = 2
    """All have said that their shares are kept; some of those here may have left."""
    OPENED = 3
    """The numbers are known here."""


class Agreement(NamedTuple):
    """FRESH if the numbers are to be computed, else what to open them from is kept.

    The tag is of the draw that all have kept, or of the one to come, and then never used before.
    """

    stage: Stage
    tag: bytes


def agree(
    network: Network, question: Ask, stage: Stage, tag: bytes = bytes(TAG_BYTES)
) -> Agreement:
    """Compare question, stage and draw with the other servers: one round.

    The question is without the parts, which differ; stage and tag are of what is kept here. H820 if
    the servers were asked different things, H840 if one has begun to open a draw that another does
    not have: the other has lost what it kept, or lies.
    """
    digest = hashlib.sha256(b"hedgerow/topdown servers/v2" + question.to_bytes()).digest()
    message = digest + bytes([stage]) + tag + os.urandom(_FRESH_BYTES)
    said = _say(network, "question", message)
    if any(one[:DIGEST_BYTES] != digest for one in said):
        raise Code.BAD_ASK.error(
            expected="the same question to all three servers",
            found="another one at a server",
            fix="do not trust this coordinator, or update the version of Hedgerow at all parties",
        )
    stages = {one[DIGEST_BYTES] for one in said}
    tags = {one[DIGEST_BYTES + 1 : -_FRESH_BYTES] for one in said}
    if Stage.FRESH not in stages and len(tags) == 1:
        return Agreement(Stage.KEPT, tag)
    if max(stages) >= Stage.OPENING:
        raise Code.ANSWERS_LOST.error(
            expected="all three servers to have kept what was opened",
            found="a server that says it knows nothing of it",
        )
    # Nobody has let go of a share, so that nobody has seen anything of any draw.
    return Agreement(
        Stage.FRESH, hashlib.sha256(b"hedgerow/topdown draw/v1" + b"".join(said)).digest()
    )


def await_kept(network: Network) -> None:
    """Return once every server has said that its shares are kept: one round, no payload."""
    _say(network, "kept", b"")


def cost_agreement() -> Cost:
    """State the cost of `agree` and `await_kept` together."""
    return Cost.equal(2, 2 * _MESSAGE_BYTES, SERVERS)


def _say(network: Network, step: str, message: bytes) -> list[bytes]:
    mine = {party: message for party in network.local if party < SERVERS}
    return said_by_all(network, step, mine, "servers of a tree")
