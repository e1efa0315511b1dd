"""What every protocol declares: its `Options`, and the `Plan` that follows from them.

`Options` is the one place where a parameter's name, type, bounds, default and a sentence about it
stand. An estimator's constructor, the table ``[plan]`` of a job and the reference page all take
them from there, and nobody else checks them::

    class TreeOptions(Options):
        epsilon: Epsilon | None = Field(None, description="Budget of the whole model.")
        max_depth: Auto | AtLeastOne = Field("auto", description="Levels of splits.")

        def plan(self, domain, capacity=None):
            return plan_tree(domain, self, capacity)

    TreeOptions.from_parameters(estimator.get_params(deep=False))  # H201, H501
    TreeOptions.from_table(job["plan"])                            # H885

A `Plan` holds public numbers alone. `releases()` is what a run charges and `openings()` what it
may open: the run takes these objects and makes none of its own.

A `Program` is what one role of a protocol does, from the first message to the result, given a
`Context`. It does no I/O of its own and does not know where it runs: in one process with all others
(`hedgerow.net.mesh`), in a process on this machine (`hedgerow.net.launch`), or at a party.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    runtime_checkable,
)

from pydantic import ConfigDict, Field, Strict, ValidationError, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network
from hedgerow.numbered import Numbered
from hedgerow.privacy import Ledger, NoiseSource, Opening, Release
from hedgerow.privacy.accounting import Guarantee
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.protocols.checkpoint import Checkpoints, NoCheckpoints, Stage
from hedgerow.tables import Domain, Target

MAX_COUNT = 1 << 40
"""Of records, levels and whatever else has no bound of its own."""

Auto = Literal["auto"]
Computed = Literal["clear", "replicated"]
"""How servers compute: on plain numbers, all three in one process, or on shares."""
Epsilon = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, lt=1, allow_inf_nan=False)]
Rate = Annotated[float, Strict(), Field(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]
AtLeastOne = Annotated[int, Strict(), Field(ge=1, le=MAX_COUNT)]
AtLeastTwo = Annotated[int, Strict(), Field(ge=2, le=MAX_COUNT)]


@runtime_checkable
class Plan(Protocol):
    """Public numbers of one run, and what follows from them."""

    @property
    def domain(self) -> Domain:
        """Public description of the table."""

    def releases(self) -> Sequence[Release]:
        """Return exactly what a run charges, in order."""

    def openings(self) -> Sequence[Opening]:
        """Return exactly what a run may open."""


class Memory(Protocol):
    """What one member must not forget of a run, from one attempt to the next.

    It is durable when a call returns, before anything that follows from it leaves; it may be as
    secret as shares. Nobody needs it once the run is done.
    """

    def load(self) -> bytes | None:
        """Return the state that was kept last."""

    def keep(self, state: bytes) -> None:
        """Keep a state in the place of the one before."""

    def lines(self) -> Iterable[bytes]:
        """Return all that was appended, in order."""

    def append(self, line: bytes) -> None:
        """Keep a line after those before: a long history costs what is new of it."""


class NoMemory:
    """Keeps nothing: a run in one process that fails is not begun again."""

    def load(self) -> bytes | None:
        """Return nothing."""
        return None

    def keep(self, state: bytes) -> None:
        """Keep nothing."""

    def lines(self) -> Iterable[bytes]:
        """Return nothing."""
        return ()

    def append(self, line: bytes) -> None:
        """Keep nothing."""


def tell_nobody(numbers: Mapping[str, int]) -> None:
    """Report progress to nobody."""
    del numbers


@dataclasses.dataclass(frozen=True)
class Context:
    """What a program gets; see the head of this module.

    `members` are the names of those who take part in this attempt, by their numbers on the network:
    servers first, if there are any, then the others in the order of the job. `plan` and `job` are
    public and the same at all of them. The `table` is this member's own rows. A `ledger` that is
    given was charged with ``plan.releases()`` before the first message. `stages` are shares that
    all members have durably. `prepared` is what peers have made ahead, for one use. A `seed`, and a
    `source` that is not the system's, make a run repeatable, which is not private. `progress` is
    told public numbers.
    """

    network: Network
    members: tuple[str, ...]
    plan: Any
    job: Any = None
    table: Any = dataclasses.field(default=None, repr=False)
    ledger: Ledger | None = dataclasses.field(default=None, repr=False)
    stages: Checkpoints = dataclasses.field(default_factory=NoCheckpoints, repr=False)
    memory: Memory = dataclasses.field(default_factory=NoMemory, repr=False)
    prepared: Stage | None = dataclasses.field(default=None, repr=False)
    source: NoiseSource = dataclasses.field(default_factory=NoiseSource.system)
    seed: int | None = None
    engine: Computed = "replicated"
    progress: Callable[[Mapping[str, int]], None] = tell_nobody

    @property
    def party(self) -> int:
        """Number of the one member that lives here."""
        (party,) = self.network.local
        return party

    def keep(self, state: Callable[[], bytes]) -> None:
        """Keep a state before what follows from it leaves; it is only made where it is kept."""
        if not isinstance(self.memory, NoMemory):
            self.memory.keep(state())


Program = Callable[[Context], Any]


def guarantees(ledger: Ledger) -> dict[str, Guarantee]:
    """Return the totals of a ledger by audience, the public among them.

    Where its budget grants a delta, the tightest figure at it counts if it is the smaller one.
    """
    found = {audience: ledger.total(audience) for audience in ledger.audiences}
    budget = ledger.budget
    if budget is None or not budget.grants_delta:
        return found
    for audience, total in found.items():
        tight = ledger.tightest(audience, budget.delta)
        if tight.epsilon < total.epsilon:
            found[audience] = tight
    return found


class Size(NamedTuple):
    """What options ask for: what a policy can compare before anything is computed.

    ``epsilon`` is one that the total cannot stay below, and ``queries`` the answers that are paid
    for in advance; 0 where there is no such number.
    """

    trees: int = 1
    depth: int = 0
    epsilon: float = 0.0
    queries: int = 0


class Option(NamedTuple):
    """One row of the reference page."""

    key: str
    parameter: str
    values: str
    default: str
    description: str


class Options(Numbered):
    """Parameters of a protocol; a subclass declares the fields, each with a description.

    A rule between fields is a validator (``mode="after"``) that raises a numbered error, H501 with
    ``expected``, ``found`` and ``fix``, in the names of the fields.
    """

    model_config = ConfigDict(strict=True)
    code: ClassVar[Code] = Code.BAD_JOB

    parameter_names: ClassVar[Mapping[str, str]] = {}
    """What estimators call those fields that jobs name otherwise, by field."""

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """Read parameters of an estimator; those that are none of the options are left aside.

        Where ``noise`` is "none", epsilon is checked and then left out: nothing uses it. H201 for
        epsilon, H501 for all others.
        """
        given = {
            field: _python_number(parameters[name])
            for field, name in cls.parameters().items()
            if name in parameters
        }
        if "epsilon" in given:
            check_epsilon(parameters["epsilon"], noise=given.get("noise"))
            if given.get("noise") == "none":
                del given["epsilon"]
        try:
            return cls(**given)
        except HedgerowError as error:
            # That one tells all problems at once and speaks of keys, as is good for files.
            if isinstance(error.__context__, ValidationError):
                raise cls._refusal(error.__context__, parameters) from None
            raise

    @classmethod
    def from_table(cls, table: object) -> Self:
        """Read the table ``[plan]`` of a job; H885 for what does not belong into it."""
        return cls.model_validate(table)

    @classmethod
    def parameters(cls) -> dict[str, str]:
        """Return what an estimator calls each field."""
        return {field: cls.parameter_names.get(field, field) for field in cls.model_fields}

    @classmethod
    def reference(cls) -> Iterator[Option]:
        """Describe the fields, in order."""
        schemas = cls.model_json_schema()["properties"]
        for field, name in cls.parameters().items():
            info = cls.model_fields[field]
            default = "needed" if info.is_required() else repr(info.default)
            values = phrase(schemas[field])
            yield Option(field, name, values, default, info.description or "")

    def plan(self, domain: Domain, capacity: int | None = None) -> Plan:
        """Return what a run would do and charge, from public numbers alone.

        A capacity is used in place of the options' own, and that in place of the domain's. H116 for
        a target that cannot be learned, H201 for an epsilon that is no budget, H208 without a
        capacity that is needed, H501 for a model that cannot be grown.
        """
        del capacity
        raise Code.BAD_JOB.error(
            found=f"a table [plan] of no protocol, for {len(domain.names)} columns"
        )

    def check_target(self, protocol: str, target: Target | None) -> None:
        """Refuse, with a ValueError, a job of this protocol with such a target."""

    def size(self, target: Target | None) -> Size:
        """Return what the options ask for as they stand: nothing is computed."""
        del target
        return Size()

    @classmethod
    def _refusal(cls, error: ValidationError, parameters: Mapping[str, Any]) -> HedgerowError:
        first = error.errors(include_url=False)[0]
        inner = first.get("ctx", {}).get("error")
        if isinstance(inner, HedgerowError):
            return inner
        if not first["loc"]:
            return Code.BAD_PARAMETER.error(found=first["msg"].removeprefix("Value error, "))
        field = str(first["loc"][0])
        name = cls.parameters()[field]
        return _bad_parameter(
            name, parameters.get(name), cls.model_json_schema()["properties"][field]
        )


class BudgetOptions(Options):
    """Options of models with noise, and so with an epsilon, and perhaps of the same without."""

    if TYPE_CHECKING:
        # A field of every subclass, at its own place: their order is that of job files.
        epsilon: float | None

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise, and so an epsilon."""
        return True

    @model_validator(mode="after")
    def _epsilon_where_there_is_noise(self) -> Self:
        if not self.is_noisy and self.epsilon is not None:
            raise ValueError("epsilon, and noise = 'none', which has no finite epsilon")
        if self.is_noisy and self.epsilon is None:
            raise ValueError("no epsilon, and noise, which needs one")
        return self

    def budget(self) -> float:
        """Return epsilon, or 0 where there is no noise; H212 for one that no plan can divide."""
        return 0.0 if self.epsilon is None else check_whole_epsilon(self.epsilon)


