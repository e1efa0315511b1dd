"""The ClientApp: an owner that answers the questions of the coordinator.

Everything that leaves has noise already: the ServerApp, the SuperLink and whoever runs them see the
answers, and nothing else of the table.
"""

from __future__ import annotations

from logging import ERROR, INFO
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from hedgerow.errors import Code, HedgerowError
from topdown_app.messages import read_field, record, refusal
from topdown_app.owner_folder import NOTHING_SEEN, OwnerFolder

app = ClientApp()


@app.query("name")
def name(message: Message, context: Context) -> Message:
    """Say who this node is, for a coordinator that nobody has told."""
    try:
        return Message(record(name=OwnerFolder(_folder(context)).name), reply_to=message)
    except Exception as error:
        return _refused(error, message)


@app.train("answer")
def answer_question(message: Message, context: Context) -> Message:
    """Answer a question, or refuse without a word about the table.

    Flower keeps the last round for the node. What it knows may be older than the owner's state: it
    is taken after the answer has left, and a node that was started anew has none.

    Reveals: the noisy answer, to the coordinator; see `OwnerFolder.answer`.
    """
    seen = read_field(context.state, "round", int)
    try:
        ask = read_field(message.content, "ask", bytes)
        job = read_field(message.content, "job", str)
        if not ask or job is None:
            raise Code.BAD_ASK.error(found="a message without a question")
        owner = OwnerFolder(_folder(context))
        answer, last = owner.answer(ask, job, NOTHING_SEEN if seen is None else seen)
    except Exception as error:
        return _refused(error, message)
    context.state.update(record(round=last))
    log(INFO, "%s answers with %d noisy bytes", owner.name, len(answer))
    return Message(record(answer=answer), reply_to=message)


def _folder(context: Context) -> Path:
    """Return this owner's folder: its operator names it, and in a simulation the run does."""
    own = context.node_config.get("folder")
    if own is not None:
        return Path(str(own))
    among, number = context.run_config.get("simulated-owners"), context.node_config["partition-id"]
    if not among:
        raise Code.BAD_PARTY_FILE.error(
            expected="the owner's folder in --node-config, or simulated-owners in --run-config",
            found="neither",
        )
    return sorted(Path(str(among)).iterdir())[int(number)]


def _refused(error: Exception, message: Message) -> Message:
    log(ERROR, "refused", exc_info=error)
    return refusal(error.code if isinstance(error, HedgerowError) else None, message)
