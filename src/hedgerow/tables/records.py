"""The text of a CSV file in pieces of whole records, whatever its cells hold.

Arrow cuts a file into blocks of a fixed size. Where a border falls depends on all records before
it, and a cell that is longer than a block, or has lines of its own on a border, would be refused or
would take other records with it. So pieces are cut here, and Arrow has each of them as one block.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from hedgerow.tables.text import TextFormat

_PIECE_BYTES = 1 << 20


def record_pieces(
    path: Path, text: TextFormat, errors: Literal["strict", "replace"] = "strict"
) -> Iterator[bytes]:
    """Read a CSV file in pieces of whole records; the first begins with its names.

    Parameters
    ----------
    path : Path
    text : TextFormat
        How the file is written. Bytes of UTF-8 are given as they are.
    errors : {"strict", "replace"}
        What to do with bytes that another encoding does not have.

    Yields
    ------
    bytes
        UTF-8, of about a mebibyte, or as long as the one record in it.
    """
    # A quote opens a cell only where the cell begins; two of them within are one.
    quoted = re.compile(
        rb'(?<![^%b\r\n])"[^"]*+(?:""[^"]*+)*+"?' % re.escape(text.delimiter.encode())
    )
    parts: list[bytes] = []
    size, enough = 0, _PIECE_BYTES
    for block in _utf8(path, text.encoding, errors):
        parts.append(block)
        size += len(block)
        if size < enough:
            continue
        data = b"".join(parts)
        end = _last_end(data, quoted)
        if end:
            yield data[:end]
        parts, size = [data[end:]], len(data) - end
        # Twice as much, so that a long record is not looked through again and again.
        enough = max(_PIECE_BYTES, 2 * size)
    if size:
        yield b"".join(parts)


def _utf8(path: Path, encoding: str, errors: str) -> Iterator[bytes]:
    blocks = _recoded(path, encoding, errors)
    yield next(blocks, b"").removeprefix(codecs.BOM_UTF8)
    yield from blocks


def _recoded(path: Path, encoding: str, errors: str) -> Iterator[bytes]:
    with path.open("rb") as file:
        blocks: Iterable[bytes] = iter(lambda: file.read(_PIECE_BYTES), b"")
        if codecs.lookup(encoding).name == "utf-8":
            yield from blocks
            return
        for characters in codecs.iterdecode(blocks, encoding, errors):
            yield characters.encode("utf-8", errors)


def _last_end(data: bytes, quoted: re.Pattern[bytes]) -> int:
    """Return where the last record ends that is whole; 0 if none is."""
    stop = len(data)
    cells = [cell.span() for cell in quoted.finditer(data)] if b'"' in data else []
    for start, end in reversed([(0, 0), *cells]):
        # After a return at the very end there may be a newline to come.
        found = max(data.rfind(b"\n", end, stop), data.rfind(b"\r", end, min(stop, len(data) - 1)))
        if found >= 0:
            return found + 1
        stop = start
    return 0
