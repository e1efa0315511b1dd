"""Shares at rest: arrays in one file, encrypted and authenticated as a whole.

A file is a header in the clear and chunks under AES-256-GCM (a STREAM construction). Its key is
derived from the operator's with a random salt, so no two files share one. Fields of the header
(big-endian):

====== ===== =========================================================================
offset bytes field
====== ===== =========================================================================
0      4     magic ``HDGV``
4      1     version
5      3     zero
8      32    salt
40     7     beginning of every nonce
47     1     zero
48     4     length of what the file is about
52     4     length of the list of arrays
56     8     length of the whole file
64     16    check of the key
80           what the file is about, as JSON
...    32    SHA-256 of the header up to here
====== ===== =========================================================================

The first chunk is the list of arrays (names, dtypes, shapes), then come the arrays in order,
little-endian, each cut into chunks of 1 MiB with a tag of 16 bytes behind each. The nonce of a
chunk is that beginning, its number and whether it is the last one; its associated data are the
header's SHA-256. So chunks cannot be changed, moved, repeated, cut off or taken from elsewhere.
An older file about the same thing is genuine and passes: put a level or a version into `about`
where that matters.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import math
import os
import secrets
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.state_key import KEY_BYTES
from hedgerow.parties.store.durable import open_regular, replacing

MAGIC = b"HDGV"
VERSION = 1
CHUNK_BYTES = 1 << 20
TAG_BYTES = 16
_FIXED = struct.Struct(">4sB3x32s7sxIIQ16s")
_DIGEST_BYTES = 32
_MAX_ABOUT, _MAX_LIST = 1 << 14, 1 << 24
_LABEL = b"hedgerow/vault/v1"
_KINDS = "biufc"

About = Mapping[str, str | int]
Array = NDArray[Any]


def write_arrays(path: Path, arrays: Mapping[str, Array], key: bytes, *, about: About) -> None:
    """Write arrays to one encrypted file, all of it or nothing.

    They are read in blocks, so a memory-mapped one takes no memory. `about` (server, kind, run,
    model or upload, level) is public, and needed to read. H109 for an array that is not of bool,
    integers, floats or complex numbers, H869 if the disk does not take the file.
    """
    with replacing(path) as file:
        _write(file, arrays, key, about)


def seal_arrays(arrays: Mapping[str, Array], key: bytes, *, about: About) -> bytes:
    """Return arrays encrypted as a file would be, for where there is no file."""
    file = io.BytesIO()
    _write(file, arrays, key, about)
    return file.getvalue()


def open_arrays(sealed: bytes, key: bytes, *, about: About) -> dict[str, Array]:
    """Return what was sealed; errors are those of `read_arrays`."""
    return _read(Path("what was sealed"), io.BytesIO(sealed), len(sealed), key, about)


def seal_bytes(data: bytes, key: bytes, *, about: About) -> bytes:
    """Return bytes encrypted as a file would be."""
    return seal_arrays({"": np.frombuffer(data, dtype=np.uint8)}, key, about=about)


def open_bytes(sealed: bytes, key: bytes, *, about: About) -> bytes:
    """Return the bytes that were sealed."""
    return bytes(open_arrays(sealed, key, about=about)[""].tobytes())


def _write(file: BinaryIO, arrays: Mapping[str, Array], key: bytes, about: About) -> None:
    listed = [_describe(name, array) for name, array in arrays.items()]
    manifest = json.dumps(listed, separators=(",", ":")).encode()
    subject = _canonical(about)
    if len(manifest) > _MAX_LIST or len(subject) > _MAX_ABOUT:
        raise ValueError("names of arrays, or what they are about, are too long")
    chunks = 1 + sum(_n_chunks(array.nbytes) for array in arrays.values())
    content = len(manifest) + sum(array.nbytes for array in arrays.values())
    length = _FIXED.size + len(subject) + _DIGEST_BYTES + content + chunks * TAG_BYTES
    salt, prefix = secrets.token_bytes(32), secrets.token_bytes(7)
    file_key, check = _derive(key, salt)
    fixed = (MAGIC, VERSION, salt, prefix, len(subject), len(manifest), length, check)
    header = _FIXED.pack(*fixed) + subject
    digest = hashlib.sha256(header).digest()
    cipher = AESGCM(file_key)
    file.write(header + digest)
    for number, block in enumerate(_blocks(manifest, arrays)):
        nonce = _nonce(prefix, number, last=number == chunks - 1)
        file.write(cipher.encrypt(nonce, block, digest))


def read_arrays(path: Path, key: bytes, *, about: About) -> dict[str, Array]:
    """Read arrays back; nothing is returned before all of the file has been authenticated.

    `about` must be exactly what it was written with. Arrays come in the order in which they were
    written, native and writable. H860 (no vault), H861 (wrong key), H862 (damaged), H863 (cut off),
    H864 (about something else).
    """
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            return _read(path, file, os.fstat(file.fileno()).st_size, key, about)
    except OSError as error:
        raise Code.NOT_A_VAULT.error(found=f"{path}: {error.strerror or error}") from None


def _read(path: Path, file: BinaryIO, size: int, key: bytes, about: About) -> dict[str, Array]:
    header = _read_header(path, file)
    file_key, check = _derive(key, header.salt)
    if not hmac.compare_digest(check, header.check):
        raise Code.VAULT_WRONG_KEY.error(found=f"another key than that of {path}")
    if size < header.length:
        raise Code.VAULT_TRUNCATED.error(
            expected=f"{path} of {header.length} bytes", found=f"{size} bytes"
        )
    if size > header.length:
        raise Code.VAULT_DAMAGED.error(
            expected=f"{path} of {header.length} bytes", found=f"{size} bytes"
        )
    chunks = _Chunks(path, file, AESGCM(file_key), header)
    start = len(header.subject) + _FIXED.size + _DIGEST_BYTES
    rest = header.length - start - header.listed - TAG_BYTES
    manifest = chunks.next(header.listed, last=rest == 0)
    # Authentic from here on: what the file says of itself was written with the key.
    if header.subject != _canonical(about):
        raise Code.VAULT_OF_ANOTHER.error(
            expected=f"{path} about {_canonical(about).decode()}",
            found=f"a file about {jsonfile.shown(header.subject.decode())}",
        )
    empty = {
        name: np.empty(shape, np.dtype(kind).newbyteorder("<"))
        for name, kind, shape in json.loads(manifest)
    }
    total = sum(array.nbytes + TAG_BYTES * _n_chunks(array.nbytes) for array in empty.values())
    if total != rest:
        raise Code.VAULT_DAMAGED.error(found=f"{path}: arrays that do not fill the file")
    for array in empty.values():
        view = array.reshape(-1).view(np.uint8).data
        for at in range(0, array.nbytes, CHUNK_BYTES):
            part = view[at : at + CHUNK_BYTES]
            rest -= len(part) + TAG_BYTES
            part[:] = chunks.next(len(part), last=rest == 0)
    return {
        name: array.astype(array.dtype.newbyteorder("="), copy=False)
        for name, array in empty.items()
    }


@dataclass(frozen=True)
class _Header:
    salt: bytes
    prefix: bytes
    listed: int
    length: int
    check: bytes
    subject: bytes
    digest: bytes


def _read_header(path: Path, file: BinaryIO) -> _Header:
    fixed = _exactly(path, file, _FIXED.size)
    magic, version, salt, prefix, about, listed, length, check = _FIXED.unpack(fixed)
    if magic != MAGIC:
        raise Code.NOT_A_VAULT.error(found=f"{path}, which is none")
    if version != VERSION:
        raise Code.NOT_A_VAULT.error(found=f"{path} of version {version}")
    if about > _MAX_ABOUT or listed > _MAX_LIST:
        raise Code.VAULT_DAMAGED.error(found=f"{path}: a header with impossible lengths")
    subject = _exactly(path, file, about)
    digest = _exactly(path, file, _DIGEST_BYTES)
    # Without a key: it tells an accident from a wrong key, no more.
    if hashlib.sha256(fixed + subject).digest() != digest:
        raise Code.VAULT_DAMAGED.error(found=f"{path}: a header that was changed")
    return _Header(salt, prefix, listed, length, check, subject, digest)


class _Chunks:
    """The chunks of a file, one after the other."""

    def __init__(self, path: Path, file: BinaryIO, cipher: AESGCM, header: _Header) -> None:
        self.path, self.file, self.cipher, self.header = path, file, cipher, header
        self.number = 0

    def next(self, size: int, *, last: bool) -> bytes:
        sealed = _exactly(self.path, self.file, size + TAG_BYTES)
        nonce = _nonce(self.header.prefix, self.number, last=last)
        try:
            content = self.cipher.decrypt(nonce, sealed, self.header.digest)
        except InvalidTag:
            raise Code.VAULT_DAMAGED.error(
                found=f"{self.path}: chunk {self.number} is not authentic"
            ) from None
        self.number += 1
        return content


def _exactly(path: Path, file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    # A large read may come in parts.
    while len(data) < size:
        more = file.read(size - len(data))
        if not more:
            raise Code.VAULT_TRUNCATED.error(
                expected=f"{size} more bytes of {path}", found=f"{len(data)} bytes"
            )
        data += more
    return data


def _blocks(manifest: bytes, arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    yield manifest
    for array in arrays.values():
        step = CHUNK_BYTES // array.itemsize
        # A view where memory is in order; else the iterator copies block by block.
        flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
        little = array.dtype.newbyteorder("<")
        for at in range(0, array.size, step):
            block = np.asarray(flat[at : at + step]).astype(little, copy=False)
            yield np.ascontiguousarray(block).view(np.uint8).data


def _describe(name: str, array: Array) -> tuple[str, str, tuple[int, ...]]:
    kind = array.dtype
    # Long doubles differ from machine to machine.
    if kind.kind not in _KINDS or kind.itemsize not in (1, 2, 4, 8, 16) or kind.name == "float128":
        raise Code.WRONG_TYPE.error(
            expected="an array of bool, integers, floats or complex numbers",
            found=f"{name!r} of dtype {kind}",
            fix="convert it first",
        )
    return name, kind.newbyteorder("=").str.lstrip("<>=|"), array.shape


def _canonical(about: About) -> bytes:
    for name, value in about.items():
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(f"what a file is about is text or an integer; found {name}={value!r}")
    return json.dumps(dict(about), sort_keys=True, separators=(",", ":")).encode()


def _derive(key: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """Key of a file, and a value that tells whether the operator's key is the right one."""
    if len(key) != KEY_BYTES:
        raise Code.BAD_STATE_KEY.error(
            expected=f"{KEY_BYTES} bytes", found=f"a key of {len(key)} bytes"
        )
    made = HKDF(SHA256(), KEY_BYTES + 16, salt, _LABEL).derive(key)
    return made[:KEY_BYTES], made[KEY_BYTES:]


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([last])


def _n_chunks(nbytes: int) -> int:
    return math.ceil(nbytes / CHUNK_BYTES)
