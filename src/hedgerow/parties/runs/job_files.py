"""What jobs have in common: strict reading, one text, one hash, and what a run asks of them."""

from __future__ import annotations

import hashlib
import json
import tomllib
from abc import abstractmethod
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import tomli_w
from pydantic import PrivateAttr

from hedgerow.errors import Code, HedgerowError
from hedgerow.jsonfile import shown
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.names import Name
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.contract import Size
from hedgerow.protocols.registry import current_name
from hedgerow.tables import Domain

MAX_JOB_BYTES = 1 << 20
RUN_DIGITS = 12
_LONGEST = 63 - 1 - RUN_DIGITS


class JobText(Numbered):
    """A job as a TOML file; `load` it, or read its text with `from_toml`. H885 if it is none."""

    code: ClassVar[Code] = Code.BAD_JOB

    name: Name

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a job file; a domain that is another file, beside it, is put in its place.

        H909 if there is no such file, H885 for the job, H114 for a domain in a file of its own.
        """
        return cls.read(data_of_file(Path(path)), str(path))

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read the text of a job, also from somebody hostile; no file is opened. H885."""
        return cls.read(data_of_text(text), "the job")

    @classmethod
    def read(cls, data: Mapping[str, Any], source: str) -> Self:
        """Check what a file or a text, the source, has said; H885."""
        try:
            found = cls.model_validate(data)
        except HedgerowError as error:
            title = "" if error.code is Code.BAD_JOB else f"{error.code.spec.title}: "
            raise Code.BAD_JOB.error(found=f"in {source}: {title}{error.found}") from error
        # As it is kept and sent on: quotes, say, take more room there than somebody has written.
        _check_length(found.to_toml(), source)
        return found

    def check_name_length(self) -> None:
        """Refuse, with a ValueError, a name that leaves no room for the digits of a run."""
        if len(self.name) > _LONGEST:
            raise ValueError(f"a name of more than {_LONGEST} characters")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that are not set."""
        return self.model_dump(mode="json", exclude_none=True)

    def written(self) -> dict[str, Any]:
        """Return what its file has, and its hash is of."""
        return self.to_dict()

    def to_toml(self) -> str:
        """Write it, with all of its domain if it has one."""
        return tomli_w.dumps(self.written())

    def to_readable(self) -> str:
        """Write it for who decides about it: what shows as nothing, or as something else, as code.

        A name may be of somebody hostile. It is TOML still, and the same job.
        """
        text = self.to_toml()
        return "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08x}" for c in text)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of everything in it, 64 hexadecimal digits."""
        text = json.dumps(self.written(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(b"hedgerow/job/v1" + text.encode()).hexdigest()

    @property
    def account_key(self) -> str:
        """Name under which an account knows it, whatever it trains: charged once."""
        return f"job:{self.hash}"

    @property
    def run_id(self) -> str:
        """Name of its run: its own name and the beginning of its hash."""
        return f"{self.name}-{self.hash[:RUN_DIGITS]}"


class JobFile(JobText):
    """A job with its domain: all columns and the target."""

    domain: Domain

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that are not set."""
        fields = self.model_dump(mode="json", exclude={"domain"}, exclude_none=True)
        return fields | {"domain": self.domain.to_dict()}


class Job(JobText):
    """What a run asks of a job, whatever its protocol.

    `protocol` is a name of `hedgerow.protocols.registry`. `population` is charged by every party
    that has an account of it and takes part. `analysts` may ask the model; what is published needs
    nobody.
    """

    protocol: str
    population: Name
    analysts: tuple[Name, ...] = ()
    _kind: str | None = PrivateAttr(default=None)

    @classmethod
    def read(cls, data: Mapping[str, Any], source: str) -> Self:
        """Check what a file or a text, the source, has said; H885, also for words of long ago."""
        if "kind" in data:
            _refuse_kind(data["kind"], source)
        return super().read(data, source)

    @classmethod
    def read_old(cls, data: Mapping[str, Any], source: str) -> Self:
        """Read what this party has kept since the protocol stood in a job as its kind.

        It stays under the words of then: hash, run and charges are known by them.
        """
        words = {key: value for key, value in data.items() if key != "kind"}
        made = cls.read(words | {"protocol": current_name(data["kind"])}, source)
        made._kind = data["kind"]
        return made

    def written(self) -> dict[str, Any]:
        """Return what its file has, and its hash is of."""
        found = self.to_dict()
        if self._kind is None:
            return found
        return {
            "kind" if key == "protocol" else key: self._kind if key == "protocol" else value
            for key, value in found.items()
        }

    @property
    @abstractmethod
    def model_name(self) -> str:
        """Name of the model that the run makes, or is about."""

    @property
    def makes_model(self) -> bool:
        """Whether the run makes the model of that name, or is about one that is there."""
        return True

    @abstractmethod
    def seats(self, config: PartyConfig) -> tuple[Member, ...]:
        """Return who takes part, by their numbers: servers, if any, first; the first one leads.

        H850 for a member that is none, H905 for one of another role, H907 for a role that is
        missing.
        """

    @abstractmethod
    def make_plan(self) -> Any:
        """Return the plan, from public numbers alone."""

    def costs(self) -> dict[str, Guarantee]:
        """Return what the run costs each audience, from public numbers alone; computed once.

        H202 for a finite epsilon and a domain that was read from data.
        """
        return dict(self._costs)

    @cached_property
    @abstractmethod
    def _costs(self) -> dict[str, Guarantee]: ...

    def answer_costs(self) -> dict[str, Guarantee]:
        """Return what answers cost an audience that the run does not charge, all of them together.

        It is charged before the first one.
        """
        return {}

    @property
    def public_domain(self) -> Domain | None:
        """Domain of all columns, on which charges rest; None where nobody knows all of it."""
        domain: Domain = self.make_plan().domain
        return domain

    def opened(self) -> list[tuple[str, str]]:
        """Return what training opens, and to whom."""
        plan = self.make_plan()
        # What is released to everybody is opened to the servers, who show it.
        audiences: dict[str | None, str] = {one.reason: one.audience for one in plan.releases()}
        return [(one.name, audiences.get(one.release, one.audience)) for one in plan.openings()]

    @abstractmethod
    def size(self) -> Size:
        """Return what the job asks for as it stands: nothing is computed."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Say in a few lines what the job is about."""

    @property
    @abstractmethod
    def payers(self) -> str:
        """Who charges it, such as "Each of the three servers"."""

    @property
    def levels(self) -> int:
        """What progress is counted in; 0 where nobody knows beforehand."""
        return 0

    def can_do_without(self, absent: Collection[str]) -> bool:
        """Whether an attempt may begin without these members."""
        return not absent


def data_of_file(path: Path) -> dict[str, Any]:
    """Read a job file as plain data, its domain put in place; H909, H885, H114."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Code.NO_JOB_FILE.error(found=f"there is no {path}") from None
    # Not a path and not UTF-8 are both a ValueError.
    except (OSError, ValueError) as error:
        raise Code.BAD_JOB.error(found=f"{path}: {error}") from None
    data = _parsed(text, str(path))
    domain = data.get("domain")
    if isinstance(domain, dict) and isinstance(domain.get("file"), str):
        if len(domain) > 1:
            raise Code.BAD_JOB.error(found=f"in {path}: domain.file beside other keys")
        # What is hashed and proposed is the whole text: the domain is in it.
        data["domain"] = Domain.from_toml(path.parent / domain["file"]).to_dict()
    return data


def data_of_text(text: str) -> dict[str, Any]:
    """Read the text of a job, also of somebody hostile, as plain data; H885."""
    data = _parsed(text, "the job")
    domain = data.get("domain")
    if isinstance(domain, dict) and "file" in domain:
        raise Code.BAD_JOB.error(
            expected="the domain itself in a job that is proposed",
            found="domain.file",
            fix="propose it with `hedgerow train`, which puts the domain in its place",
        )
    return data


def _refuse_kind(kind: object, source: str) -> None:
    line = f'protocol = "{current_name(kind)}"' if isinstance(kind, str) else "protocol = ..."
    raise Code.BAD_JOB.error(
        expected=f"a line {line}",
        found=f"in {source}: kind = {shown(kind)}, as older versions had it",
        fix=f"write {line} in place of kind; the job is another one then, and its run another run",
    )


def _check_length(text: str, source: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_JOB_BYTES:
        raise Code.BAD_JOB.error(found=f"{source} of more than {MAX_JOB_BYTES} bytes")


def _parsed(text: str, source: str) -> dict[str, Any]:
    _check_length(text, source)
    try:
        return tomllib.loads(text)
    # An integer of very many digits is a ValueError of its own.
    except (ValueError, RecursionError) as error:
        raise Code.BAD_JOB.error(found=f"in {source}: {error}") from None
