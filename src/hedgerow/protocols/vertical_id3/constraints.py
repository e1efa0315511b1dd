"""`Constraints`: which transactions of a site may reach the node at hand.

Paper: vaidya2005vertical, section 2 (figure 1, FormTransSet).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ANY = -1
"""The paper's '?': a value that does not matter."""


class Constraints:
    """The constraint tuple of one site, over its own attributes.

    Parameters
    ----------
    bins : uint8 or uint16 (n, d)
        The site's own columns.
    n_values : sequence of int
        Values of each attribute.
    """

    def __init__(self, bins: NDArray[Any], n_values: NDArray[np.int64]) -> None:
        self.bins = bins
        self.n_values = n_values
        self.tuple = np.full(bins.shape[1], ANY, dtype=np.int64)
        # The sets of the path so far: `set` narrows the last one, '?' goes back.
        self._sets = [np.ones(len(bins), dtype=np.bool_)]
        self._path: list[int] = []

    def set(self, attribute: int, value: int) -> None:
        """Constrain an attribute to a value, or free it with `ANY`: the latest one only."""
        if self.tuple[attribute] != ANY:
            latest = self._path.pop()
            assert latest == attribute
            self._sets.pop()
        self.tuple[attribute] = value
        if value != ANY:
            self._path.append(attribute)
            self._sets.append(self._sets[-1] & (self.bins[:, attribute] == value))

    @property
    def remaining(self) -> list[int]:
        """Attributes that are not constrained."""
        return np.flatnonzero(self.tuple == ANY).tolist()

    def form_trans_set(self) -> NDArray[np.intp]:
        """Return the rows that satisfy the constraints (FormTransSet), intp (m,)."""
        return np.flatnonzero(self._sets[-1])

    def by(self, labels: NDArray[Any], n: int) -> list[NDArray[np.intp]]:
        """Return the rows that satisfy the constraints, apart for each of n labels."""
        rows = self.form_trans_set()
        mine = labels[rows]
        order = np.argsort(mine, kind="stable")
        ends = np.cumsum(np.bincount(mine, minlength=n))[:-1]
        return np.split(rows[order], ends)