def _bad_parameter(name: str, value: object, schema: Mapping[str, Any]) -> HedgerowError:
    """Return the refusal of a value that is not what the JSON schema of its field says."""
    choices = _choices(schema)
    if choices is not None:
        return Code.BAD_PARAMETER.error(
            expected=f"{name} as one of {', '.join(map(repr, choices))}", found=f"{name}={value!r}"
        )
    return Code.BAD_PARAMETER.error(
        expected=f"{name} must {_verb(schema)}", found=f"{name}={value!r}", fix=f"correct {name}"
    )


def phrase(schema: Mapping[str, Any]) -> str:
    """Say in words which values the JSON schema of a field allows."""
    choices = _choices(schema)
    if choices is not None:
        return " or ".join(map(repr, choices)) if len(choices) < 3 else _listed(choices)
    if "anyOf" in schema:
        # Words before numbers, whatever the order of the types.
        parts = sorted(schema["anyOf"], key=lambda part: part.get("type") in ("integer", "number"))
        return " or ".join(map(phrase, parts))
    match schema.get("type"):
        case "null":
            return "None"
        case "boolean":
            return "True or False"
        case "integer":
            return f"a whole number{_bounds(schema)}"
        case "number":
            return f"a number{_bounds(schema)}"
        case "array":
            return "a list"
    return "text"


