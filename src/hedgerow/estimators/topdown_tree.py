"""`TopDownTreeClassifier`: a best-first private tree, of one owner or of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from hedgerow.errors import Code, HedgerowError, warn_caller
from hedgerow.estimators.accounted import PlannedEstimator
from hedgerow.estimators.hidden.base import check_lists
from hedgerow.estimators.parameters import domain_to_plan
from hedgerow.estimators.public_model import PublicModelClassifier, TreeEstimator
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.hidden.options import RunOptions
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.owner import charge_plan, counts_of
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.run import TopDownRun, run_topdown
from hedgerow.protocols.topdown.wire import SERVER_NAMES
from hedgerow.tables import Domain, Encoded


@dataclass(kw_only=True, eq=False, repr=False)
class TopDownTreeClassifier(PlannedEstimator[TopDownPlan], PublicModelClassifier, TreeEstimator):
    """Differentially private decision tree that is grown best-first (DP-TopDown).

    The leaf whose split promises the most is split next. Of one table a curator grows the tree
    (``fit``); of the tables of several owners, who show each other no row, ``fit_owners`` does,
    with everything that crosses between them noisy or on secret shares.
    Paper: wang2020topdown, with the corrections of ``docs/explanation/topdown.md``.

    Parameters
    ----------
    epsilon
        It holds for every owner's people, towards everybody who sees the messages or the tree.
    domain : Domain
        Public attributes, bounds, categories and classes, the same for all owners. Never read from
        the data.
    method
        Who draws noise where. "single-machine": a curator of all records. "noisy-counts": owners
        send noisy histograms. "local-rnm": owners send their best splits, then noisy counts of
        those. "secure-counts": three servers add up secret counts and draw the noise of one
        curator.
    engine : "simulate", "processes" or "clear"
        For "secure-counts": servers in this process, in processes over mutual TLS, or plain
        arrays, from which nothing is hidden.
    insecure_domain_from_data : bool
        Read the domain from the data if none is given, for ``fit`` only. The ledger then records
        that the model is NOT private.

    Attributes
    ----------
    tree_ : Tree
        The released tree; leaf counts are noisy.
    privacy_ : Ledger
        Every release with its cost and audience: the worst case, charged first.
    plan_ : TopDownPlan
        Everything that was fixed before a row was touched.
    traffic_ : Traffic
        Rounds and bytes between the coordinator and the owners.
    secure_run_ : TopDownRun or None
        With "secure-counts": what the servers opened and sent.
    classes_, domain_, feature_importances_, n_features_in_, feature_names_in_
        As in `DPTreeClassifier`.

    Examples
    --------
    >>> from hedgerow import Attribute, Domain, Target, TopDownTreeClassifier
    >>> domain = Domain(
    ...     attributes=(Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),),
    ...     target=Target(name="ill", classes=(0, 1)),
    ...     capacity=400,
    ... )
    >>> rows, ill = [[age] for age in range(100)], [int(age > 60) for age in range(100)]
    >>> tree = TopDownTreeClassifier(epsilon=4.0, domain=domain, method="local-rnm")
    >>> tree = tree.fit_owners([rows, rows, rows], [ill, ill, ill])
    >>> tree.privacy_.total("public").epsilon <= 4.0
    True
    """

    _options_type = TopDownOptions
    _noisy_counts = True
    _importance_criterion = "gini"

    method: str = "auto"
    histograms: str = "feature"
    criterion: str = "gini"
    n_splits: int = 512
    max_depth: int | str = "auto"
    budget: str | Sequence[float] = "uniform"
    leaf_share: float = 0.2
    min_gain: float = 0.002
    error: float = 0.1
    accounting: str = "strict"
    engine: str = "simulate"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on the table of one owner and its class labels; spends ``epsilon``.

        Reveals: the tree with noisy leaf counts, and what the method sends on the way, to the
        public, epsilon in total.
        An error about a value outside the domain is for the owner of the rows, who runs this.
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            source = self._before_rows(ledger, lambda domain: self._plan(domain, domain.capacity))
            encoded = self._encode_training(
                X, y, self.domain, max_bins=32, spacing="uniform", missing="error"
            )
            # Without a declared domain nothing is claimed, and the row count serves as capacity.
            capacity = encoded.n_slots if self.domain is None else self.domain.capacity
            plan = self._plan(encoded.domain, capacity)
            return self._grow(plan, {"owner 0": encoded}, ledger, source)

    def fit_owners(
        self, tables: Sequence[Any], ys: Sequence[Any], names: Sequence[str] | None = None
    ) -> Self:
        """Train on the tables of several owners, of whom none has a record of another.

        Owners are called ``"owner 0"`` and so on by default. H203 without a domain, H105 for an
        owner without rows, H108 for lists of different lengths, H501 for a method that several
        owners cannot use.
        """
        self._check_parameters()
        if self.domain is None:
            raise Code.MISSING_DOMAIN.error(
                found="domain=None: the domain of several owners cannot be read from one table"
            )
        if not self.domain.is_public:
            raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {self.domain.provenance!r}")
        names = _owner_names(tables, ys, names)
        plan = self._plan(self.domain, self.domain.capacity, len(names))
        with self._fitting() as ledger:
            source = self._before_rows(ledger, lambda domain: plan)
            encoded = {}
            for name, table, y in zip(names, tables, ys, strict=True):
                try:
                    encoded[name] = self._encode_training(table, y, self.domain)
                except HedgerowError as error:
                    raise _name_owner(name, error) from error
            return self._grow(plan, encoded, ledger, source)

    def plan(self, domain: Domain | None = None, n_owners: int = 1) -> TopDownPlan:
        """Return what a fit would do and charge, from a public domain, by default its own."""
        self._check_parameters()
        public = domain_to_plan(domain, self.domain)
        return self._plan(public, public.capacity, n_owners)

    def _grow(
        self, plan: TopDownPlan, tables: dict[str, Encoded], ledger: Ledger, source: NoiseSource
    ) -> Self:
        absorbed = self._absorbed()
        if absorbed is not None and plan.capacity is not None:
            room = plan.capacity
            for name, table in tables.items():
                tables[name] = table.within_capacity(room, absorbed)
                room -= int(tables[name].present.sum())
        counts = {name: counts_of(table, plan) for name, table in tables.items()}
        if plan.capacity is not None:
            total = sum(each.n_records for each in counts.values())
            if total > plan.capacity:
                raise Code.CAPACITY_EXCEEDED.error(
                    expected=f"at most {plan.capacity:,} rows of all owners together",
                    found=f"{total:,} rows",
                )
        charge_plan(plan, ledger, source, joint=len(tables) > 1)
        self.plan_ = plan
        self.secure_run_: TopDownRun | None = None
        engine: Any = self.engine
        if plan.method == "secure-counts":
            seed = None if source.private else int(source.integers(1 << 31, 1)[0])
            mark_collusion(ledger)
            run = run_topdown(plan, tables, engine, seed=seed)
            self.secure_run_ = run
            _warn_of_owners_left_out(run)
        else:
            run = run_topdown(plan, counts, sources={name: source.spawn() for name in counts})
        self.tree_, self.traffic_ = run.tree, run.traffic
        return self

    def _plan(self, domain: Domain, capacity: int | None, n_owners: int = 1) -> TopDownPlan:
        options = TopDownOptions.from_parameters(self.get_params(deep=False))
        return options.plan(domain, capacity, n_owners)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        RunOptions.from_parameters({"engine": self.engine})


def _owner_names(
    tables: Sequence[Any], ys: Sequence[Any], names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of the owners: as given, or ``"owner 0"`` and so on.

    H109 for what is not a list, H108 for lists of different lengths, H501 for a name that two
    owners have or that is a server's.
    """
    check_lists(tables, ys)
    found = tuple(names) if names is not None else tuple(f"owner {i}" for i in range(len(tables)))
    if not tables or len(ys) != len(tables) or len(found) != len(tables):
        raise Code.WRONG_SHAPE.error(
            expected="one table, one target and one name per owner",
            found=f"{len(tables)} tables, {len(ys)} targets and {len(found)} names",
            fix="pass lists with one entry for every owner, in the same order",
        )
    if len(set(found)) < len(found) or set(found) & set(SERVER_NAMES):
        raise Code.BAD_PARAMETER.error(
            expected="a name of its own for every owner, none of a server",
            found=f"names {', '.join(map(repr, found))}",
        )
    return found


def _name_owner(name: str, error: HedgerowError) -> HedgerowError:
    """Say whose table an error is about."""
    found = f"{error.found}, in the table of {name!r}"
    return error.code.error(expected=error.expected, found=found, fix=error.fix)


def _warn_of_owners_left_out(run: TopDownRun) -> None:
    """Warn of every owner whose counts the servers could not use."""
    for at, name, number in run.left_out:
        warn_caller(
            f"the counts of {name!r} could not be used in round {at} ({number}): the tree has "
            "grown without them",
        )
