"""Options that are one of a few words: checked when they are given, never taken for another."""

from __future__ import annotations

from typing import Any, get_args

from hedgerow.errors import Code


def check_option(name: str, value: object, allowed: Any) -> None:
    """Refuse a value that is not one of a `Literal`'s.

    `name`: the parameter. `value`: what was given; values of another type are refused even where
    they compare as equal. `allowed`: the type that the parameter is annotated with. Raises H501.
    """
    choices = get_args(allowed)
    if not any(isinstance(value, type(choice)) and value == choice for choice in choices):
        raise Code.BAD_PARAMETER.error(
            expected=f"{name} as one of {', '.join(map(repr, choices))}", found=f"{name}={value!r}"
        )
