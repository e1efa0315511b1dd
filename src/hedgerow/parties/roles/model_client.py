"""Models as members see them: what all servers say of them, and where they differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.names import Name, check_name
from hedgerow.parties.roles.model_report import Hash, ModelReport, Sent
from hedgerow.parties.wire.client import Reply
from hedgerow.parties.wire.server_client import ServerClient

_LOOKS, _PAUSE = 3, 0.3
_COUNTED = ("asking", "rows_left")
"""What changes while answers are under way."""

_Read = TypeVar("_Read")


class ModelLine(Numbered):
    """A model in the list of a server; see `ModelReport`."""

    code: ClassVar[Code] = Code.BAD_REPLY

    model: Name
    kind: Name
    run: Name
    job: Hash
    populations: tuple[Name, ...]
    analysts: tuple[Name, ...]


@dataclass(frozen=True)
class Shelf:
    """A model as the servers list it.

    `line`: as the first server that keeps it has it.
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
    """A model as all servers together tell of it.

    `report`: as the first server that answers has it; see `differences`.
    `sent`: by server, where it is known.
    `differences`: what is not the same at all servers that answer: by the name of the field, what
    each says.
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
        """Return the rounds of the run, and the bytes that all servers have sent."""
        if not self.sent:
            return None
        each = self.sent.values()
        return Sent(
            rounds=max(sent.rounds for sent in each),
            payload=sum(sent.payload for sent in each),
            wire=sum(sent.wire for sent in each),
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


class ModelClient(ServerClient):
    """The three servers, to be asked about models; see `ServerClient`."""

    def list(self) -> tuple[list[Shelf], dict[str, HedgerowError]]:
        """Return the models that this member may know, by name, and the servers that told nothing.

        Raises if none of them did.
        """
        told = self._read(self._ask_all("models", {}), _lines)
        lists, refusals = _parted(told)
        names = sorted({name for known in lists.values() for name in known})
        return [_shelf(name, told) for name in names], refusals

    def show(self, model: str) -> Shown:
        """Ask all servers about a model.

        Raises if none of them tells anything; H407 if none keeps it.
        """
        fields = {"model": check_name(model, "model")}
        for look in range(_LOOKS):
            if look:
                time.sleep(_PAUSE)
            found = _joined(self._read(self._ask_all("model-show", fields), ModelReport.parse))
            # A batch of answers is not charged everywhere at the same moment.
            if not found.differences or set(found.differences) - set(_COUNTED):
                break
        return found

    def _read(
        self, replies: Mapping[str, Reply | HedgerowError], parse: Callable[[bytes], _Read]
    ) -> dict[str, _Read | HedgerowError]:
        found: dict[str, _Read | HedgerowError] = {}
        for name, reply in replies.items():
            try:
                found[name] = parse(reply.payload) if isinstance(reply, Reply) else reply
            except HedgerowError as error:
                # Whatever is wrong with it, it is the reply that is.
                bad = Code.BAD_REPLY.error(found=f"{error.found} (from {name})")
                bad.party = name
                found[name] = bad
        return found


def _parted(
    told: Mapping[str, _Read | HedgerowError],
) -> tuple[dict[str, _Read], dict[str, HedgerowError]]:
    """Return who told something and who did not; raise if nobody did."""
    refusals = {name: error for name, error in told.items() if isinstance(error, HedgerowError)}
    if len(refusals) == len(told):
        raise next(iter(refusals.values()))
    said = {n: found for n, found in told.items() if not isinstance(found, HedgerowError)}
    return said, refusals


def _lines(data: bytes) -> dict[str, ModelLine]:
    """Read the list of a server."""
    code = Code.BAD_REPLY
    found = jsonfile.loads(data, code)
    if set(found) != {"models"} or not isinstance(found["models"], list):
        raise code.error(found="a list of models that is none")
    lines = [ModelLine.model_validate(line) for line in found["models"]]
    if len({line.model for line in lines}) < len(lines):
        raise code.error(found="a list that names a model twice")
    return {line.model: line for line in lines}


def _shelf(name: str, told: Mapping[str, dict[str, ModelLine] | HedgerowError]) -> Shelf:
    known = [lines for lines in told.values() if not isinstance(lines, HedgerowError)]
    first = next(lines[name] for lines in known if name in lines)
    servers = {}
    for server, lines in told.items():
        if isinstance(lines, HedgerowError):
            servers[server] = "unreachable"
        elif name not in lines:
            servers[server] = "missing"
        else:
            servers[server] = "kept" if lines[name] == first else "differs"
    return Shelf(first, servers)


def _joined(told: Mapping[str, ModelReport | HedgerowError]) -> Shown:
    reports, refusals = _parted(told)
    plain = {name: report.to_dict() for name, report in reports.items()}
    first = next(iter(plain.values()))
    differences = {
        key: {name: fields[key] for name, fields in plain.items()}
        for key in first
        if key != "sent" and any(fields[key] != first[key] for fields in plain.values())
    }
    sent = {name: report.sent for name, report in reports.items() if report.sent is not None}
    return Shown(next(iter(reports.values())), sent, differences, refusals)
