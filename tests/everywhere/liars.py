"""A worker that reads what is opened, ends without a word, and claims next that it never read it.

``lie.json`` in the folder of the party: ``read``, after how many values an attempt ends; ``claim``,
where it says to stand from the second attempt on; ``first``, whether the first attempt ends before
a stage is confirmed, and with ``alone`` the daemon ends as well. ``seen.jsonl`` gets a line for
every value that was read: what it is, and the value.
"""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hedgerow.net.network import Network
from hedgerow.parties.runs import agreement
from hedgerow.parties.runs.memory import RunMemory
from hedgerow.parties.runs.stages import Stages
from hedgerow.parties.store.database import open_store
from hedgerow.protocols.topdown import server as topdown
from hedgerow.protocols.topdown.agreement import TAG_BYTES, Stage
from hedgerow.protocols.topdown.programs import ANSWER
from hedgerow.protocols.topdown.wire import TopDownAnswer
from hedgerow.protocols.vertical_id3 import programs as vertical
from hedgerow.secure.party_engine import PartyEngine

ORDERS, SEEN = "lie.json", "seen.jsonl"
LATER, UNKNOWN = "later", "unknown"
# Workers are forked from the process that loads this.
_DAEMON = os.getpid()


class Orders:
    """What the party was told to do, and what it has read in this attempt."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self.folder, self.attempt = folder, attempt
        self.given: dict[str, Any] = json.loads((folder / ORDERS).read_text())
        self.read = 0

    @property
    def claim(self) -> Any:
        """Where it says to stand; None for the truth."""
        return self.given["claim"] if self.attempt > 1 else None

    def see(self, what: Any, value: Any) -> None:
        with (self.folder / SEEN).open("a") as file:
            file.write(json.dumps([self.attempt, what, value]) + "\n")
            file.flush()
        self.read += 1
        if self.read == self.given["read"]:
            self.end()

    def end(self) -> None:
        """End as a power cut does."""
        if self.given.get("alone"):
            os.kill(_DAEMON, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def lie(folder: str, run: str, attempt: str) -> None:
    """Change what this process does, if its party was told to lie."""
    if (Path(folder) / ORDERS).exists():
        orders = Orders(Path(folder), int(attempt))
        _about_openings(orders)
        _about_stages(orders, run)
        _about_questions(orders)
        _about_answers(orders)
        _about_messages(orders)
        _about_memory(orders)


def _about_openings(orders: Orders) -> None:
    opens = PartyEngine.open

    def opening(self: PartyEngine, x: Any, name: str, to: str) -> Any:
        found = opens(self, x, name, to)
        if found is not None:
            orders.see([name, list(found.shape)], found.tolist())
        return found

    PartyEngine.open = opening  # type: ignore[method-assign]


def _about_stages(orders: Orders, run: str) -> None:
    """A server of hidden models has the first so many stages, one more, or another one."""
    init, confirm = Stages.__init__, agreement.confirm

    def begin(self: Stages, state: Any, *more: Any) -> None:
        if isinstance(orders.claim, int):
            with open_store(state).transaction("forget") as made:
                for row in made.rows("stages", run=run)[orders.claim :]:
                    made.drop("stages", run=run, number=row["number"])
        init(self, state, *more)
        if orders.claim in (LATER, UNKNOWN) and self.kept:
            before = self.kept if orders.claim == LATER else self.kept[:-1]
            # Under a number of its own: who forgets the invented one has all others still.
            other = replace(self.kept[-1], number=len(before), tag=os.urandom(32))
            self.kept = [*before, other]

    def confirming(network: Any, tag: bytes) -> None:
        if orders.attempt == 1 and orders.given.get("first") == "before it confirms":
            orders.end()
        confirm(network, tag)

    Stages.__init__ = begin  # type: ignore[method-assign]
    agreement.confirm = confirming


def _about_questions(orders: Orders) -> None:
    """A server of secret counts says a stage, and the tag of its draw or one that nobody knows."""
    agree = topdown.agree

    def agreeing(network: Any, question: Any, stage: Any, tag: bytes = bytes(TAG_BYTES)) -> Any:
        if isinstance(orders.claim, list):
            name, known = orders.claim
            tag = tag if known == "known" else os.urandom(TAG_BYTES)
            stage = Stage[name]
        return agree(network, question, stage, tag)

    topdown.agree = agreeing


def _about_answers(orders: Orders) -> None:
    """A coordinator reads the answers of owners, one by one."""
    receive = Network.receive

    def receiving(self: Network, step: str, at: int, *more: Any) -> Any:
        sender, data = receive(self, step, at, *more)
        if step == ANSWER and orders.given["of"] == "coordinator":
            orders.see([sender, TopDownAnswer.from_bytes(data).round], data.hex())
        return sender, data

    Network.receive = receiving  # type: ignore[method-assign]


def _about_messages(orders: Orders) -> None:
    """A site reads messages by their place, and does not check what others have had of it.

    A message that it says to have had takes a place, but was not read there.
    """
    following = vertical.Correspondence.next
    places: dict[int, int] = {}

    def reading(self: Any) -> Any:
        sender, data = following(self)
        places[sender] = places.get(sender, 0) + 1
        if orders.given["of"] == "site" and self._new is not None:
            orders.see([sender, places[sender]], data.hex())
        return sender, data

    vertical.Correspondence.next = reading  # type: ignore[method-assign]
    if orders.given["of"] == "site":
        vertical.Correspondence.check = lambda self: None  # type: ignore[method-assign]


def _about_memory(orders: Orders) -> None:
    """A coordinator or a site has heard the first so many lines, or one more; a site draws anew."""
    lines, load = RunMemory.lines, RunMemory.load

    def heard(self: RunMemory) -> Iterator[bytes]:
        found = list(lines(self))
        if orders.claim == LATER:
            found += found[-1:]
        yield from found[: orders.claim] if isinstance(orders.claim, int) else found

    def loaded(self: RunMemory) -> bytes | None:
        return (
            None if isinstance(orders.claim, int) and orders.given["of"] == "site" else load(self)
        )

    if orders.given["of"] in ("coordinator", "site"):
        RunMemory.lines = heard  # type: ignore[method-assign]
        RunMemory.load = loaded  # type: ignore[method-assign]
