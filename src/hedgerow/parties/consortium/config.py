"""`PartyConfig`: who a party is and who the others are, from the ``party.toml`` of its folder.

The list of members is the same at all parties. The order of its three servers is their numbering:
the first is server 0. Owners whose jobs need no servers have a coordinator instead, or both. Sites
that hold columns of the same records need neither: they call each other.
``hedgerow consortium new`` writes the file with a comment on every option.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, PrivateAttr, Strict, field_validator, model_validator

from hedgerow.errors import Code, HedgerowError, ask_whether
from hedgerow.net import meeting
from hedgerow.net.certificates import Identity
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.names import Name, check_name
from hedgerow.parties.store.durable import StateFolder, check_private, read_small

Role = Literal["server", "owner", "analyst", "coordinator", "site", "peer"]
HOLDERS: tuple[Role, ...] = ("site", "peer")
"""Roles of those who hold columns of the same records, and answer with each other."""

SERVERS = 3
_OLD_PORTS = ("query_port", "site_port", "count_port")
MAX_FILE_BYTES = 1 << 20
"""Of a TOML file or a certificate of a party."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(
    rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*|(?=[^:]*:)[0-9A-Fa-f:.]{{2,45}}", re.DOTALL
)

_Model = TypeVar("_Model", bound=Numbered)

Port = Annotated[int, Strict(), Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)]


def check_host(host: str) -> str:
    """Return a host name or an address of IPv4 or IPv6; `ValueError` for anything else."""
    if not _HOST.fullmatch(host):
        raise ValueError(f"a host name or an address is expected, {host!r} was found")
    return host


class Member(Numbered):
    """A party as the list has it.

    `host`: where a server, a coordinator, a site or a peer is reached; others are never called.
    `port`: for requests. `run_port`: for training and answers with others. 0 where there is no
    need.
    """

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    name: Name
    role: Role
    host: str = ""
    port: Port = 0
    run_port: Port = 0

    @property
    def ports(self) -> tuple[int, ...]:
        """Those that it has."""
        return tuple(port for port in (self.port, self.run_port) if port)

    @property
    def kind(self) -> str:
        """Its role with an article, for messages."""
        return f"{'an' if self.role[0] in 'ao' else 'a'} {self.role}"

    @property
    def takes_calls(self) -> bool:
        """Whether others call it, at its host and port."""
        return self.role in ("server", "coordinator", *HOLDERS)

    @property
    def keeps_shares(self) -> bool:
        """Whether it keeps shares, which lie on its disk under a key of its own."""
        return self.role in ("server", "peer")

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.role == "server":
            check_host(self.host)
            if not (self.port and self.run_port):
                raise ValueError("a server needs port and run_port")
        elif self.takes_calls:
            check_host(self.host)
            if not self.port:
                raise ValueError(f"{self.kind} needs port and run_port")
        elif self.host or self.ports:
            raise ValueError(f"{self.kind} is never called and has neither host nor ports")
        return self


class Timeouts(Numbered):
    """How long this party waits, in seconds.

    `connect`: for a connection to a server, with its handshake.
    `request`: for the answer to a request.
    `step`: for one step of a computation with the other servers, besides the time its bytes need.
    `rejoin`: for a server that fell over to come back, before a run ends for all.
    `clock`: by which the clock of a server may differ.
    """

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    connect: Seconds = 10.0
    request: Seconds = 60.0
    step: Seconds = 60.0
    rejoin: Seconds = 600.0
    clock: Seconds = 30.0


