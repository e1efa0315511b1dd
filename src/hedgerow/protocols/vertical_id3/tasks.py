"""Tasks: protocol steps as generators that send messages and wait for others, without any I/O.

A task yields `Send` and goes on at once, or yields `Wait` and is resumed with the messages it
waited for. `Desk` runs the tasks of one site: it takes the bytes that arrived and returns those to
send. Who carries them is not its business.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from hedgerow.protocols.vertical_id3.messages import Message, bad_message, from_bytes, to_bytes

Result = TypeVar("Result")


class Send(NamedTuple):
    """Send a message to a site; to oneself it is handed over without a wire."""

    to: int
    message: Message


class Wait(NamedTuple):
    """Wait for `n` messages of a kind in a call, in the order of their arrival."""

    call: int
    kind: type[Message]
    n: int = 1


@dataclass(frozen=True)
class All:
    """Run several tasks side by side and wait for the results of all, in order."""

    tasks: tuple[Task[Any], ...]


Task = Generator[Send | Wait | All, Any, Result]


class Outgoing(NamedTuple):
    """Bytes for another site."""

    to: int
    data: bytes


class Received(NamedTuple):
    """A message and who sent it."""

    sender: int
    message: Message


Handler = Callable[[int, Message], "Task[None] | None"]


class Desk:
    """The tasks of one site.

    The handler returns the task that a message begins here, or None if its kind is waited for.
    Messages of `early` kinds may come before that, one of a kind from each other site; whatever
    else nobody waits for is refused.
    """

    def __init__(
        self, index: int, n_sites: int, handler: Handler, early: tuple[type[Message], ...] = ()
    ) -> None:
        self.index = index
        self.n_sites = n_sites
        self._handler = handler
        self._early = early
        self._inbox: dict[tuple[int, type[Message]], list[Received]] = defaultdict(list)
        self._waiting: dict[tuple[int, type[Message]], tuple[int, Callable[[Any], None]]] = {}
        self._ready: deque[Callable[[], None]] = deque()
        self._out: list[Outgoing] = []

    def start(self, task: Task[Result], done: Callable[[Result], None]) -> list[Outgoing]:
        """Begin a task; `done` gets its result. Returns what is to be sent now."""
        self._run(task, done)
        return self._flush()

    def receive(self, sender: int, data: bytes) -> list[Outgoing]:
        """Take one message in; H752 for bytes that are none, or whatever a step refuses."""
        name = f"site {sender}"
        if not 0 <= sender < self.n_sites or sender == self.index:
            raise bad_message(name, "a message of no other site of this run")
        self._deliver(sender, from_bytes(data, name))
        return self._flush()

    @property
    def idle(self) -> bool:
        """Whether nothing is waited for and nothing lies unread."""
        return not self._waiting and not any(self._inbox.values())

    def _flush(self) -> list[Outgoing]:
        while self._ready:
            self._ready.popleft()()
        out, self._out = self._out, []
        return out

    def _deliver(self, sender: int, message: Message) -> None:
        task = self._handler(sender, message)
        if task is not None:
            self._run(task, lambda _: None)
            return
        key = (message.call, type(message))
        if key not in self._waiting:
            unread = sender != self.index and any(
                of == key[1] and any(one.sender == sender for one in found)
                for (_, of), found in self._inbox.items()
            )
            if unread or not isinstance(message, self._early):
                raise bad_message(f"site {sender}", f"{key[1].__name__} that nobody waits for")
        self._inbox[key].append(Received(sender, message))
        self._look(key)

    def _look(self, key: tuple[int, type[Message]]) -> None:
        if key in self._waiting and len(self._inbox[key]) >= self._waiting[key][0]:
            n, resume = self._waiting.pop(key)
            found, rest = self._inbox[key][:n], self._inbox[key][n:]
            self._inbox[key] = rest
            if not rest:
                del self._inbox[key]
            self._ready.append(lambda: resume(found))

    def _run(self, task: Task[Any], done: Callable[[Any], None]) -> None:
        def advance(value: Any) -> None:
            while True:
                try:
                    effect = task.send(value)
                except StopIteration as stop:
                    done(stop.value)
                    return
                value = None
                if isinstance(effect, Send):
                    self._send(effect)
                elif isinstance(effect, Wait):
                    key = (effect.call, effect.kind)
                    self._waiting[key] = (effect.n, advance)
                    self._look(key)
                    return
                else:
                    self._side_by_side(effect.tasks, advance)
                    return

        self._ready.append(lambda: advance(None))

    def _send(self, effect: Send) -> None:
        if effect.to == self.index:
            self._ready.append(lambda: self._deliver(self.index, effect.message))
        else:
            self._out.append(Outgoing(effect.to, to_bytes(effect.message)))

    def _side_by_side(self, tasks: tuple[Task[Any], ...], resume: Callable[[Any], None]) -> None:
        results: dict[int, Any] = {}

        def collect(i: int) -> Callable[[Any], None]:
            def done(value: Any) -> None:
                results[i] = value
                if len(results) == len(tasks):
                    resume([results[j] for j in range(len(tasks))])

            return done

        if not tasks:
            self._ready.append(lambda: resume([]))
        for i, task in enumerate(tasks):
            self._run(task, collect(i))
