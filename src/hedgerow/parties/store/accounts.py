"""`Accounts`: the lifetime epsilon and delta of every population, over all jobs and models.

A charge has a key; that of a job is `JobText.account_key`. It is recorded once, however often it is
made, and it is on the disk, and in the trail, before `charge` returns; there are no refunds.
Answers of a model cost nothing beyond its training: what is asked is counted, not charged.

Earlier versions kept a journal for every population in ``state/accounts``. Their charges are taken
over when the accounts of a party are opened, all of them or none, and the folder is renamed.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from hedgerow.errors import Code
from hedgerow.jsonfile import refusing, shown
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.consortium.policy import Lifetime, Policy
from hedgerow.parties.store.database import FILE, PATIENCE, Store, Transaction, open_store
from hedgerow.parties.store.durable import StateFolder, sync_folder
from hedgerow.parties.store.journal import Entry, locked_journal

_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_FOLDER, _ENDING, _IMPORTED = "accounts", ".jsonl", "accounts-imported"
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
    """The accounts of a party; for all its threads and processes.

    H867 if the state does not fit together, H868 if other processes keep it for more than
    `patience` seconds, H869 if the disk does not take a charge.
    """

    def __init__(self, state: StateFolder, policy: Policy, *, patience: float = PATIENCE) -> None:
        self.state, self.policy, self.patience = state, policy, patience
        self._store = _open(state)

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
        with self._store.transaction("charge", self.patience) as made:
            spent = _total_of(made, population)
            if not self._admits(population, spent, key, epsilon, delta):
                return False
            charge = AccountCharge(key, float(epsilon), float(delta), what[:200], time.time())
            made.add_charge({"population": population, **asdict(charge)})
        return True

    def check(self, population: str, key: str, epsilon: float, delta: float = 0.0) -> bool:
        """Refuse what `charge` would refuse, and record nothing; True if it would be new."""
        key = _job_key(key)
        _check(population, key, epsilon, delta)
        return self._admits(population, self.spent(population), key, epsilon, delta)

    def spent(self, population: str) -> AccountTotal:
        """Return what a population has spent; nothing if there is no account of it yet."""
        check_name(population, "population")
        with self._store.snapshot(self.patience) as made:
            return _total_of(made, population)

    def populations(self) -> list[str]:
        """Return the populations that have an account, in order."""
        with self._store.snapshot(self.patience) as made:
            return sorted({row["population"] for row in made.charges()})

    def _admits(
        self, population: str, spent: AccountTotal, key: str, epsilon: float, delta: float
    ) -> bool:
        for charge in spent.charges:
            if charge.key == key:
                _check_figures(charge, epsilon, delta)
                return False
        self.policy.check_account(
            population,
            spent=spent.epsilon,
            epsilon=epsilon,
            spent_delta=spent.delta,
            delta=delta,
        )
        return True


def worst(costs: Mapping[str, Figures]) -> tuple[float, float]:
    """Return the largest epsilon and the largest delta over all audiences, for the account.

    What every single audience learns over the years is at most the sum of these.
    """
    if not costs:
        # No figures are not the same as no cost.
        return math.inf, 0.0
    every = costs.values()
    return max(one.epsilon for one in every), max(one.delta for one in every)


def _check_figures(charge: AccountCharge, epsilon: float, delta: float) -> None:
    if (charge.epsilon, charge.delta) != (epsilon, delta):
        raise Code.ACCOUNT_CONFLICT.error(
            expected=f"epsilon {charge.epsilon!r} and delta {charge.delta!r} for {charge.key}",
            found=f"epsilon {epsilon!r} and delta {delta!r}",
        )


def _total_of(made: Transaction, population: str) -> AccountTotal:
    charges = tuple(
        AccountCharge(**{field: row[field] for field in _FIELDS})
        for row in made.charges(population)
    )
    return AccountTotal(
        math.fsum(charge.epsilon for charge in charges),
        math.fsum(charge.delta for charge in charges),
        charges,
    )


def _open(state: StateFolder) -> Store:
    """Open the store of a party, with the charges that earlier versions have left."""
    store = open_store(state)
    if not os.path.lexists(state.path(_FOLDER)):
        return store
    with ExitStack() as stack:
        # Held until all is done, so that no earlier version charges meanwhile.
        journals: dict[str, list[Entry]] = {}
        for name in sorted(path.name for path in state.folder(_FOLDER).glob(f"[!.]*{_ENDING}")):
            population = name.removesuffix(_ENDING)
            about = {"kind": "account", "population": population}
            journal = locked_journal(state.path(_FOLDER, name), about)
            journals[population] = stack.enter_context(journal)
        with store.transaction("import accounts") as made:
            for population, entries in journals.items():
                known = {charge.key: charge for charge in _total_of(made, population).charges}
                for charge in _charges_in(population, entries):
                    if charge.key not in known:
                        made.add_charge({"population": population, **asdict(charge)})
                    else:
                        _check_figures(known[charge.key], charge.epsilon, charge.delta)
        _set_aside(state)
    return store


def _set_aside(state: StateFolder) -> None:
    """Rename the folder of journals: what they tell is in the store."""
    number, path = 1, state.path(_IMPORTED)
    while os.path.lexists(path):
        number += 1
        path = state.path(f"{_IMPORTED}-{number}")
    try:
        os.rename(state.path(_FOLDER), path)
        sync_folder(state.root)
    except OSError as error:
        raise Code.STATE_NOT_WRITTEN.error(found=f"{path}: {error.strerror}") from None


def _charges_in(population: str, entries: Sequence[Entry]) -> list[AccountCharge]:
    charges = [_read(entry) for entry in entries]
    if len({charge.key for charge in charges}) < len(charges):
        raise Code.JOURNAL_DAMAGED.error(found=f"a key that was charged twice to {population}")
    return charges


def _read(entry: Entry) -> AccountCharge:
    with refusing(Code.JOURNAL_DAMAGED):
        if set(entry) != _FIELDS:
            raise ValueError(f"a charge with other keys than {sorted(_FIELDS)}")
        epsilon = math.inf if entry["epsilon"] == "inf" else float(entry["epsilon"])
        delta = float(entry["delta"])
        if not (epsilon >= 0 and delta >= 0):
            raise ValueError("a charge below zero")
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


def balances_in(folder: Path) -> list[Balance]:
    """Read all accounts of a party, also those that nothing was charged to yet.

    H867 if the state was damaged, H868 if others keep it, H853 or H854 for the policy.
    """
    limits, spent = _limits(folder), {}
    root = folder / STATE
    # Looking makes no state where there is none.
    if any(os.path.lexists(root / name) for name in (FILE, _FOLDER)):
        with _open(StateFolder(root)).snapshot() as made:
            for name in {row["population"] for row in made.charges()}:
                spent[name] = _total_of(made, name)
    return [
        Balance(name, spent.get(name, _NOTHING), limits.get(name))
        for name in sorted({*limits, *spent})
    ]


def _limits(folder: Path) -> dict[str, Lifetime]:
    if not (folder / POLICY).exists():
        return {}
    return dict(Policy.load(folder).populations)
