"""Pydantic models whose failures are numbered errors and not pydantic's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from hedgerow.errors import Code, HedgerowError, ask_whether


class Numbered(BaseModel):
    """A frozen pydantic model whose validation failures are numbered errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    code: ClassVar[Code]

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise _numbered_error(type(self), error, data) from None

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Validate `obj` (a mapping or an instance) like the constructor does."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise _numbered_error(cls, error, obj) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a checked copy with some fields changed."""
        # Pydantic's own neither checks the new values nor forgets what was derived from the old.
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate(fields | dict(update or {}))

    def __eq__(self, other: object) -> bool:
        # Pydantic's own compares cached properties too, and arrays have no truth value.
        if not isinstance(other, Numbered) or type(self) is not type(other):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), self._fields()))

    def _fields(self) -> tuple[Any, ...]:
        return tuple(_tag(getattr(self, name)) for name in type(self).model_fields)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        """Turn NumPy scalars and arrays into the Python values they stand for."""
        if not isinstance(data, Mapping):
            return data
        return {key: _plain(value) for key, value in data.items()}


def _tag(value: Any) -> Any:
    """Tell bools from numbers: to Python the categories (False, True) equal (0, 1)."""
    if isinstance(value, tuple):
        return tuple(map(_tag, value))
    return ("bool", value) if isinstance(value, bool) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


_WORDS = {"extra_forbidden": "no such key is known", "missing": "this key is needed"}
"""Of what happens most to files that people write, without the words of a library."""
_MOST_SHOWN = 3


def _numbered_error(of: type[Numbered], error: ValidationError, data: Any) -> HedgerowError:
    """Translate pydantic's report; a numbered error from within goes through unchanged."""
    problems: list[str] = []
    for item in error.errors(include_url=False):
        inner = item.get("ctx", {}).get("error")
        if isinstance(inner, HedgerowError):
            return inner
        where = ".".join(str(part) for part in item["loc"] if not str(part).startswith("function"))
        message = _WORDS.get(item["type"]) or item["msg"].removeprefix("Value error, ")
        # A hostile file may have very many keys, of which few are shown.
        shown = len(problems) < _MOST_SHOWN
        if shown and item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
            message += ask_whether(where, of.model_fields)
        problems.append(f"{where}: {message}" if where else message)
    name = data.get("name") if isinstance(data, Mapping) else None
    left_out = len(problems) - _MOST_SHOWN
    more = f" (and {left_out} more)" if left_out > 0 else ""
    label = f"{name!r}: " if isinstance(name, str) else ""
    return of.code.error(found=label + "; ".join(problems[:_MOST_SHOWN]) + more)
