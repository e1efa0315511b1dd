"""Rows that do not fit, absorbed by public rules: no outcome of a fit then depends on a row.

A refusal is an answer without noise. Whoever may choose the capacity or the bounds, and sees
whether a fit is refused, finds the number of rows or the largest value by bisection, for nothing.
So where the rows are not the caller's own, nothing is refused: every record is clipped, moved to a
public bin or left out by a public rule, and only its owner is told.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal

What = Literal["clipped", "missing", "unreadable", "unlisted"]

OWNER_ONLY = (
    "For the owner's eyes only: these counts are exact and no ledger counts them. Publish nothing "
    "of this file, and send it to nobody."
)


@dataclass(eq=False, repr=False)
class AbsorbedRows:
    """How many rows and values of a table were absorbed: for the owner's eyes only.

    `values` are by column and what they were: ``clipped`` to the bounds; ``missing`` without a bin
    for it; ``unreadable`` under the declared kind; ``unlisted``. `without_target`: rows left out
    for a target that is missing, unreadable or no class. `without_id`: for an id that is missing,
    unreadable, or that of several rows. `broken_lines` have more or fewer cells than columns.
    """

    values: dict[str, Counter[str]] = field(default_factory=dict)
    without_target: int = 0
    without_id: int = 0
    over_capacity: int = 0
    broken_lines: int = 0

    def __post_init__(self) -> None:
        self._lock = Lock()

    def __repr__(self) -> str:
        # Whoever prints an estimator's attributes must not publish them by accident.
        return "AbsorbedRows(for the owner's eyes only: see to_json)"

    def count(self, column: str, **found: Any) -> None:
        """Add counts of a column, by `What`; zeros are left out."""
        more = Counter({what: int(n) for what, n in found.items() if n})
        if more:
            with self._lock:
                self.values.setdefault(column, Counter()).update(more)

    def count_rows(
        self, *, without_target: Any = 0, without_id: Any = 0, over: Any = 0, broken: Any = 0
    ) -> None:
        """Add counts of rows."""
        with self._lock:
            self.without_target += int(without_target)
            self.without_id += int(without_id)
            self.over_capacity += int(over)
            self.broken_lines += int(broken)

    def add(self, other: AbsorbedRows) -> None:
        """Add what was absorbed of another part of the table."""
        for column, found in other.values.items():
            self.count(column, **found)
        self.count_rows(
            without_target=other.without_target,
            without_id=other.without_id,
            over=other.over_capacity,
            broken=other.broken_lines,
        )

    def to_json(self) -> str:
        """Write the counts, with the word that they are nobody else's."""
        columns = {name: dict(sorted(found.items())) for name, found in sorted(self.values.items())}
        return json.dumps(
            {
                "note": OWNER_ONLY,
                "values": columns,
                "rows without a target": self.without_target,
                "rows without an id of their own": self.without_id,
                "rows over the capacity": self.over_capacity,
                "broken lines": self.broken_lines,
            },
            indent=2,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = Lock()
