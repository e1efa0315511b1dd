"""The key that a party's operator supplies, with which its state is encrypted."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from hedgerow.errors import Code
from hedgerow.parties.store.durable import FILE_MODE, open_regular, sync_folder

KEY_BYTES = 32
VARIABLE = "HEDGEROW_STATE_KEY"
_MAX_FILE_BYTES = 1024


def key_path(folder: Path) -> Path:
    """Where the key of the party with this folder lies, unless it comes from the environment."""
    return folder / "keys" / "state.key"


def operator_key(folder: Path) -> bytes:
    """Return the state key of a party.

    `folder`: the party's folder. The environment variable HEDGEROW_STATE_KEY goes before its
    ``keys/state.key``; both hold 64 hexadecimal digits.
    Raises H865 if there is no key or a malformed one, H866 if others can read the file.
    """
    given = os.environ.get(VARIABLE)
    if given is not None:
        return _parse(given, VARIABLE)
    return read_state_key(key_path(folder))


def read_state_key(path: Path) -> bytes:
    """Read a key file that only its owner can read."""
    if path.is_symlink():
        raise Code.STATE_KEY_EXPOSED.error(found=f"{path} is a symbolic link")
    try:
        descriptor = open_regular(path)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            mode = stat.S_IMODE(about.st_mode)
            if mode & 0o077:
                raise Code.STATE_KEY_EXPOSED.error(
                    expected=f"{path} with mode 0600", found=f"mode {mode:04o}"
                )
            if about.st_uid != os.geteuid():
                raise Code.STATE_KEY_EXPOSED.error(
                    expected=f"{path} of user {os.geteuid()}", found=f"user {about.st_uid}"
                )
            text = file.read(_MAX_FILE_BYTES)
    except OSError as error:
        raise Code.BAD_STATE_KEY.error(found=f"{path}: {error.strerror or error}") from None
    return _parse(text.decode("ascii", errors="replace"), str(path))


def make_state_key(path: Path) -> None:
    """Draw a new key and write it to a file of mode 0600; an existing one is not replaced."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(KEY_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        # State that was written with a key which a crash loses would be lost with it.
        sync_folder(path.parent)
    except FileExistsError:
        raise Code.BAD_STATE_KEY.error(
            expected=f"no key at {path}",
            found="one, without which all state would be lost",
            fix="use it, or move it away first",
        ) from None
    except OSError as error:
        raise Code.STATE_NOT_WRITTEN.error(found=f"{path}: {error.strerror}") from None


def _parse(text: str, where: str) -> bytes:
    """Read the digits; what they are is never shown."""
    digits = text.strip()
    try:
        # `fromhex` would skip spaces between digits.
        key = bytes.fromhex(digits) if len(digits) == 2 * KEY_BYTES else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise Code.BAD_STATE_KEY.error(found=f"something else in {where}")
    if not any(key):
        raise Code.BAD_STATE_KEY.error(found=f"zeros alone in {where}")
    return key
