"""The ClientApp: an owner that answers the questions of the coordinator.

Everything that leaves has noise already: the ServerApp, the SuperLink and whoever runs them see the
answers, and nothing else of the table.
"""

from __future__ import annotations

from logging import ERROR, INFO
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from hedgerow.errors import Code, HedgerowError
from topdown_app.messages import answer, name_answer, read_question, refusal
from topdown_app.owner_folder import OwnerFolder

app = ClientApp()

STATE = "topdown"
"""Record of the node's state."""


@app.query("name")
def name(message: Message, context: Context) -> Message:
    """Say who this node is, for a coordinator that nobody has told."""
    try:
        return name_answer(OwnerFolder(_folder(context)).name, message)
    except Exception as error:
        return _refused(error, message)


@app.train("answer")
def answer_question(message: Message, context: Context) -> Message:
    """Answer a question, or refuse without a word about the table.

    Reveals: the noisy answer, to the coordinator; see `OwnerFolder.answer`.
    """
    try:
        ask, job = read_question(message)
        owner = OwnerFolder(_folder(context))
        said, state = owner.answer(ask, job, _kept(context))
    except Exception as error:
        return _refused(error, message)
    context.state.config_records[STATE] = ConfigRecord({"state": state})
    log(INFO, "%s answers with %d noisy bytes", owner.name, len(said))
    return answer(said, owner.private, message)


def _kept(context: Context) -> bytes | None:
    record = context.state.config_records.get(STATE)
    state = None if record is None else record["state"]
    return state if isinstance(state, bytes) else None


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
