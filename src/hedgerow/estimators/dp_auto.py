"""`DPClassifier`, `DPRegressor`: one curator, a private model that public numbers choose.

The rule is that of `hedgerow.protocols.choice`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import Code
from hedgerow.estimators.accounted import PlannedEstimator
from hedgerow.estimators.curated import is_large
from hedgerow.estimators.dp_boosting import DPBoostingClassifier, DPBoostingRegressor
from hedgerow.estimators.dp_tree import DPTreeClassifier
from hedgerow.estimators.median_forest import MedianForestClassifier, MedianForestRegressor
from hedgerow.estimators.parameters import domain_to_plan
from hedgerow.estimators.public_model import (
    PublicModelClassifier,
    PublicModelEstimator,
    PublicModelRegressor,
)
from hedgerow.protocols.choice import ModelChoice, ModelOptions
from hedgerow.protocols.contract import Plan
from hedgerow.tables import Batches, Domain

CLASSIFIERS = {
    "tree": DPTreeClassifier,
    "median-forest": MedianForestClassifier,
    "boosting": DPBoostingClassifier,
}
REGRESSORS = {
    "median-forest": MedianForestRegressor,
    "boosting": DPBoostingRegressor,
}

# What a fit leaves behind; and below, what goes along with the estimator that does it.
_FITTED = (
    "privacy_",
    "plan_",
    "domain_",
    "classes_",
    "owner_only_",
    "n_features_in_",
    "feature_names_in_",
)
# Parameters that are no option of a plan.
_OF_EVERY_MODEL = (
    "domain",
    "account",
    "bad_rows",
    "random_state",
    "insecure_domain_from_data",
)
_ALONG = ("_noise", "_charging", "_charged", "_family", "_clone_number", "_warned_of_refit")


@dataclass(kw_only=True, eq=False, repr=False)
class _ChosenModel(PlannedEstimator[Plan], PublicModelEstimator):
    """A private model of one table in ``released_``, of a kind that public numbers choose.

    Parameters
    ----------
    model
        A name trains that model, with its own rules for everything else.
    delta
        Choose it far below 1 / number of people. The other models need none.
    """

    _options_type = ModelOptions
    _model_name = "released_"

    model: str = "auto"
    delta: float = 1e-6
    public_seed: int = 0

    @abstractmethod
    def _estimator(self, kind: str, parameters: dict[str, Any]) -> Any:
        """Return the estimator of a kind."""

    def fit(self, X: ArrayLike | Batches, y: ArrayLike | str | None = None) -> Self:
        """Train on a table in memory, or on `Batches` without `y`; spends ``epsilon``.

        Reveals: what the chosen model reveals, to the public; see its class.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged.
        """
        self._check_parameters()
        choice = self._options().choose(self.domain, in_memory=not is_large(X))
        chosen = self._chosen_estimator(choice)
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

    def _options(self) -> ModelOptions:
        return ModelOptions.from_parameters(self.get_params(deep=False))

    def _chosen_estimator(self, choice: ModelChoice) -> Any:
        parameters = {name: getattr(self, name) for name in _OF_EVERY_MODEL}
        return self._estimator(choice.model, parameters | self._options().passed_on(choice.model))

    def plan(self, domain: Domain | None = None) -> Plan:
        """Return what a fit would do and charge, from a public domain, by default its own."""
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        plan: Plan = self._chosen_estimator(self._options().choose(public)).plan(public)
        return plan

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised, from what was released alone, (d,); as the chosen model measures them."""
        check_is_fitted(self, "released_")
        importances: NDArray[np.float64] = self.model_.feature_importances_
        return importances


class DPClassifier(PublicModelClassifier, _ChosenModel):
    """Differentially private classifier of one table: boosting, or one tree where rows are few.

    Which of them it trains follows from the capacity and epsilon alone, so that the choice tells
    nothing about a row; ``choice_`` says which and why. ``privacy_`` lists every release.
    Neighbours are tables that differ by one added or removed row, so one person has to be one row.

    Attributes
    ----------
    choice_ : ModelChoice
        ``model``, what was trained, and ``reason``, the public numbers behind it.
    model_ : estimator
        `DPBoostingClassifier`, `DPTreeClassifier` or `MedianForestClassifier`, fitted.
    released_ : Boosted, Tree or Forest
        The public model.
    privacy_, classes_, domain_, feature_importances_, n_features_in_, feature_names_in_
        As in `DPTreeClassifier`.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, DPClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=1000,
    ... )
    >>> rows, ill = [[age / 10] for age in range(1000)], [int(age > 600) for age in range(1000)]
    >>> model = DPClassifier(epsilon=2.0, domain=domain).fit(rows, ill)
    >>> print(model.choice_.model, "as", model.choice_.reason)
    boosting as capacity * epsilon = 2000, at least 200
    """

    def _estimator(self, kind: str, parameters: dict[str, Any]) -> Any:
        return CLASSIFIERS[kind](**parameters)


class DPRegressor(PublicModelRegressor, _ChosenModel):
    """Differentially private regression of one table: boosting, or a forest where rows are few.

    Attributes are those of `DPClassifier`, but for the classes; a single tree learns classes alone,
    and is none of the models. The domain declares the bounds of the target; whether a target
    outside them is clipped or refused is the domain's rule.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, DPRegressor, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="cost", bounds=(0, 200)),
    ...     capacity=1000,
    ... )
    >>> rows, cost = [[age / 10] for age in range(1000)], [age / 5 for age in range(1000)]
    >>> model = DPRegressor(epsilon=2.0, domain=domain).fit(rows, cost)
    >>> bool(0 <= model.predict([[50]])[0] <= 200)
    True
    """

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the target of each row, within its bounds."""
        found = super().predict(X)
        assert self.domain_.target is not None
        assert self.domain_.target.bounds is not None
        return np.clip(found, *self.domain_.target.bounds)

    def _estimator(self, kind: str, parameters: dict[str, Any]) -> Any:
        if kind not in REGRESSORS:
            raise Code.BAD_TARGET.error(
                expected="a target with classes",
                found=f"numbers, and model={kind!r}",
                fix="choose 'auto', 'median-forest' or 'boosting' for numbers",
            )
        return REGRESSORS[kind](**parameters)
