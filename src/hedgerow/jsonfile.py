"""One strict reader for JSON that comes from elsewhere: models, ledgers, records of openings.

Such a file is not trusted. Python's own reader takes the last of two equal keys, reads NaN and
infinity, and lets a long number or a deep nesting end in an error of its own; here all of that is
refused, with the number of the caller's format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hedgerow.errors import Code, HedgerowError

MAX_DIGITS = 300
"""Digits that an integer may have: every one of them is within the range of floats."""


def plain(value: float | None) -> float | str | None:
    """Return a number, if there is one, that JSON can hold: infinity as text."""
    return "inf" if value == math.inf else value


def loads(text: str | bytes, code: Code) -> dict[str, Any]:
    """Read a JSON object.

    `text`: bytes are UTF-8. `code`: raised for text that is no JSON or not an object, repeated
    keys, NaN, infinity, numbers beyond the range of floats, and nesting that is too deep.
    """
    with refusing(code):
        found = json.loads(
            text.decode("utf-8") if isinstance(text, bytes) else text,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_float,
            object_pairs_hook=_object,
        )
    if not isinstance(found, dict):
        raise code.error(found="JSON that is not an object")
    return found


@contextmanager
def refusing(code: Code) -> Iterator[None]:
    """Turn what goes wrong inside into `code`; numbered errors pass as they are."""
    try:
        yield
    except HedgerowError:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise code.error(found=shown(str(error))) from error


def shown(found: object) -> str:
    """Return a text that fits into a message."""
    try:
        text = found if isinstance(found, str) else repr(found)
    except (ValueError, RecursionError):  # an integer of very many digits, a deep list
        text = f"a very long {type(found).__name__}"
    return text if len(text) <= 300 else text[:297] + "..."


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the number {name}")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer of more than {MAX_DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {shown(digits)}, which is beyond the range of floats")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object with a repeated key")
    return made
