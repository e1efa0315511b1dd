"""Checks of parameters that every estimator shares."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from hedgerow.errors import Code, warn_caller
from hedgerow.tables import Domain


def generator(random_state: Any) -> np.random.Generator:
    """Turn scikit-learn's `random_state` into a generator for choices that nothing secret needs."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


def check_parameter(name: str, value: Any, ok: bool, expected: str) -> None:
    """Refuse a parameter with a numbered error."""
    if not ok:
        raise Code.BAD_PARAMETER.error(
            expected=f"{name} {expected}", found=f"{name}={value!r}", fix=f"correct {name}"
        )


def is_count(value: Any, least: int = 1) -> bool:
    """Whether `value` is a whole number of at least `least`."""
    return (
        isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least
    )


def check_domain(domain: Any) -> None:
    """Refuse what is neither None nor a domain, such as the path of one."""
    if domain is not None and not isinstance(domain, Domain):
        raise Code.BAD_PARAMETER.error(
            expected="domain to be a Domain",
            found=f"domain of type {type(domain).__name__}",
            fix="read a file with Domain.from_toml(path)",
        )


def domain_to_plan(given: Any, own: Domain | None) -> Domain:
    """Return the domain that a plan is for: the given one or the estimator's own; H203, H109."""
    chosen = own if given is None else given
    if chosen is None:
        raise Code.MISSING_DOMAIN.error(
            found="neither an argument nor a domain of the estimator",
            fix="pass domain= to the estimator, or a Domain to plan",
        )
    if not isinstance(chosen, Domain):
        raise Code.WRONG_TYPE.error(
            expected="a Domain", found=type(chosen).__name__, fix="pass the domain, not rows"
        )
    return chosen


def warn_of_domain_from_data() -> None:
    """Warn that a model with a domain from its own rows promises nothing."""
    warn_caller(
        "insecure_domain_from_data reads bounds, categories and classes from the rows: the ledger "
        "records this model as not private",
    )
