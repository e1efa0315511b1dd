"""`Policy`: what a party allows, from the ``policy.toml`` of its folder; `OwnerTerms` of an owner.

A policy is for its party alone to set. The lines of an owner's policy that are about jobs go with
its uploads to the servers, which hold to them like to their own. The checks take plain numbers and
names; a refusal names the line that is in the way.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field, Strict, StrictBool, field_validator, model_validator

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.consortium.config import read_toml
from hedgerow.parties.consortium.names import Name, check_name
from hedgerow.parties.store.database import Quota
from hedgerow.parties.store.durable import check_private
from hedgerow.protocols.registry import PROTOCOLS, current_name

# Sums of shares of a budget may exceed it by their rounding.
_SLACK = 1 + 1e-12

Count = Annotated[int, Strict(), Field(ge=0)]

LIFETIME_DELTA = 1e-6
"""Of a population for which a policy names an epsilon alone."""


class Lifetime(Numbered):
    """What all jobs on the data of a population may cost together, with all their models answer.

    `epsilon`: infinite where jobs without a guarantee are allowed; delta says nothing then.
    """

    code: ClassVar[Code] = Code.BAD_POLICY_FILE

    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = LIFETIME_DELTA


class _Place(NamedTuple):
    """The file that lines stand in, who can change one, and when that counts."""

    file: str
    operator: str
    everybody: str
    effect: str


_HERE = _Place(
    "policy.toml",
    "this party's operator",
    "the operator of every server",
    # One that goes on with the old file refuses again, and its operator has just changed it.
    "a server that is running reads the file again after `systemctl reload hedgerow`, or "
    "`kill -HUP` with the process id of `hedgerow serve`",
)


class JobRules(Numbered):
    """The lines that jobs and questions are checked by.

    Epsilons and deltas of a job are for every audience by itself; queries are rows.

    `allowed_posters`: where it is missing, the owners of the uploads of a job may post it.
    `populations`: what all jobs on the data of each may spend together, a training with all that
    its model will answer. A number stands for that epsilon, and `LIFETIME_DELTA`.
    """

    code: ClassVar[Code] = Code.BAD_POLICY_FILE

    largest_epsilon_per_job: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    largest_delta_per_job: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 1e-9
    allow_exact: StrictBool = False
    allowed_protocols: tuple[Name, ...]
    allowed_analysts: tuple[Name, ...]
    allowed_posters: tuple[Name, ...] | None = None
    largest_trees_per_job: Count = 1000
    largest_depth: Count = 20
    queries_per_model: Count
    queries_per_analyst: Count
    populations: dict[Name, Lifetime] = {}

    @field_validator("allowed_protocols")
    @classmethod
    def _current_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """Read the words of older versions: what a party has allowed is still allowed."""
        return tuple(map(current_name, names))

    @field_validator("populations", mode="before")
    @classmethod
    def _epsilon_alone(cls, populations: Any) -> Any:
        if not isinstance(populations, Mapping):
            return populations
        return {name: _lifetime(name, value) for name, value in populations.items()}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for key in ("allowed_protocols", "allowed_analysts", "allowed_posters"):
            _check_once(key, getattr(self, key) or ())
        unknown = [name for name in self.allowed_protocols if name not in PROTOCOLS]
        if unknown:
            raise ValueError(f"allowed_protocols has {unknown[0]!r}: choose from {list(PROTOCOLS)}")
        for name, lifetime in self.populations.items():
            if math.isinf(lifetime.epsilon) and not self.allow_exact:
                raise ValueError(f"populations.{name} is infinite, and allow_exact is false")
        return self

    def check_protocol(self, protocol: str) -> None:
        """Refuse a protocol that is not listed."""
        if protocol not in self.allowed_protocols:
            raise self._refusal("allowed_protocols", f"protocol {protocol!r}")

    def check_analysts(self, analysts: Iterable[str]) -> None:
        """Refuse analysts that are not listed."""
        for analyst in analysts:
            if analyst not in self.allowed_analysts:
                raise self._refusal("allowed_analysts", f"analyst {analyst!r}")

    def check_poster(self, poster: str, owners: Iterable[str]) -> None:
        """Refuse a job of somebody who may not post it.

        `owners`: of its uploads; they may where nobody is listed.
        """
        if self.allowed_posters is not None:
            if poster not in self.allowed_posters:
                raise self._refusal("allowed_posters", f"a job posted by {poster!r}")
        elif poster not in owners:
            raise self._refusal(
                "allowed_posters", f"a job posted by {poster!r}, which owns no upload of it"
            )

    def check_size(self, *, trees: int, depth: int, epsilon: float, queries: int) -> None:
        """Refuse a job by the numbers that stand in it, before anything is computed from them.

        `epsilon`: one that the job cannot stay below.
        `queries`: answers that it pays for in advance.
        """
        for key, value, what in (
            ("largest_trees_per_job", trees, "trees"),
            ("largest_depth", depth, "levels"),
            ("queries_per_model", queries, "queries"),
        ):
            if value > getattr(self, key):
                raise self._refusal(key, f"a job of {value} {what}")
        if epsilon > self.largest_epsilon_per_job * _SLACK:
            raise self._refusal("largest_epsilon_per_job", f"epsilon {epsilon:.6g} in the job")

    def check_epsilon(
        self, epsilon: Mapping[str, float], delta: Mapping[str, float] | None = None
    ) -> None:
        """Refuse a job that costs too much, by audience as the ledger names them.

        Epsilon is infinite where there is no guarantee; delta is zero where it is not given.
        """
        if not epsilon:
            # No figures are not the same as no cost.
            raise self._refusal("largest_epsilon_per_job", "a job that names no audience")
        for audience, value in epsilon.items():
            _check_amount(value, f"epsilon for {audience}")
            if math.isinf(value):
                if not self.allow_exact:
                    raise self._refusal("allow_exact", f"no finite epsilon for {audience}")
            elif value > self.largest_epsilon_per_job * _SLACK:
                raise self._refusal(
                    "largest_epsilon_per_job", f"epsilon {value:.6g} for {audience}"
                )
        for audience, value in (delta or {}).items():
            _check_amount(value, f"delta for {audience}")
            # Without a finite epsilon, delta says nothing.
            exact = math.isinf(epsilon.get(audience, 0.0))
            if not exact and value > self.largest_delta_per_job * _SLACK:
                raise self._refusal("largest_delta_per_job", f"delta {value:.3g} for {audience}")

    def check_account(
        self,
        population: str,
        *,
        spent: float,
        epsilon: float,
        spent_delta: float = 0.0,
        delta: float = 0.0,
        word: str = "spent",
    ) -> None:
        """Refuse what, with all that was spent so far, is beyond a lifetime epsilon or delta."""
        check_name(population, "population")
        _check_amount(spent, "epsilon spent")
        _check_amount(epsilon, "epsilon")
        _check_amount(spent_delta, "delta spent")
        _check_amount(delta, "delta")
        if population not in self.populations:
            raise self._refusal("populations", f"population {population!r}, which is not listed")
        lifetime = self.populations[population]
        if spent + epsilon > lifetime.epsilon * _SLACK:
            raise self._refusal(
                f"populations.{population}.epsilon",
                f"epsilon {spent:.6g} {word} and {epsilon:.6g} more",
                exact=math.isinf(epsilon),
            )
        # Where nothing finite is promised, delta says nothing.
        if not math.isinf(lifetime.epsilon) and spent_delta + delta > lifetime.delta * _SLACK:
            raise self._refusal(
                f"populations.{population}.delta",
                f"delta {spent_delta:.3g} {word} and {delta:.3g} more",
            )

    def check_job(
        self,
        *,
        protocol: str,
        epsilon: Mapping[str, float],
        analysts: Iterable[str],
        delta: Mapping[str, float] | None = None,
        populations: Iterable[str] = (),
    ) -> None:
        """Refuse, with the line of the policy, a job that it does not allow: H858.

        Each of its populations must afford the job by itself, whatever it spent before: that is for
        `check_account`. Figures are those of `check_epsilon`.
        """
        self.check_protocol(protocol)
        self.check_analysts(analysts)
        self.check_epsilon(epsilon, delta)
        for population in populations:
            worst = max((delta or {}).values(), default=0.0)
            self.check_account(population, spent=0.0, epsilon=max(epsilon.values()), delta=worst)

    def check_queries(self, analyst: str, *, rows: int, by_analyst: int, by_all: int) -> None:
        """Refuse rows beyond the budget of a model, after those asked before."""
        self.check_analysts([analyst])
        self.check_rows(rows=rows, by_analyst=by_analyst, by_all=by_all)

    def check_rows(self, *, rows: int, by_analyst: int, by_all: int) -> None:
        """Refuse rows beyond the budget of a model, whoever asks."""
        for count, what in ((rows, "rows"), (by_analyst, "by_analyst"), (by_all, "by_all")):
            # A negative count would give budget back.
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise Code.BAD_PARAMETER.error(
                    expected=f"{what} as a number of rows", found=f"{count!r}"
                )
        for key, before in (("queries_per_analyst", by_analyst), ("queries_per_model", by_all)):
            if before + rows > getattr(self, key):
                raise self._refusal(key, f"{before} queries before and {rows} more")

    def _refusal(self, key: str, found: str, *, exact: bool = False) -> HedgerowError:
        table, *inner = key.split(".")
        value: Any = getattr(self, table)
        if inner:
            value = getattr(value[inner[0]], inner[1])
            line = f"[populations] {'.'.join(inner)} = {value:.6g}"
        elif table == "populations":
            line = "[populations]"
        elif value is None:
            line = f"no line {key}: owners of an upload of the job alone"
        else:
            line = f"{key} = {_toml_value(value)}"
        place = self._place()
        fix = f"ask for less, or ask {place.operator} to change {key} in {place.file}"
        if exact:
            fix = (
                f"if jobs without a finite epsilon are allowed here, write {inner[0]} = inf under "
                f"[populations] in {place.file}, and allow_exact = true"
            )
        elif key == "populations":
            fix = (
                f"ask {place.everybody} to add a line with its lifetime epsilon, such as "
                f"NAME = 3.0, under [populations] in {place.file}"
            )
        return Code.POLICY_REFUSES.error(
            expected=f"what {place.file} allows: {line}", found=found, fix=f"{fix}; {place.effect}"
        )

    def _place(self) -> _Place:
        return _HERE


class Policy(JobRules):
    """What a party allows; use `load`. Raises H853.

    Every line is explained in the file that `hedgerow.parties.consortium.founding` writes.

    `runs_per_poster`: without runs that have ended with a model: a server keeps them all.
    `state_bytes_per_member`: what requests of one member may leave in the store, for ever.
    `log_bytes`: of the log, and of the part of it before.
    `approvers`: people, one of whom has to approve a job before it begins; nobody has to where none
    are listed. After `approval_seconds` without a decision it is refused.
    """

    largest_upload_bytes: Count = 1 << 28
    upload_bytes_per_owner: Count = 1 << 32
    runs_per_poster: Count = 1000
    state_bytes_per_member: Count = 1 << 28
    log_bytes: Annotated[int, Strict(), Field(ge=1 << 16)] = 1 << 28
    approvers: tuple[Name, ...] = ()
    approval_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 86400.0
    open_metrics: StrictBool = False

    @model_validator(mode="after")
    def _approved_by_somebody(self) -> Self:
        _check_once("approvers", self.approvers)
        return self

    @classmethod
    def load(cls, folder: str | Path) -> Policy:
        """Read the ``policy.toml`` of a party's folder; H854 or H853 if it is not safe or sound."""
        folder = Path(folder).absolute()
        check_private(folder)
        return read_toml(cls, folder / "policy.toml")

    def become(self, other: Policy) -> None:
        """Take over all lines of another policy, for everybody who holds this one.

        Who checks something at this moment finds the old lines or the new ones, and no third.
        """
        # In one step, where pydantic keeps the fields; a policy is no key of anything.
        object.__setattr__(self, "__dict__", dict(vars(other)))

    def check_runs(self, poster: str, runs: int) -> None:
        """Refuse one more run of a member that has so many here, none of them with a model."""
        if runs >= self.runs_per_poster:
            raise self._refusal("runs_per_poster", f"{runs} runs of {poster!r} and one more")

    def quota(self, member: str) -> Quota:
        """Return what refuses that requests of a member leave more in the store than they may."""

        def check(octets: int) -> None:
            if octets > self.state_bytes_per_member:
                raise self._refusal(
                    "state_bytes_per_member", f"{octets} bytes by requests of {member!r}"
                )

        return Quota(member, check)

    def check_approver(self, person: str) -> None:
        """Refuse a decision on a job by a person who is not listed."""
        if person not in self.approvers:
            raise self._refusal("approvers", f"a decision by {person!r}")

    def check_upload(self, octets: int, *, kept: int) -> None:
        """Refuse an upload that is too large, by itself or with what its owner has here already."""
        if octets > self.largest_upload_bytes:
            raise self._refusal("largest_upload_bytes", f"an upload of {octets} bytes")
        if kept + octets > self.upload_bytes_per_owner:
            raise self._refusal(
                "upload_bytes_per_owner", f"{kept} bytes of this owner here and {octets} more"
            )

    def terms(self, owner: str, population: str, lifetime: Lifetime | None) -> OwnerTerms:
        """Return what an owner with this policy asks of servers that have its rows.

        `lifetime`: that of the population there, with all that was charged before; None for none.
        """
        lines = {name: getattr(self, name) for name in JobRules.model_fields}
        kept = {} if lifetime is None else {population: lifetime}
        return OwnerTerms(owner=owner, **lines | {"populations": kept})


