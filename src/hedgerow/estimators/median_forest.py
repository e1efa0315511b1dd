"""`MedianForestClassifier`, `MedianForestRegressor`: one curator, a forest of private medians."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.utils.validation import check_is_fitted

from hedgerow.estimators.curated import CuratedEstimator
from hedgerow.estimators.parameters import check_parameter, is_count
from hedgerow.estimators.public_model import PublicModelClassifier, PublicModelRegressor
from hedgerow.protocols.median.forest import grow_median_forest
from hedgerow.protocols.median.options import MedianOptions
from hedgerow.protocols.median.plan import MedianPlan
from hedgerow.tables import Batches
from hedgerow.trees.counts.batches import BatchCounts, MakeBatch
from hedgerow.trees.counts.dask import DaskCounts
from hedgerow.trees.counts.forest import Batch, ForestCounts, ForestShape, ForestSplits, LocalCounts
from hedgerow.trees.importance import impurity_shares


@dataclass(kw_only=True, eq=False, repr=False)
class _MedianForest(CuratedEstimator[MedianPlan, ForestCounts]):
    """A forest of private medians in ``forest_``, for either task.

    Parameters
    ----------
    domain : Domain
        Public attributes, bounds, categories, classes and capacity. Never read from the data.
        Numeric attributes are cut on their grid: up to 1,024 bins are recommended.
    variant
        "base" takes one attribute at random and pays for its median alone; "random" takes attribute
        and cut at random, so that the leaves have the whole budget.
    max_features
        "auto" chooses by a public rule from capacity and epsilon. Not used by "base" and "random".
    split_share
        The rest is for the leaves.
    partition
        In one tree alone, so that every tree has the whole epsilon; otherwise all trees see all
        rows and share it. Partitioned forests grow faster and do better with more trees.
    shrinkage
        By the known scale of the noise; it costs nothing.
    verbose : int
        1 shows on the error stream how far the growth has come.
    """

    _options_type = MedianOptions
    _model_name = "forest_"
    _dask_counts = DaskCounts
    _importance_criterion: ClassVar[str]

    n_estimators: int = 4
    max_depth: int | str = "auto"
    variant: str = "flip"
    max_features: int | str = "auto"
    split_share: float = 0.6
    partition: bool = False
    accounting: str = "strict"
    depth_budget: str = "uniform"
    shrinkage: bool = True
    public_seed: int = 0
    verbose: int = 0

    def fit(self, X: ArrayLike | Batches, y: ArrayLike | str | None = None) -> Self:
        """Train on a table; spends ``epsilon``.

        One larger than memory is `Batches`, without `y`, or a Dask dataframe or array: then `y` is
        a Dask series or array cut like it, or the name of a column of it, by default the target's.

        Reveals: the trees with noisy leaves, to the public, epsilon in total.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            counts, self.plan_, source = self._read_rows(ledger, X, y)
            with show_progress(counts, self.plan_.depth, self.verbose) as watched:
                self.forest_ = grow_median_forest(watched, self.plan_, ledger=ledger, source=source)
        return self

    def _counts_of(self, batch: Batch) -> ForestCounts:
        return LocalCounts([batch])

    def _counts_over(self, batches: Batches, make: MakeBatch) -> ForestCounts:
        # Each level is a pass or two.
        return BatchCounts(batches, make)

    def _capacity_for(self, rows: int) -> int:
        # A partitioned forest is planned for one row in each tree at the least.
        return max(rows, self.n_estimators)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Normalised decrease of impurity per attribute, from the released leaves alone, (d,)."""
        check_is_fitted(self, "forest_")
        return impurity_shares(self.forest_.trees, self._importance_criterion)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_parameter(
            "verbose",
            self.verbose,
            is_count(self.verbose, 0),
            "must be a whole number of at least 0",
        )


class MedianForestClassifier(PublicModelClassifier, _MedianForest):
    """Differentially private forest for classification whose splits are private medians.

    Paper: consul2021diprime (DiPriMe, DiPriMeExp, DiPriMeFlip). A node draws a private median of
    some attributes, which keeps the two sides balanced, and chooses one of these cuts privately.
    ``privacy_`` lists every release. Neighbours are tables that differ by one added or removed
    row, so one person has to be one row.

    Attributes
    ----------
    forest_ : Forest
        The released trees; their leaves are noisy.
    plan_ : MedianPlan
        What was public beforehand.
    privacy_, classes_, domain_, feature_importances_, n_features_in_, feature_names_in_
        As in `DPTreeClassifier`.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, MedianForestClassifier, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=1000,
    ... )
    >>> rows, ill = [[age / 10] for age in range(1000)], [int(age > 600) for age in range(1000)]
    >>> forest = MedianForestClassifier(epsilon=2.0, domain=domain, n_estimators=2).fit(rows, ill)
    >>> forest.privacy_.total("public").epsilon <= 2.0
    True
    """

    _importance_criterion = "gini"


class MedianForestRegressor(PublicModelRegressor, _MedianForest):
    """Differentially private forest for regression whose splits are private medians.

    Attributes are those of `MedianForestClassifier`, but for the classes. The domain declares the
    bounds of the target; whether a target outside them is clipped or refused is the domain's rule.
    A leaf releases a noisy count and a noisy sum, and answers with a mean within the bounds.
    Paper: consul2021diprime.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, MedianForestRegressor, Target
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=100),),
    ...     target=Target(name="cost", bounds=(0, 200)),
    ...     capacity=1000,
    ... )
    >>> rows, cost = [[age / 10] for age in range(1000)], [age / 5 for age in range(1000)]
    >>> forest = MedianForestRegressor(epsilon=2.0, domain=domain, n_estimators=2).fit(rows, cost)
    >>> bool(0 <= forest.predict([[50]])[0] <= 200)
    True
    """

    _importance_criterion = "squared_error"


@contextmanager
def show_progress(
    counts: ForestCounts, depth: int, verbose: int, console: Console | None = None
) -> Iterator[ForestCounts]:
    """Show on the error stream what is asked of `counts`, level by level, if `verbose`."""
    if not verbose:
        yield counts
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console or Console(stderr=True)) as progress:
        yield ShownCounts(counts, depth, progress)


class ShownCounts:
    """A `ForestCounts` that says what it is asked; what it shows is public."""

    def __init__(self, counts: ForestCounts, depth: int, progress: Progress) -> None:
        self._counts, self._depth, self._progress = counts, depth, progress
        # Reading, the levels, and the leaves.
        self._task = progress.add_task("reading the table", total=depth + 2)
        self._level = 0

    @property
    def n_records(self) -> int:
        """Records in all."""
        return self._counts.n_records

    @property
    def most_cells(self) -> int:
        """Bins that one histogram may hold."""
        return self._counts.most_cells

    def begin(self, shape: ForestShape, key: bytes) -> None:
        """Put every row into its roots."""
        self._level = 0
        self._counts.begin(shape, key)
        self._progress.update(self._task, completed=1)

    def histogram(
        self, nodes: NDArray[np.int64], features: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count records by bin."""
        self._say("medians")
        return self._counts.histogram(nodes, features)

    def sides(self, nodes: NDArray[np.int64], splits: ForestSplits) -> NDArray[np.int64]:
        """Add up both sides of candidate splits."""
        self._say("choosing attributes")
        return self._counts.sides(nodes, splits)

    def advance(self, splits: ForestSplits) -> None:
        """Send the rows on."""
        self._counts.advance(splits)
        self._level += 1
        self._progress.update(self._task, completed=1 + self._level)

    def channels(self) -> NDArray[np.int64]:
        """Channels of the frontier."""
        self._progress.update(self._task, description="leaves")
        found = self._counts.channels()
        self._progress.update(self._task, completed=2 + self._depth)
        return found

    def _say(self, what: str) -> None:
        text = f"level {self._level + 1} of {self._depth}: {what}"
        self._progress.update(self._task, description=text)
