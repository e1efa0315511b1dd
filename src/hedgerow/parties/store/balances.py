"""`Balance`: what an account of a party has paid, and what the party's policy leaves of it.

For the eyes of the operator: nothing is charged, and nothing is written but what a crash has left
of a line is cut off, as whoever charges would do.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.policy import Lifetime, Policy
from hedgerow.parties.store.accounts import ENDING, FOLDER, KIND, PATIENCE, Spent, read_account
from hedgerow.parties.store.durable import open_regular
from hedgerow.parties.store.journal import MAX_LINE_BYTES

STATE, POLICY = "state", "policy.toml"
_NOTHING = Spent(0.0, 0.0, ())


@dataclass(frozen=True)
class Balance:
    """An account of a population at one party.

    `spent`: with every charge.
    `limit`: by the policy of the party; None where there is no policy beside the account, or the
    policy does not list the population.
    """

    population: str
    spent: Spent
    limit: Lifetime | None

    @property
    def left(self) -> float | None:
        """Epsilon that jobs may still cost; None without a limit to compare with."""
        if self.limit is None:
            return None
        # Without a limit there is always as much left.
        if math.isinf(self.limit.epsilon):
            return math.inf
        return max(0.0, self.limit.epsilon - self.spent.epsilon)

    @property
    def delta_left(self) -> float | None:
        """Delta that jobs may still cost; None without a limit that counts."""
        if self.limit is None or math.isinf(self.limit.epsilon):
            return None
        return max(0.0, self.limit.delta - self.spent.delta)


def population_of(path: Path) -> str | None:
    """Return whose account a file is; None if it is no account of a party."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            line = file.readline(MAX_LINE_BYTES)
        about = jsonfile.loads(line, Code.JOURNAL_DAMAGED)["entry"]["about"]
        found = about["population"] if about["kind"] == KIND else None
    except (OSError, HedgerowError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def balance_of(path: Path, population: str, *, patience: float = PATIENCE) -> Balance:
    """Read one account.

    `path`: of a file for which `population_of` gives the population.
    `patience`: seconds for which a process of this party may be writing to it.
    Raises H867 if it was damaged, H868 if another process keeps it, H853 or H854 for the policy.
    """
    limits = _limits(path.absolute().parents[2]) if len(path.absolute().parents) > 2 else {}
    return Balance(population, read_account(path, population, patience), limits.get(population))


def balances_in(folder: Path) -> list[Balance]:
    """Read all accounts of a party, also those that nothing was charged to yet."""
    limits = _limits(folder)
    found = {
        path.name.removesuffix(ENDING): path
        for path in sorted((folder / STATE / FOLDER).glob(f"[!.]*{ENDING}"))
    }
    return [
        balance_of(found[name], name) if name in found else Balance(name, _NOTHING, limits[name])
        for name in sorted({*limits, *found})
    ]


def _limits(folder: Path) -> dict[str, Lifetime]:
    if not (folder / POLICY).exists():
        return {}
    return dict(Policy.load(folder).populations)
