"""`PartyConfig`: who a party is and who the others are, from the ``party.toml`` of its folder.

The list of members is the same at all parties. The order of its three servers is their numbering:
the first is server 0. ``hedgerow consortium new`` writes the file with a comment on every option.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, PrivateAttr, Strict, field_validator, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.net import meeting
from hedgerow.net.certificates import Identity
from hedgerow.numbered import Numbered
from hedgerow.parties.folders import StateFolder, check_private, read_small
from hedgerow.parties.names import Name, check_name

Role = Literal["server", "owner", "analyst"]
Plane = Literal["run", "query"]

SERVERS = 3
MAX_FILE_BYTES = 1 << 20
"""Of a TOML file or a certificate of a party."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}")

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

    Parameters
    ----------
    name : str
    role : {"server", "owner", "analyst"}
    host : str
        Where the others reach a server; empty for the other roles, who are never called.
    port, run_port, query_port : int
        Of a server: for requests, for training with the other servers, for answers with them.
    """

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    name: Name
    role: Role
    host: str = ""
    port: Port = 0
    run_port: Port = 0
    query_port: Port = 0

    @property
    def ports(self) -> tuple[int, int, int]:
        """All three of them."""
        return self.port, self.run_port, self.query_port

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.role == "server":
            check_host(self.host)
            if 0 in self.ports:
                raise ValueError("a server needs port, run_port and query_port")
        elif self.host or any(self.ports):
            raise ValueError(f"an {self.role} is never called and has neither host nor ports")
        return self


class Timeouts(Numbered):
    """How long this party waits, in seconds.

    Parameters
    ----------
    connect : float
        For a connection to a server, with its handshake.
    request : float
        For the answer to a request.
    step : float
        For one step of a computation with the other servers, besides the time its bytes need.
    rejoin : float
        For a server that fell over to come back, before a run ends for all.
    clock : float
        By which the clock of a server may differ.
    """

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    connect: Seconds = 10.0
    request: Seconds = 60.0
    step: Seconds = 60.0
    rejoin: Seconds = 600.0
    clock: Seconds = 30.0


class PartyConfig(Numbered):
    """A party and its consortium; use `load`.

    Parameters
    ----------
    consortium : str
        Its name, the same at all parties.
    name : str
        This party's name in the list.
    members : tuple of Member
        All of them, this party too; exactly three servers, whose order counts.
    listen : str
        Address on which this party takes calls, if it is another one than its host in the list.
    timeouts : Timeouts

    Raises
    ------
    FormatError
        H852.
    """

    code: ClassVar[Code] = Code.BAD_PARTY_FILE

    consortium: Name
    name: Name
    listen: str = ""
    timeouts: Timeouts = Timeouts()
    members: tuple[Member, ...]
    _folder: Path = PrivateAttr(default=Path())

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
        if len(self.servers) != SERVERS:
            raise ValueError(f"exactly {SERVERS} servers are expected, {len(self.servers)} listed")
        used = Counter((server.host, port) for server in self.servers for port in server.ports)
        twice = [f"{host}:{port}" for (host, port), count in used.items() if count > 1]
        if twice:
            raise ValueError(f"{', '.join(twice)} is used twice")
        if self.listen and self.role != "server":
            raise ValueError("listen is for servers alone")
        return self

    @classmethod
    def load(cls, folder: str | Path) -> PartyConfig:
        """Read the ``party.toml`` of a party's folder.

        Raises
        ------
        HedgerowError
            H854 if the folder is not closed to others, H852 if the file is not as it should be.
        """
        folder = Path(folder).absolute()
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
    def me(self) -> Member:
        """The entry of this party."""
        return self.member(self.name)

    @property
    def role(self) -> Role:
        """The role of this party."""
        return self.me.role

    @property
    def servers(self) -> tuple[Member, ...]:
        """The three servers, in order."""
        return tuple(member for member in self.members if member.role == "server")

    @property
    def number(self) -> int:
        """Which of the servers this party is; H850 if it is none."""
        if self.role != "server":
            raise Code.UNKNOWN_MEMBER.error(
                expected="a server", found=f"{self.name}, which is an {self.role}"
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
        """Return a member by its name, in one of `roles` if any are given; H850 if there is none.

        Parameters
        ----------
        name : str
        *roles : {"server", "owner", "analyst"}
        """
        check_name(name, "member")
        for member in self.members:
            if member.name == name and (not roles or member.role in roles):
                return member
        raise Code.UNKNOWN_MEMBER.error(
            expected=f"a member of {self.consortium}"
            + (f" with the role {' or '.join(roles)}" if roles else ""),
            found=name,
        )

    def certificate_file(self, name: str) -> Path:
        """Where the certificate of a member is kept."""
        if self.member(name).name == self.name:
            return self.identity.certificate
        return self.folder / "members" / f"{name}.pem"

    def certificate(self, name: str) -> str:
        """Return the certificate of a member in PEM; H857 if it was not added yet."""
        return read_small(self.certificate_file(name), MAX_FILE_BYTES, Code.MISSING_CERTIFICATE)

    def roster(self, plane: Plane) -> tuple[meeting.Member, ...]:
        """Return the three servers as the network among them wants them.

        Parameters
        ----------
        plane : {"run", "query"}
            For training or for answers: sessions on different ports, side by side.
        """
        return tuple(
            meeting.Member(
                server.host,
                server.run_port if plane == "run" else server.query_port,
                self.certificate(server.name),
            )
            for server in self.servers
        )


def read_toml(model: type[_Model], path: Path) -> _Model:
    """Read a TOML file into a model; whatever is wrong with it has the model's number."""
    text = read_small(path, MAX_FILE_BYTES, model.code)
    try:
        data: Mapping[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise model.code.error(found=f"in {path}: {error}") from None
    try:
        return model.model_validate(data)
    except HedgerowError as error:
        title = "" if error.code is model.code else f"{error.code.spec.title}: "
        raise model.code.error(found=f"in {path}: {title}{error.found}") from error
