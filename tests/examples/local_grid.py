"""A grid in this process: messages go to the real ClientApp, in the context of their node."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from topdown_app.client_app import app


class ProcessKilledError(BaseException):
    """Stands for the end of a process."""


@dataclass
class LocalGrid(Grid):
    """Carries messages between a `GridNetwork` and owners' folders.

    `folders` are those of owners, by the names that their nodes are registered with, if they are
    `named`. Messages to who is `silent` get lost. `before` is told who is about to get a message;
    a node that is killed, there or while it answers, is reported as Flower does it.
    """

    folders: dict[str, Path]
    named: bool = True
    silent: set[str] = field(default_factory=set)
    before: Callable[[str, Message], None] = lambda name, message: None
    replies: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Whoever makes a message in this process is the ServerApp, which Flower calls node 1.
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.contexts = {
            i + 2: Context(1, i + 2, {"folder": str(folder)}, RecordDict(), {})
            for i, folder in enumerate(self.folders.values())
        }
        self.names = dict(zip(self.contexts, self.folders, strict=True))
        self.waiting: dict[str, Message] = {}
        self.sent: list[tuple[str, Message]] = []

    def forget(self, name: str) -> None:
        """Start a node anew: what Flower kept for it is gone."""
        node = next(node for node, its in self.names.items() if its == name)
        self.contexts[node].state = RecordDict()

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise NotImplementedError

    def send_and_receive(self, *args: object, **kwargs: object) -> list[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def get_nodes(self) -> list[NodeInfo]:
        return [
            NodeInfo(node_id=node, name=self.names[node] if self.named else None)
            for node in self.contexts
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            ids.append(message.metadata.message_id)
            name = self.names[message.metadata.dst_node_id]
            self.sent.append((name, message))
            if name not in self.silent:
                self.waiting[ids[-1]] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        due = [key for key in self.waiting if key in set(message_ids)]
        found = [self._reply(self.waiting.pop(key)) for key in due]
        self.replies += found
        return found

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        try:
            self.before(self.names[node], message)
            return app(message, self.contexts[node])
        except ProcessKilledError:
            return Message(Error(ErrorCode.CLIENT_APP_CRASHED), reply_to=message)
