"""What both median forests share: parameters, plan and growth."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.account import Account
from hedgerow.estimators.curated import CuratedEstimator
from hedgerow.estimators.large import counts_over
from hedgerow.estimators.parameters import check_domain, check_epsilon, check_parameter, is_count
from hedgerow.estimators.progress import shown
from hedgerow.estimators.public_model import normalised
from hedgerow.options import check_option
from hedgerow.protocols.median.budget import DepthBudget
from hedgerow.protocols.median.forest import grow_median_forest
from hedgerow.protocols.median.plan import Accounting, MedianPlan, Variant, plan_median
from hedgerow.tables import Domain
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees import Forest, impurity_decrease
from hedgerow.trees.counts.batches import MakeBatch
from hedgerow.trees.counts.forest import Batch, ForestCounts, LocalCounts


class MedianForestEstimator(CuratedEstimator[MedianPlan, ForestCounts]):
    """A forest of private medians in ``forest_``, for either task."""

    _model_name = "forest_"
    _large_table = "a table that is not read whole"
    _importance_criterion: ClassVar[str]

    forest_: Forest

    def __init__(
        self,
        epsilon: float = 1.0,
        domain: Domain | None = None,
        *,
        n_estimators: int = 4,
        max_depth: int | str = "auto",
        variant: str = "flip",
        max_features: int | str = "auto",
        split_share: float = 0.6,
        partition: bool = False,
        accounting: str = "strict",
        depth_budget: str = "uniform",
        shrinkage: bool = True,
        public_seed: int = 0,
        account: Account | str | None = None,
        bad_rows: str = "auto",
        random_state: int | None = None,
        insecure_domain_from_data: bool = False,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.variant = variant
        self.max_features = max_features
        self.split_share = split_share
        self.partition = partition
        self.accounting = accounting
        self.depth_budget = depth_budget
        self.shrinkage = shrinkage
        self.public_seed = public_seed
        self.account = account
        self.bad_rows = bad_rows
        self.random_state = random_state
        self.insecure_domain_from_data = insecure_domain_from_data
        self.verbose = verbose

    def _fit(self, X: Any, y: Any) -> Self:
        self._check_parameters()
        with self._fitting() as ledger:
            counts, self.plan_, source = self._rows(ledger, X, y)
            with shown(counts, self.plan_.depth, self.verbose) as watched:
                self.forest_ = grow_median_forest(watched, self.plan_, ledger=ledger, source=source)
        return self

    def _counts_of(self, batch: Batch) -> ForestCounts:
        return LocalCounts([batch])

    def _counts_over(
        self, X: Any, y: Any, domain: Domain, make: MakeBatch, absorbed: AbsorbedRows | None
    ) -> ForestCounts:
        return counts_over(X, y, domain, make, absorbed)

    def _capacity_for(self, rows: int) -> int:
        # A partitioned forest is planned for one row in each tree at the least.
        return max(rows, self.n_estimators)

    def _plan(self, domain: Domain, capacity: int | None) -> MedianPlan:
        return plan_median(
            domain,
            epsilon=float(self.epsilon),
            n_trees=int(self.n_estimators),
            depth=None if self.max_depth == "auto" else int(self.max_depth),
            variant=self.variant,  # type: ignore[arg-type]
            candidates=None if self.max_features == "auto" else int(self.max_features),
            split_share=float(self.split_share),
            partition=self.partition,
            accounting=self.accounting,  # type: ignore[arg-type]
            depth_budget=self.depth_budget,  # type: ignore[arg-type]
            shrinkage=self.shrinkage,
            public_seed=int(self.public_seed),
            capacity=capacity,
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised decrease of impurity per attribute, from the released leaves alone, (d,)."""
        check_is_fitted(self, "forest_")
        total = np.zeros(len(self.domain_.attributes))
        for tree in self.forest_.trees:
            decrease = np.nan_to_num(impurity_decrease(tree, self._importance_criterion))
            inner = tree.feature >= 0
            np.add.at(total, tree.feature[inner], decrease[inner])
        return normalised(total)

    def _check_parameters(self) -> None:
        check_domain(self.domain)
        check_epsilon(self.epsilon)
        check_option("variant", self.variant, Variant)
        check_option("accounting", self.accounting, Accounting)
        check_option("depth_budget", self.depth_budget, DepthBudget)
        for name, least, word in (
            ("n_estimators", 1, None),
            ("max_depth", 1, "auto"),
            ("max_features", 1, "auto"),
            ("public_seed", 0, None),
            ("verbose", 0, None),
        ):
            value = getattr(self, name)
            is_word = isinstance(value, str) and value == word
            allowed = f"must be {word!r} or" if word else "must be"
            check_parameter(
                name,
                value,
                is_word or is_count(value, least),
                f"{allowed} a whole number of at least {least}",
            )
        for name in ("partition", "shrinkage"):
            value = getattr(self, name)
            check_parameter(name, value, isinstance(value, bool), "must be True or False")
        check_parameter(
            "split_share",
            self.split_share,
            isinstance(self.split_share, numbers.Real) and 0 < self.split_share < 1,
            "must lie strictly between 0 and 1",
        )
