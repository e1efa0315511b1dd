"""A line that shows how far the growth of a forest has come, for `verbose`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hedgerow.trees.counts.forest import ForestCounts, ForestShape, Splits


@contextmanager
def shown(
    counts: ForestCounts, depth: int, verbose: int, console: Console | None = None
) -> Iterator[ForestCounts]:
    """Show on the error stream what is asked of `counts`, level by level, if `verbose`."""
    if not verbose:
        yield counts
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console or Console(stderr=True)) as progress:
        yield ShownCounts(counts, depth, progress)


class ShownCounts:
    """A `ForestCounts` that says what it is asked; what it shows is public."""

    def __init__(self, counts: ForestCounts, depth: int, progress: Progress) -> None:
        self._counts, self._depth, self._progress = counts, depth, progress
        # Reading, the levels, and the leaves.
        self._task = progress.add_task("reading the table", total=depth + 2)
        self._level = 0

    @property
    def n_records(self) -> int:
        """Records in all."""
        return self._counts.n_records

    @property
    def most_cells(self) -> int:
        """Bins that one histogram may hold."""
        return self._counts.most_cells

    def begin(self, shape: ForestShape, key: bytes) -> None:
        """Put every row into its roots."""
        self._level = 0
        self._counts.begin(shape, key)
        self._progress.update(self._task, completed=1)

    def histogram(
        self, nodes: NDArray[np.int64], features: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count records by bin."""
        self._say("medians")
        return self._counts.histogram(nodes, features)

    def sides(self, nodes: NDArray[np.int64], splits: Splits) -> NDArray[np.int64]:
        """Add up both sides of candidate splits."""
        self._say("choosing attributes")
        return self._counts.sides(nodes, splits)

    def advance(self, splits: Splits) -> None:
        """Send the rows on."""
        self._counts.advance(splits)
        self._level += 1
        self._progress.update(self._task, completed=1 + self._level)

    def channels(self) -> NDArray[np.int64]:
        """Channels of the frontier."""
        self._progress.update(self._task, description="leaves")
        found = self._counts.channels()
        self._progress.update(self._task, completed=2 + self._depth)
        return found

    def _say(self, what: str) -> None:
        text = f"level {self._level + 1} of {self._depth}: {what}"
        self._progress.update(self._task, description=text)
