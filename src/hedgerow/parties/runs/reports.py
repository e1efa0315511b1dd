"""What parties tell of runs, hostile or not: the replies to ``runs`` and ``run-show``.

A party of a later release may tell more, which is left aside.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, Strict

from hedgerow.parties.consortium.names import Name
from hedgerow.parties.wire.replies import Amount, Count, Hash, Moment, ReportPart, Text
from hedgerow.parties.wire.requests import parse_error, printable

State = Literal["accepted", "waiting", "running", "done", "failed", "stopped"]

_MOST_RUNS = 1 << 10

# What is expected of the time that is left takes a step for every level.
_Depth = Annotated[int, Strict(), Field(ge=-1, le=1 << 20)]
_Number = Annotated[int, Strict(), Field(ge=-1, lt=1 << 53)]


def _check_error(found: Any) -> Any:
    parse_error(found, "")
    return found


class RunPart(ReportPart):
    """A part of what is told of a run."""

    model_config = ConfigDict(extra="ignore")


class RunProgress(RunPart):
    """The last line of a worker; numbers that it has not told, or may not tell, are left out.

    `bytes`, `rounds`: sent in this attempt. `prepared`: whether they were made ahead.
    """

    event: Text = ""
    level: _Number = -1
    nodes: _Number = -1
    bytes: Count | None = None
    rounds: Count | None = None
    seconds: Amount = 0.0
    prepared: bool | None = None


class RunHeading(RunPart):
    """Which run it is, and its state at one party."""

    run: Name
    job: Name
    hash: Hash
    protocol: Name
    model: Name
    state: State
    attempt: Count
    created: Moment
    by: Name


class RunLine(RunHeading):
    """A run in the list of a party; `error` is the name of one."""

    error: Text | None = None


class RunList(RunPart):
    """The last runs of a party."""

    runs: Annotated[tuple[RunLine, ...], Field(max_length=_MOST_RUNS)]


class RunReport(RunHeading):
    """A run at one party; `error` has the parts of one, `reason` is why somebody is waited for."""

    error: Annotated[dict[str, Any] | None, AfterValidator(_check_error)] = None
    generation: Count
    depth: _Depth
    members: tuple[Name, ...]
    waiting_for: tuple[Name, ...] = ()
    reason: Annotated[str, Strict(), AfterValidator(printable)] | None = None
    without: tuple[Name, ...] = ()
    progress: RunProgress = RunProgress()
