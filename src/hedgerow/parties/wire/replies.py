"""The parts of what another party tells, which may be hostile: checked before any of it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, Field, Strict

from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.wire.client import Reply

_LAST_SECOND = 253_402_300_799
"""Of the year 9999, after which there are no dates."""

Told = TypeVar("Told")


def _printable(text: str) -> str:
    """Refuse what could steer a terminal."""
    if not text.isprintable():
        raise ValueError("text that is not printable")
    return text


Text = Annotated[str, Strict(), Field(max_length=2000), AfterValidator(_printable)]
Count = Annotated[int, Strict(), Field(ge=0)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Moment = Annotated[float, Field(ge=0, le=_LAST_SECOND)]


class ReportPart(Numbered):
    """What a party tells, hostile or not; H884."""

    code: ClassVar[Code] = Code.BAD_REPLY


def read_each(
    replies: Mapping[str, Reply | HedgerowError], parse: Callable[[Reply], Told]
) -> dict[str, Told | HedgerowError]:
    """Read replies, also of somebody hostile: H884 in the place of one that is none."""
    found: dict[str, Told | HedgerowError] = {}
    for name, reply in replies.items():
        try:
            found[name] = parse(reply) if isinstance(reply, Reply) else reply
        except HedgerowError as error:
            # Whatever is wrong with it, it is the reply that is.
            bad = Code.BAD_REPLY.error(found=f"{error.found} (from {name})")
            bad.party = name
            found[name] = bad
    return found
