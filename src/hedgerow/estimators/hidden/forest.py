"""`HiddenForestClassifier`: many hidden trees on three servers, asked together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import warn_caller
from hedgerow.estimators.hidden.tree import HiddenClassifier
from hedgerow.estimators.parameters import is_count
from hedgerow.protocols.hidden.options import ForestOptions, ServerOptions
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.votes import votes
from hedgerow.protocols.votes.budget import vote_scale
from hedgerow.tables import Domain
from hedgerow.trees.growing.budget import SPLIT_SHARE


@dataclass(kw_only=True, eq=False, repr=False)
class HiddenForestClassifier(HiddenClassifier):
    """Forest whose trees are trained and asked on three servers without being seen by anybody.

    Papers: hiddentrees, papernot2017pate.

    Parameters
    ----------
    epsilon
        It pays for all answers after the fit as well. Not used with ``noise="none"``.
    n_estimators
        On disjoint records more trees cost no epsilon, but each sees fewer records.
    noise
        "splits+leaves": every tree is private, and any number of answers is free. "votes": trees
        without noise, and noise on the vote of every query, which `queries` answers share epsilon
        for. "leaves" is the paper's: no finite epsilon holds against the analyst, unless
        `extra_trees` makes the splits independent of the data. "none": no noise.
    queries
        With ``noise="votes"``. The next one is refused with H207. A warning says so if the noise on
        a vote has a scale of more than half the number of trees.
    delta
        With ``noise="votes"``: with more than 0, answers are counted by the tightest accountant at
        this delta, which allows less noise for many queries.
    sampling
        The ledger counts the latter as ln(1 + g (e^epsilon - 1)) per tree, g the probability of
        those coins, not as the paper does.
    max_features
        Binary trees alone.
    public_seed
        Known to everybody.

    Attributes
    ----------
    model_, plan_, privacy_, leakage_, meter_, runs_, classes_, domain_, n_features_in_,
    feature_names_in_
        As in `HiddenTreeClassifier`.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, HiddenForestClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=100,
    ... )
    >>> rows, ill = [[age] for age in range(100)], [int(age > 60) for age in range(100)]
    >>> forest = HiddenForestClassifier(
    ...     epsilon=50.0, domain=domain, n_estimators=5, noise="votes", queries=10
    ... ).fit(rows, ill)
    >>> forest.predict([[20], [90]]).shape
    (2,)
    >>> forest.answers_left()
    8
    """

    _options_type: ClassVar[type[ServerOptions]] = ForestOptions

    plan_: HiddenPlan = field(init=False)

    n_estimators: int = 10
    noise: str = "splits+leaves"
    queries: int = 1000
    delta: float = 0.0
    sampling: str = "disjoint"
    sample_rate: float | str = "auto"
    extra_trees: bool = False
    max_features: int | None = None
    public_seed: int = 0
    max_depth: int | str = "auto"
    criterion: str = "auto"
    branching: str = "binary"
    leaf_release: str = "labels"
    split_share: float = SPLIT_SHARE

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Ask the servers for the class of each row; they see neither rows nor answers.

        With ``noise="votes"`` every row spends one answer of the budget, also one that was asked
        before; with fewer answers left than rows the call is refused, H207, and spends nothing.
        """
        return super().predict(X)

    def answers_left(self) -> int | None:
        """Return how many answers the budget still holds; None where answers are free."""
        check_is_fitted(self, "model_")
        return votes.answers_left(self.privacy_) if self.noise == "votes" else None

    def _answers_distributions(self) -> bool:
        if hasattr(self, "plan_"):
            return self.plan_.shows_counts
        several = is_count(self.n_estimators, 2) or self.leaf_release == "counts"
        return several and self.noise != "votes"

    def _plan(self, domain: Domain, capacity: int | None) -> HiddenPlan:
        plan: HiddenPlan = super()._plan(domain, capacity)
        if plan.noise == "votes":
            _warn_of_drowned_votes(plan, float(self.epsilon))
        return plan

    def _warn_of_noise(self, plan: HiddenPlan) -> None:
        # Drowned votes were told when the plan was made, with what helps.
        if plan.noise != "votes":
            super()._warn_of_noise(plan)


def _warn_of_drowned_votes(plan: HiddenPlan, epsilon: float) -> None:
    """Say, from public numbers alone, that answers will be little more than noise."""
    trees, scale = plan.n_trees, vote_scale(plan.query_epsilon)
    if scale <= trees / 2:
        return
    # What fits if answers compose by addition: epsilon / queries = 4 / trees.
    queries, needed = int(epsilon * trees / 4), 4 * plan.queries / trees
    fewer = f"queries={queries}, or " if queries else ""
    warn_caller(
        f"the noise on a vote has scale {scale:.3g}, and a class leads by at most {trees} votes, "
        "those of all trees: answers will be close to guesses. Ask for fewer answers, allow a "
        f"larger epsilon or grow more trees, such as {fewer}epsilon={needed:.3g}; a delta above 0 "
        "helps where there are many answers",
    )
