"""`RunLog`: what a coordinator has heard in a run, in order; it only grows.

Two files, so that an answer is written once, whatever its length: ``heard.bin`` has the answers one
after the other, and a journal (`hedgerow.parties.store.journal`, whose lines are short) says what
happened, with length and digest of every answer. The answer is on the disk before the journal has
it, so a crash between the two leaves bytes at the end that nobody was told about; they are cut off,
as an unfinished line of the journal is.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.durable import open_regular, remove_leftovers, sync_folder
from hedgerow.parties.store.journal import Entry, Journal

HEARD = "heard"
"""What an entry says that an answer belongs to."""
_logger = logging.getLogger(__name__)


class RunLog:
    """The log of a run at its coordinator; for one process at a time.

    Parameters
    ----------
    folder : Path
        Of the run.
    about : mapping of str to str or int
        Run, job and party; the same each time.

    Raises
    ------
    HedgerowError
        H840 if answers that were heard are gone, H867 if the journal does not fit together, H868 if
        another process has it open, H869 if the disk does not take it.
    """

    def __init__(self, folder: Path, *, about: Mapping[str, str | int]) -> None:
        self._path, self._fd = folder / "heard.bin", -1
        self._journal = Journal(folder / "state.jsonl", about={**about, "kind": "coordinator"})
        try:
            remove_leftovers(folder)
            self._end = self._open()
        except BaseException:
            self.close()
            raise

    def append(self, entries: Sequence[Entry], answer: bytes = b"") -> None:
        """Add entries, and the answer that the last of them is about.

        Parameters
        ----------
        entries : sequence of dict
            After a crash before this returns, only the first of them may be there.
        answer : bytes
            For an entry that says ``heard``, which has its ``bytes`` and ``sha256``.

        Raises
        ------
        HedgerowError
            H869 if it is not on the disk for certain. The log then takes no more.
        """
        if answer:
            self._write(answer)
        self._journal.append(*entries)
        self._end += len(answer)

    def each(self) -> Iterator[tuple[Entry, bytes]]:
        """Yield what happened, in order, with the answers; for the time after opening.

        Raises
        ------
        HedgerowError
            H867 for an answer that has changed since.
        """
        at = 0
        for entry in self._journal.each():
            answer = b""
            if entry["what"] == HEARD:
                answer = self._read(at, entry["bytes"])
                at += len(answer)
                if hashlib.sha256(answer).hexdigest() != entry["sha256"]:
                    raise Code.JOURNAL_DAMAGED.error(
                        expected="answers as they were heard", found=f"{self._path}: another one"
                    )
            yield entry, answer

    def close(self) -> None:
        """Let others open it; a second call does nothing."""
        self._journal.close()
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._journal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> int:
        """Open the answers; return where those end that the journal has."""
        with jsonfile.refusing(Code.JOURNAL_DAMAGED):
            end = sum(int(e["bytes"]) for e in self._journal.each() if e["what"] == HEARD)
        if end and not os.path.lexists(self._path):
            raise Code.ANSWERS_LOST.error(found=f"no {self._path}")
        try:
            self._fd = open_regular(self._path, os.O_RDWR | os.O_CREAT)
            size = os.fstat(self._fd).st_size
            if size > end:
                os.ftruncate(self._fd, end)
                os.fsync(self._fd)
                _logger.warning("%s: cut off %d bytes of an answer", self._path, size - end)
            sync_folder(self._path.parent)
        except OSError as error:
            raise self._failed(error) from None
        if size < end:
            raise Code.ANSWERS_LOST.error(
                expected=f"{end} bytes in {self._path}", found=f"an older copy, of {size}"
            )
        return end

    def _write(self, answer: bytes) -> None:
        view, at = memoryview(answer), self._end
        try:
            while view:
                done = os.pwrite(self._fd, view, at)
                view, at = view[done:], at + done
            os.fsync(self._fd)
        except OSError as error:
            # After a failure the system may report the next sync as good.
            self._journal.close()
            raise self._failed(error) from None

    def _read(self, at: int, n: int) -> bytes:
        parts: list[bytes] = []
        while n > 0 and (part := os.pread(self._fd, n, at)):
            parts.append(part)
            at, n = at + len(part), n - len(part)
        return b"".join(parts)

    def _failed(self, error: OSError) -> HedgerowError:
        return Code.STATE_NOT_WRITTEN.error(found=f"{self._path}: {error.strerror or error}")