def check_epsilon(epsilon: Any, *, noise: Any = None) -> None:
    """Refuse, H201, what is not a finite number above 0; ``noise`` matters for the advice alone."""
    real = isinstance(epsilon, Real) and not isinstance(epsilon, bool)
    try:
        if real and math.isfinite(epsilon) and float(epsilon) > 0:
            return
    except OverflowError:
        pass
    fix = None
    if noise == "none":
        fix = "leave epsilon out: it is not used with noise='none'"
    elif noise is not None and real and epsilon > 0:
        fix = "for a model without noise, and so without a guarantee, set noise='none' instead"
    raise Code.BAD_EPSILON.error(found=f"epsilon={epsilon!r}", fix=fix)


def _choices(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the words of a field that allows nothing but words."""
    if "enum" in schema:
        return list(schema["enum"])
    return [schema["const"]] if "const" in schema else None


def _listed(choices: Sequence[Any]) -> str:
    return f"one of {', '.join(map(repr, choices))}"


def _verb(schema: Mapping[str, Any]) -> str:
    """Say what a value must do: ``be`` or ``lie``, and where."""
    if schema.get("type") == "number":
        low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if low is not None and high is not None:
            return f"lie strictly between {low:g} and {high:g}"
        if low is not None and "maximum" in schema:
            return f"be above {low:g} and at most {schema['maximum']:g}"
        if "minimum" in schema and high is not None:
            return f"lie in [{schema['minimum']:g}, {high:g})"
    return f"be {phrase(schema)}"


def _bounds(schema: Mapping[str, Any]) -> str:
    """Say what a number is bounded by; a bound that nobody reaches is not worth a word."""
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if most is not None and most >= MAX_COUNT:
        most = None
    if least is not None and most is not None:
        return f" from {least:,} to {most:,}"
    words = [
        f"{text} {value:,}"
        for text, value in (
            ("of at least", least),
            ("above", above),
            ("at most", most),
            ("below", below),
        )
        if value is not None
    ]
    return f" {' and '.join(words)}" if words else ""


def _python_number(value: Any) -> Any:
    """Return any number as the int or float that it is, as scikit-learn takes them."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return value
