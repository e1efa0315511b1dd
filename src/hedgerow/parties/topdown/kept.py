"""`Kept`: what one party must not forget of a run, on the disk before anything of it leaves.

The state is one file that is replaced as a whole; that of a server, which holds keys and shares, is
encrypted (`store.vault`). A journal beside it has the digest of every state that was
kept: a state that is missing, or that is an older copy, is found when it is opened again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.store.durable import StateFolder, open_regular, remove_leftovers, replacing
from hedgerow.parties.store.journal import Journal
from hedgerow.parties.store.vault import read_arrays, write_arrays

ROOM = "topdown"
"""Folder of these runs in the state of a party."""


def run_folder(state: StateFolder, run: str) -> Path:
    """Return the folder of a run, made if need be."""
    return state.folder(ROOM, run)


class Kept:
    """The state of a run at one party; for one process at a time.

    Parameters
    ----------
    folder : Path
        Of the run.
    about : dict of str to str
        Run, job and party; the same each time.
    key : bytes of length 32, optional
        The operator's, for a state that is encrypted.

    Attributes
    ----------
    data : bytes or None
        The newest state; None if there was none yet.

    Raises
    ------
    HedgerowError
        H840 if a state was kept and is gone or older than the newest, H867 if the journal does not
        fit together, H868 if another process has it open, H861 for another key.
    """

    def __init__(
        self, folder: Path, *, about: dict[str, str | int], key: bytes | None = None
    ) -> None:
        self._about, self._key = about | {"kind": "topdown"}, key
        self._file = folder / "state.bin"
        self._journal = Journal(folder / "state.jsonl", about=about)
        try:
            remove_leftovers(folder)
            self.data = self._read()
        except BaseException:
            self._journal.close()
            raise

    def keep(self, data: bytes) -> None:
        """Replace the state; on the disk when this returns, or H869."""
        if data == self.data:
            return
        # The file first: a digest in the journal stands for a state that was there.
        if self._key is None:
            with replacing(self._file) as file:
                file.write(data)
        else:
            arrays = {"state": np.frombuffer(data, dtype=np.uint8)}
            write_arrays(self._file, arrays, self._key, about=self._about)
        self._journal.append({"sha256": self._digest(data)})
        self.data = data

    def close(self) -> None:
        """Let others open it."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> bytes | None:
        with jsonfile.refusing(Code.JOURNAL_DAMAGED):
            known = [str(entry["sha256"]) for entry in self._journal.entries()]
        if not os.path.lexists(self._file):
            if known:
                raise Code.ANSWERS_LOST.error(found=f"no {self._file}")
            return None
        data = self._load()
        digest = self._digest(data)
        if digest in known[:-1] and digest != known[-1]:
            raise Code.ANSWERS_LOST.error(found=f"an older copy of {self._file}")
        if digest not in known:
            # It was written, and the process ended before the journal had it.
            self._journal.append({"sha256": digest})
        return data

    def _load(self) -> bytes:
        if self._key is not None:
            state = read_arrays(self._file, self._key, about=self._about)["state"]
            return bytes(state.tobytes())
        try:
            with os.fdopen(open_regular(self._file), "rb") as file:
                return file.read()
        except OSError as error:
            found = f"{self._file}: {error.strerror or error}"
            raise Code.ANSWERS_LOST.error(found=found) from None

    def _digest(self, data: bytes) -> str:
        # Of what is encrypted, only who has the key can tell what a digest belongs to.
        if self._key is not None:
            return hmac.new(self._key, data, hashlib.sha256).hexdigest()
        return hashlib.sha256(data).hexdigest()