class PartyConfig(Numbered):
    """A party and its consortium; use `load`. Raises H852.

    `members`: all of them, this party too; exactly three servers, whose order counts, or none where
    there is a coordinator or are two sites.
    `listen`: where this party takes calls, if that is not its host in the list.
    """

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    consortium: Name
    name: Name
    listen: str = ""
    timeouts: Timeouts = Timeouts()
    members: tuple[Member, ...]
    _folder: Path = PrivateAttr(default=Path())

    @model_validator(mode="before")
    @classmethod
    def _of_this_version(cls, data: Any) -> Any:
        """Refuse a file of a version that had more ports; say which lines have to go."""
        members = data.get("members") if isinstance(data, Mapping) else None
        listed = [one for one in (members or ()) if isinstance(one, Mapping)]
        older = {port: [str(m.get("name")) for m in listed if port in m] for port in _OLD_PORTS}
        for port, names in older.items():
            if names:
                raise Code.BAD_PARTY_FILE.error(
                    expected="parties that train and answer at one port, run_port",
                    found=f"a {port} of {', '.join(names)}, as older versions had it",
                    fix=f"delete the lines {port} of {', '.join(names)}, at all parties",
                )
        return data

    @field_validator("listen")
    @classmethod
    def _host(cls, listen: str) -> str:
        return check_host(listen) if listen else listen

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = Counter(member.name for member in self.members)
        repeated = [name for name, count in names.items() if count > 1]
        if repeated:
            raise ValueError(f"{', '.join(repeated)} more than once among the members")
        if self.name not in names:
            raise ValueError(f"this party, {self.name}, is not among the members")
        coordinators = [member for member in self.members if member.role == "coordinator"]
        if len(coordinators) > 1:
            raise ValueError(f"at most one coordinator is expected, {len(coordinators)} listed")
        alone = coordinators or len(self.holders) > 1
        if len(self.servers) != SERVERS and (self.servers or not alone):
            raise ValueError(f"exactly {SERVERS} servers are expected, {len(self.servers)} listed")
        called = [member for member in self.members if member.takes_calls]
        used = Counter((member.host, port) for member in called for port in member.ports)
        twice = [f"{host}:{port}" for (host, port), count in used.items() if count > 1]
        if twice:
            raise ValueError(f"{', '.join(twice)} is used twice")
        if self.listen and not self.me.takes_calls:
            raise ValueError("listen is for servers alone, for a coordinator, sites and peers")
        return self

    @classmethod
    def load(cls, folder: str | Path) -> PartyConfig:
        """Read the ``party.toml`` of a folder; H854 if others can read it, H852 for the file."""
        folder = Path(folder).absolute()
        # Before its mode: it would be wrong to have somebody close a folder that is no party's.
        if _is_no_party(folder):
            raise Code.BAD_PARTY_FILE.error(
                expected="the folder of a party, with its party.toml",
                found=f"no party.toml in {folder}",
                fix="go to the folder of this party, or name it behind the other arguments",
            )
        check_private(folder)
        config = read_toml(cls, folder / "party.toml")
        config._folder = folder
        return config

    @property
    def folder(self) -> Path:
        """Of this party."""
        return self._folder

    @property
    def state(self) -> StateFolder:
        """What this party keeps; made at first use."""
        return StateFolder(self.folder / "state")

    @property
    def identity(self) -> Identity:
        """Where this party's key and certificate are."""
        return Identity(self.folder / "keys" / "party.key", self.folder / "keys" / "party.pem")

    @property
    def next_identity(self) -> Identity:
        """Where those are that will take their place, while they are being renewed."""
        return Identity(self.folder / "keys" / "next.key", self.folder / "keys" / "next.pem")

    @property
    def me(self) -> Member:
        """The entry of this party."""
        return self.member(self.name)

    @property
    def role(self) -> Role:
        """The role of this party."""
        return self.me.role

    @property
    def servers(self) -> tuple[Member, ...]:
        """The three servers, in order; none in a consortium that needs none."""
        return tuple(member for member in self.members if member.role == "server")

    @property
    def holders(self) -> tuple[Member, ...]:
        """Those who hold columns: sites and peers, in order."""
        return tuple(member for member in self.members if member.role in HOLDERS)

    def check_servers(self) -> None:
        """Refuse what needs servers in a consortium without any; H907."""
        if not self.servers:
            raise Code.ROLE_MISSING.error(
                expected=f"three servers among the members of {self.consortium}", found="none"
            )

    @property
    def coordinator(self) -> Member:
        """The coordinator; H907 if there is none."""
        for member in self.members:
            if member.role == "coordinator":
                return member
        raise Code.ROLE_MISSING.error(
            expected=f"a coordinator among the members of {self.consortium}", found="none"
        )

    @property
    def leaders(self) -> tuple[Member, ...]:
        """Those who may lead a run, and take calls: the first server, a coordinator, holders."""
        roles = ("coordinator", *HOLDERS)
        others = [member for member in self.members if member.role in roles]
        return (*self.servers[:1], *others)

    @cached_property
    def number(self) -> int:
        """Which of the servers this party is; H905 if it is none."""
        if self.role != "server":
            raise Code.WRONG_ROLE.error(
                expected="a server", found=f"{self.name}, which is {self.me.kind}"
            )
        return self.servers.index(self.me)

    @property
    def list_digest(self) -> str:
        """Hash of the consortium's name and of all names and roles in order, to be compared.

        Addresses are left out: one machine may be reached under different ones.
        """
        parts = [self.consortium, *(f"{member.name} {member.role}" for member in self.members)]
        return hashlib.sha256("\n".join(["hedgerow/members/1", *parts]).encode()).hexdigest()

    def member(self, name: str, *roles: Role) -> Member:
        """Return a member by its name; H850 if there is none, H905 if it has none of `roles`."""
        check_name(name, "member")
        wanted = f"a member of {self.consortium}"
        wanted += f" with the role {' or '.join(roles)}" if roles else ""
        for member in self.members:
            if member.name != name:
                continue
            if roles and member.role not in roles:
                raise Code.WRONG_ROLE.error(
                    expected=wanted, found=f"{name}, which is {member.kind}"
                )
            return member
        known = [member.name for member in self.members if not roles or member.role in roles]
        raise Code.UNKNOWN_MEMBER.error(expected=wanted, found=name + ask_whether(name, known))

    def certificate_file(self, name: str) -> Path:
        """Where the certificate of a member is kept."""
        if self.member(name).name == self.name:
            return self.identity.certificate
        return self.folder / "members" / f"{name}.pem"

    def certificate(self, name: str) -> str:
        """Return the certificate of a member in PEM; H857 if it was not added yet."""
        if name == self.name and not self.identity.certificate.exists():
            raise Code.MISSING_CERTIFICATE.error(
                expected=f"the certificate of this party, {name}",
                found=f"none at {self.identity.certificate}",
                fix="make it with `hedgerow keys`",
            )
        return read_small(self.certificate_file(name), MAX_FILE_BYTES, Code.MISSING_CERTIFICATE)

    def endpoints(self, names: Sequence[str]) -> tuple[meeting.Endpoint, ...]:
        """Return members as the network of a run wants them; who takes no calls has no address.

        H908 if one that takes calls has no port for runs, H857 if a certificate was not added.
        """
        found = []
        for name in names:
            member, text = self.member(name), self.certificate(name)
            if member.takes_calls and not member.run_port:
                raise Code.PORT_MISSING.error(
                    expected="a run_port of everybody who takes calls",
                    found=f"none of {name}",
                    fix=f"add a line run_port to {name} in party.toml, the same at all parties",
                )
            host = member.host if member.takes_calls else None
            found.append(meeting.Endpoint(host, member.run_port, text))
        return tuple(found)

    @property
    def server_endpoints(self) -> tuple[meeting.Endpoint, ...]:
        """The three servers, as `endpoints`."""
        return self.endpoints([server.name for server in self.servers])


def _is_no_party(folder: Path) -> bool:
    """Whether a folder, which can be looked into, has no ``party.toml``."""
    try:
        return "party.toml" not in os.listdir(folder)
    except OSError:
        return False


def read_toml(model: type[_Model], path: Path) -> _Model:
    """Read a TOML file into a model; whatever is wrong with it has the model's number."""
    text = read_small(path, MAX_FILE_BYTES, model.code)
    try:
        data: Mapping[str, Any] = tomllib.loads(text)
    # An integer of very many digits is a ValueError of its own.
    except (ValueError, RecursionError) as error:
        raise model.code.error(found=f"in {path}: {error}") from None
    try:
        return model.model_validate(data)
    except HedgerowError as error:
        if error.code is model.code:
            found = f"in {path}: {error.found}"
            raise model.code.error(expected=error.expected, found=found, fix=error.fix) from error
        found = f"in {path}: {error.code.spec.title}: {error.found}"
        raise model.code.error(found=found) from error
