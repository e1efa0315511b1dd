"""`ModelReport`: what a server tells a member about a model, beside what is needed to ask it.

All of it is public among the members but for one thing: how much the analysts have asked. Owners
and servers see that of all analysts, an analyst its own.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, Strict

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.names import Name


def _printable(text: str) -> str:
    """Refuse what could steer a terminal."""
    if not text.isprintable():
        raise ValueError("text that is not printable")
    return text


Text = Annotated[str, Strict(), Field(max_length=2000), AfterValidator(_printable)]
Count = Annotated[int, Strict(), Field(ge=0)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(Numbered):
    code: ClassVar[Code] = Code.BAD_REPLY


class Learned(_Part):
    """What one audience, or several together, learn of a model: a line of its ledger."""

    audience: Text
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=True)]
    delta: Annotated[float, Field(ge=0, le=1)]
    relation: Text
    why: Text = ""


class Asking(_Part):
    """What an analyst has asked, in rows that are charged, and what it may ask yet."""

    analyst: Name
    asked: Count
    left: Count


class Opened(_Part):
    """A value that training may open: to whom, why, how often it was to be and how often it was."""

    name: Text
    audience: Text
    shape: Text
    why: Text
    declared: Count
    opened: Count


class Sent(_Part):
    """What this server has sent in the run: rounds, and bytes of payload and on the wire."""

    rounds: Count
    payload: Count
    wire: Count


class ModelReport(_Part):
    """A model at one server.

    `populations`, `analysts`: whose data it rests on, and who may ask it.
    `learned`: the ledger, every charge of an answer in it.
    `asking`: of the analysts that the asker may know about; none where the model answers by itself.
    `rows_left`: rows that all analysts together may ask yet; None for an analyst, and where nobody
    counts.
    `sent`: None where nothing was kept of it.
    Raises H884.
    """

    model: Name
    kind: Name
    run: Name
    job: Hash
    populations: tuple[Name, ...]
    analysts: tuple[Name, ...]
    learned: tuple[Learned, ...]
    opened: tuple[Opened, ...]
    asking: tuple[Asking, ...] = ()
    rows_left: Count | None = None
    sent: Sent | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite epsilon is the text ``inf``."""
        fields = self.model_dump()
        for line in fields["learned"]:
            line["epsilon"] = "inf" if math.isinf(line["epsilon"]) else line["epsilon"]
        return fields

    def to_json(self) -> bytes:
        """Write it for the one who asked."""
        return json.dumps(self.to_dict(), allow_nan=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> ModelReport:
        """Read what a server says, hostile or not; H884 for anything else."""
        return cls.model_validate(jsonfile.loads(data, Code.BAD_REPLY))
