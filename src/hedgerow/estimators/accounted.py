"""What private estimators share: a ledger for each fit, and a word before a search spends more."""

from __future__ import annotations

import secrets
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hedgerow.errors import HedgerowWarning
from hedgerow.estimators.account import Account, account_of
from hedgerow.estimators.table import TableEstimator
from hedgerow.privacy import Ledger, Release

# Clones that were made here, and those of which was warned, by the estimator they come from.
_CLONES: Counter[str] = Counter()
_WARNED: set[str] = set()


class HasReleases(Protocol):
    """A plan of a fit: it follows from public numbers alone."""

    def releases(self) -> Sequence[Release]:
        """Return what the fit will charge."""


class FitLedger(Ledger):
    """The ledger of one fit, which charges an account as well.

    Parameters
    ----------
    domain, delta
        As for `Ledger`.
    account : Account, optional
        Charged before the ledger is: what it refuses is not recorded.
    charged : callable, optional
        Told after every charge, before anything is drawn.
    """

    def __init__(
        self,
        domain: Any = None,
        delta: float | None = None,
        account: Account | None = None,
        charged: Callable[[Ledger], None] | None = None,
    ) -> None:
        super().__init__(domain, delta=delta)
        self._account = account
        self._on_charge = charged

    def charge(self, *releases: Release) -> None:
        """Record releases here and in the account; see `Ledger.charge`."""
        # What the ledger refuses for itself must not be charged to the account.
        Ledger(self.domain).charge(*releases)
        if self._account is not None:
            self._account.charge(releases, self.not_private)
        super().charge(*releases)
        if self._on_charge is not None:
            self._on_charge(self)

    def __getstate__(self) -> dict[str, Any]:
        # The copy that a model carries is a record: nothing is charged through it.
        return super().__getstate__() | {"_account": None, "_on_charge": None}


class AccountedEstimator(TableEstimator):
    """A private estimator whose fits an account may add up.

    The second and every later `clone` of one estimator is what a search or a cross-validation
    fits. Without an account such a fit warns, once for each process. The number of the clone
    travels with it, so that workers know it, too.
    """

    account: Account | str | None
    epsilon: float
    random_state: int | None

    # What is told of every charge before anything is drawn, for the command line.
    _charged: Callable[[Ledger], None] | None = None
    _family: str | None = None
    _clone_number: int = 0

    def __sklearn_clone__(self) -> Any:
        made = super().__sklearn_clone__()
        if self._family is None:
            self._family = secrets.token_hex(8)
        number = 1 + max(_CLONES[self._family], self._clone_number)
        _CLONES[self._family] = number
        made._family, made._clone_number = self._family, number
        return made

    def _open_ledger(self, delta: float | None = None) -> Ledger:
        """Return the ledger of a fit; it warns where nobody adds up the fits of a search."""
        account = account_of(self.account)
        claims = self.domain is not None and self.random_state is None
        if account is None and claims and self._clone_number > 1:
            self._warn_of_search()
        return FitLedger(self.domain, delta, account, self._charged)

    def _check_account(self, plan: HasReleases) -> None:
        """Refuse a fit that the account cannot pay for, before a row is read."""
        account = account_of(self.account)
        if account is not None:
            account.check(plan.releases())

    def _warn_of_search(self) -> None:
        if self._family is None or self._family in _WARNED:
            return
        _WARNED.add(self._family)
        warnings.warn(
            f"copies of this {type(self).__name__} are fitted, as in a search or cross-validation: "
            f"every fit on the same people costs its epsilon ({self.epsilon:g}) again, and scores "
            "on their rows are not private. Search on public data, or pass account= to add the "
            "fits up and to stop at a budget",
            HedgerowWarning,
            stacklevel=4,
        )
