"""`SiteTable`: the columns of one site, with the ids of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.tables import Encoded
from hedgerow.tables.ids import repeated_rows


@dataclass(frozen=True, eq=False)
class SiteTable:
    """The columns of one site.

    Parameters
    ----------
    bins : uint8 or uint16 (n, d)
        Bins of its attributes; d may be 0 at a site that holds the class alone.
    n_values : int64 (d,)
        Values, that is bins, of each attribute.
    labels : integers (n,) or None
        Classes, at a site that holds them.
    ids : int64 or str (n,)
        Each of them once; H110 otherwise.
    """

    bins: NDArray[Any]
    n_values: NDArray[np.int64]
    labels: NDArray[Any] | None
    ids: NDArray[Any]

    def __post_init__(self) -> None:
        repeated = repeated_rows(self.ids)
        if repeated.size:
            found = f"{self.ids[repeated[0]].item()!r} in row {int(repeated[0])} and another"
            raise Code.DUPLICATE_ID.error(found=found)

    @classmethod
    def of(cls, part: Encoded) -> SiteTable:
        """Take the columns, and the class if it is there, from an encoded part with ids."""
        if part.ids is None:
            raise Code.IDS_DO_NOT_ALIGN.error(
                expected="row ids", found="none", fix="pass ids= to encode"
            )
        rows = part.rows(np.flatnonzero(part.present))
        return cls(rows.bins, rows.domain.n_bins.astype(np.int64), rows.target, rows.ids)  # type: ignore[arg-type]

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.ids)

    def rows(self, index: NDArray[np.intp]) -> SiteTable:
        """Return some records."""
        labels = None if self.labels is None else self.labels[index]
        return SiteTable(self.bins[index], self.n_values, labels, self.ids[index])
