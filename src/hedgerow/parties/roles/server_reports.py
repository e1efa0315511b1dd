"""What servers report to members of models and of accounts, and where the servers differ.

All of it is public among the members but for one thing: how much the analysts have asked. Owners
and servers see that of all analysts, an analyst its own. What a server answers is in
`hedgerow.parties.roles.catalogue`, what an owner does with it in `owner_account`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.jsonfile import plain
from hedgerow.parties.consortium.config import HOLDERS, PartyConfig
from hedgerow.parties.consortium.names import Name, check_name, complete
from hedgerow.parties.wire.client import MembersClient, Reply, ServerClient
from hedgerow.parties.wire.replies import (
    Amount,
    Count,
    Hash,
    Moment,
    ReportPart,
    Text,
    Told,
    read_each,
)

_LOOKS, _PAUSE = 3, 0.3
_MOST_CHARGES = 1 << 16
_COUNTED = ("asking", "rows_left")
"""What changes while answers are under way."""
# Nothing that could steer a terminal.
_Ascii = Annotated[str, StringConstraints(max_length=200, pattern=r"^[ -~]*$")]


class LedgerLine(ReportPart):
    """What one audience, or several together, learn of a model: a line of its ledger."""

    audience: Text
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=True)]
    delta: Annotated[float, Field(ge=0, le=1)]
    relation: Annotated[str, Field(pattern=r"^(add/remove|replace)(, (add/remove|replace))?$")]
    why: Text = ""


class Asking(ReportPart):
    """What an analyst has asked, in rows that are charged, and what it may ask yet."""

    analyst: Name
    asked: Count
    left: Count


class Opened(ReportPart):
    """A value that training may open: to whom, why, how often it was to be and how often it was."""

    name: Text
    audience: Text
    shape: Annotated[str, Field(max_length=200, pattern=r"^(one number|[0-9]+(x[0-9]+)*)$")]
    why: Text
    declared: Count
    opened: Count


class Sent(ReportPart):
    """What this party has sent in the run: rounds, and bytes of payload and on the wire.

    `offline`: of the payload, what needs no rows or no target, and may have been sent ahead.
    `seconds`: of all attempts, where they were noted.
    """

    rounds: Count
    payload: Count
    wire: Count
    offline: Count = 0
    seconds: Amount | None = None


class ModelLine(ReportPart):
    """A model in the list of a server: whose data it rests on, and who may ask it."""

    model: Name
    protocol: Name
    run: Name
    job: Hash
    populations: tuple[Name, ...]
    analysts: tuple[Name, ...]
    members: tuple[Name, ...] = ()


class ModelReport(ModelLine):
    """A model at one server. Raises H884.

    `learned`: the ledger, every charge of an answer in it.
    `asking`: of the analysts that the asker may know about; none where the model answers by itself.
    `rows_left`: of all analysts together; None for an analyst, and where nobody counts.
    `sent`: None where nothing was kept of it.
    """

    learned: tuple[LedgerLine, ...]
    opened: tuple[Opened, ...]
    asking: tuple[Asking, ...] = ()
    rows_left: Count | None = None
    sent: Sent | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an infinite epsilon is the text ``inf``."""
        fields = self.model_dump()
        for line in fields["learned"]:
            line["epsilon"] = plain(line["epsilon"])
        return fields

    def to_json(self) -> bytes:
        """Write it for the one who asked."""
        return json.dumps(self.to_dict(), allow_nan=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> ModelReport:
        """Read what a server says, hostile or not; H884 for anything else."""
        return cls.model_validate(jsonfile.loads(data, Code.BAD_REPLY))


@dataclass(frozen=True)
class Shelf:
    """A model as the first server that keeps it lists it.

    `servers`: ``kept``, ``missing``, ``differs`` or ``unreachable`` at each.
    """

    line: ModelLine
    servers: dict[str, str]

    @property
    def is_well(self) -> bool:
        """Whether all servers keep the same model."""
        return set(self.servers.values()) == {"kept"}


@dataclass(frozen=True)
class Shown:
    """A model as all servers together tell of it; the report is that of the first that answers.

    `differences`: by the name of a field that is not the same everywhere, what each server says.
    `refusals`: servers that told nothing, and why.
    """

    report: ModelReport
    sent: dict[str, Sent] = field(default_factory=dict)
    differences: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: dict[str, HedgerowError] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether all servers tell the same."""
        return not self.differences and not self.refusals

    @property
    def cost(self) -> Sent | None:
        """Return the rounds and seconds of the run, and the bytes that all servers have sent."""
        if not self.sent:
            return None
        each = self.sent.values()
        return Sent(
            rounds=max(sent.rounds for sent in each),
            payload=sum(sent.payload for sent in each),
            wire=sum(sent.wire for sent in each),
            offline=sum(sent.offline for sent in each),
            seconds=max((sent.seconds for sent in each if sent.seconds is not None), default=None),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        fields = self.report.to_dict()
        del fields["sent"]
        cost = self.cost
        return fields | {
            "cost": None if cost is None else cost.model_dump(),
            "sent": {name: sent.model_dump() for name, sent in self.sent.items()},
            "differences": self.differences,
            "refused": {name: error.code.number for name, error in self.refusals.items()},
        }


class ChargeLine(ReportPart):
    """A charge at one server; for one job its key is the same at all. Its epsilon may be infinite.

    `run`, `model`, `by`: what was charged and who has posted it; empty if the run is not kept.
    """

    key: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,200}$")]
    epsilon: Annotated[float, Field(ge=0)]
    delta: Annotated[float, Field(ge=0, le=1)]
    what: _Ascii
    time: Moment
    run: Name | Literal[""]
    model: Name | Literal[""]
    by: Name | Literal[""]


class ServerAccount(ReportPart):
    """The account of a population at one server, and the lifetime that its policy lists."""

    epsilon: Annotated[float, Field(gt=0)] | None
    delta: Amount | None
    charges: Annotated[tuple[ChargeLine, ...], Field(max_length=_MOST_CHARGES)]

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


@dataclass(frozen=True)
class PopulationCharges:
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


class ModelClient(MembersClient):
    """Members that take calls, to be asked about models; who holds columns asks itself."""

    def __init__(self, config: PartyConfig) -> None:
        super().__init__(config)
        if config.role in HOLDERS:
            self.members.append(config.me)

    def list(self) -> tuple[list[Shelf], dict[str, HedgerowError]]:
        """Return the models that this member may know, by name, and the servers that told nothing.

        Raises if none of them did.
        """
        told = read_each(self._ask_all("models", {}), _model_lines)
        lists, refusals = split_refusals(told)
        names = sorted({name for known in lists.values() for name in known})
        return [_shelf(name, told, self._servers) for name in names], refusals

    @property
    def _servers(self) -> tuple[str, ...]:
        return tuple(server.name for server in self._config.servers)

    def find(self, model: str) -> str:
        """Return the model whose name begins so; H501 if several do, as it is if none does."""
        return complete(model, [shelf.line.model for shelf in self.list()[0]], "model")

    def show(self, model: str) -> Shown:
        """Ask all who take calls about a model.

        Raises if none of them tells anything; H407 if none keeps it.
        """
        fields = {"model": check_name(model, "model")}
        for look in range(_LOOKS):
            time.sleep(_PAUSE if look else 0.0)
            replies = self._ask_all("model-show", fields)
            own = replies.get(self._config.name)
            if isinstance(own, Reply):
                # Of a tree in pieces each who has some tells all to itself alone.
                replies = {self._config.name: own}
            found = _merge_reports(read_each(replies, _model_report), self._servers)
            # A batch of answers is not charged everywhere at the same moment.
            if not found.differences or set(found.differences) - set(_COUNTED):
                break
        return found


class ChargeClient(ServerClient):
    """The three servers, to be asked what they have charged."""

    def charges(self) -> tuple[list[PopulationCharges], dict[str, HedgerowError]]:
        """Return the accounts of all populations that this member may ask about, by name.

        Beside them, the servers that told nothing, and why.
        """
        for look in range(_LOOKS):
            time.sleep(_PAUSE if look else 0.0)
            told = read_each(self._ask_all("charges", {}), _server_accounts)
            found = _merge_accounts(told)
            # A job is not charged everywhere at the same moment.
            if not any(one.differs for one in found):
                break
        return found, {name: one for name, one in told.items() if isinstance(one, HedgerowError)}


def split_refusals(
    told: Mapping[str, Told | HedgerowError],
) -> tuple[dict[str, Told], dict[str, HedgerowError]]:
    """Return who told something and who did not; raise if nobody did."""
    refusals = {name: error for name, error in told.items() if isinstance(error, HedgerowError)}
    if len(refusals) == len(told):
        raise next(iter(refusals.values()))
    found = {name: one for name, one in told.items() if not isinstance(one, HedgerowError)}
    return found, refusals


def _model_lines(reply: Reply) -> dict[str, ModelLine]:
    """Read the list of a server."""
    code = Code.BAD_REPLY
    found = jsonfile.loads(reply.payload, code)
    if set(found) != {"models"} or not isinstance(found["models"], list):
        raise code.error(found="a list of models that is none")
    lines = [ModelLine.model_validate(line) for line in found["models"]]
    if len({line.model for line in lines}) < len(lines):
        raise code.error(found="a list that names a model twice")
    return {line.model: line for line in lines}


def _model_report(reply: Reply) -> ModelReport:
    return ModelReport.parse(reply.payload)


def _shelf(
    name: str, told: Mapping[str, dict[str, ModelLine] | HedgerowError], servers: Sequence[str]
) -> Shelf:
    known = [lines for lines in told.values() if not isinstance(lines, HedgerowError)]
    first = next(lines[name] for lines in known if name in lines)
    keepers = {party: told[party] for party in told if party in (first.members or servers)}
    return Shelf(
        first, states_at(name, keepers, lambda line: "kept" if line == first else "differs")
    )


def states_at(
    name: str,
    told: Mapping[str, Mapping[str, Told] | HedgerowError],
    state: Callable[[Told], str],
) -> dict[str, str]:
    """Say what each party has under a name: what `state` says of it, or that it is not there."""
    found = {}
    for party, lines in told.items():
        if isinstance(lines, HedgerowError):
            found[party] = "unreachable"
        else:
            found[party] = state(lines[name]) if name in lines else "missing"
    return found


def _merge_reports(
    told: Mapping[str, ModelReport | HedgerowError], servers: Sequence[str]
) -> Shown:
    reports, refusals = split_refusals(told)
    # Who took no part has nothing to tell.
    keepers = next(iter(reports.values())).members or servers
    refusals = {name: error for name, error in refusals.items() if name in keepers}
    plain = {name: report.to_dict() for name, report in reports.items()}
    first = next(iter(plain.values()))
    differences = {
        key: {name: fields[key] for name, fields in plain.items()}
        for key in first
        if key != "sent" and any(fields[key] != first[key] for fields in plain.values())
    }
    sent = {name: report.sent for name, report in reports.items() if report.sent is not None}
    return Shown(next(iter(reports.values())), sent, differences, refusals)


def _server_accounts(reply: Reply) -> dict[str, ServerAccount]:
    return {
        check_name(name, "population"): ServerAccount.model_validate(account)
        for name, account in jsonfile.loads(reply.payload, Code.BAD_REPLY).items()
    }


def _merge_accounts(
    told: Mapping[str, dict[str, ServerAccount] | HedgerowError],
) -> list[PopulationCharges]:
    known = {name: found for name, found in told.items() if not isinstance(found, HedgerowError)}
    merged: dict[str, PopulationCharges] = {}
    for server, accounts in known.items():
        for name, account in accounts.items():
            merged.setdefault(name, PopulationCharges(name)).accounts[server] = account
    # A server that answers and has no such account is no reason to say that all agree.
    for one in merged.values():
        for server in known:
            none = ServerAccount(epsilon=None, delta=None, charges=())
            one.accounts.setdefault(server, none)
    return [merged[name] for name in sorted(merged)]
