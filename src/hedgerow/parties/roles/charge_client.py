"""What the servers have charged to populations, as owners of uploads see it, and where they differ.

The accounts that bind a training among servers are theirs: the policy and the accounts in an
owner's folder are about what that owner computes itself.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.names import Name, check_name
from hedgerow.parties.wire.client import Reply
from hedgerow.parties.wire.server_client import ServerClient

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# Nothing that could steer a terminal.
_Text = Annotated[str, StringConstraints(max_length=200, pattern=r"^[ -~]*$")]
_LOOKS, _PAUSE = 3, 0.3
_NameOrNone = Name | Literal[""]


class ChargeLine(Numbered):
    """A charge at one server.

    `key`: the same at all servers for one job.
    `epsilon`: may be infinite.
    `time`: when it was charged, in seconds since 1970.
    `run`, `model`, `by`: what was charged and who has posted it; empty where the run is not kept
    any more.
    """

    code: ClassVar[Code] = Code.BAD_REPLY

    key: _Text
    epsilon: Annotated[float, Field(ge=0)]
    delta: _Amount
    what: _Text
    time: _Amount
    run: _NameOrNone
    model: _NameOrNone
    by: _NameOrNone


class ServerAccount(Numbered):
    """The account of a population at one server.

    `epsilon`, `delta`: its lifetime by the policy of that server; None if that does not list it any
    more.
    """

    code: ClassVar[Code] = Code.BAD_REPLY

    epsilon: Annotated[float, Field(gt=0)] | None
    delta: _Amount | None
    charges: tuple[ChargeLine, ...]

    @property
    def spent(self) -> tuple[float, float]:
        """Epsilon and delta of all charges together."""
        return (
            math.fsum(charge.epsilon for charge in self.charges),
            math.fsum(charge.delta for charge in self.charges),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with infinity as a text."""
        rows = [charge.model_dump() | {"epsilon": plain(charge.epsilon)} for charge in self.charges]
        return {"epsilon": plain(self.epsilon), "delta": self.delta, "charges": rows}


def plain(value: float | None) -> float | str | None:
    """Return a number for JSON, which has no infinity."""
    return "inf" if value is not None and math.isinf(value) else value


@dataclass(frozen=True)
class Charged:
    """What the servers have charged to one population.

    `accounts`: by server, of those that tell.
    """

    population: str
    accounts: dict[str, ServerAccount] = field(default_factory=dict)

    @property
    def lines(self) -> list[tuple[ChargeLine, tuple[str, ...]]]:
        """Return every charge once, as the first server that has it says, with all that have it."""
        seen: dict[tuple[Any, ...], tuple[ChargeLine, list[str]]] = {}
        for server, account in self.accounts.items():
            for charge in account.charges:
                # By when it was charged servers differ as they may.
                same = tuple(charge.model_dump(exclude={"time"}).values())
                seen.setdefault(same, (charge, []))[1].append(server)
        ordered = sorted(seen.values(), key=lambda pair: pair[0].time)
        return [(charge, tuple(servers)) for charge, servers in ordered]

    @property
    def differs(self) -> bool:
        """Whether a charge is not the same at all servers that tell."""
        return any(len(servers) < len(self.accounts) for _, servers in self.lines)


class ChargeClient(ServerClient):
    """The three servers, to be asked what they have charged; see `ServerClient`."""

    def charged(self) -> tuple[list[Charged], dict[str, HedgerowError]]:
        """Return the accounts of all populations that this member may ask about, by name.

        Beside them, the servers that told nothing, and why.
        """
        for look in range(_LOOKS):
            if look:
                time.sleep(_PAUSE)
            found, refusals = self._look()
            # A job is not charged everywhere at the same moment.
            if not any(one.differs for one in found):
                break
        return found, refusals

    def _look(self) -> tuple[list[Charged], dict[str, HedgerowError]]:
        found: dict[str, Charged] = {}
        refusals: dict[str, HedgerowError] = {}
        for server, reply in self._ask_all("charges", {}).items():
            try:
                accounts = _read(reply, server)
            except HedgerowError as error:
                refusals[server] = error
                continue
            for population, account in accounts.items():
                one = found.setdefault(population, Charged(population))
                one.accounts[server] = account
        # A server that answers and has no such account is no reason to say that all agree.
        for one in found.values():
            for member in self.servers:
                if member.name not in refusals and member.name not in one.accounts:
                    one.accounts[member.name] = ServerAccount(epsilon=None, delta=None, charges=())
        return [found[name] for name in sorted(found)], refusals


def _read(reply: Reply | HedgerowError, server: str) -> dict[str, ServerAccount]:
    """Read a reply, also of somebody hostile; H884 if it is none."""
    if isinstance(reply, HedgerowError):
        raise reply
    try:
        found = jsonfile.loads(reply.payload, Code.BAD_REPLY)
        return {
            check_name(name, "population"): ServerAccount.model_validate(account)
            for name, account in found.items()
        }
    except HedgerowError as error:
        # Whatever is wrong with it, it is the reply that is.
        bad = Code.BAD_REPLY.error(found=f"{error.found} (from {server})")
        bad.party = server
        raise bad from None
