"""The file of an account: one file under one name, held by one process at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hedgerow.errors import Code
from hedgerow.parties.store.durable import open_regular

# A file that is being made has two names for a moment; somebody's own link stays.
_TRIES, _PAUSE = 20, 0.02


def followed(path: str | os.PathLike[str]) -> Path:
    """Return where a file really is: to write to a link would put another file in its place."""
    return Path(os.path.realpath(path))


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold a file for this process alone, the one that has the name when the lock is there.

    Parameters
    ----------
    path : Path
        From `followed`.

    Yields
    ------
    int
        Descriptor to read from.

    Raises
    ------
    FormatError
        H211 if there is no such file, or one with several names: a charge under one of them would
        not be seen under the others.
    """
    tries = _TRIES
    while True:
        try:
            descriptor = open_regular(path)
        except OSError as error:
            raise Code.BAD_LEDGER_FILE.error(
                expected="the file of an account",
                found=f"{path}: {error.strerror}",
                fix="make it with `hedgerow account new`",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Whoever held it before may have put another file in its place.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                names = os.fstat(descriptor).st_nlink
                if names == 1:
                    yield descriptor
                    return
                tries -= 1
                if not tries:
                    raise Code.BAD_LEDGER_FILE.error(
                        expected="the file of an account, under one name",
                        found=f"{path}: {names} hard links to one file",
                        fix="remove the other names; a symbolic link may stand for the file",
                    )
        finally:
            os.close(descriptor)
        if tries < _TRIES:
            time.sleep(_PAUSE)
