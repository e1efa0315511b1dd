"""`CARTClassifier` and `CARTRegressor`: binary trees without privacy, the oracle for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field, Strict

from hedgerow.errors import Code
from hedgerow.estimators.parameters import generator
from hedgerow.estimators.public_model import (
    PublicModelClassifier,
    PublicModelRegressor,
    TreeEstimator,
)
from hedgerow.protocols.contract import AtLeastOne, AtLeastTwo, Options, Rate
from hedgerow.tables import Domain
from hedgerow.trees import Limits, grow_cart
from hedgerow.trees.growing.grow_tree import Splitter

_CRITERION = "What a split has to reduce; None for the first."


class CARTOptions(Options):
    """Binary trees over histograms, without privacy."""

    code: ClassVar[Code] = Code.BAD_PARAMETER

    criterion: str | None = Field(None, description=_CRITERION)
    splitter: Splitter = Field(
        "best", description="The best cut of every attribute, or one random cut (extra trees)."
    )
    max_depth: AtLeastOne | None = Field(
        None, description="Largest depth; None grows until the leaves are pure or small."
    )
    min_samples_split: AtLeastTwo = Field(2, description="Rows that a node needs to be split.")
    min_samples_leaf: AtLeastOne = Field(1, description="Rows that each child must have.")
    min_impurity_decrease: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] = Field(
        0.0,
        description="Decrease of impurity that a split must bring, weighted by the node's share of "
        "rows.",
    )
    max_features: AtLeastOne | Rate | Literal["sqrt", "log2"] | None = Field(
        None, description="Attributes that are tried at each node, drawn at random; None for all."
    )
    max_leaf_nodes: AtLeastTwo | None = Field(
        None, description="Leaves at the most; with it the tree grows best-first."
    )

    @property
    def limits(self) -> Limits:
        """Where growth ends."""
        return Limits(
            self.max_depth,
            self.min_samples_split,
            self.min_samples_leaf,
            self.min_impurity_decrease,
            self.max_leaf_nodes,
        )


class CARTClassifierOptions(CARTOptions):
    """Binary classification trees over histograms, without privacy."""

    criterion: Literal["gini", "entropy", "max"] | None = Field(None, description=_CRITERION)


class CARTRegressorOptions(CARTOptions):
    """Binary regression trees over histograms, without privacy."""

    criterion: Literal["squared_error"] | None = Field(None, description=_CRITERION)


@dataclass(kw_only=True, eq=False, repr=False)
class _CART(TreeEstimator):
    """Parameters and growth that both tasks share.

    Parameters
    ----------
    domain : Domain or None
        Public attributes and bins. None reads them from the data.
    max_bins : int
        Bins per numeric attribute if the domain is read from the data; exact up to that many
        distinct values.
    missing : "error" or "own bin"
        What to do with missing values if the domain is read from the data; a bin of their own is
        the largest bin, so it goes right.
    random_state : int, RandomState or None
        For the random splitter and `max_features`.
    """

    _options_type: ClassVar[type[CARTOptions]]

    criterion: str | None = None
    splitter: str = "best"
    max_depth: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_impurity_decrease: float = 0.0
    max_features: int | float | str | None = None
    max_leaf_nodes: int | None = None
    domain: Domain | None = None
    max_bins: int = 255
    missing: str = "error"
    random_state: Any = None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Grow the tree of a table (NumPy, pandas or Arrow) and its target."""
        options = self._options_type.from_parameters(self.get_params(deep=False))
        criterion = options.criterion or type(self)._importance_criterion
        encoded = self._encode_training(
            X, y, self.domain, max_bins=self.max_bins, missing=self.missing, unseen="clip"
        )
        self.tree_ = grow_cart(
            encoded,
            criterion=criterion,
            limits=options.limits,
            splitter=options.splitter,
            max_features=options.max_features,
            rng=generator(self.random_state),
        )
        self._importance_criterion = criterion
        return self


class CARTClassifier(PublicModelClassifier, _CART):
    """Binary classification tree over histograms; no privacy.

    Grows the same tree as scikit-learn's ``DecisionTreeClassifier`` on the same bins, ties apart.
    Paper: breiman1984cart.

    Attributes
    ----------
    tree_ : Tree
        The fitted tree.
    domain_ : Domain
        The domain used.
    feature_importances_, classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    """

    _options_type = CARTClassifierOptions
    _importance_criterion = "gini"


class CARTRegressor(PublicModelRegressor, _CART):
    """Binary regression tree over histograms; no privacy.

    Grows the same tree as scikit-learn's ``DecisionTreeRegressor`` on the same bins, ties apart.
    Attributes are those of `CARTClassifier`, but for the classes.
    Paper: breiman1984cart.
    """

    _options_type = CARTRegressorOptions
    _importance_criterion = "squared_error"
