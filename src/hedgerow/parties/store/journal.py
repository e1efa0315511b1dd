"""Journals, which earlier versions kept their accounts and uploads in; they are only read now.

Each line is a JSON object::

    {"entry":{...},"n":7,"sum":"..."}

`n` counts from 0 and `sum` is BLAKE2b of the sum before and of this line, so a line that is
changed, lost, repeated or moved is found. Line 0 says what the journal is about. A crash in the
middle of a write left a last line without its end; that one was never acknowledged and is left out.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.durable import open_regular

MAX_LINE_BYTES = 1 << 20
VERSION = 1
_PERSON = b"hedgerow/journal"
_START = "0" * 64

Entry = dict[str, Any]


@contextmanager
def locked_journal(path: Path, about: Mapping[str, str | int]) -> Iterator[list[Entry]]:
    """Yield all entries of a journal, checked, while no earlier version can add to it.

    H867 if the file does not fit together or is about something else, H868 if another process has
    it open.
    """
    try:
        descriptor = open_regular(path, os.O_RDWR)
    except OSError as error:
        raise Code.JOURNAL_DAMAGED.error(found=f"{path}: {error.strerror or error}") from None
    with open(descriptor, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Code.JOURNAL_IN_USE.error(found=f"{path}, which is open already") from None
        yield _entries(path, file.read(), {"journal": VERSION, "about": dict(about)})


def _entries(path: Path, data: bytes, about: Entry) -> list[Entry]:
    *lines, last = data.split(b"\n")
    found: list[Entry] = []
    total = _START
    for number, line in enumerate(lines):
        try:
            entry, total = _parse(line + b"\n", number, total)
        except HedgerowError as error:
            raise _damage(path, number, error.found) from None
        found.append(entry)
    if last:
        _check_torn(path, last, len(lines), total)
    if not found or found[0] != about:
        shown = jsonfile.shown(found[0]) if found else "nothing"
        raise _damage(path, 0, f"a journal about {shown}, not about {about}")
    return found[1:]


def _check_torn(path: Path, last: bytes, number: int, total: str) -> None:
    """Refuse a last line that is all there but for its end: that was changed, not torn."""
    if len(last) > MAX_LINE_BYTES:
        raise _damage(path, number, "a last line without an end, longer than any")
    try:
        _parse(last[:-1] + b"\n", number, total)
    except HedgerowError:
        return
    raise _damage(path, number, "a last line whose end was changed")


def _damage(path: Path, number: int, found: str) -> HedgerowError:
    return Code.JOURNAL_DAMAGED.error(found=f"{path}, line {number + 1}: {found}")


def _parse(line: bytes, number: int, before: str) -> tuple[Entry, str]:
    """Read a line that must be exactly as it was written."""
    code = Code.JOURNAL_DAMAGED
    if len(line) > MAX_LINE_BYTES:
        raise code.error(found="a line that is too long")
    found = jsonfile.loads(line, code)
    entry = found.get("entry")
    if set(found) != {"entry", "n", "sum"} or not isinstance(entry, dict):
        raise code.error(found="other keys than entry, n and sum")
    if type(found["n"]) is not int or found["n"] != number:
        raise code.error(found=f"number {jsonfile.shown(found['n'])} where {number} is due")
    again, total = _line(number, entry, before)
    if again != line:
        raise code.error(found="a checksum that does not fit")
    return entry, total


def _line(number: int, entry: Entry, before: str) -> tuple[bytes, str]:
    """Write a line, and its sum."""
    whole = {"entry": entry, "n": number}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    total = hashlib.blake2b(before.encode() + text, digest_size=32, person=_PERSON).hexdigest()
    return text[:-1] + b',"sum":"' + total.encode() + b'"}\n', total
