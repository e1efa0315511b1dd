"""`UploadClient`: what servers keep of an owner's uploads, and how they are withdrawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.names import Name, check_name
from hedgerow.parties.roles.server_reports import split_refusals, states_at
from hedgerow.parties.roles.uploading import check_owner
from hedgerow.parties.wire.client import Reply, ServerClient
from hedgerow.parties.wire.replies import Count, Hash, Moment, ReportPart, read_each

_MOST_RUNS = 1 << 16


class UploadLine(ReportPart):
    """An upload in the list of one server: its public figures, and what has become of it there.

    `since` and `withdrawn` are times; no time where the server does not know it, or it is not so.
    """

    id: Name
    population: Name
    owner: Name
    slots: Count
    columns: Count
    target: bool
    planes: Count
    digest: Hash
    since: Moment | None = None
    withdrawn: Moment | None = None
    runs: Annotated[tuple[Name, ...], Field(max_length=_MOST_RUNS)] = ()

    @property
    def state(self) -> str:
        """Say whether its part is there."""
        return "kept" if self.withdrawn is None else "withdrawn"


@dataclass(frozen=True)
class OwnUpload:
    """An upload as the first server that knows it lists it.

    `servers`: ``kept``, ``withdrawn``, ``missing``, ``differs`` or ``unreachable`` at each.
    `times`: since when it is so at each server that says. `runs`: all that name it.
    """

    line: UploadLine
    servers: dict[str, str]
    times: dict[str, float]
    runs: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        """Whether all servers keep the same, or none keeps anything any more."""
        return set(self.servers.values()) in ({"kept"}, {"withdrawn"})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        figures = self.line.model_dump(exclude={"owner", "since", "withdrawn", "runs"})
        return figures | {"runs": list(self.runs), "servers": self.servers, "times": self.times}


@dataclass(frozen=True)
class Withdrawal:
    """What has become of an upload: ``withdrawn``, ``missing`` or ``unreachable`` at each server.

    `refusals`: why, of those where it is not withdrawn.
    """

    id: str
    servers: dict[str, str]
    refusals: dict[str, HedgerowError]

    @property
    def is_whole(self) -> bool:
        """Whether no server can have a part of it any more."""
        return "unreachable" not in self.servers.values()


class UploadClient(ServerClient):
    """The three servers, to be asked about this owner's uploads; H905 for another role."""

    def __init__(self, config: PartyConfig) -> None:
        check_owner(config)
        super().__init__(config)

    def list(self) -> tuple[list[OwnUpload], dict[str, HedgerowError]]:
        """Return the uploads of this owner, by id, and the servers that told nothing.

        Raises if none of them did.
        """
        told = read_each(self._ask_all("uploads", {}), self._own_lines)
        lists, refusals = split_refusals(told)
        ids = sorted({id for lines in lists.values() for id in lines})
        return [_merge(id, told, lists) for id in ids], refusals

    def withdraw(self, id: str) -> Withdrawal:
        """Have every server remove its part of an upload, for ever; may be repeated.

        A server that does not answer is asked with the next call. Raises if one refuses, before
        any of them has removed something: H947 while a run that names it is open, H871 if it is of
        another owner; H888 if none knows it.
        """
        fields = {"id": check_name(id, "upload")}
        for check in (True, False):
            told = self._ask_all("upload-withdraw", {**fields, "check": check})
            errors = {name: e for name, e in told.items() if isinstance(e, HedgerowError)}
            # What a server says itself, it says for good.
            firm = [e for e in errors.values() if e.party is not None and not _is_missing(e)]
            if firm or len(errors) == len(told):
                raise next(iter(firm or errors.values()))
        states = {
            name: "withdrawn"
            if isinstance(found, Reply)
            else "missing"
            if _is_missing(found)
            else "unreachable"
            for name, found in told.items()
        }
        return Withdrawal(id, states, errors)

    def _own_lines(self, reply: Reply) -> dict[str, UploadLine]:
        """Read the list of a server, hostile or not."""
        code, mine = Code.BAD_REPLY, self._config.name
        rows = jsonfile.loads(reply.payload, code).get("uploads")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise code.error(found="a list of uploads that is none")
        lines = [UploadLine.model_validate(row) for row in rows if row.get("owner") == mine]
        if len({line.id for line in lines}) < len(lines):
            raise code.error(found="a list that names an upload twice")
        return {line.id: line for line in lines}


def _is_missing(error: HedgerowError) -> bool:
    return error.code is Code.UNKNOWN_UPLOAD


def _merge(
    id: str,
    told: dict[str, dict[str, UploadLine] | HedgerowError],
    lists: dict[str, dict[str, UploadLine]],
) -> OwnUpload:
    known = {name: lines[id] for name, lines in lists.items() if id in lines}
    first = next(iter(known.values()))
    states = states_at(id, told, lambda one: one.state if one.digest == first.digest else "differs")
    dated = {name: one.withdrawn or one.since for name, one in known.items()}
    runs = dict.fromkeys(run for one in known.values() for run in one.runs)
    times = {name: time for name, time in dated.items() if time is not None}
    return OwnUpload(first, states, times, tuple(runs))
