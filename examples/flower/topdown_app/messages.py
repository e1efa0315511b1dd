"""What goes through Flower: one record with bytes there, one with bytes back."""

from __future__ import annotations

from flwr.app import ConfigRecord, Error, Message, RecordDict

from hedgerow.errors import Code

ANSWER = "train.answer"
"""Type of a message with a question."""
NAME = "query.name"
"""Type of a message that asks who a node is."""

REFUSED = 100
"""Error of a node that refuses, above the numbers that Flower uses itself."""

_ABOUT_THE_PROTOCOL = frozenset(
    {
        Code.BAD_ASK,
        Code.ASKED_TWICE,
        Code.ANSWERS_LOST,
        Code.JOBS_DIFFER,
        Code.POLICY_REFUSES,
        Code.JOURNAL_IN_USE,
    }
)


def question(ask: bytes, job: str, node: int, number: int, ttl: float) -> Message:
    """Return the message with a question.

    Parameters
    ----------
    ask : bytes
    job : str
        Hash of the coordinator's job.
    node : int
        Of the SuperNode.
    number : int
        Of the round.
    ttl : float
        Seconds after which nobody needs the answer.
    """
    content = RecordDict({"ask": ConfigRecord({"bytes": ask, "job": job})})
    return Message(content, node, ANSWER, ttl=ttl, group_id=str(number))


def read_question(message: Message) -> tuple[bytes, str]:
    """Return the question and the hash of the job; H820 if there are none."""
    record = message.content.config_records.get("ask")
    ask, job = (None, None) if record is None else (record.get("bytes"), record.get("job"))
    if not isinstance(ask, bytes) or not isinstance(job, str):
        raise Code.BAD_ASK.error(found="a message without a question")
    return ask, job


def answer(data: bytes, private: bool, to: Message) -> Message:
    """Return the message with an answer, and whether its noise was drawn as it must be."""
    content = RecordDict({"answer": ConfigRecord({"bytes": data, "private": private})})
    return Message(content, reply_to=to)


def read_answer(reply: Message) -> tuple[bytes, bool]:
    """Return what `answer` was given; H822 for anything else."""
    record = reply.content.config_records.get("answer")
    data, private = (None, None) if record is None else (record.get("bytes"), record.get("private"))
    if not isinstance(data, bytes) or not isinstance(private, bool):
        raise Code.BAD_ANSWER.error(found="a message without an answer")
    return data, private


def name_question(node: int, ttl: float) -> Message:
    """Return the message that asks a node for its name."""
    return Message(RecordDict(), node, NAME, ttl=ttl)


def name_answer(name: str, to: Message) -> Message:
    """Return the message with a node's name."""
    return Message(RecordDict({"owner": ConfigRecord({"name": name})}), reply_to=to)


def read_name(reply: Message) -> str:
    """Return the name that a node says it has; empty if it says none."""
    if reply.has_error():
        return ""
    record = reply.content.config_records.get("owner")
    name = None if record is None else record.get("name")
    return name if isinstance(name, str) else ""


def refusal(code: Code | None, to: Message) -> Message:
    """Return the message of an owner that does not answer.

    Texts of errors name rows and files, for the owner's eyes alone. The number leaves only where it
    is about the protocol: whether a table could be read, or has too many rows, depends on the rows.
    """
    number = f"H{code.value}" if code in _ABOUT_THE_PROTOCOL and code is not None else "no number"
    return Message(Error(REFUSED, f"refused, {number}; the owner's log says why"), reply_to=to)
