"""How a message names what was to be read, when it may be the address of a database."""

from __future__ import annotations

import os
import re
from pathlib import Path

# Of an address, whatever its form: user:password@host, password=..., host:port:database:user:...
# The colon after one letter is that of a drive.
_OF_AN_ADDRESS = re.compile(r"[@=]|(?<!^[A-Za-z]):")


def place_name(path: Path) -> str:
    """Return a path as messages repeat it.

    What names nothing here and looks like an address was taken for a path by mistake. It is not
    repeated: a password may be in it.
    """
    text = str(path)
    if _OF_AN_ADDRESS.search(text) and not os.path.lexists(text):
        return "a text (not repeated: a password may be in it)"
    return text


def lacks_file(path: Path) -> str | None:
    """Say why there is no file to read; None if there is one."""
    # Not of `Path`, which raises an error that repeats a text too long for a name.
    if os.path.isfile(path):
        return None
    return "not a file" if os.path.exists(path) else "not there"
