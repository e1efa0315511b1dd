"""`Accounts`: the lifetime epsilon and delta of every population, over all jobs and models.

A charge has a key; that of a job is `JobText.account_key`. It is recorded once, however often it is
made, and it is on the disk, and in the trail, before `charge` returns; there are no refunds.
Answers of a model cost nothing beyond its training: what is asked is counted, not charged; but for
those among peers whose training has a finite epsilon, which are exact and charged once.

A server charges a job on uploads if their owners allow it, too: the terms of each (`OwnerTerms`)
have a lifetime that all charges to the population here count against. An owner promises its servers
that lifetime (`promise`) and holds it back from what it spends itself. What servers have charged is
entered in its own account (`enter`), under the same keys.

Earlier versions kept a journal for every population in ``state/accounts``. Their charges are taken
over when the accounts of a party are opened, all of them or none, and the folder is renamed.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from hedgerow.errors import Code
from hedgerow.jsonfile import plain, refusing, shown
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.consortium.policy import Lifetime, OwnerTerms, Policy
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
        self,
        population: str,
        key: str,
        epsilon: float,
        delta: float = 0.0,
        *,
        what: str = "",
        owners: Collection[str] = (),
        shared: bool = False,
    ) -> bool:
        """Charge a population, before anything is computed; on the disk when this returns.

        A second charge with the same `key` changes nothing; returns whether it is new. The figures
        are those of the worst audience, see `worst`. `owners`: of the uploads, whose terms bind.
        `shared`: servers charge it, too, so it is part of what was promised to them. H858 if the
        policy or the terms do not allow it (nothing is recorded), H889 if it was charged with other
        figures before.
        """
        key = _job_key(key)
        _check(population, key, epsilon, delta)
        with self._store.transaction("charge", self.patience) as made:
            if not self._admits(made, population, key, (epsilon, delta), owners, shared):
                return False
            charge = AccountCharge(key, float(epsilon), float(delta), what[:200], time.time())
            made.add_charge({"population": population, **asdict(charge)})
            if shared:
                made.put("server_charges", {"population": population, "key": key})
        return True

    def check(
        self,
        population: str,
        key: str,
        epsilon: float,
        delta: float = 0.0,
        *,
        owners: Collection[str] = (),
        shared: bool = False,
    ) -> bool:
        """Refuse what `charge` would refuse, and record nothing; True if it would be new."""
        key = _job_key(key)
        _check(population, key, epsilon, delta)
        with self._store.snapshot(self.patience) as made:
            return self._admits(made, population, key, (epsilon, delta), owners, shared)

    def terms(self, population: str, owners: Collection[str]) -> list[OwnerTerms]:
        """Return what owners allow on their uploads of a population, of those who have said it."""
        with self._store.snapshot(self.patience) as made:
            return _terms_of(made, population, owners)

    def promise(self, population: str, cap: float | None = None) -> Lifetime | None:
        """Hold back what servers may charge: all that this owner has not spent itself, or `cap`.

        A cap stays until there is another one. Returns the lifetime for the servers' terms; None if
        nothing is left. What they were promised before is held back until `fulfil`.
        """
        with self._store.transaction("promise", self.patience) as made:
            before = made.row("promises", population=population)
            if cap is None:
                cap = math.inf if before is None else before["cap"]
            found = self._left_for_servers(made, population, cap)
            wider = (
                max(found.epsilon if found else 0.0, before["epsilon"] if before else 0.0),
                max(found.delta if found else 0.0, before["delta"] if before else 0.0),
            )
            _write_promise(made, before, population, *wider, cap)
        return found

    def fulfil(self, population: str, lifetime: Lifetime | None) -> None:
        """Hold back no more than this: all servers know that they have no more."""
        with self._store.transaction("fulfil a promise", self.patience) as made:
            before = made.row("promises", population=population)
            assert before is not None
            found = (0.0, 0.0) if lifetime is None else (lifetime.epsilon, lifetime.delta)
            _write_promise(made, before, population, *found, before["cap"])

    def enter(self, population: str, charges: Sequence[AccountCharge]) -> list[AccountCharge]:
        """Enter what servers have charged, whatever the policy says: it is done.

        A charge that is here already is left as it is. Returns those that have other figures here.
        """
        for charge in charges:
            _check(population, charge.key, charge.epsilon, charge.delta)
        with self._store.snapshot(self.patience) as made:
            known = {one.key: one for one in _total_of(made, population).charges}
            told = _charged_by_servers(made, population)
        differ = [
            one for one in charges if one.key in known and _figures(known[one.key]) != _figures(one)
        ]
        if all(one.key in told for one in charges):
            return differ
        with self._store.transaction("enter charges", self.patience) as made:
            known = {one.key: one for one in _total_of(made, population).charges}
            told = _charged_by_servers(made, population)
            for charge in charges:
                if charge.key not in known:
                    made.add_charge({"population": population, **asdict(charge)})
                if charge.key not in told:
                    made.put("server_charges", {"population": population, "key": charge.key})
        return differ

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
        self,
        made: Transaction,
        population: str,
        key: str,
        cost: tuple[float, float],
        owners: Collection[str],
        shared: bool,
    ) -> bool:
        spent = _total_of(made, population)
        for charge in spent.charges:
            if charge.key == key:
                _check_figures(charge, *cost)
                return False
        epsilon, delta = cost
        for terms in _terms_of(made, population, owners):
            terms.check_account(
                population,
                spent=spent.epsilon,
                epsilon=epsilon,
                spent_delta=spent.delta,
                delta=delta,
            )
        promise = made.row("promises", population=population)
        held = (spent.epsilon, spent.delta)
        if promise is not None:
            held = _held(
                spent, _charged_by_servers(made, population), promise, cost if shared else None
            )
        self.policy.check_account(
            population,
            spent=held[0],
            epsilon=epsilon,
            spent_delta=held[1],
            delta=delta,
            word="spent" if promise is None else "spent or promised to the servers",
        )
        return True

    def _left_for_servers(self, made: Transaction, population: str, cap: float) -> Lifetime | None:
        limit = self.policy.populations.get(population)
        if limit is None:
            return None
        own = _without(_total_of(made, population), _charged_by_servers(made, population))
        left = limit.epsilon if math.isinf(limit.epsilon) else limit.epsilon - own.epsilon
        if min(cap, left) <= 0:
            return None
        return Lifetime(epsilon=min(cap, left), delta=max(0.0, limit.delta - own.delta))


def worst(costs: Mapping[str, Figures]) -> tuple[float, float]:
    """Return the largest epsilon and the largest delta over all audiences, for the account.

    What every single audience learns over the years is at most the sum of these.
    """
    if not costs:
        # No figures are not the same as no cost.
        return math.inf, 0.0
    every = costs.values()
    return max(one.epsilon for one in every), max(one.delta for one in every)


def _terms_of(made: Transaction, population: str, owners: Collection[str]) -> list[OwnerTerms]:
    known = made.terms(population)
    return [OwnerTerms.from_json(known[owner]) for owner in sorted(owners) if owner in known]


def _charged_by_servers(made: Transaction, population: str) -> set[str]:
    """Return the keys of an owner's account that servers have charged as well."""
    return {row["key"] for row in made.rows("server_charges", population=population)}


