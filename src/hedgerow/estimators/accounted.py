"""What private estimators share: a ledger for each fit, and a word before a search spends more."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from sklearn.utils import Tags

from hedgerow.errors import Code, HedgerowError, warn_caller
from hedgerow.estimators.account import Account, account_of
from hedgerow.estimators.parameters import (
    check_domain,
    check_parameter,
    domain_to_plan,
    is_count,
    warn_of_domain_from_data,
)
from hedgerow.estimators.table import TableEstimator
from hedgerow.options import check_option
from hedgerow.privacy import Ledger, NoiseSource, Release
from hedgerow.privacy.entries import PRECISION_DELTA, Mark
from hedgerow.protocols.contract import Options
from hedgerow.protocols.forecast import forecast
from hedgerow.tables import Domain
from hedgerow.tables.absorbing import AbsorbedRows

BadRows = Literal["auto", "error", "absorb"]
"""What is done with rows that do not fit the domain or its capacity."""

_LEDGER = "privacy_"
# Clones that were made here, and those of which was warned, by the estimator they come from.
_CLONES: Counter[str] = Counter()
_WARNED: set[str] = set()


AnyPlan = TypeVar("AnyPlan")


class FitLedger(Ledger):
    """The ledger of one fit, which charges an account as well.

    A charge stands here before the account is asked, so that no interrupt between the two loses it;
    what the account refuses is taken back. `charging` is told before every charge, `recorded` once
    it stands here, `charged` once it is paid, before anything is drawn. `model` is what the account
    calls the fit.
    """

    def __init__(
        self,
        domain: Any = None,
        delta: float | None = None,
        account: Account | None = None,
        charging: Callable[[], None] | None = None,
        recorded: Callable[[Ledger], None] | None = None,
        charged: Callable[[Ledger], None] | None = None,
        model: str = "",
        capacity: int | None = None,
    ) -> None:
        super().__init__(domain, delta=delta, capacity=capacity)
        self._account = account
        self._of_model = model
        self._before_charge = charging
        self._on_record = recorded
        self._on_charge = charged

    def _append(self, kind: Literal["charge", "reservation"], releases: Sequence[Release]) -> int:
        """Record releases here and in the account, which pays for reservations as well."""
        if self._before_charge is not None:
            self._before_charge()
        with self._lock:
            first = len(self._entries)
            index = super()._append(kind, releases)
            try:
                if self._on_record is not None:
                    self._on_record(self)
                if self._account is not None:
                    self._account.charge(releases, self.not_private, self._of_model)
            except HedgerowError:
                self._withdraw(first)
                raise
        if self._on_charge is not None:
            self._on_charge(self)
        return index

    def close(self) -> None:
        """End the fit: from here on the ledger is a record, through which no account is charged."""
        self._account = self._before_charge = self._on_record = self._on_charge = None

    def __getstate__(self) -> dict[str, Any]:
        dropped = ("_account", "_before_charge", "_on_record", "_on_charge")
        return super().__getstate__() | dict.fromkeys(dropped)


class AccountedEstimator(TableEstimator):
    """A private estimator whose fits an account may add up.

    The second and every later `clone` of one estimator is what a search or a cross-validation fits.
    Such a fit warns, once for each process: without an account of what it costs, with one of the
    scores, which no account counts. A second fit of one estimator without an account warns as well.
    """

    account: Account | str | None
    bad_rows: str = "error"
    epsilon: float
    random_state: int | None
    insecure_domain_from_data: bool

    # The attribute that holds the model.
    _model_name: ClassVar[str]

    privacy_: Ledger
    owner_only_: AbsorbedRows

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

    @contextmanager
    def _fitting(self, delta: float | None = None) -> Iterator[FitLedger]:
        """Open the ledger of a fit, and settle at its end what this estimator holds.

        A fit that is refused before it has charged anything leaves an earlier model as it was. One
        that has charged belongs to its own ledger from the charge on: ``privacy_`` is that ledger,
        there is no refund, and if the fit does not come to its end there is no model, of this fit
        or of an earlier one. An account with a budget refuses here what promises nothing, before a
        row is read. The ledger states releases by rho at `delta`.
        """
        account, marks = account_of(self.account), self._foreseen_marks()
        if account is not None and marks:
            account.check((), marks)
        if self._promises() and not marks and self._clone_number > 1:
            self._warn_of_search(counted=account is not None)
        elif self._promises() and not marks and account is None:
            self._warn_of_refit()
        ledger = FitLedger(
            self.domain if self._promises() else None,
            delta,
            account,
            model=type(self).__name__,
            charging=self._charging,
            recorded=lambda ledger: setattr(self, _LEDGER, ledger),
            charged=self._charged,
            capacity=self.domain.capacity if self.domain is not None and self._absorbs() else None,
        )
        earlier = {name: vars(self)[name] for name in self._fitted_names()}
        try:
            self._forget_fit()
            if self._absorbs():
                self.owner_only_ = AbsorbedRows()
            yield ledger
        except BaseException as error:
            self._forget_fit()
            if ledger.releases:
                # Once more: an interrupt may have come between the record and its place here.
                self.privacy_ = ledger
                error.add_note(_spent_text(ledger))
            else:
                self.__dict__.pop(_LEDGER, None)
                self.__dict__.update(earlier)
            raise
        finally:
            ledger.close()

    def _fitted_names(self) -> list[str]:
        # As scikit-learn tells them.
        return [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]

    def _forget_fit(self) -> None:
        """Take away what a fit has left, but for its ledger."""
        for name in self._fitted_names():
            if name != _LEDGER:
                del self.__dict__[name]

    def __sklearn_is_fitted__(self) -> bool:
        # The ledger of a fit that was interrupted is no model.
        return hasattr(self, self._model_name)

    def _absorbs(self, account: object = None) -> bool:
        """Whether no row is refused: by default where an account, or this one, is charged."""
        check_option("bad_rows", self.bad_rows, BadRows)
        if self.domain is None:
            # Then the domain is read from the rows, and nothing is promised.
            return False
        account = self.account if account is None else account
        return self.bad_rows == "absorb" or (self.bad_rows == "auto" and account is not None)

    def _absorbed(self) -> AbsorbedRows | None:
        return self.__dict__.get("owner_only_")

    def __getstate__(self) -> dict[str, Any]:
        # A copy may go to others; what only the owner may see does not go with it.
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "owner_only_"}

    def _promises(self) -> bool:
        """Whether a fit with these parameters is meant to keep an epsilon."""
        return self.domain is not None

    def _before_rows(self, ledger: Ledger, plan: Callable[[Domain], Any]) -> NoiseSource:
        """Refuse what must not depend on the rows, and find the noise, before they are read."""
        self._check_before_rows(ledger, plan)
        if self.domain is None:
            warn_of_domain_from_data()
        return self._source()

    def _check_before_rows(
        self, ledger: Ledger, plan: Callable[[Domain], AnyPlan]
    ) -> AnyPlan | None:
        """Refuse what must not depend on the rows; return the plan where the domain is public."""
        if self.domain is None:
            if not self.insecure_domain_from_data:
                raise Code.MISSING_DOMAIN.error(found="domain=None")
            ledger.mark_not_private("the domain was read from the data")
            return None
        if not self.domain.is_public:
            raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {self.domain.provenance!r}")
        found = plan(self.domain)
        self._check_account(found)
        # A fit that promises nothing has no budget to lose, and neither has an audit.
        if self._noise is None and self._promises() and not self._foreseen_marks():
            self._warn_of_noise(found)
        return found

    def _warn_of_noise(self, plan: Any) -> None:
        """Warn, from public numbers alone, of noise that is larger than what it hides."""
        foreseen = forecast(plan)
        if foreseen.drowns:
            warn_caller(foreseen.warning)

    def _check_account(self, plan: Any) -> None:
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

    def _has_noise(self) -> bool:
        """Whether a fit with these parameters draws noise."""
        return True

    def _tagged(self, tags: Tags) -> Tags:
        noisy = tags.non_deterministic = self._has_noise()
        # Noise can drown any signal: no accuracy is promised for a given epsilon.
        for own in (tags.classifier_tags, tags.regressor_tags):
            if own is not None:
                own.poor_score = noisy
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


@dataclass(eq=False, repr=False)
class PrivateParameters:
    """Parameters that estimators with a plan have in common.

    Parameters
    ----------
    domain : Domain
        Public attributes, bounds, categories, classes and capacity. Never read from the data.
    account : Account or str
        Adds up the fits on the same people; a fit beyond its budget is refused before a row is
        read. `Account.new` makes one in a file.
    bad_rows : "auto", "error" or "absorb"
        What is done with rows that do not fit the domain or its capacity. "error" refuses them, by
        name, for whoever holds the rows. "absorb" refuses none: they are clipped, moved or left out
        by public rules, and ``owner_only_`` counts them. "auto" absorbs where there is an account.
    random_state : int or None
        None draws noise keyed by the operating system. A number makes the noise repeatable, which
        is for tests only: the ledger then records that the model is NOT private.
    insecure_domain_from_data : bool
        Read the domain from the data if none is given. The ledger then records that the model is
        NOT private.
    """

    epsilon: float = 1.0
    domain: Domain | None = None
    _: KW_ONLY
    account: Account | str | None = None
    bad_rows: str = "auto"
    random_state: int | None = None
    insecure_domain_from_data: bool = False


class PlannedEstimator(PrivateParameters, AccountedEstimator, Generic[AnyPlan]):
    """A private estimator whose fit follows a plan of public numbers."""

    # Declares the parameters that a plan follows from, and checks them.
    _options_type: ClassVar[type[Options]]

    def _options(self) -> Options:
        return self._options_type.from_parameters(self.get_params(deep=False))

    def _check_parameters(self) -> None:
        """Refuse parameters out of range."""
        check_domain(self.domain)
        self._options()

    def _plan(self, domain: Domain, capacity: int | None) -> AnyPlan:
        """Return the plan of a fit, from public numbers alone."""
        plan: Any = self._options().plan(domain, capacity)
        return plan  # type: ignore[no-any-return]

    def plan(self, domain: Domain | None = None) -> AnyPlan:
        """Return what a fit would do and charge, from a public domain, by default its own."""
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        return self._plan(public, public.capacity)


def _spent_text(ledger: Ledger) -> str:
    """Say what was charged to whom it told the most; finite precision is not worth a word."""
    spent = max((ledger.formal_total(who) for who in ledger.audiences), key=lambda g: g.epsilon)
    at = f" at delta {spent.delta:g}" if spent.delta > PRECISION_DELTA else ""
    return f"epsilon {spent.epsilon:g}{at} was charged before this and stays charged: see privacy_"
