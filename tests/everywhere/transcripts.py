"""What parties send and open, noted at the places that nothing gets past, wherever they run.

`note_all` wraps `Network.exchange` and `post`, through which every byte leaves, `Leakage.check`,
which every opening asks, and what engines open. Processes of others note into a folder, which
``watching/sitecustomize.py`` has them do: put that folder on their path, and `WHERE` in their
environment.
"""

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgerow.net.network import Network
from hedgerow.privacy import Leakage
from hedgerow.secure.party_engine import PartyEngine

WHERE = "HEDGEROW_TRANSCRIPTS"
Line = list[Any]
Note = Callable[[Line], None]


def note_all(note: Note, patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Have all noted that leaves from here or is opened here, with the thread that does it."""
    exchange, post, check, opens = (
        Network.exchange,
        Network.post,
        Leakage.check,
        PartyEngine.open,
    )

    def exchanging(self: Network, step: str, plan: Any, outbox: Any) -> Any:
        found = exchange(self, step, plan, outbox)
        for route in plan:
            if route.source in self.local:
                _sent(self, step, route.source, route.destination, route.nbytes)
        return found

    def posting(self: Network, step: str, source: int, destination: int, data: bytes) -> None:
        post(self, step, source, destination, data)
        _sent(self, step, source, destination, len(data))

    def _sent(network: Network, *what: Any) -> None:
        note(["sent", threading.get_ident(), list(network.local), *what])

    def checking(self: Leakage, name: str, to: str, shape: Any, times: int = 1) -> None:
        check(self, name, to, shape, times)
        # Servers rehearse in the clear, on nobody's rows, what they will publish.
        if sys._getframe(1).f_globals["__name__"] != "hedgerow.secure.clear":
            note(["opened", threading.get_ident(), name, to, list(map(int, shape)), times])

    def opening(self: PartyEngine, x: Any, name: str, to: str) -> Any:
        found = opens(self, x, name, to)
        if found is not None:
            note(["value", threading.get_ident(), name, to, found.tolist()])
        return found

    patch(Network, "exchange", exchanging)
    patch(Network, "post", posting)
    patch(Leakage, "check", checking)
    patch(PartyEngine, "open", opening)


def note_process(words: list[str]) -> None:
    """Note what this process does in a file of its own, which begins with what it was told."""
    path = Path(os.environ[WHERE], f"{os.getpid()}.jsonl")
    file = path.open("a", buffering=1, encoding="utf-8")
    lock = threading.Lock()

    def note(line: Line) -> None:
        with lock:
            file.write(json.dumps(line) + "\n")

    note(words)
    note_all(note)


@dataclass(frozen=True)
class Transcript:
    """What was sent between any two parties, in order, and opened at each; numbers of parties.

    `sent` has step and bytes; `opened` has name, audience, shape and times, `values` what engines
    have opened to all servers, or to all peers.
    """

    sent: dict[tuple[int, int], list[tuple[str, int]]] = field(default_factory=dict)
    opened: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    values: dict[int, list[tuple[str, Any]]] = field(default_factory=dict)

    @property
    def payload(self) -> dict[tuple[str, int], int]:
        """Bytes by step and sender, as meters count them."""
        found: dict[tuple[str, int], int] = defaultdict(int)
        for (source, _), messages in self.sent.items():
            for step, size in messages:
                found[step, source] += size
        return dict(found)


def transcript_of(processes: Iterable[Iterable[Line]]) -> Transcript:
    """Put together what the processes of a run have noted."""
    made = Transcript(defaultdict(list), defaultdict(list), defaultdict(list))
    for lines in processes:
        lines = list(lines)
        # In one process an endpoint has a thread, and several parties may share an endpoint.
        seats = {line[1]: line[2] for line in lines if line[0] == "sent"}
        for kind, thread, *what in lines:
            if kind == "sent":
                _, step, source, destination, size = what
                made.sent[source, destination].append((step, size))
                continue
            for party in seats[thread]:
                if kind == "opened":
                    name, to, shape, times = what
                    made.opened[party].append((name, to, tuple(shape), times))
                elif what[1] in ("server", "peer"):
                    made.values[party].append((what[0], what[2]))
    return made


def noted_by(folder: Path, *words: str) -> list[list[Line]]:
    """Return what processes have noted that were started with all of these words."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        argv, *lines = map(json.loads, path.read_text().splitlines())
        if all(any(word in one for one in argv) for word in words):
            found.append(lines)
    return found