def _write_promise(
    made: Transaction,
    before: Mapping[str, Any] | None,
    population: str,
    epsilon: float,
    delta: float,
    cap: float,
) -> None:
    row: dict[str, str | float] = {"population": population, "epsilon": epsilon}
    row |= {"delta": delta, "cap": cap}
    if before == row:
        return
    made.put("promises", row)
    made.tell("promise", {"population": population, "epsilon": plain(epsilon), "delta": delta})


def _held(
    spent: AccountTotal,
    told: Collection[str],
    promise: Mapping[str, Any],
    within: tuple[float, float] | None,
) -> tuple[float, float]:
    """Return what an owner has spent itself, and what servers have charged or may yet.

    `within`: what is about to be charged by the servers as well, and is part of their promise.
    """
    own = _without(spent, told)
    epsilon, delta = promise["epsilon"], promise["delta"]
    if within is not None and not math.isinf(epsilon):
        epsilon, delta = max(0.0, epsilon - within[0]), max(0.0, delta - within[1])
    theirs = [charge for charge in spent.charges if charge.key in told]
    return (
        own.epsilon + max(epsilon, math.fsum(charge.epsilon for charge in theirs)),
        own.delta + max(delta, math.fsum(charge.delta for charge in theirs)),
    )


def _without(spent: AccountTotal, told: Collection[str]) -> AccountTotal:
    return _total([charge for charge in spent.charges if charge.key not in told])


