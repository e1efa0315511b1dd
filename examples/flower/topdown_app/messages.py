"""What goes through Flower: a record of bytes, words and numbers there, and one back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from flwr.app import ConfigRecord, Error, Message, RecordDict

from hedgerow.errors import Code
from hedgerow.net.network import Array, Network, Route
from hedgerow.parties.topdown.job import TopDownJob

ANSWER = "train.answer"
"""Type of a message with a question."""
NAME = "query.name"
"""Type of a message that asks who a node is."""

REFUSED = 100
"""Error of a node that refuses, above the numbers that Flower uses itself."""

_RECORD = "topdown"
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

Field = TypeVar("Field", bytes, str, int)


def load_job(path: str | Path) -> TopDownJob:
    """Read a party's own copy of the job; H885 also for one that needs servers."""
    job = TopDownJob.load(path)
    if job.plan.method == "secure-counts":
        raise Code.BAD_JOB.error(
            expected="method 'noisy-counts' or 'local-rnm', whose answers need no servers",
            found="method = 'secure-counts'",
        )
    return job


def record(**fields: Field) -> RecordDict:
    """Return the content of a message, or what is kept for a node."""
    return RecordDict({_RECORD: ConfigRecord(fields)})


def read_field(content: RecordDict, name: str, kind: type[Field]) -> Field | None:
    """Return a field of a record that `record` has made; None for anything else."""
    found = content.config_records.get(_RECORD, {}).get(name)
    return found if isinstance(found, kind) else None


class MailNetwork(Network):
    """A network on which nobody is in lock-step."""

    def _move(
        self, step: str, plan: Sequence[Route], outbox: Mapping[int, Array]
    ) -> dict[int, Array]:
        del plan, outbox
        raise Code.NO_CHANNEL.error(expected="mail alone, over Flower", found=f"step {step!r}")


def refusal(code: Code | None, to: Message) -> Message:
    """Return the message of an owner that does not answer.

    Texts of errors name rows and files, for the owner's eyes alone. The number leaves only where it
    is about the protocol: whether a table could be read, or has changed, depends on the rows.
    """
    number = f"H{code.value}" if code in _ABOUT_THE_PROTOCOL and code is not None else "no number"
    return Message(Error(REFUSED, f"refused, {number}; the owner's log says why"), reply_to=to)
