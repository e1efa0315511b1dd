"""`Accounts`: the lifetime epsilon and delta of every population, over all jobs and models.

A charge has a key; that of a job is `JobText.account_key`. It is recorded once, however often it is
made, and it is on the disk before `charge` returns; there are no refunds. Answers of a model cost
nothing beyond its training: what is asked is counted, not charged.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.jsonfile import refusing, shown
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.consortium.policy import Lifetime, Policy
from hedgerow.parties.store.durable import StateFolder, open_regular
from hedgerow.parties.store.journal import MAX_LINE_BYTES, Journal

PATIENCE = 10.0
"""Seconds for which another process of this party may hold the journal."""

_PAUSE = 0.01
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
FOLDER, ENDING, KIND = "accounts", ".jsonl", "account"
"""Where accounts are in the state of a party, and what their journals are about."""
_HASH = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"key", "epsilon", "delta", "what", "time"}


class Figures(Protocol):
    """Anything with an epsilon, which may be infinite, and a delta, such as a `Guarantee`."""

    @property
    def epsilon(self) -> float: ...  # noqa: D102

    @property
    def delta(self) -> float: ...  # noqa: D102


@dataclass(frozen=True)
class AccountCharge:
    """One entry of an account, whose key it has once; its time is in seconds since 1970."""

    key: str
    epsilon: float
    delta: float
    what: str
    time: float


@dataclass(frozen=True)
class AccountTotal:
    """What a population has spent: the sum of its charges."""

    epsilon: float
    delta: float
    charges: tuple[AccountCharge, ...]


class Accounts:
    """The accounts of a party, one journal per population; for all its threads and processes.

    Journals are open only while they are read or written, so that a daemon and its workers can
    share them. H867 if a journal does not fit together, H868 if another process keeps it for more
    than `patience` seconds, H869 if the disk does not take a charge.
    """

    def __init__(self, state: StateFolder, policy: Policy, *, patience: float = PATIENCE) -> None:
        self.state, self.policy, self.patience = state, policy, patience
        self._lock = threading.Lock()
        state.folder(FOLDER)

    def charge(
        self, population: str, key: str, epsilon: float, delta: float = 0.0, *, what: str = ""
    ) -> bool:
        """Charge a population, before anything is computed; on the disk when this returns.

        A second charge with the same `key` changes nothing; returns whether it is new. The figures
        are those of the worst audience, see `worst`. H858 if the policy does not allow it (nothing
        is recorded), H889 if it was charged with other figures before.
        """
        key = _job_key(key)
        _check(population, key, epsilon, delta)
        with self._open(population) as journal:
            spent = _total_of(journal)
            if not self._admits(population, spent, key, epsilon, delta):
                return False
            entry = {
                "key": key,
                "epsilon": "inf" if math.isinf(epsilon) else float(epsilon),
                "delta": float(delta),
                "what": what[:200],
                "time": time.time(),
            }
            journal.append(entry)
        return True

    def check(self, population: str, key: str, epsilon: float, delta: float = 0.0) -> bool:
        """Refuse what `charge` would refuse, and record nothing; True if it would be new."""
        key = _job_key(key)
        _check(population, key, epsilon, delta)
        return self._admits(population, self.spent(population), key, epsilon, delta)

    def spent(self, population: str) -> AccountTotal:
        """Return what a population has spent; nothing if there is no account of it yet."""
        check_name(population, "population")
        if not self.state.path(FOLDER, population + ENDING).exists():
            return AccountTotal(0.0, 0.0, ())
        with self._open(population) as journal:
            return _total_of(journal)

    def populations(self) -> list[str]:
        """Return the populations that have an account, in order."""
        folder = self.state.folder(FOLDER)
        return sorted(path.name.removesuffix(ENDING) for path in folder.glob(f"[!.]*{ENDING}"))

    def _admits(
        self, population: str, spent: AccountTotal, key: str, epsilon: float, delta: float
    ) -> bool:
        for charge in spent.charges:
            if charge.key == key:
                if (charge.epsilon, charge.delta) != (epsilon, delta):
                    raise Code.ACCOUNT_CONFLICT.error(
                        expected=f"epsilon {charge.epsilon!r} and delta {charge.delta!r} for {key}",
                        found=f"epsilon {epsilon!r} and delta {delta!r}",
                    )
                return False
        self.policy.check_account(
            population,
            spent=spent.epsilon,
            epsilon=epsilon,
            spent_delta=spent.delta,
            delta=delta,
        )
        return True

    @contextmanager
    def _open(self, population: str) -> Iterator[Journal]:
        path = self.state.path(FOLDER, population + ENDING)
        # One thread at a time: a journal has one reader, even within a process.
        with self._lock, _open_journal(path, population, self.patience, create=True) as journal:
            yield journal


def read_account(path: Path, population: str, patience: float = PATIENCE) -> AccountTotal:
    """Return what the account in a file, which must exist, has paid; H867 or H868 if it cannot."""
    with _open_journal(path, population, patience, create=False) as journal:
        return _total_of(journal)


def worst(costs: Mapping[str, Figures]) -> tuple[float, float]:
    """Return the largest epsilon and the largest delta over all audiences, for the account.

    What every single audience learns over the years is at most the sum of these.
    """
    if not costs:
        # No figures are not the same as no cost.
        return math.inf, 0.0
    every = costs.values()
    return max(one.epsilon for one in every), max(one.delta for one in every)


@contextmanager
def _open_journal(
    path: Path, population: str, patience: float, *, create: bool
) -> Iterator[Journal]:
    """Open an account when no other process has it open any more."""
    end, about = time.monotonic() + patience, {"kind": KIND, "population": population}
    while True:
        try:
            journal = Journal(path, about=about, create=create)
            break
        except HedgerowError as error:
            if error.code is not Code.JOURNAL_IN_USE or time.monotonic() > end:
                raise
        time.sleep(_PAUSE)
    with journal:
        yield journal


def _total_of(journal: Journal) -> AccountTotal:
    charges = tuple(_read(entry, journal) for entry in journal.entries())
    if len({charge.key for charge in charges}) < len(charges):
        raise Code.JOURNAL_DAMAGED.error(found=f"{journal.path}: a key that was charged twice")
    return AccountTotal(
        math.fsum(charge.epsilon for charge in charges),
        math.fsum(charge.delta for charge in charges),
        charges,
    )


def _read(entry: Mapping[str, Any], journal: Journal) -> AccountCharge:
    with refusing(Code.JOURNAL_DAMAGED):
        if set(entry) != _FIELDS:
            raise ValueError(f"{journal.path}: an entry with other keys than {sorted(_FIELDS)}")
        epsilon = math.inf if entry["epsilon"] == "inf" else float(entry["epsilon"])
        delta = float(entry["delta"])
        if not (epsilon >= 0 and delta >= 0):
            raise ValueError(f"{journal.path}: a charge below zero")
        return AccountCharge(
            _job_key(str(entry["key"])), epsilon, delta, str(entry["what"]), float(entry["time"])
        )


def _job_key(key: str) -> str:
    """Return the key of a job as all write it now; some were the hash of the job alone."""
    return f"job:{key}" if isinstance(key, str) and _HASH.fullmatch(key) else key


def _check(population: str, key: str, epsilon: float, delta: float) -> None:
    check_name(population, "population")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise Code.BAD_PARAMETER.error(
            expected="a key of 1 to 200 printable characters without spaces", found=shown(key)
        )
    if not epsilon >= 0 or not 0 <= delta <= 1:
        raise Code.BAD_PARAMETER.error(
            expected="epsilon from 0 and delta from 0 to 1",
            found=f"epsilon={epsilon}, delta={delta}",
        )


STATE, POLICY = "state", "policy.toml"
_NOTHING = AccountTotal(0.0, 0.0, ())


@dataclass(frozen=True)
class Balance:
    """What an account of a party has paid, and the `limit` of the policy that lists it, if any."""

    population: str
    spent: AccountTotal
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
    """Read the account in a file for which `population_of` gives the population; no charge.

    Nothing is written but what a crash has left of a line is cut off. H867 if it was damaged, H868
    if another process keeps it, H853 or H854 for the policy.
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
