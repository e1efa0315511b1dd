"""`Journal`: what must not be forgotten, one line each, on the disk before it counts.

Accounts, ledgers and query counts are journals. Each line is a JSON object::

    {"entry":{...},"n":7,"sum":"..."}

`n` counts from 0 and `sum` is BLAKE2b of the sum before and of this line, so a line that is
changed, lost, repeated or moved is found when the journal is opened. Line 0 says what the journal
is about. A crash in the middle of a write leaves a last line without its end; that one was never
acknowledged and is cut off. The sums are no protection against somebody who may write the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.durable import open_regular, sync_folder, write_once

MAX_LINE_BYTES = 1 << 20
VERSION = 1
_PERSON = b"hedgerow/journal"
_START = "0" * 64
_logger = logging.getLogger(__name__)

Entry = dict[str, Any]


class Journal:
    """An append-only file of entries, for one process at a time and all of its threads.

    `about` is the same each time; without `create` it must be there. `cut` are the bytes of an
    unfinished last line that were cut off. H867 if the file does not fit together or is about
    something else, H868 if another process (or this one) has it open.
    """

    def __init__(
        self, path: Path, *, about: Mapping[str, str | int] | None = None, create: bool = True
    ) -> None:
        self.path, self.cut = path, 0
        self._lock, self._sync_lock = threading.Lock(), threading.Lock()
        self._pid = os.getpid()
        self._about: Entry = {"journal": VERSION, "about": dict(about or {})}
        self._closed: str | None = None
        self._number, self._synced, self._sum = -1, -1, _START
        if create and not os.path.lexists(path):
            # As a whole, so that an empty file is never a new journal.
            try:
                write_once(path, _line(0, self._about, _START)[0])
            except OSError as error:
                self._fail(error)
        try:
            self._fd = open_regular(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise Code.JOURNAL_DAMAGED.error(found=f"{path}: {error.strerror or error}") from None
        try:
            self._seize()
            self._load()
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, *entries: Mapping[str, Any]) -> int:
        """Add entries, JSON without NaN and infinity, durably; return the number of the last.

        The first of a journal is 1. A crash before this returns may leave the first of them only.
        H869 if they are not on the disk for certain: it takes no more.
        """
        with self._lock:
            self._check_open()
            lines, number, total = [], self._number, self._sum
            for entry in entries:
                number += 1
                line, after = _line(number, dict(entry), total)
                if len(line) > MAX_LINE_BYTES:
                    raise ValueError(f"an entry of more than {MAX_LINE_BYTES} bytes")
                try:
                    _parse(line, number, total)
                except HedgerowError as error:
                    raise ValueError(f"an entry that JSON does not keep: {error.found}") from None
                lines.append(line)
                total = after
            self._write(b"".join(lines))
            self._number, self._sum = number, total
        # Threads that wait here together are served by one of them.
        with self._sync_lock:
            if self._synced < number:
                # After a failure the system may report the next sync as good.
                self._check_open()
                reached = self._number
                try:
                    os.fsync(self._fd)
                except OSError as error:
                    self._fail(error)
                self._synced = reached
        return number

    def entries(self) -> list[Entry]:
        """Read all entries from the file, checked again, in order."""
        with self._lock:
            self._check_open()
            end = os.fstat(self._fd).st_size
            found = [entry for _, entry, _ in self._verify_lines(end)]
        return found[1:]

    def each(self) -> Iterator[Entry]:
        """Yield all entries, checked again, in order; only one at a time is in memory.

        For the time after opening: nobody else may read meanwhile.
        """
        with self._lock:
            self._check_open()
            end = os.fstat(self._fd).st_size
        for number, entry, _ in self._verify_lines(end):
            if number:
                yield entry

    def __len__(self) -> int:
        return self._number

    def close(self) -> None:
        """Let others open the journal; a second call does nothing."""
        with self._lock, self._sync_lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd, self._closed = -1, self._closed or "closed before"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _seize(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Code.JOURNAL_IN_USE.error(found=f"{self.path}, which is open already") from None
        here = os.fstat(self._fd)
        with contextlib.suppress(FileNotFoundError):
            there = os.lstat(self.path)
            if (here.st_ino, here.st_dev) == (there.st_ino, there.st_dev):
                return
        raise Code.JOURNAL_IN_USE.error(found=f"{self.path}, which was replaced just now")

    def _load(self) -> None:
        size = os.fstat(self._fd).st_size
        end = self._complete(size)
        if end == 0:
            raise self._damage(0, "nothing")
        for number, entry, total in self._verify_lines(end):
            self._number, self._sum = number, total
            if number == 0 and entry != self._about:
                raise self._damage(
                    0,
                    f"a journal about {jsonfile.shown(entry)}",
                    f"{self.path} about {self._about}",
                )
        if end < size:
            self._check_tail(end, size, self._number + 1, self._sum)
            self.cut = size - end
            os.ftruncate(self._fd, end)
            _logger.warning("%s: cut off %d bytes of an unfinished line", self.path, self.cut)
        self._synced = self._number
        try:
            # Whatever an earlier process has left unsynced becomes durable before it counts.
            os.fsync(self._fd)
            sync_folder(self.path.parent)
        except OSError as error:
            self._fail(error)

    def _complete(self, size: int) -> int:
        """Return the length up to the end of the last finished line."""
        at = size
        while at > 0:
            start = max(0, at - (1 << 16))
            found = os.pread(self._fd, at - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            at = start
        return 0

    def _check_tail(self, end: int, size: int, number: int, total: str) -> None:
        """Refuse a last line that is all there but for its end: that was changed, not torn."""
        if size - end > MAX_LINE_BYTES:
            raise self._damage(number, "a last line without an end, longer than any")
        line = os.pread(self._fd, size - end, end)[:-1] + b"\n"
        try:
            _parse(line, number, total)
        except HedgerowError:
            return
        raise self._damage(number, "a last line whose end was changed")

    def _verify_lines(self, end: int) -> Iterator[tuple[int, Entry, str]]:
        """Yield number, entry and sum of every line up to `end`."""
        number, total = -1, _START
        with open(os.dup(self._fd), "rb") as file:
            file.seek(0)
            at = 0
            while at < end:
                number += 1
                line = file.readline(MAX_LINE_BYTES + 1)
                at += len(line)
                try:
                    entry, total = _parse(line, number, total)
                except HedgerowError as error:
                    raise self._damage(number, error.found) from None
                yield number, entry, total

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._fail(error)

    def _check_open(self) -> None:
        if os.getpid() != self._pid:
            raise Code.JOURNAL_IN_USE.error(found=f"{self.path} of the process that forked this")
        if self._closed is not None:
            raise Code.STATE_NOT_WRITTEN.error(
                expected=f"{self.path} to be open", found=self._closed
            )

    def _fail(self, error: OSError) -> NoReturn:
        self._closed = f"a write that failed: {error.strerror}"
        raise Code.STATE_NOT_WRITTEN.error(found=f"{self.path}: {error.strerror}") from None

    def _damage(self, number: int, found: str, expected: str | None = None) -> HedgerowError:
        return Code.JOURNAL_DAMAGED.error(
            expected=expected, found=f"{self.path}, line {number + 1}: {found}"
        )


def _line(number: int, entry: Entry, before: str) -> tuple[bytes, str]:
    """Write a line, and its sum."""
    text = _dumps({"entry": entry, "n": number})
    total = hashlib.blake2b(before.encode() + text, digest_size=32, person=_PERSON).hexdigest()
    return text[:-1] + b',"sum":"' + total.encode() + b'"}\n', total


def _parse(line: bytes, number: int, before: str) -> tuple[Entry, str]:
    """Read a line that must be exactly as `_line` writes it."""
    code = Code.JOURNAL_DAMAGED
    if not line.endswith(b"\n"):
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


def _dumps(value: Entry) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
