"""`Job`: what is trained, on which uploads and for whom, from one TOML file; all of it is public.

::

    name = "readmission"
    kind = "trees"                 # or "regression", "boosting"; "open" publishes the tree
    model = "readmission-1"
    population = "patients"
    uploads = ["north-1", "south-1"]
    partition = "horizontal"       # owners hold rows; "vertical": columns of the same records
    analysts = ["zoe"]

    [plan]
    epsilon = 1.0
    max_depth = 4

    [domain]
    file = "domain.toml"           # put in place of this line when the job is read

The servers get the text with the domain in it. Its hash is that of all of it, so one job is one
run, however often it is proposed.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import tomli_w
from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.costs import costs_of
from hedgerow.parties.job_plans import MAX_SLOTS, OPTIONS, AnyPlan, Options
from hedgerow.parties.job_tables import placed_uploads
from hedgerow.parties.manifests import Manifest
from hedgerow.parties.names import Name
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.integrate import Partition
from hedgerow.protocols.kinds import kind_named
from hedgerow.protocols.table import Upload
from hedgerow.tables import Domain

MAX_JOB_BYTES = 1 << 20
RUN_DIGITS = 12
_LONGEST = 63 - 1 - RUN_DIGITS


class Job(Numbered):
    """A job; use `load` at whoever proposes it and `from_toml` at a server.

    Parameters
    ----------
    name : str
        At most 50 characters.
    kind : {"trees", "open", "regression", "boosting"}
        See `hedgerow.protocols.kinds`.
    model : str
        Under which the servers keep it.
    population : str
        Charged with it; that of all uploads.
    uploads : tuple of str
        Ids, in the order of their slots.
    partition : {"horizontal", "vertical"}
    analysts : tuple of str
        Who may ask the model; for "open" nobody needs to.
    plan : Options
        Those of its kind.
    domain : Domain
        All columns and the target, with its classes or, for numbers, its bounds.

    Raises
    ------
    FormatError
        H885.
    """

    code: ClassVar[Code] = Code.BAD_JOB

    name: Name
    kind: Literal["trees", "open", "regression", "boosting"]
    model: Name
    population: Name
    uploads: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
    partition: Partition = "horizontal"
    analysts: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()
    plan: SerializeAsAny[Options]
    domain: Domain

    @field_validator("plan", mode="before")
    @classmethod
    def _of_its_kind(cls, plan: object, info: ValidationInfo) -> Options:
        """Read the table by the kind of the job, which stands before it."""
        kind = info.data.get("kind")
        if kind is None:
            # Of a kind that is refused nobody can tell what belongs into the table.
            return Options()
        try:
            return OPTIONS[kind].model_validate(plan)
        except HedgerowError as error:
            raise ValueError(error.found) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.name) > _LONGEST:
            raise ValueError(f"a name of more than {_LONGEST} characters")
        for key in ("uploads", "analysts"):
            names = getattr(self, key)
            if len(set(names)) < len(names):
                raise ValueError(f"{key} lists a name twice")
        self.plan.check(self.kind, self.domain.target)
        if (self.domain.capacity or 0) > MAX_SLOTS:
            raise ValueError(f"a domain with room for more than {MAX_SLOTS} records")
        if self.kind != "open" and not self.analysts:
            raise ValueError("no analysts: nobody could ask the model")
        return self

    @classmethod
    def load(cls, path: str | Path) -> Job:
        """Read a job file; a domain that is another file, beside it, is put in its place.

        Raises
        ------
        FormatError
            H885 for the job, H114 for a domain in a file of its own.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        # Not a path and not UTF-8 are both a ValueError.
        except (OSError, ValueError) as error:
            raise Code.BAD_JOB.error(found=f"{path}: {error}") from None
        data = _parsed(text, str(path))
        domain = data.get("domain")
        if isinstance(domain, dict) and isinstance(domain.get("file"), str):
            if len(domain) > 1:
                raise Code.BAD_JOB.error(found=f"in {path}: domain.file beside other keys")
            # What a server reads is the text: the domain is in it.
            data["domain"] = Domain.from_toml(path.parent / domain["file"]).to_dict()
        return cls._validated(data, str(path))

    @classmethod
    def from_toml(cls, text: str) -> Job:
        """Read the text of a job, also from somebody hostile; no file is opened.

        Raises
        ------
        FormatError
            H885.
        """
        data = _parsed(text, "the job")
        domain = data.get("domain")
        if isinstance(domain, dict) and "file" in domain:
            raise Code.BAD_JOB.error(
                expected="the domain itself in a job that is proposed",
                found="domain.file",
                fix="propose it with `hedgerow train`, which puts the domain in its place",
            )
        return cls._validated(data, "the job")

    @classmethod
    def _validated(cls, data: Mapping[str, Any], source: str) -> Job:
        try:
            return cls.model_validate(data)
        except HedgerowError as error:
            title = "" if error.code is Code.BAD_JOB else f"{error.code.spec.title}: "
            raise Code.BAD_JOB.error(found=f"in {source}: {title}{error.found}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that are not set."""
        fields = self.model_dump(mode="json", exclude={"domain"}, exclude_none=True)
        return fields | {"domain": self.domain.to_dict()}

    def to_toml(self) -> str:
        """Write it with all of its domain, for the servers."""
        return tomli_w.dumps(self.to_dict())

    @cached_property
    def hash(self) -> str:
        """SHA-256 of everything in it, 64 hexadecimal digits."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(b"hedgerow/job/v1" + text.encode()).hexdigest()

    @property
    def run_id(self) -> str:
        """Name of its run: its own name and the beginning of its hash."""
        return f"{self.name}-{self.hash[:RUN_DIGITS]}"

    def make_plan(self) -> AnyPlan:
        """Return the plan, from public numbers alone.

        Raises
        ------
        HedgerowError
            As `plan_hidden` and those of the other kinds: H201, H208 (no capacity), H501 and
            others.
        """
        return self._plan

    @cached_property
    def _plan(self) -> AnyPlan:
        return self.plan.plan(self.domain)

    @property
    def levels(self) -> int:
        """Levels of all trees that grow one after the other: what progress is counted in."""
        return kind_named(self.kind).levels(self.make_plan())

    def uploads_for(self, manifests: Iterable[Manifest]) -> list[Upload]:
        """Place the uploads in the slots of the plan.

        Parameters
        ----------
        manifests : iterable of Manifest
            Of exactly the uploads of the job, in any order.

        Returns
        -------
        list of Upload
            Upload i of the job is party 3 + i. If slots of the plan are left, one more, of the
            next party, stands for empty slots; `hedgerow.parties.uploads.shared_planes` fills it.

        Raises
        ------
        FormatError
            H885 if an upload is of another population, has other columns than the domain of the
            job, or if they do not fill its table.
        """
        return placed_uploads(self, list(manifests))

    def costs(self) -> dict[str, Guarantee]:
        """Return what training will cost each audience, from public numbers alone.

        It is what the ledger of the training will say. Later answers cost nothing more. It is
        computed once.

        Raises
        ------
        HedgerowError
            H202 for a finite epsilon and a domain that was read from data.
        """
        return dict(self._costs)

    @cached_property
    def _costs(self) -> dict[str, Guarantee]:
        return costs_of(self.kind, self.make_plan())


def _parsed(text: str, source: str) -> dict[str, Any]:
    if len(text) > MAX_JOB_BYTES:
        raise Code.BAD_JOB.error(found=f"{source} of more than {MAX_JOB_BYTES} characters")
    try:
        return tomllib.loads(text)
    # An integer of very many digits is a ValueError of its own.
    except (ValueError, RecursionError) as error:
        raise Code.BAD_JOB.error(found=f"in {source}: {error}") from None
