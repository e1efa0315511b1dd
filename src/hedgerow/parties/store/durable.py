"""Files that are there as a whole or not at all, also after a crash, in folders closed to others.

Paths in a `StateFolder` cannot lead out of it. Modes and links are checked each time a path is
made. Between that and the use of the path nobody but the owner can change anything: the folder is
closed to all other users.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hedgerow.errors import Code
from hedgerow.parties.consortium.names import check_file_name, check_name

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_ENDING = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that takes its place, and that of an older one, only when it is complete.

    It has mode 0600; a link of that name is replaced and not followed. If the block raises,
    everything is as before. H869 if the disk does not take it.
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
    """Make a file if there is none of that name, nor a link; return whether it was made."""
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
    """Remove what writers that were killed have left, when nobody writes; return how many files."""
    count = 0
    for part in folder.glob(f".*{_ENDING}*"):
        part.unlink(missing_ok=True)
        count += 1
    return count


def check_private(folder: Path) -> None:
    """Refuse, with H854, what is not a folder of this user alone: links, access by others."""
    try:
        found = folder.lstat()
    except OSError as error:
        raise Code.UNSAFE_FOLDER.error(
            expected="the folder of a party",
            found=f"{folder}: {error.strerror}",
            fix="check the path, and name the folder of this party",
        ) from None
    if stat.S_ISLNK(found.st_mode):
        raise Code.UNSAFE_FOLDER.error(found=f"{folder} is a symbolic link")
    if not stat.S_ISDIR(found.st_mode):
        raise Code.UNSAFE_FOLDER.error(found=f"{folder} is not a folder")
    if found.st_uid != os.geteuid():
        raise Code.UNSAFE_FOLDER.error(
            found=f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}",
            fix="run as the folder's owner, or give the folder to this user (chown)",
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        raise Code.UNSAFE_FOLDER.error(
            expected=f"{folder} with mode 0700",
            found=f"mode {mode:04o}",
            fix=f"chmod 700 {folder}",
        )


def make_private(folder: Path) -> None:
    """Make a folder for this user alone; H859 if there is something of that name."""
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        raise Code.FOLDER_EXISTS.error(found=str(folder)) from None
    except OSError as error:
        raise Code.UNSAFE_FOLDER.error(
            expected="a place where this user can make folders",
            found=f"{folder}: {error.strerror}",
            fix="make the folder above it, or choose another place",
        ) from None


def write_new(path: Path, text: str) -> None:
    """Write a file for this user alone that must not exist yet; H859 if it does."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        raise Code.FOLDER_EXISTS.error(expected="no file of that name", found=str(path)) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def read_small(path: Path, limit: int, code: Code) -> str:
    """Read a text file that is no link; `code` if it has more bytes than `limit` or no UTF-8."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise code.error(found=f"{path} of more than {limit} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise code.error(found=f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise code.error(found=f"{path}, which is not UTF-8") from None


class Claim:
    """What one process does at a time, as long as this is held or until the process ends.

    `path` is of an empty file. `code` if somebody else, perhaps in this process, has it.
    """

    def __init__(self, path: Path, code: Code = Code.JOURNAL_IN_USE) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise code.error(found=f"another process that has claimed {path}") from None

    def release(self) -> None:
        """Let others have it; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class StateFolder:
    """A folder for what a party keeps, closed to others; made with mode 0700 if it does not exist.

    ``state.path("runs", run, "job.toml")`` is a path inside, whatever another party says that `run`
    is. H854 if the folder is a link or not closed to others.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))
        if not os.path.lexists(self.root):
            make_private(self.root)
        check_private(self.root)

    def path(self, *parts: str) -> Path:
        """Return the path of a file or folder inside, which need not exist.

        H851 for a part that is not a plain name, H854 for a link on the way.
        """
        if not parts:
            raise Code.BAD_NAME.error(found="no name at all")
        check_private(self.root)
        path = self.root
        for part in parts[:-1]:
            path = path / check_name(part, "folder name")
            if os.path.lexists(path):
                check_private(path)
        path = path / check_file_name(parts[-1])
        if path.is_symlink():
            raise Code.UNSAFE_FOLDER.error(found=f"{path} is a symbolic link")
        return path

    def folder(self, *parts: str) -> Path:
        """Return a folder inside, made with all folders on the way to it if need be."""
        # All of them before the first is made.
        names = [check_name(part, "folder name") for part in parts]
        for depth in range(1, len(names) + 1):
            path = self.path(*names[:depth])
            if not os.path.lexists(path):
                # Two programs of one party may make it at the same time.
                path.mkdir(mode=FOLDER_MODE, exist_ok=True)
            check_private(path)
        return self.path(*parts)
