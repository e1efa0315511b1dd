"""Carry questions and answers over Flower's grid until the tree is grown.

The grid is asked for replies again and again; its own `send_and_receive` looks every three seconds,
which is longer than an owner takes to answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from logging import INFO, WARNING

from flwr.app import Message
from flwr.common.logger import log
from flwr.serverapp import Grid
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.rounds import Rounds
from hedgerow.parties.topdown.turns import digest

from hedgerow.errors import HedgerowError
from topdown_app.messages import name_question, question, read_answer, read_name

LOOK_FOR_NODES = 1.0
ASK_AGAIN = 2.0
"""Seconds after which a node is asked again that has failed."""


@dataclass(frozen=True)
class Flight:
    """A message that waits for its reply.

    Attributes
    ----------
    node : int
    owner : str
        Empty if the node was asked who it is.
    ask : bytes
        The question.
    end : float
        When nobody waits for it any more, by the clock.
    """

    node: int
    owner: str
    ask: bytes
    end: float


class Carrying:
    """The way between a run and its owners' SuperNodes; `carry` sees it through.

    A node is known by the name that it was registered with at the SuperLink. One without a name is
    asked for it, and believed: where that is not good enough, register nodes with their names.

    Parameters
    ----------
    grid : Grid
    rounds : Rounds
        Decides who is asked what, and what becomes of those who do not answer.
    job : TopDownJob
    poll : float
        Seconds between two looks.
    clock, sleep : callable
    """

    def __init__(
        self,
        grid: Grid,
        rounds: Rounds,
        job: TopDownJob,
        *,
        poll: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.grid, self.rounds, self.job, self.poll = grid, rounds, job, poll
        self.nodes: dict[str, int] = {}
        self.seconds: list[float] = []
        self._clock, self._sleep = clock, sleep
        self._flights: dict[str, Flight] = {}
        self._not_before: dict[str, float] = {}
        self._asked_names: set[int] = set()
        self._said: dict[int, str] = {}
        self._next_look = -1.0

    def carry(self) -> None:
        """Carry until the model is there; raise what has stopped the run otherwise."""
        begun, number = self._clock(), self.rounds.status().round
        while self.rounds.model is None and self.rounds.error is None:
            self.rounds.tick()
            self._look_for_nodes()
            self._send()
            self._receive()
            now = self.rounds.status().round
            if now != number:
                self.seconds.append(self._clock() - begun)
                log(INFO, "round %d took %.1f seconds", number, self.seconds[-1])
                begun, number = self._clock(), now
            elif self.rounds.model is None and self.rounds.error is None:
                self._sleep(self.poll)
        if self.rounds.error is not None:
            raise self.rounds.error

    def _look_for_nodes(self) -> None:
        missing = set(self.job.owners) - set(self.nodes)
        if not missing or self._clock() < self._next_look:
            return
        self._next_look = self._clock() + LOOK_FOR_NODES
        for node in self.grid.get_nodes():
            if node.name:
                self._found(node.name, node.node_id)
            elif node.node_id not in self._asked_names:
                self._asked_names.add(node.node_id)
                ttl = self.job.timeouts.join
                self._push(
                    name_question(node.node_id, ttl),
                    Flight(node.node_id, "", b"", self._clock() + ttl),
                )

    def _found(self, name: str, node: int) -> None:
        if name not in self.job.owners:
            return
        if self.nodes.setdefault(name, node) != node:
            log(WARNING, "node %d also says that it is %s, and is not asked", node, name)

    def _send(self) -> None:
        flying = {flight.owner for flight in self._flights.values()}
        for name in self.rounds.status().waiting_for:
            wait = self._not_before.get(name, 0.0) > self._clock()
            if name not in self.nodes or name in flying or wait:
                continue
            turn = self.rounds.next(name, 0.0)
            if turn.state == "ask":
                node, ttl = self.nodes[name], self.job.timeouts.answer
                message = question(turn.payload, self.job.hash, node, turn.round, ttl)
                self._push(message, Flight(node, name, turn.payload, self._clock() + ttl))

    def _push(self, message: Message, flight: Flight) -> None:
        # One by one: of several, not every grid says which were not taken.
        taken = [each for each in self.grid.push_messages([message]) if each]
        if taken:
            self._flights[taken[0]] = flight
        else:
            self._failed(flight, "the SuperLink did not take the message")

    def _receive(self) -> None:
        if not self._flights:
            return
        for reply in self.grid.pull_messages(set(self._flights)):
            flight = self._flights.pop(reply.metadata.reply_to_message_id, None)
            if flight is not None:
                self._hear(flight, reply)
        for key, flight in list(self._flights.items()):
            if flight.end <= self._clock():
                del self._flights[key]

    def _hear(self, flight: Flight, reply: Message) -> None:
        if reply.has_error():
            self._failed(flight, reply.error.reason or f"error {reply.error.code}")
        elif reply.metadata.src_node_id != flight.node:
            self._failed(flight, f"a reply of node {reply.metadata.src_node_id}")
        elif not flight.owner:
            self._found(read_name(reply), flight.node)
        else:
            try:
                data, private = read_answer(reply)
                self.rounds.answer(flight.owner, digest(flight.ask), data, private=private)
            except HedgerowError as error:
                self._failed(flight, str(error))

    def _failed(self, flight: Flight, why: str) -> None:
        """Ask again in a while; who has failed until its time is over is late, as any other."""
        if self._said.get(flight.node) != why:
            log(WARNING, "%s: %s", flight.owner or f"node {flight.node}", why)
            self._said[flight.node] = why
        self._not_before[flight.owner] = self._clock() + ASK_AGAIN
        if not flight.owner:
            self._asked_names.discard(flight.node)
