"""`Spill`: arrays in memory up to a number of bytes, and beyond it in a file without a name."""

from __future__ import annotations

from dataclasses import replace
from mmap import ALLOCATIONGRANULARITY
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.trees.counts.forest import Batch


class Spill:
    """Where large arrays are kept while a model is trained.

    The file lies in the folder for temporary files (``TMPDIR``), has no name that others could
    open, and is gone with the process, however that ends. The system keeps as much of it in memory
    as there is room for.

    `most_bytes`: what may stay in memory; everything if not given.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._room = most_bytes
        self._file: IO[bytes] | None = None
        self._end = 0

    def put(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array of the same values and order, which may be written to.

        Raises H869 if there is no room for it on the disk.
        """
        if self._room is None:
            return array
        if array.nbytes <= self._room:
            self._room -= array.nbytes
            return array
        if array.flags.c_contiguous:
            return self._map(array)
        return self._map(np.ascontiguousarray(array.T)).T

    def put_batch(self, batch: Batch) -> Batch:
        """Return a batch of the same rows."""
        return replace(
            batch,
            bins=self.put(batch.bins),
            target=self.put(batch.target),
            present=self.put(batch.present),
        )

    def _map(self, array: NDArray[Any]) -> NDArray[Any]:
        try:
            if self._file is None:
                self._file = TemporaryFile(prefix="hedgerow-")  # noqa: SIM115
            # Written, not only mapped: a full disk is an error here, and would be a signal there.
            self._file.seek(self._end)
            self._file.write(array.data)
            self._file.flush()
        except OSError as error:
            raise Code.STATE_NOT_WRITTEN.error(
                expected=f"room for {array.nbytes:,} bytes in the folder for temporary files",
                found=error.strerror or str(error),
                fix="set TMPDIR to a folder on a disk with room, or allow more memory: "
                "Batches(..., cache_bytes=...)",
            ) from None
        kept: NDArray[Any] = np.memmap(
            self._file,
            array.dtype,
            mode="r+",
            offset=self._end,
            shape=array.shape,
        )
        blocks = -(-array.nbytes // ALLOCATIONGRANULARITY)
        self._end += blocks * ALLOCATIONGRANULARITY
        # A plain view: kernels are compiled for plain arrays.
        return np.asarray(kept)
