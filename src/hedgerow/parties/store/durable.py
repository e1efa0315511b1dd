"""Files that are there as a whole or not at all, also after a crash."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hedgerow.errors import Code

FILE_MODE = 0o600
_ENDING = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that takes its place, and that of an older one, only when it is complete.

    It has mode 0600; a link of that name is replaced and not followed. If the block raises,
    everything is as before. Raises H869 if the disk does not take it.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_ENDING}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        # The name is an entry of the folder, which has to reach the disk as well.
        sync_folder(path.parent)
    except OSError as error:
        raise Code.STATE_NOT_WRITTEN.error(found=f"{path}: {error.strerror or error}") from None


def write_once(path: Path, data: bytes) -> bool:
    """Make a file with this content if there is none of that name; `OSError` if it cannot be.

    Returns whether it was made; False if the name was taken, also by a link.
    """
    made = False
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_ENDING}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        # Unlike a rename, it fails if somebody else has made the file meanwhile.
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
            made = True
    finally:
        part.unlink()
    sync_folder(path.parent)
    return made


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file that is no link, no pipe and no device; `OSError` otherwise."""
    # Opening a pipe would wait for its other end.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, FILE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a regular file", str(path))
    return descriptor


def remove_leftovers(folder: Path) -> int:
    """Remove what writers that were killed have left; return how many files.

    Call it when nobody writes there, such as at the start of a daemon.
    """
    count = 0
    for part in folder.glob(f".*{_ENDING}"):
        part.unlink(missing_ok=True)
        count += 1
    return count