MAX_TERMS_BYTES = 1 << 16


class OwnerTerms(JobRules):
    """What an owner allows servers to do with its uploads of a population. H887."""

    code: ClassVar[Code] = Code.BAD_UPLOAD

    owner: Name

    def to_json(self) -> str:
        """Write it, always in the same way; an infinite epsilon is the text ``inf``."""
        fields = self.model_dump(mode="json")
        for lifetime in fields["populations"].values():
            if not isinstance(lifetime["epsilon"], float) or math.isinf(lifetime["epsilon"]):
                lifetime["epsilon"] = "inf"
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(b"hedgerow/terms/v1" + self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str | bytes) -> OwnerTerms:
        """Read what `to_json` wrote, also from somebody hostile; H887 for anything else."""
        if len(text) > MAX_TERMS_BYTES:
            raise Code.BAD_UPLOAD.error(found=f"terms of {len(text)} bytes")
        return cls.model_validate(jsonfile.loads(text, Code.BAD_UPLOAD))

    def _place(self) -> _Place:
        return _Place(
            f"policy.toml of {self.owner}",
            self.owner,
            self.owner,
            f"servers hear of it from `hedgerow uploads terms POPULATION` at {self.owner}",
        )


def _lifetime(name: object, value: Any) -> Any:
    """Read a lifetime; what is none, pydantic refuses."""
    fields = {"epsilon": value} if type(value) in (int, float) else value
    try:
        return Lifetime.model_validate(fields) if isinstance(fields, dict) else fields
    except HedgerowError as error:
        raise ValueError(f"{name}: {error.found}") from None


def _check_once(key: str, names: tuple[str, ...]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"{key} lists a name twice")


def _toml_value(value: Any) -> str:
    """Write a value as in TOML."""
    if isinstance(value, tuple):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _check_amount(value: float, what: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise Code.BAD_PARAMETER.error(expected=f"{what} as a number from 0", found=repr(value))
