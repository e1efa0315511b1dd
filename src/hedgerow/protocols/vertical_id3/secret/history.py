"""`History`: what servers that count have answered, so that nothing is counted or drawn twice.

Of every question a server keeps its half of the answer, says so to the others and hears that they
have kept theirs; then it marks that the half leaves, as durably, and lets it go. The halves of an
answer are one draw of noise, named by a tag that all three have. After a failure:

1. What one server has marked, all must have kept, under the same tag: it is sent again as it was,
   to a site that has not heard it. A server that read an answer and claims to stand before it gets
   no other: the two others refuse to go on (H840).
2. Of what nobody has marked, nobody has seen anything. The question is asked and answered anew.

A tag follows from all questions before, so that equal tags mean equal histories.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from hedgerow.errors import Code
from hedgerow.net.network import Network
from hedgerow.protocols.contract import Memory
from hedgerow.protocols.sharing.saying import said_by_all
from hedgerow.protocols.vertical_id3.messages import bad_message
from hedgerow.secure.replicated.core import SERVERS

MEET, KEPT = "answered before", "kept"
ABOUT = "servers that count for sites"
_FRESH_BYTES, _TAG_BYTES, _NUMBER_BYTES = 16, 32, 8
_NO_TAG = bytes(_TAG_BYTES)


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question of a site, without its parts, and the halves of the servers here."""

    tag: bytes
    sender: int
    ask: bytes
    halves: Mapping[int, bytes] = field(repr=False)


class History:
    """Questions that the servers of one process have answered, of all attempts at a tree.

    The memory has a line for every answer that is kept, and one for every answer that leaves.
    """

    def __init__(self, memory: Memory) -> None:
        self.released: list[AnsweredQuestion] = []
        self._memory = memory
        self._kept: AnsweredQuestion | None = None
        self._attempt = b""
        for line in memory.lines():
            self._read(line)

    def meet(self, network: Network) -> None:
        """Compare with the other servers what has left: one round.

        H840 if one of them has let go of an answer that another does not have.
        """
        tags = self._last, _NO_TAG if self._kept is None else self._kept.tag
        number = len(self.released).to_bytes(_NUMBER_BYTES, "little")
        said = _say(network, MEET, number + b"".join(tags) + os.urandom(_FRESH_BYTES))
        self._attempt = hashlib.sha256(b"hedgerow/ppid3 attempt/v1" + b"".join(said)).digest()
        numbers, last, kept = zip(*map(_parse, said), strict=True)
        most = max(numbers)
        # Who has not marked the last answer yet has kept it, or has lost it.
        found = {last[i] if numbers[i] == most else kept[i] for i in range(SERVERS)}
        if min(numbers) < most - 1 or len(found) > 1:
            raise Code.ANSWERS_LOST.error(
                expected="all three servers to have kept every answer of which a half has left",
                found="a server that says it knows nothing of it",
            )
        if len(self.released) < most:
            self._release()

    def keep(self, network: Network, sender: int, ask: bytes, halves: Mapping[int, bytes]) -> None:
        """Return when the halves of an answer may leave: all servers have kept theirs; one round.

        H752 if the servers were asked different things.
        """
        tag = hashlib.sha256(self._last + self._attempt + sender.to_bytes(2, "little") + ask)
        self._kept = AnsweredQuestion(tag.digest(), sender, ask, dict(halves))
        texts = {str(server): half.hex() for server, half in halves.items()}
        self._append({"tag": tag.hexdigest(), "sender": sender, "ask": ask.hex(), "halves": texts})
        if set(_say(network, KEPT, tag.digest())) != {tag.digest()}:
            raise bad_message(f"site {sender}", "different questions to the servers")
        self._release()

    def halves_for(self, site: int, server: int) -> list[bytes]:
        """Return what a server has given to a site, in order."""
        mine = [one.halves for one in self.released if one.sender == site]
        return [halves[server] for halves in mine if server in halves]

    def n_asked(self, site: int) -> int:
        """Return how many questions of a site were answered."""
        return sum(one.sender == site for one in self.released)

    @property
    def _last(self) -> bytes:
        return self.released[-1].tag if self.released else _NO_TAG

    def _release(self) -> None:
        assert self._kept is not None
        self._append({"left": self._kept.tag.hex()})
        self.released.append(self._kept)
        self._kept = None

    def _append(self, line: Mapping[str, object]) -> None:
        self._memory.append(json.dumps(line, separators=(",", ":")).encode())

    def _read(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            if "left" in found:
                if self._kept is None or self._kept.tag.hex() != found["left"]:
                    raise ValueError("an answer that was not kept")
                self.released.append(self._kept)
                self._kept = None
                return
            tag, ask = bytes.fromhex(found["tag"]), bytes.fromhex(found["ask"])
            halves = {int(server): bytes.fromhex(half) for server, half in found["halves"].items()}
            self._kept = AnsweredQuestion(tag, int(found["sender"]), ask, halves)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Code.ANSWERS_LOST.error(found="a damaged record of answers") from None


def _say(network: Network, step: str, message: bytes) -> list[bytes]:
    return said_by_all(network, step, dict.fromkeys(network.local, message), ABOUT)


def _parse(said: bytes) -> tuple[int, bytes, bytes]:
    tags = said[_NUMBER_BYTES:]
    number = int.from_bytes(said[:_NUMBER_BYTES], "little")
    return number, tags[:_TAG_BYTES], tags[_TAG_BYTES : 2 * _TAG_BYTES]
