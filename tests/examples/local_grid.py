"""A grid in this process: messages go to the real ClientApp, in the context of their node."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from flwr.app import Context, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from topdown_app.client_app import app


@dataclass
class LocalGrid(Grid):
    """Carries messages between a `Carrying` and owners' folders.

    Attributes
    ----------
    folders : dict of str to Path
        Of the owners, by the names that their nodes are registered with.
    named : bool
        Whether nodes are registered with names.
    silent : set of str
        Whose messages get lost.
    replies : list of Message
        All that came back.
    """

    folders: dict[str, Path]
    named: bool = True
    silent: set[str] = field(default_factory=set)
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
        found = []
        for key in message_ids:
            if key in self.waiting:
                message = self.waiting.pop(key)
                reply = app(message, self.contexts[message.metadata.dst_node_id])
                found.append(reply)
        self.replies += found
        return found
