"""`GridNetwork`: the coordinator's mail to owners, over Flower's grid.

A question is a message to the owner's SuperNode, and the reply is its answer. The grid is asked for
replies again and again; its own `send_and_receive` looks every three seconds, which is longer than
an owner takes to answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from logging import WARNING
from typing import Any

from flwr.app import Message
from flwr.common.logger import log
from flwr.serverapp import Grid

from hedgerow.net.frames import late, long_mail
from hedgerow.protocols.topdown.programs import ASK
from topdown_app.messages import ANSWER, NAME, MailNetwork, read_field, record

ASK_AGAIN = 2.0
"""Seconds after which a node is asked again that has failed."""


@dataclass(frozen=True)
class Question:
    """What an owner has yet to answer, until when."""

    ask: bytes
    end: float


@dataclass(frozen=True)
class Flight:
    """A message that waits for its reply; party 0 if the node was asked who it is."""

    node: int
    party: int


class GridNetwork(MailNetwork):
    """The network of the coordinator, number 0 of `members`, in one attempt.

    A node is known by the name that it was registered with at the SuperLink. One without a name is
    asked for it, and believed: where that is not good enough, register nodes with their names.
    `names` are those of nodes that are known already, and is added to.

    Whoever has failed or refuses is asked again. H803 once somebody has not answered `wait`
    seconds after the question, and its name is in `late` then. An owner is there for one message
    at a time: the end, and the tree, are not sent.
    """

    def __init__(
        self,
        grid: Grid,
        members: Sequence[str],
        job: str,
        names: dict[int, str],
        *,
        wait: float,
        poll: float,
        clock: Any = time,
    ) -> None:
        super().__init__(len(members), [0])
        self.late: set[str] = set()
        self._grid, self._members, self._job, self._names = grid, members, job, names
        self._wait, self._poll, self._clock = wait, poll, clock
        self._questions: dict[int, Question] = {}
        self._answers: dict[int, bytes] = {}
        self._flights: dict[str, Flight] = {}
        self._not_before: dict[int, float] = {}
        self._said: dict[int, str] = {}

    def _post(self, step: str, source: int, destination: int, data: bytes) -> None:
        if step == ASK and data:
            self._questions[destination] = Question(data, self._clock.monotonic() + self._wait)
            self.meter.record(step, source, rounds=0, payload=len(data), wire=len(data))

    def _receive(
        self, step: str, at: int, senders: tuple[int, ...], timeout: float | None
    ) -> tuple[int, bytes]:
        del timeout
        while True:
            self._send()
            self._pull()
            for sender in senders:
                if sender in self._answers:
                    answer = self._answers.pop(sender)
                    if len(answer) > self.most_mail:
                        raise long_mail(sender, step, len(answer), self.most_mail)
                    return sender, answer
            now = self._clock.monotonic()
            self.late = {self._members[one] for one in senders if self._questions[one].end <= now}
            if self.late:
                raise late(step, f"hear {', '.join(sorted(self.late))}", self._wait)
            self._clock.sleep(self._poll)

    def _send(self) -> None:
        if not self._questions:
            return
        now, nodes = self._clock.monotonic(), self._nodes()
        for party, question in self._questions.items():
            node = nodes.get(self._members[party])
            if node is not None and question.end > now:
                content = record(ask=question.ask, job=self._job)
                message = Message(content, node, ANSWER, ttl=question.end - now)
                self._push(message, Flight(node, party))

    def _nodes(self) -> dict[str, int]:
        """Return the nodes by name; look for more of them while some are missing."""
        if not {self._members[one] for one in self._questions} <= set(self._names.values()):
            for one in self._grid.get_nodes():
                if one.node_id in self._names:
                    continue
                if one.name:
                    self._know(one.node_id, one.name)
                else:
                    message = Message(record(), one.node_id, NAME, ttl=self._wait)
                    self._push(message, Flight(one.node_id, 0))
        # The first one of a name is the one that is asked.
        return {name: node for node, name in reversed(self._names.items())}

    def _know(self, node: int, name: str) -> None:
        if name in self._members and name in self._names.values():
            log(WARNING, "node %d also says that it is %s, and is not asked", node, name)
        self._names[node] = name

    def _push(self, message: Message, flight: Flight) -> None:
        """Send a message, unless one is on the way to that node, or has just failed there."""
        flying = any(flight.node == one.node for one in self._flights.values())
        if flying or self._not_before.get(flight.node, 0.0) > self._clock.monotonic():
            return
        # One by one: of several, not every grid says which were not taken.
        taken = [each for each in self._grid.push_messages([message]) if each]
        if taken:
            self._flights[taken[0]] = flight
        else:
            self._fail(flight, "the SuperLink did not take the message")

    def _pull(self) -> None:
        if not self._flights:
            return
        for reply in self._grid.pull_messages(set(self._flights)):
            flight = self._flights.pop(reply.metadata.reply_to_message_id, None)
            if flight is not None:
                self._hear(flight, reply)

    def _hear(self, flight: Flight, reply: Message) -> None:
        if reply.has_error():
            self._fail(flight, reply.error.reason or f"error {reply.error.code}")
        elif reply.metadata.src_node_id != flight.node:
            self._fail(flight, f"a reply of node {reply.metadata.src_node_id}")
        elif not flight.party:
            self._know(flight.node, read_field(reply.content, "name", str) or "")
        elif (answer := read_field(reply.content, "answer", bytes)) is None:
            self._fail(flight, "a reply without an answer")
        else:
            del self._questions[flight.party]
            self._answers[flight.party] = answer

    def _fail(self, flight: Flight, why: str) -> None:
        if self._said.get(flight.node) != why:
            log(WARNING, "%s: %s", self._names.get(flight.node) or f"node {flight.node}", why)
            self._said[flight.node] = why
        self._not_before[flight.node] = self._clock.monotonic() + ASK_AGAIN
