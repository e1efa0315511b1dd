"""The text of a CSV file: how it is written, and its pieces of whole records.

Where a border of Arrow's blocks of a fixed size falls depends on all records before it, and a cell
that is longer than a block, or has lines of its own on a border, would be refused or would take
other records with it. So pieces are cut here, and Arrow has each of them as one block.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pyarrow.csv as pc

from hedgerow.errors import Code, HedgerowError

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_HEAD_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
# Longer marks first: that of UTF-16 is the beginning of that of UTF-32.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class TextFormat(NamedTuple):
    """How a CSV file is written; other files say it themselves."""

    delimiter: str = ","
    encoding: str = "utf-8"

    def check(self, path: Path, names: Collection[str] | None = None) -> None:
        """Look at the first lines; raise H903 or H904, with the remedy, if it is written otherwise.

        With the `names` of declared columns, the line of names alone decides. H501 if there is no
        such encoding, or the delimiter is not one character.
        """
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise Code.BAD_PARAMETER.error(
                expected="a delimiter of one character, such as ';' or a tab",
                found=f"delimiter {self.delimiter!r}",
                fix="pass it between quotes: --delimiter ';'",
            )
        try:
            name = codecs.lookup(self.encoding).name
        except LookupError:
            raise Code.BAD_PARAMETER.error(
                expected="an encoding that Python knows, such as latin-1, cp1252 or utf-16",
                found=f"encoding {self.encoding!r}",
                fix="correct the name of the encoding",
            ) from None
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if name == "utf-8":
            guess = _wide(head)
            if guess is not None:
                raise wrong_encoding(path, f"the characters of {guess.upper()}", guess)
        lines = head.decode(name, errors="replace").lstrip("\ufeff").splitlines()
        self._check_delimiter(path, lines[:2], names)

    def _check_delimiter(self, path: Path, lines: list[str], names: Collection[str] | None) -> None:
        """Refuse a header of a single column that another character would cut into several."""
        header = _cells(lines[0], self.delimiter) if lines else []
        if len(header) != 1:
            return
        widths = {other: len(_cells(lines[0], other)) for other in _DELIMITERS}
        best = max(widths, key=lambda other: widths[other])
        if widths[best] == 1:
            return
        # A single column may well be called "height | cm". Then it is declared; or, where nothing
        # is, its rows have no such character.
        if names is not None:
            if header[0] in names:
                return
        elif any(len(_cells(line, best)) != widths[best] for line in lines):
            return
        shown = "$'\\t'" if best == "\t" else f"'{best}'"
        words = _DELIMITERS.get(self.delimiter, repr(self.delimiter))
        raise Code.OTHER_DELIMITER.error(
            expected=f"cells with {words} between them",
            found=f"{path}: a first line with {words} nowhere, and {widths[best]} names with "
            f"{_DELIMITERS[best]} between them",
            fix=f"pass --delimiter {shown} (in Python: text=TextFormat(delimiter={best!r})), or "
            "write the file with commas",
        )

    @property
    def read(self) -> pc.ReadOptions:
        """Arrow's options."""
        return pc.ReadOptions(encoding=self.encoding)

    @property
    def parse(self) -> pc.ParseOptions:
        """Arrow's options."""
        return pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)


PLAIN = TextFormat()
"""Commas and UTF-8."""


def wrong_encoding(path: Path | str, found: str, guess: str = "latin-1") -> HedgerowError:
    """Build H904 for a file that is not in the encoding that was said."""
    other = " or cp1252" if guess == "latin-1" else ""
    return Code.OTHER_ENCODING.error(
        found=f"{path}: {found}",
        fix=f"pass --encoding {guess}{other} (in Python: text=TextFormat(encoding={guess!r})), or "
        "write the file in UTF-8",
    )


def _wide(head: bytes) -> str | None:
    """Guess an encoding of several bytes per character from its mark, or from zeros in the names.

    What stands below the names is some record's, and guesses nothing.
    """
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    header = next(iter(head.lstrip(b"\r\n").splitlines()), b"")
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = header[first::2]
        if 2 * half.count(0) > len(half):
            return name
    return None


def _cells(header: str, delimiter: str) -> list[str]:
    return next(csv.reader([header], delimiter=delimiter), [])


def record_pieces(
    path: Path, text: TextFormat, errors: Literal["strict", "replace"] = "strict"
) -> Iterator[bytes]:
    """Read a CSV file in pieces of whole records, in UTF-8; the first begins with its names.

    A piece is about a mebibyte, or as long as the one record in it. UTF-8 is given as it is;
    `errors` is for bytes that another encoding does not have.
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
    blocks = _recode(path, encoding, errors)
    yield next(blocks, b"").removeprefix(codecs.BOM_UTF8)
    yield from blocks


def _recode(path: Path, encoding: str, errors: str) -> Iterator[bytes]:
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
