"""Names that become names of files: of members, populations, uploads, runs and models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from hedgerow.errors import Code
from hedgerow.jsonfile import shown

# It does not end in a dash, so that it also names an audience of the ledger.
_WORD = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(_WORD)
_MOST_NAMED = 10
_FILE = re.compile(rf"{_WORD}(\.[a-z0-9]{{1,8}})?")


def is_name(name: object) -> bool:
    """Whether `check_name` lets it pass."""
    # The whole of it: `$` would let a line break pass at the end.
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_name(name: object, what: str = "name") -> str:
    """Return the name if no path but one file or folder can be made of it; H851 otherwise."""
    if not isinstance(name, str) or not is_name(name):
        raise Code.BAD_NAME.error(found=f"{what} {shown(repr(name))}")
    return name


def check_file_name(name: object) -> str:
    """Return the name if it is one by `check_name`, with or without an ending such as ``.toml``."""
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise Code.BAD_NAME.error(
            expected=f"{Code.BAD_NAME.spec.expected}, and at most one ending such as .toml",
            found=f"file name {shown(repr(name))}",
        )
    return name


def complete(beginning: str, names: Iterable[str], what: str) -> str:
    """Return the one of the names that begins so, or is so; H501 if several begin so.

    What none of them begins with is returned as it is.
    """
    known = sorted({name for name in names if is_name(name)})
    found = [name for name in known if name.startswith(beginning)] if beginning else []
    if beginning in found or len(found) < 2:
        return beginning if beginning in found or not found else found[0]
    more = "" if len(found) <= _MOST_NAMED else f" and {len(found) - _MOST_NAMED} more"
    raise Code.BAD_PARAMETER.error(
        expected=f"a {what} by its name, or by a beginning that no other has",
        found=f"{beginning}, with which {', '.join(found[:_MOST_NAMED])}{more} begin",
        fix="write more of the name",
    )


Name = Annotated[str, AfterValidator(check_name)]
"""A field of a pydantic model that `check_name` lets pass."""
RequestedName = Annotated[str, BeforeValidator(check_name)]
"""One of a request: H851 also for what is no text."""
