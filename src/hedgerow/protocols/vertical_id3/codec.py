"""Writing and reading the fields of messages: fixed widths, lengths in front, nothing trusted."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

Read = tuple[Any, int]
Codec = tuple[Callable[[Any], bytes], Callable[[bytes, int], Read]]
"""A writer of a value, and a reader of bytes from a place on, which returns the next place."""


def number(code: str) -> Codec:
    """Return the codec of a number, by its letter in `struct`; little-endian."""
    layout = struct.Struct(f"<{code}")

    def read(data: bytes, at: int) -> Read:
        return layout.unpack_from(data, at)[0], at + layout.size

    return layout.pack, read


def record(make: Callable[..., Any], code: str) -> Codec:
    """Return the codec of a named tuple of numbers."""
    layout = struct.Struct(f"<{code}")

    def read(data: bytes, at: int) -> Read:
        return make(*layout.unpack_from(data, at)), at + layout.size

    return lambda value: layout.pack(*value), read


def many(item: Codec, most: int) -> Codec:
    """Return the codec of a list of at most so many items; read as a tuple."""
    write_item, read_item = item

    def write(values: Any) -> bytes:
        return struct.pack("<I", len(values)) + b"".join(map(write_item, values))

    def read(data: bytes, at: int) -> Read:
        (n,) = struct.unpack_from("<I", data, at)
        # Every item takes at least a byte: a forged length cannot ask for more memory than sent.
        if n > min(most, len(data) - at):
            raise ValueError(f"a list of {n} in {len(data)} bytes")
        at += 4
        found = []
        for _ in range(n):
            value, at = read_item(data, at)
            found.append(value)
        return tuple(found), at

    return write, read


def _write_blob(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _read_blob(data: bytes, at: int) -> Read:
    (n,) = struct.unpack_from("<Q", data, at)
    at += 8
    if n > len(data) - at:
        raise ValueError(f"{n} bytes where {len(data) - at} are left")
    return data[at : at + n], at + n


BLOB: Codec = (_write_blob, _read_blob)
