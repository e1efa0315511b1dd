"""Sites of one process whose bytes a loop carries: single steps can be seen, counted, changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.protocols.vertical_id3.messages import Token, from_bytes
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.protocols.vertical_id3.tasks import Outgoing
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.tables.ids import id_bytes

Tap = Callable[[int, int, bytes], None]
ToServers = Callable[[int, int, bytes], Mapping[int, bytes]]
Answer = Callable[[int, Mapping[int, bytes]], Mapping[int, bytes]]


class LocalSites:
    """Sites, in the order of their numbers, that talk in this process: real messages, in a loop.

    `tap` sees every message before it arrives; `to_servers` takes those to servers, and returns
    what they answer, by server (`ServerQuestions`). `rounds` are those of the latest call: all
    messages of a round arrive before any that follows from them is sent.
    """

    def __init__(
        self, sites: Sequence[Site], tap: Tap | None = None, to_servers: ToServers | None = None
    ) -> None:
        self.sites = list(sites)
        self.programs = [SiteProgram(site) for site in sites]
        self._tap, self._to_servers = tap, to_servers
        self.rounds = 0

    def grow(self) -> Token:
        """Train; returns the token of the root."""
        waiting = [(own.site.index, own.begin()) for own in self.programs]
        self._carry(waiting)
        root = self.sites[self.sites[0].job.starter].root
        assert root is not None
        assert all(program.idle for program in self.programs)
        for site in self.sites:
            site.end_growth()
        return root

    def classify(
        self,
        root: Token,
        ids: NDArray[Any],
        bins: Sequence[NDArray[Any]],
        asker: int = 0,
    ) -> NDArray[np.int64] | None:
        """Have a site ask for the classes of instances, of which each site knows its own bins.

        Returns class counts of the leaves, int64 (n, c); None where the class site keeps them.
        """
        for site, own in zip(self.sites, bins, strict=True):
            site.offer(ids, own)
        answers: list[NDArray[np.int64] | None] = []
        out = self.programs[asker].ask(root, id_bytes(ids), answers.append)
        self._carry([(asker, out)])
        return answers[0]

    def _carry(self, begun: list[tuple[int, list[Outgoing]]]) -> None:
        waiting = [(sender, item) for sender, out in begun for item in out]
        self.rounds = 0
        while waiting:
            self.rounds += 1
            waiting = [(sender, more) for at in waiting for sender, more in self._arrive(*at)]

    def _arrive(self, sender: int, item: Outgoing) -> list[tuple[int, Outgoing]]:
        """Bring one message; returns what is sent because of it, and by whom."""
        if self._tap is not None:
            self._tap(sender, item.to, item.data)
        if item.to < len(self.sites):
            return [(item.to, more) for more in self.programs[item.to].receive(sender, item.data)]
        assert self._to_servers is not None
        answers = self._to_servers(sender, item.to - len(self.sites), item.data)
        return [
            (len(self.sites) + server, Outgoing(sender, data)) for server, data in answers.items()
        ]


class ServerQuestions:
    """Brings the servers their questions, when all three are there; `answer` is by server."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._asked: dict[tuple[int, int], dict[int, bytes]] = {}

    def __call__(self, sender: int, server: int, data: bytes) -> Mapping[int, bytes]:
        """Take one question; returns what the servers answer, once they have all of it."""
        at = sender, from_bytes(data, f"site {sender}").call
        asked = self._asked.setdefault(at, {})
        asked[server] = data
        return self._answer(sender, self._asked.pop(at)) if len(asked) == SERVERS else {}
