"""What `DPClassifier` and `DPRegressor` share: a model chosen by public numbers, and its fit."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.account import Account
from hedgerow.estimators.accounted import HasReleases, PlannedEstimator
from hedgerow.estimators.choice import Choice, PrivateKind, choose_model
from hedgerow.estimators.large import is_large
from hedgerow.estimators.parameters import (
    check_domain,
    check_epsilon,
    check_parameter,
    domain_to_plan,
    is_count,
)
from hedgerow.estimators.public_model import ReleasedModelEstimator
from hedgerow.privacy import Ledger
from hedgerow.tables import Domain
from hedgerow.trees.model import Model

# What a fit leaves behind, and what goes along with the estimator that does it.
_FITTED = (
    "privacy_",
    "plan_",
    "domain_",
    "classes_",
    "owner_only_",
    "n_features_in_",
    "feature_names_in_",
)
_ALONG = ("_noise", "_charging", "_charged", "_family", "_clone_number", "_warned_of_refit")


class DPAutoEstimator(PlannedEstimator[HasReleases], ReleasedModelEstimator):
    """A private model of one table in ``released_``, of a kind that public numbers choose."""

    _model_name = "released_"

    model_: Any
    choice_: Choice
    released_: Model
    privacy_: Ledger

    def __init__(
        self,
        epsilon: float = 1.0,
        domain: Domain | None = None,
        *,
        model: str = "auto",
        delta: float = 1e-6,
        public_seed: int = 0,
        account: Account | str | None = None,
        bad_rows: str = "auto",
        random_state: int | None = None,
        insecure_domain_from_data: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.model = model
        self.delta = delta
        self.public_seed = public_seed
        self.account = account
        self.bad_rows = bad_rows
        self.random_state = random_state
        self.insecure_domain_from_data = insecure_domain_from_data

    @abstractmethod
    def _estimator(self, kind: PrivateKind, parameters: dict[str, Any]) -> Any:
        """Return the estimator of a kind."""

    def _fit(self, X: Any, y: Any) -> Self:
        self._check_parameters()
        choice = self._choice(self.domain, in_memory=not is_large(X))
        chosen = self._chosen(choice)
        earlier = self.__dict__.get("privacy_")
        for name in _ALONG:
            setattr(chosen, name, getattr(self, name))
        if earlier is not None:
            # By this a second fit is known, and warned of.
            chosen.privacy_ = earlier
        try:
            chosen.fit(X, y)
        finally:
            self._warned_of_refit = chosen._warned_of_refit
            if chosen.__dict__.get("privacy_") is not earlier:
                # What an interrupted fit has charged stays charged, and belongs to no earlier
                # model.
                for name in ("released_", "model_", "choice_", *_FITTED):
                    self.__dict__.pop(name, None)
                for name in _FITTED:
                    if name in chosen.__dict__:
                        setattr(self, name, chosen.__dict__[name])
        self.model_, self.choice_ = chosen, choice
        self.released_ = chosen._fitted_model()
        return self

    def _choice(self, domain: Domain | None, *, in_memory: bool = True) -> Choice:
        if self.model != "auto":
            return Choice(PrivateKind(self.model), "it was named")
        if domain is None:
            # Nothing is claimed then, and how many rows there are is not asked.
            return Choice(PrivateKind.boosting, "no domain was declared")
        return choose_model(domain, float(self.epsilon), domain.capacity, in_memory=in_memory)

    def _chosen(self, choice: Choice) -> Any:
        names: tuple[str, ...] = ("epsilon", "domain", "account", "bad_rows", "random_state")
        names += ("insecure_domain_from_data",)
        parameters = {name: getattr(self, name) for name in names}
        if choice.model != PrivateKind.tree:
            parameters["public_seed"] = self.public_seed
        if choice.model == PrivateKind.boosting:
            parameters["delta"] = self.delta
        return self._estimator(PrivateKind(choice.model), parameters)

    def plan(self, domain: Domain | None = None) -> HasReleases:
        """Return what a fit would do and charge: it follows from public numbers alone.

        Parameters
        ----------
        domain : Domain, optional
            Public; not the data. The estimator's own if not given.
        """
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        plan: HasReleases = self._chosen(self._choice(public)).plan(public)
        return plan

    def _plan(self, domain: Domain, capacity: int | None) -> HasReleases:
        plan: HasReleases = self._chosen(self._choice(domain))._plan(domain, capacity)
        return plan

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised, from what was released alone, (d,); as the chosen model measures them."""
        check_is_fitted(self, "released_")
        importances: NDArray[np.float64] = self.model_.feature_importances_
        return importances

    def _check_parameters(self) -> None:
        check_domain(self.domain)
        check_epsilon(self.epsilon)
        kinds = ("auto", *(str(kind) for kind in PrivateKind))
        check_parameter(
            "model",
            self.model,
            isinstance(self.model, str) and self.model in kinds,
            f"must be one of {', '.join(kinds)}",
        )
        check_parameter(
            "delta",
            self.delta,
            isinstance(self.delta, numbers.Real)
            and not isinstance(self.delta, bool)
            and math.isfinite(self.delta)
            and 0 < self.delta < 0.5,
            "must lie strictly between 0 and 0.5",
        )
        check_parameter(
            "public_seed",
            self.public_seed,
            is_count(self.public_seed, 0),
            "must be a whole number of at least 0",
        )
