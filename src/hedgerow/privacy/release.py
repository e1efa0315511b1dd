"""Releases: frozen events that say what left, to whom, at what cost and why that cost holds.

A release names a *registered* mechanism. The register holds what an accountant may use about it
beyond epsilon, so that an event nobody vouched for raises instead of being guessed. Each mechanism
registers itself, next to its law.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

from hedgerow.errors import Code
from hedgerow.jsonfile import shown
from hedgerow.privacy.scopes import Scope

PUBLIC = "public"
"""Who sees a model that is published, and whoever takes no part."""
ROLES = ("server", "peer", "owner", "site", "coordinator", "analyst")
MAX_COUNT = 2**53
"""Counts are multiplied with floats, which hold every whole number up to here."""
_SINCE_VERSION_2 = {"rho", "sample_rate"}
_AUDIENCE = re.compile(rf"({'|'.join(ROLES)})(?: (\w(?:[\w .@-]*[\w.])?))?")


def check_number(value: object, name: str, low: float, high: float) -> float:
    """Return a number from `low` to `high` as a float; else H205."""
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # integers beyond the range of floats
            # NaN fails every comparison, so it is refused with the rest.
            if low <= float(value) <= high:
                return float(value)
    raise Code.BAD_RELEASE.error(found=f"{name}={shown(value)}")


def _count(value: object, name: str) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and 1 <= int(value) <= MAX_COUNT:
        return int(value)
    raise Code.BAD_RELEASE.error(
        expected=f"{name} a whole number from 1 to 2**53", found=f"{name}={shown(value)}"
    )


def _text(value: object, name: str) -> str:
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value
    raise Code.BAD_RELEASE.error(
        expected=f"printable text as {name}", found=f"{name}={value!r}", fix=f"give the {name}"
    )


@dataclass(frozen=True)
class Audience:
    """Who sees a release: the public, one party (``server 0``), or a whole role (``analyst``).

    A role without a name stands for all who hold it. A release to ``analyst`` is seen by every
    analyst, and what ``analyst`` saw is what all analysts saw together.
    """

    role: str
    name: str | None = None

    @staticmethod
    def parse(text: object) -> Audience:
        """Read ``public``, ``server 0``, ``analyst``, ``owner clinic north``; else H205."""
        audience = _parse_audience(text) if isinstance(text, str) else None
        if audience is None:
            raise Code.BAD_RELEASE.error(
                expected=f"an audience: 'public', or one of {', '.join(ROLES)}, with a name or not",
                found=f"audience {text!r}",
                fix="name who sees the value, such as 'server 0'",
            )
        return audience

    def sees(self, other: Audience) -> bool:
        """Whether this audience sees what goes to `other`."""
        if other.role == PUBLIC:
            return True
        same_role = self.role == other.role
        return same_role and (None in (self.name, other.name) or self.name == other.name)

    def is_within(self, other: Audience) -> bool:
        """Whether everyone here belongs to `other`: it is the same, its role, or the public."""
        return other.role == PUBLIC or other in (self, Audience(self.role))

    def __str__(self) -> str:
        return self.role if self.name is None else f"{self.role} {self.name}"


@lru_cache(maxsize=1024)
def _parse_audience(text: str) -> Audience | None:
    if text == PUBLIC:
        return Audience(PUBLIC)
    match = _AUDIENCE.fullmatch(text)
    return Audience(match[1], match[2]) if match else None


def pure_rho(epsilon: float) -> float:
    """Return epsilon^2 / 2: zCDP of every epsilon-DP mechanism.

    Paper: bun2016concentrated, proposition 1.4.
    """
    return epsilon * epsilon / 2


@dataclass(frozen=True)
class MechanismRule:
    """What the accountant knows about a mechanism.

    `rho` gives zCDP at an epsilon, at most epsilon^2 / 2. Without `guarantee` no finite epsilon may
    be stated, such as for a law that is approximate in an unknown way, or for an exact value. If
    `concentrated`, releases state their zCDP (`Release.rho`) in place of a finite epsilon.

    `tau_delta`: every delta charged is at least (1 + e^epsilon) tau, with tau the total variation
    distance to a law that is epsilon-DP and has this rho. Needed where rho < epsilon^2 / 2, else a
    release with delta > 0 counts at epsilon^2 / 2 (see `hedgerow.privacy.accounting`).

    `mirrored`: for every two neighbours there is a bijection of the outcomes that swaps their two
    laws; sampling is then counted more tightly (see `hedgerow.privacy.renyi`).

    `gaussian`: a release adds discrete Gaussian noise of sigma^2 = sensitivity^2 / (2 rho) to whole
    numbers, each on its own, and the sensitivity is that in L2; it is then counted by the exact
    curve (see `hedgerow.privacy.gaussian`).
    """

    name: str
    argument: str
    rho: Callable[[float], float] = pure_rho
    guarantee: bool = True
    tau_delta: bool = False
    concentrated: bool = False
    mirrored: bool = False
    gaussian: bool = False


_REGISTER: dict[str, MechanismRule] = {}


def register_mechanism(
    name: str,
    *,
    argument: str,
    rho: Callable[[float], float] = pure_rho,
    guarantee: bool = True,
    tau_delta: bool = False,
    concentrated: bool = False,
    mirrored: bool = False,
    gaussian: bool = False,
) -> MechanismRule:
    """Make a mechanism known to accountants; see `MechanismRule` for the parameters.

    Registering the same rule twice changes nothing; another rule under a known name is refused.
    """
    texts = _text(name, "name"), _text(argument, "argument")
    rule = MechanismRule(*texts, rho, guarantee, tau_delta, concentrated, mirrored, gaussian)
    if _REGISTER.setdefault(name, rule) != rule:
        raise Code.BAD_RELEASE.error(
            expected="one rule for each mechanism",
            found=f"a second rule for {name!r}",
            fix="register the variant under its own name",
        )
    return rule


def mechanism_rule(name: str) -> MechanismRule:
    """Return the rule of a registered mechanism; an unknown one raises H204."""
    try:
        return _REGISTER[name]
    except (KeyError, TypeError):
        raise Code.UNKNOWN_MECHANISM.error(
            expected=f"one of: {', '.join(sorted(_REGISTER))}", found=repr(name)
        ) from None


register_mechanism(
    "exact",
    argument="a noiseless function of the data: no finite epsilon",
    guarantee=False,
)


@dataclass(frozen=True)
class Release:
    """One release, or `times` equal ones in a row: a worst case where the number is adaptive.

    Epsilon, which may be infinite, and delta are the cost of one time, under add/remove neighbours.
    In a scope that ends in `EACH`, they are the cost inside one part: delta counts the variables of
    that part. `claimed` is the epsilon that a paper states for one time, where it differs. One
    record moves the input by at most `sensitivity`, above 0.

    Declared openings refer to a release by its `reason`. `variables`, the noise variables that one
    time (in `EACH`, one part) draws, are information, used in no formula: two for a value with
    two-sided noise, one for a candidate of noisy max.

    `rho` is zCDP of one time, for a mechanism that has no pure epsilon: epsilon is then infinite,
    and delta says that the release is delta-approximately rho-zCDP. Where several releases are made
    from one sample, their rho together, as one release.

    `sample_rate` is the probability with which each record is in the sample that one time is
    computed from, by a coin of its own that nobody sees, flipped anew for each time; only with
    `rho`, which is the cost inside the sample.
    """

    mechanism: str
    epsilon: float
    delta: float
    sensitivity: float
    scope: Scope
    audience: str
    reason: str
    claimed: float | None = None
    times: int = 1
    variables: int | None = None
    rho: float | None = None
    sample_rate: float = 1.0

    def __post_init__(self) -> None:
        rule = mechanism_rule(self.mechanism)
        self._set("epsilon", check_number(self.epsilon, "epsilon", 0, math.inf))
        self._set("delta", check_number(self.delta, "delta", 0, 1))
        self._set("sensitivity", check_number(self.sensitivity, "sensitivity", 0, math.inf))
        if self.sensitivity == 0 or math.isinf(self.sensitivity):
            raise Code.BAD_RELEASE.error(found=f"sensitivity={self.sensitivity}")
        if not isinstance(self.scope, Scope):
            raise Code.BAD_RELEASE.error(expected="a Scope", found=f"scope={self.scope!r}")
        Audience.parse(self.audience)
        _text(self.reason, "reason")
        if self.claimed is not None:
            self._set("claimed", check_number(self.claimed, "claimed", 0, math.inf))
        self._set("times", _count(self.times, "times"))
        if self.variables is not None:
            self._set("variables", _count(self.variables, "variables"))
        if not rule.guarantee and math.isfinite(self.epsilon):
            raise Code.BAD_RELEASE.error(
                expected=f"epsilon = infinity for {self.mechanism!r} ({rule.argument})",
                found=f"epsilon={self.epsilon}",
                fix="charge infinity, and give a paper's figure as claimed=",
            )
        self._check_rho(rule)

    def _check_rho(self, rule: MechanismRule) -> None:
        self._set("sample_rate", check_number(self.sample_rate, "sample_rate", 0, 1))
        if self.rho is not None:
            self._set("rho", check_number(self.rho, "rho", 0, sys.float_info.max))
            if not rule.concentrated or math.isfinite(self.epsilon):
                raise Code.BAD_RELEASE.error(
                    expected="rho for a mechanism that is counted by it, with epsilon = infinity",
                    found=f"rho={self.rho} and epsilon={self.epsilon} for {self.mechanism!r}",
                    fix="state either epsilon or, for the discrete Gaussian, rho",
                )
        if self.sample_rate == 0 or (self.sample_rate < 1 and self.rho is None):
            raise Code.BAD_RELEASE.error(
                expected="0 < sample_rate < 1 for a release with rho, else 1",
                found=f"sample_rate={self.sample_rate} and rho={self.rho}",
                fix="leave sample_rate out",
            )

    def _set(self, field: str, value: float) -> None:
        object.__setattr__(self, field, value)

    @property
    def rule(self) -> MechanismRule:
        """What the accountant knows about the mechanism."""
        return mechanism_rule(self.mechanism)

    @property
    def bounded(self) -> bool:
        """Whether it promises anything: a finite epsilon, or a rho."""
        return self.rho is not None or math.isfinite(self.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinity becomes ``"inf"``."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data["scope"] = self.scope.to_list()
        infinite = {key: "inf" for key in ("epsilon", "claimed") if data[key] == math.inf}
        return {**data, **infinite}

    @classmethod
    def from_dict(cls, data: object) -> Release:
        """Read what `to_dict` wrote, older files too; unknown or missing keys raise H205."""
        names = {field.name for field in fields(cls)}
        if not isinstance(data, Mapping) or set(data) not in (names, names - _SINCE_VERSION_2):
            found = sorted(map(str, data)) if isinstance(data, Mapping) else data
            raise Code.BAD_RELEASE.error(expected=f"the keys {sorted(names)}", found=repr(found))
        unbounded = {key: math.inf for key in ("epsilon", "claimed") if data[key] == "inf"}
        return cls(**{**data, **unbounded, "scope": Scope.from_list(data["scope"])})