def _figures(charge: AccountCharge) -> tuple[float, float]:
    return charge.epsilon, charge.delta


def _check_figures(charge: AccountCharge, epsilon: float, delta: float) -> None:
    if _figures(charge) != (epsilon, delta):
        raise Code.ACCOUNT_CONFLICT.error(
            expected=f"epsilon {charge.epsilon!r} and delta {charge.delta!r} for {charge.key}",
            found=f"epsilon {epsilon!r} and delta {delta!r}",
        )


def _total_of(made: Transaction, population: str) -> AccountTotal:
    rows = made.charges(population)
    return _total([AccountCharge(**{field: row[field] for field in _FIELDS}) for row in rows])


def _total(charges: Sequence[AccountCharge]) -> AccountTotal:
    return AccountTotal(
        math.fsum(charge.epsilon for charge in charges),
        math.fsum(charge.delta for charge in charges),
        tuple(charges),
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
    """What an account of a party has paid, and the `limit` of the policy that lists it, if any.

    `promised`: epsilon and delta of it that servers may charge, with what they have charged.
    """

    population: str
    spent: AccountTotal
    limit: Lifetime | None
    promised: tuple[float, float] | None = None

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

    def describe(self) -> list[str]:
        """Say what was spent of it, what is left, and what is promised to servers."""
        delta = f"delta {self.spent.delta:.3g}"
        line = f"spent epsilon {self.spent.epsilon:.6g}"
        if self.limit is None:
            line += f", {delta}; no policy.toml that lists it is beside it"
        else:
            more = "" if self.delta_left is None else f" and {self.delta_left:.6g}"
            line += f" of {self.limit.epsilon:g}, {delta} of {self.limit.delta:g}; "
            line += f"left: {self.left:.6g}{more}"
        lines = [line]
        if self.promised is not None:
            lines.append(
                f"the servers may charge up to epsilon {self.promised[0]:.6g} and delta "
                f"{self.promised[1]:.3g} of it"
            )
        return lines


def balances_in(folder: Path) -> list[Balance]:
    """Read all accounts of a party, also those that nothing was charged to yet.

    H867 if the state was damaged, H868 if others keep it, H853 or H854 for the policy.
    """
    limits, spent, promised = _limits(folder), {}, {}
    root = folder / STATE
    # Looking makes no state where there is none.
    if any(os.path.lexists(root / name) for name in (FILE, _FOLDER)):
        with _open(StateFolder(root)).snapshot() as made:
            for name in {row["population"] for row in made.charges()}:
                spent[name] = _total_of(made, name)
            for row in made.rows("promises"):
                promised[row["population"]] = (row["epsilon"], row["delta"])
    return [
        Balance(name, spent.get(name, _NOTHING), limits.get(name), promised.get(name))
        for name in sorted({*limits, *spent, *promised})
    ]


def _limits(folder: Path) -> dict[str, Lifetime]:
    if not (folder / POLICY).exists():
        return {}
    return dict(Policy.load(folder).populations)
