"""`Batches`: a table that is larger than memory, encoded batch by batch, as often as needed."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow import threads
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.domain import Domain
from hedgerow.tables.encode import Encoded, encode
from hedgerow.tables.frame import view
from hedgerow.tables.parquet_pieces import ParquetPieces, Piece

Item = TypeVar("Item")
Result = TypeVar("Result")
Source = str | PathLike[str] | Sequence[Any] | Callable[[], Iterable[Any]]

ROWS = 1 << 18
CACHE_BYTES = 1 << 30


class Batches:
    """Encoded batches of a table under a public domain, numbered and readable again.

    Encoded rows are small (one or two bytes a cell) and are kept in memory as long as there is
    room; the rest is read and encoded again in every pass. Each pass must meet the same rows: a
    batch that was read again and differs is refused.

    Parameters
    ----------
    source : path, sequence of paths, sequence of tables, or callable
        Parquet files or folders of them; tables (anything that `encode` takes), one per batch; or
        a function without arguments that returns the tables anew at each call, such as an Arrow
        ``RecordBatchReader``. A table may be a `Piece`, which says what messages call it.
    domain : Domain
        Public; with a target, whose column each table has.
    rows : int, default=262_144
        Of a batch from Parquet, at most. Tables are batches as they come.
    cache_bytes : int, default=2**30
        Memory for encoded batches; the first ones are kept.
    may_be_empty : bool, default=False
        Whether files without a single row are taken; such a table is still refused by whoever
        passes over it, unless rows are absorbed.

    Raises
    ------
    HedgerowError
        H116 for a domain without a target, H109 for a source of another kind, and what
        `hedgerow.tables.parquet_pieces.ParquetPieces` raises.
    """

    def __init__(
        self,
        source: Source,
        domain: Domain,
        *,
        rows: int = ROWS,
        cache_bytes: int = CACHE_BYTES,
        may_be_empty: bool = False,
    ) -> None:
        if domain.target is None:
            raise Code.BAD_TARGET.error(found="a domain without a target")
        for name, value, least in (("rows", rows, 1), ("cache_bytes", cache_bytes, 0)):
            if not isinstance(value, int) or value < least:
                raise Code.BAD_PARAMETER.error(
                    expected=f"{name} of at least {least}", found=f"{name}={value!r}"
                )
        self.domain = domain
        self.target = domain.target.name
        self.cache_bytes = cache_bytes
        self._files: ParquetPieces | None = None
        self._open: Callable[[], Iterable[Any]] | None = None
        self._take(source, rows, may_be_empty)
        self._lock = Lock()
        self._cache: dict[int, Encoded] = {}
        self._cached_bytes = 0
        # Records and checksum of every batch, from the first pass.
        self._known: dict[int, tuple[int, int]] = {}
        self._complete = False
        self._absorbed: AbsorbedRows | None = None
        self._room: dict[int, int] | None = None

    def _take(self, source: Source, rows: int, may_be_empty: bool) -> None:
        if isinstance(source, str | PathLike):
            source = [source]
        if callable(source):
            self._open = source
        elif isinstance(source, Sequence) and len(source) and all(map(_is_path, source)):
            columns = [*self.domain.names, self.target]
            paths = [Path(path) for path in source]
            self._files = ParquetPieces(paths, columns, rows, empty=may_be_empty)
        elif isinstance(source, Sequence) and len(source) and not any(map(_is_path, source)):
            tables = tuple(source)
            self._open = lambda: tables
        else:
            once = isinstance(source, pa.RecordBatchReader) or hasattr(source, "__next__")
            raise Code.WRONG_TYPE.error(
                expected="paths, tables, or a function that returns tables",
                found=f"{type(source).__name__}{', which can be read once' if once else ''}",
                fix="pass a function that opens the table anew: Batches(lambda: ..., domain)",
            )

    def absorb(self, absorbed: AbsorbedRows, capacity: int | None) -> None:
        """Refuse no row from here on, and keep the first `capacity` records; reads every batch.

        Rows are counted in `absorbed` once, however often they are read.
        """
        self._absorbed, self._room, self._complete = absorbed, None, False
        self._known, self._cache, self._cached_bytes = {}, {}, 0
        present: dict[int, int] = {}

        def look(number: int, encoded: Encoded) -> None:
            present[number] = int(encoded.present.sum())

        for _ in self.each(look):
            pass
        if capacity is None or sum(present.values()) <= capacity:
            return
        absorbed.count_rows(over=sum(present.values()) - capacity)
        room, left = {}, capacity
        for number in sorted(present):
            room[number] = min(left, present[number])
            left -= room[number]
        self._room = room

    @property
    def n_records(self) -> int:
        """Rows in all; reads and checks every batch if that has not been done."""
        if not self._complete:
            for _ in self.each(lambda number, encoded: None):
                pass
        if self._room is not None:
            return sum(self._room.values())
        return sum(n for n, _ in self._known.values())

    def _keep(self, number: int, encoded: Encoded) -> Encoded:
        """Clear the presence of records beyond the capacity, which were counted at first."""
        if self._room is None:
            return encoded
        return encoded.within_capacity(self._room[number], AbsorbedRows())

    def __iter__(self) -> Iterator[tuple[int, Encoded]]:
        return self.each(lambda number, encoded: (number, encoded))

    def each(self, task: Callable[[int, Encoded], Result]) -> Iterator[Result]:
        """Pass over the rows: call `task` with number and rows of each batch, on all cores.

        In the order of the batches. Raises what `encode` raises, with the file or table and the row
        within it; H105 if there are no rows; H115 for a file that cannot be read; H119 if the rows
        are not those of the first pass.
        """

        def work(piece: Piece | int) -> Result:
            if isinstance(piece, int):
                return task(piece, self._keep(piece, self._cache[piece]))
            return task(piece.number, self._keep(piece.number, self._encode(piece)))

        last = -1
        for number, result in map_ahead(lambda item: (_number(item), work(item)), self._pieces()):
            last = number
            yield result
        if self._complete and last + 1 != len(self._known):
            raise Code.TABLE_CHANGED.error(
                expected=f"{len(self._known)} batches, as at first", found=f"{last + 1}"
            )
        if self._absorbed is None and not sum(n for n, _ in self._known.values()):
            raise Code.EMPTY_TABLE.error(found="no rows in any batch")
        self._complete = True

    def _pieces(self) -> Iterator[Piece | int]:
        """Give every batch in order: by its number where it is kept, else to be encoded."""
        kept = set(self._cache)
        if self._files is not None:
            coming = self._files.read(kept)
            piece = next(coming, None)
            for number in range(len(self._files)):
                if piece is None or piece.number > number:
                    if number not in kept:
                        raise Code.TABLE_CHANGED.error(found="files with fewer rows than before")
                    yield number
                    continue
                yield number if number in kept else piece
                piece = next(coming, None)
            return
        if self._complete and len(kept) == len(self._known):
            yield from sorted(kept)
            return
        assert self._open is not None
        for number, table in enumerate(self._open()):
            if number in kept:
                yield number
            elif isinstance(table, Piece):
                yield replace(table, number=number)
            else:
                yield Piece(number, f"table {number}", 0, table)

    def _encode(self, piece: Piece) -> Encoded:
        absorbed = None if self._absorbed is None else AbsorbedRows()
        encoded = encode_piece(
            piece.table,
            self.domain,
            self.target,
            origin=piece.origin,
            first_row=piece.first_row,
            absorbed=absorbed,
        )
        found = (int(encoded.present.sum()), checksum(encoded))
        size = encoded.bins.nbytes + encoded.present.nbytes
        size += 0 if encoded.target is None else encoded.target.nbytes
        with self._lock:
            known = self._known.get(piece.number)
            if known is None and not self._complete:
                self._known[piece.number] = found
                if self._absorbed is not None and absorbed is not None:
                    self._absorbed.add(absorbed)
            elif known != found:
                raise Code.TABLE_CHANGED.error(
                    expected=f"the {0 if known is None else known[0]:,} rows of the first pass",
                    found=f"{found[0]:,} rows of {piece.origin} from row {piece.first_row}, "
                    "other ones",
                )
            if self._cached_bytes + size <= self.cache_bytes:
                self._cache[piece.number] = encoded
                self._cached_bytes += size
        return encoded


def encode_piece(
    table: Any,
    domain: Domain,
    y: Any,
    *,
    origin: str,
    first_row: int = 0,
    absorbed: AbsorbedRows | None = None,
) -> Encoded:
    """Encode some rows, which may be none, of a larger table that messages call `origin`."""
    if absorbed is None and _n_rows(table) == 0:
        return no_rows(domain)
    try:
        frame = view(table, empty=absorbed is not None)
        for column in frame.columns:
            column.first_row = first_row
        return encode(frame, domain, y, absorbed=absorbed)
    except HedgerowError as error:
        raise error.code.error(
            expected=error.expected, found=f"{origin}: {error.found}", fix=error.fix
        ) from None


def checksum(encoded: Encoded) -> int:
    """Return a number that tells rows from other rows, unless somebody wants it not to."""
    total = zlib.crc32(np.ascontiguousarray(encoded.bins.T).reshape(-1).view(np.uint8).data)
    if encoded.target is not None:
        total = zlib.crc32(np.ascontiguousarray(encoded.target).view(np.uint8).data, total)
    return total


def no_rows(domain: Domain) -> Encoded:
    """Return a table without a record under a domain."""
    target: NDArray[Any] = np.zeros(0)
    if domain.target is not None and domain.target.classes is not None:
        target = np.zeros(0, dtype=np.uint8 if len(domain.target.classes) <= 256 else np.uint16)
    bins = np.zeros((0, len(domain.attributes)), dtype=domain.dtype, order="F")
    return Encoded(domain, bins, target, np.zeros(0, dtype=np.bool_))


def _n_rows(table: Any) -> int | None:
    """Return the rows of a table where they can be had without a look at its values."""
    if isinstance(table, pa.Table | pa.RecordBatch):
        return int(table.num_rows)
    shape = getattr(table, "shape", None)
    return int(shape[0]) if shape else None


def _number(item: Piece | int) -> int:
    return item if isinstance(item, int) else item.number


def _is_path(item: Any) -> bool:
    return isinstance(item, str | PathLike)


def map_ahead(task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Call `task` for every item on all cores and give the results in the order of the items.

    A task should release the GIL. Items are drawn in the calling thread, at most one more than
    there are cores ahead of the results. If a task fails, its error comes in place of the result,
    and later items are left out. When the iterator is closed early, tasks that run are waited for.
    """
    cores = threads.available()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(cores, "hedgerow-ahead") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(task, item))
                if len(waiting) > cores:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
