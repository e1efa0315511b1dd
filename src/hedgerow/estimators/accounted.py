"""What private estimators share: a ledger for each fit, and a word before a search spends more."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Literal, Protocol, TypeVar

from sklearn.utils import Tags

from hedgerow.errors import Code, warn_caller
from hedgerow.estimators.account import Account, account_of
from hedgerow.estimators.parameters import (
    check_parameter,
    domain_to_plan,
    is_count,
    warn_of_domain_from_data,
)
from hedgerow.estimators.table import TableEstimator
from hedgerow.privacy import Ledger, NoiseSource, Release
from hedgerow.privacy.entries import Mark
from hedgerow.tables import Domain

# Clones that were made here, and those of which was warned, by the estimator they come from.
_CLONES: Counter[str] = Counter()
_WARNED: set[str] = set()


class HasReleases(Protocol):
    """A plan of a fit: it follows from public numbers alone."""

    def releases(self) -> Sequence[Release]:
        """Return what the fit will charge."""


Plan = TypeVar("Plan", bound=HasReleases)


class FitLedger(Ledger):
    """The ledger of one fit, which charges an account as well.

    Parameters
    ----------
    domain, delta
        As for `Ledger`.
    account : Account, optional
        Charged before the ledger is: what it refuses is not recorded.
    charging, charged : callable, optional
        Told before every charge, and after it, before anything is drawn.
    """

    def __init__(
        self,
        domain: Any = None,
        delta: float | None = None,
        account: Account | None = None,
        charging: Callable[[], None] | None = None,
        charged: Callable[[Ledger], None] | None = None,
    ) -> None:
        super().__init__(domain, delta=delta)
        self._account = account
        self._before_charge = charging
        self._on_charge = charged

    def _append(self, kind: Literal["charge", "reservation"], releases: Sequence[Release]) -> int:
        """Record releases here and in the account, which pays for reservations as well."""
        # What the ledger refuses for itself must not be charged to the account.
        Ledger(self.domain).charge(*releases)
        if self._before_charge is not None:
            self._before_charge()
        if self._account is not None:
            self._account.charge(releases, self.not_private)
        index = super()._append(kind, releases)
        if self._on_charge is not None:
            self._on_charge(self)
        return index

    def __getstate__(self) -> dict[str, Any]:
        # The copy that a model carries is a record: nothing is charged through it.
        dropped = dict.fromkeys(("_account", "_before_charge", "_on_charge"))
        return super().__getstate__() | dropped


@contextmanager
def stays_charged(ledger: Ledger, *, with_delta: bool = True) -> Iterator[None]:
    """Say with whatever ends a fit what it had charged until then: there is no refund.

    Parameters
    ----------
    ledger : Ledger
    with_delta : bool, default=True
        Whether a delta above 0 is said, too.
    """
    try:
        yield
    except BaseException as error:
        if ledger.releases:
            spent = ledger.formal_total("public")
            at = f" at delta {spent.delta:g}" if with_delta and spent.delta else ""
            error.add_note(
                f"epsilon {spent.epsilon:g}{at} was charged before this and stays charged: "
                "see privacy_"
            )
        raise


class AccountedEstimator(TableEstimator):
    """A private estimator whose fits an account may add up.

    The second and every later `clone` of one estimator is what a search or a cross-validation
    fits. Such a fit warns, once for each process: without an account of what it costs, with one of
    the scores, which no account counts. The number of the clone travels with it, so that workers
    know it, too. A second fit of the same estimator without an account warns as well, once.
    """

    account: Account | str | None
    epsilon: float
    random_state: int | None
    insecure_domain_from_data: bool

    # Noise in place of the system's, for the auditor; a parameter could not be copied safely.
    _noise: NoiseSource | None = None
    # Told before every charge, and after it, before anything is drawn; for the command line.
    _charging: Callable[[], None] | None = None
    _charged: Callable[[Ledger], None] | None = None
    _family: str | None = None
    _clone_number: int = 0
    _warned_of_refit: bool = False

    def __sklearn_clone__(self) -> Any:
        made = super().__sklearn_clone__()
        if self._family is None:
            self._family = secrets.token_hex(8)
        number = 1 + max(_CLONES[self._family], self._clone_number)
        _CLONES[self._family] = number
        made._family, made._clone_number = self._family, number
        return made

    def _open_ledger(self, delta: float | None = None) -> Ledger:
        """Return the ledger of a fit; it warns in a search.

        An account with a budget refuses here what promises nothing, before a row is read.
        """
        account, marks = account_of(self.account), self._foreseen_marks()
        if account is not None and marks:
            account.check((), marks)
        if self.domain is not None and not marks and self._clone_number > 1:
            self._warn_of_search(counted=account is not None)
        elif self.domain is not None and not marks and account is None:
            self._warn_of_refit()
        return FitLedger(self.domain, delta, account, self._charging, self._charged)

    def _begin_fit(self, plan: Callable[[Domain], HasReleases]) -> tuple[Ledger, NoiseSource]:
        """Open the ledger of a fit and find its noise; call it from `fit` itself.

        What must not depend on the rows is refused before they are read: no domain, one that was
        read from the data, or a cost that the account cannot pay.

        Parameters
        ----------
        plan : callable
            Returns what a fit with a public domain would charge.
        """
        ledger = self._open_ledger()
        self._check_before_rows(ledger, plan)
        if self.domain is None:
            warn_of_domain_from_data()
        return ledger, self._source()

    def _check_before_rows(self, ledger: Ledger, plan: Callable[[Domain], HasReleases]) -> None:
        """Refuse what must not depend on the rows; mark a domain that will be read from them.

        Parameters
        ----------
        ledger : Ledger
            Of the fit.
        plan : callable
            Returns what a fit with a public domain would charge.
        """
        if self.domain is None:
            if not self.insecure_domain_from_data:
                raise Code.MISSING_DOMAIN.error(found="domain=None")
            ledger.mark_not_private("the domain was read from the data")
        elif not self.domain.is_public:
            raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {self.domain.provenance!r}")
        else:
            self._check_account(plan(self.domain))

    def _check_account(self, plan: HasReleases) -> None:
        """Refuse a fit that the account cannot pay for, before a row is read."""
        account = account_of(self.account)
        if account is not None:
            account.check(plan.releases(), self._foreseen_marks())

    def _source(self) -> NoiseSource:
        """Return where noise comes from; a seed warns, and what it draws promises nothing."""
        if self._noise is not None:
            return self._noise
        if self.random_state is None:
            return NoiseSource.system()
        check_parameter(
            "random_state",
            self.random_state,
            is_count(self.random_state, 0),
            "must be None or >= 0",
        )
        warn_caller(
            "random_state makes the noise repeatable: the ledger records this model as not private",
        )
        return NoiseSource.insecure_seeded(int(self.random_state))

    def _tagged(self, tags: Tags) -> Tags:
        tags = super()._tagged(tags)
        tags.non_deterministic = True
        # Noise can drown any signal: no accuracy is promised for a given epsilon.
        for own in (tags.classifier_tags, tags.regressor_tags):
            if own is not None:
                own.poor_score = True
        return tags

    def _foreseen_marks(self) -> list[Mark]:
        """Return why a fit will promise nothing, as far as the parameters tell."""
        marks = []
        if self.domain is None and self.insecure_domain_from_data:
            marks.append(Mark("the domain was read from the data", ()))
        private = self.random_state is None if self._noise is None else self._noise.private
        if not private:
            marks.append(Mark("the noise was seeded", ()))
        return marks

    def _warn_of_refit(self) -> None:
        """Warn, once for each estimator, that the second fit does not replace the first's cost."""
        fitted = self.__dict__.get("privacy_")
        if fitted is None or not fitted.releases or self._warned_of_refit:
            return
        self._warned_of_refit = True
        warn_caller(
            f"this {type(self).__name__} was fitted before: every fit on the same people costs its "
            f"epsilon ({self.epsilon:g}) again, also if the earlier model is thrown away. Pass "
            "account= to add the fits up and to stop at a budget",
        )

    def _warn_of_search(self, *, counted: bool) -> None:
        if self._family is None or self._family in _WARNED:
            return
        _WARNED.add(self._family)
        costs = (
            f"every fit on the same people costs its epsilon ({self.epsilon:g}) again, and scores "
            "on their rows are not private. Search on public data, or pass account= to add the "
            "fits up and to stop at a budget"
        )
        if counted:
            costs = (
                "the account adds the fits up, but no ledger counts scores on private rows: they "
                "are exact, and so is a choice by them, as that of best_params_. Search on public "
                "data, or publish neither"
            )
        warn_caller(
            f"copies of this {type(self).__name__} are fitted, as in a search or cross-validation: "
            + costs,
        )


class PlannedEstimator(AccountedEstimator, Generic[Plan]):
    """A private estimator of one table, whose fit follows a plan of public numbers."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters out of range."""

    @abstractmethod
    def _plan(self, domain: Domain, capacity: int | None) -> Plan:
        """Return the plan of a fit, from public numbers alone."""

    def plan(self, domain: Domain | None = None) -> Plan:
        """Return what a fit would do and charge: it follows from public numbers alone.

        Parameters
        ----------
        domain : Domain, optional
            Public; not the data. The estimator's own if not given.
        """
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        return self._plan(public, public.capacity)
