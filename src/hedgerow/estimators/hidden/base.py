"""What every estimator with a hidden model shares: owners, servers, analyst, and their records."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code, HedgerowError, warn_caller
from hedgerow.estimators.account import Account, account_of
from hedgerow.estimators.accounted import PlannedEstimator
from hedgerow.estimators.parameters import check_parameter, is_count
from hedgerow.estimators.table import declared_target, is_sequence, read_domain
from hedgerow.privacy import Ledger
from hedgerow.protocols.contract import check_epsilon
from hedgerow.protocols.hidden.evaluation import RANGES, Evaluation, plan_evaluation
from hedgerow.protocols.hidden.options import RunOptions, ServerOptions
from hedgerow.protocols.hidden.programs import SEEDED, mark_collusion
from hedgerow.protocols.registry import hidden_protocol, is_published
from hedgerow.protocols.run import EngineName, ask, evaluate, train
from hedgerow.protocols.sharing.integrate import (
    Entropy,
    Integrated,
    Partition,
    by_columns,
    by_rows,
    dealt,
    equal_slots,
    keyed,
)
from hedgerow.secure.replicated import EVERYONE
from hedgerow.tables import Domain, Encoded, encode
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.frame import view
from hedgerow.tables.padding import pad

# Bins per numeric attribute where the domain is read from the data: each is a branch or a cut.
_BINS = {"binary": 16, "wary": 4}


@dataclass(kw_only=True, eq=False, repr=False)
class HiddenEstimator(PlannedEstimator[Any]):
    """A scikit-learn estimator that trains on three servers, on shares.

    A subclass names its protocol (`hedgerow.protocols.registry`) and its options, and has fields
    with their names and defaults. One that learns a target inherits from `TableClassifier` or
    `TableRegressor` first; others read the table alone.

    Parameters
    ----------
    epsilon
        Not used with ``noise="none"``.
    engine : "simulate", "processes" or "clear"
        The three servers in this process, on real shares; a process for each of them, over mutual
        TLS on this machine; or plain arrays, to study accuracy. Laws and ledger are the same. From
        this process, which is handed all rows, nothing is hidden in any of them.
    n_owners : int
        Owners to whom `fit` deals the table.
    partition : "horizontal" or "vertical"
        Whether owners hold rows or columns.
    account : Account or str
        Adds up the fits on the same people, all answers to queries included; a fit beyond its
        budget is refused before a row is read. `Account.new` makes one in a file.
    random_state : int or None
        None draws keys and noise from the operating system. A number makes them repeatable, which
        is for tests only: the ledger then records that the model is NOT private.
    """

    _protocol: ClassVar[str] = "hidden-tree"
    _options_type: ClassVar[type[ServerOptions]]
    _model_name: ClassVar[str] = "model_"

    # Parameters of trees, as they are for all others.
    noise = "everywhere"
    branching = "binary"

    engine: str = "simulate"
    n_owners: int = 1
    partition: str = "horizontal"

    def __sklearn_tags__(self) -> Tags:
        return self._tagged(super().__sklearn_tags__())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        RunOptions.from_parameters(self.get_params(deep=False))

    def _encode_training(self, X: Any, y: Any, domain: Domain | None, **suggest: Any) -> Encoded:
        """Encode rows without a target; without a domain, read one from the data."""
        del y
        table = self._table(X, reset=True)
        self._take_domain(domain or read_domain(table, None, **suggest))
        bare = self.domain_.select(self.domain_.names, target=False)
        return encode(table, bare) if domain is None else self._encode_declared(table, None, bare)

    def _take_domain(self, domain: Domain) -> None:
        """Set what follows from the domain."""
        self.domain_ = domain

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Deal a table to the owners and train on the servers, with `y` where one is learned.

        Reveals: to the servers nothing but public numbers; to the analyst, who asks for
        predictions later, what ``privacy_`` charges.
        An error about a value outside the domain is for the owner of the rows.
        An interrupted fit leaves ``privacy_`` with what was charged, and no model.
        """
        self._check_parameters()
        with self._fitting() as ledger:
            plan = self._check_before_rows(
                ledger, lambda domain: self._plan(domain, domain.capacity)
            )
            self._warn_of_seed()
            encoded = self._encode_training(
                X,
                y,
                self.domain,
                max_bins=_BINS[self.branching],
                spacing="uniform",
                missing="error",
            )
            # Without a declared domain nothing is claimed, and the row count serves as capacity.
            plan = plan or self._plan(encoded.domain, encoded.n_slots)
            partition: Partition = self.partition  # type: ignore[assignment]
            owners = dealt(
                plan.layout, encoded, plan.n_slots, int(self.n_owners), partition, self._entropy()
            )
            return self._train(plan, owners, ledger)

    def fit_owners(
        self,
        tables: Sequence[Any],
        ys: Sequence[Any] | None = None,
        ids: Sequence[Any] | None = None,
        *,
        slots: Sequence[int] | None = None,
    ) -> Self:
        """Train on the tables of several owners, who hold rows or columns (``partition``).

        "horizontal": all attributes of each owner's own records; `slots` are public numbers of
        slots, at least as many as an owner's rows, by default the capacity in equal parts.
        "vertical": some attributes of each owner's records, of which those that all owners have are
        trained on; who and how many they are, nobody learns. Where columns have no names, those of
        the first owner come first in the domain. Then `ys` is None for all owners but one, and
        `ids` are row ids of every owner, in any order, whole numbers or strings. `slots` are by
        default the capacity for each owner.

        H203 without a domain, H112 for an owner with more rows than slots, H111 without ids, H107
        and H106 for an attribute at no owner or at two.
        """
        self._check_parameters()
        if self.domain is None:
            raise Code.MISSING_DOMAIN.error(
                found="domain=None: the domain of several owners cannot be read from one table"
            )
        domain = self.domain
        check_parameter(
            "slots",
            slots,
            slots is None or all(is_count(size) for size in slots),
            "must be None or one whole number of at least 1 for each owner",
        )
        check_lists(tables, [] if ys is None else ys)
        ys = [None] * len(tables) if ys is None else ys
        capacity = domain.capacity
        if slots is not None:
            # Owners of columns have no more records in common than the smallest of them has.
            capacity = int(sum(slots) if self.partition == "horizontal" else min(slots))
        if domain.capacity is not None and capacity is not None and capacity > domain.capacity:
            raise Code.CAPACITY_EXCEEDED.error(
                expected=f"slots for at most {domain.capacity:,} rows, the public capacity",
                found=f"{capacity:,} slots",
                fix="give fewer slots=, or raise the capacity in the domain (it is public)",
            )
        with self._fitting() as ledger:
            plan = self._check_before_rows(ledger, lambda domain: self._plan(domain, capacity))
            self._warn_of_seed()
            if self.partition == "horizontal":
                owners = _rows_of_owners(
                    plan,
                    tables,
                    ys,
                    ids,
                    slots,
                    encode=lambda X, y: self._encode_training(X, y, domain),
                    entropy=self._entropy(),
                    absorbed=self._absorbed(),
                )
                sizes = _slots_of_rows(plan, len(tables), slots)
            else:
                owners = _columns_of_owners(
                    plan,
                    tables,
                    ys,
                    ids,
                    slots,
                    key=None if self.random_state is None else self._key(),
                    entropy=self._entropy(),
                    absorbed=self._absorbed(),
                )
                sizes = _slots_of_columns(plan, len(tables), slots)
                self._take_domain(domain)
                self.n_features_in_ = len(domain.attributes)
                self.feature_names_in_ = np.array(domain.names, dtype=object)
            if ledger.capacity is not None:
                # Of tables within the fewest slots no row is left out.
                ledger.capacity = min(sizes)
            return self._train(plan, owners, ledger)

    def what_was_learned(self, audience: str = "analyst") -> list[dict[str, Any]]:
        """Return one row for every value that was opened to an audience, over all runs.

        A row has run (what it was for), name, audience, times, values, why. What is published,
        every audience has learned.
        """
        check_is_fitted(self, "model_")
        published = is_published(self._protocol)
        found = []
        for run in self.runs_:
            # What is released was opened to the servers, who show it to all; nothing else.
            shown = {one.name for one in run.leakage.openings if one.release is not None}
            rows = run.leakage.what_was_learned(EVERYONE if published else audience)
            if published and not audience.startswith(EVERYONE):
                rows = [row for row in rows if row["name"] in shown]
            found += [{"run": run.what, **row} for row in rows]
        return found

    def evaluate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        epsilon: float | None,
        ranges: int = RANGES,
        slots: int | None = None,
        account: Account | str | None = None,
    ) -> Evaluation:
        """Count, on the servers, how well the model answers for held-out rows.

        `epsilon` is the budget of a held-out record, which pays for all figures of one call
        together; None counts exactly, and promises nothing. The ROC curve of two classes is made of
        `ranges` of the score: more follow it more closely, and each has noise of its own. `slots`
        is the public number of slots for the held-out rows, at least as many as they are; that of
        the model's own table by default.

        Every call draws noise anew and costs a held-out record `epsilon` again. It is charged
        before that to `account`, of those who were held out; by default the model's, since they may
        be among those whom it was trained on. Without one, nothing adds the calls up. Where an
        account pays, rows are absorbed as in a fit.

        The ledger of the model is not charged: for those whom it was trained on, this is computed
        from what ``privacy_`` has already paid for. H501 for a model of numbers, and for one with
        ``noise="votes"``; H112 for more rows than slots; H207 where the account cannot pay, or has
        a budget and `epsilon` is None.
        """
        check_is_fitted(self, "model_")
        if epsilon is not None:
            check_epsilon(epsilon)
        payer = account_of(self.account if account is None else account)
        absorbed = AbsorbedRows() if self._absorbs(payer) else None
        table = self._table(X, reset=False, absorbed=absorbed)
        rows = encode(table, self.domain_, declared_target(y, len(table)), absorbed=absorbed)
        # How many rows were held out is as private as they are; nothing is promised of a domain
        # that was read from data.
        if slots is None and self.domain is not None:
            slots = self.plan_.n_slots
        if absorbed is not None:
            rows = rows.within_capacity(slots, absorbed)
        rows = pad(rows, rows.n_slots if slots is None else slots, entropy=self._entropy())
        if payer is not None:
            protocol = hidden_protocol(self._protocol)
            due = plan_evaluation(protocol, self.plan_, rows.n_slots, epsilon, ranges).releases()
            payer.charge(due, self._foreseen_marks(), f"evaluation of {type(self).__name__}")
        seed = None if self.random_state is None else int(self.random_state)
        found, run = evaluate(
            self.model_,
            self.plan_,
            rows,
            epsilon,
            ranges,
            domain_is_public=self.domain is not None,
            capacity=None if absorbed is None else slots,
            seed=seed,
        )
        self.runs_.append(run)
        return found

    def _ask(self, X: Any, what: str) -> NDArray[Any]:
        """Encode queries, ask the servers and keep the record; the opened answers."""
        check_is_fitted(self, "model_")
        queries = encode(self._table(X, reset=False), self.domain_)
        try:
            answers, run = ask(self.model_, self.plan_, queries.bins, what)
        finally:
            # Answers count even where a run fails: nobody knows what was opened.
            if self.model_.servers[0].ledger != self.privacy_.to_json():
                self.privacy_ = self.model_.ledger
        self.runs_.append(run)
        return answers

    def _train(self, plan: Any, owners: Integrated, ledger: Ledger) -> Self:
        engine: EngineName = self.engine  # type: ignore[assignment]
        marks = [(mark.reason, list(mark.audiences)) for mark in ledger.not_private]
        seed = None if self.random_state is None else int(self.random_state)
        if seed is not None:
            ledger.mark_not_private(SEEDED)
        ledger.charge(*plan.releases())
        # These are about some of the parties together, where an account is about each audience.
        mark_collusion(ledger)
        trained, run = train(
            self._protocol,
            plan,
            owners,
            engine,
            marks=marks,
            domain_is_public=self.domain is not None,
            capacity=ledger.capacity,
            seed=seed,
        )
        self.plan_ = plan
        self.model_ = trained
        self.privacy_ = trained.ledger
        self.leakage_, self.meter_ = run.leakage, run.meter
        self.runs_ = [run]
        return self

    def _promises(self) -> bool:
        return super()._promises() and self._has_noise()

    def _warn_of_seed(self) -> None:
        if self.random_state is not None:
            warn_caller(
                "random_state makes keys and noise repeatable: the ledger records this model as "
                "not private",
            )

    def _entropy(self) -> Entropy:
        return os.urandom if self.random_state is None else keyed(self._key())

    def _key(self) -> bytes:
        """Return the owners' key that follows from the seed."""
        text = f"hedgerow placement {self.random_state}".encode()
        return hashlib.blake2b(text, digest_size=KEY_BYTES).digest()

    def _has_noise(self) -> bool:
        return self.noise != "none"


def _rows_of_owners(
    plan: Any,
    tables: Sequence[Any],
    ys: Sequence[Any],
    ids: Sequence[Any] | None,
    slots: Sequence[int] | None,
    *,
    encode: Callable[[Any, Any], Encoded],
    entropy: Entropy,
    absorbed: AbsorbedRows | None = None,
) -> Integrated:
    """Encode and pad the tables of owners that hold rows; with `absorbed`, no record is refused."""
    _check_lengths(tables, ys=ys, slots=slots)
    if ids is not None:
        raise Code.BAD_PARAMETER.error(
            expected="ids for partition='vertical' alone: owners of rows need not align them",
            found="ids",
            fix="leave ids out",
        )
    for i, y in enumerate(ys):
        if y is None and plan.domain.target is not None:
            raise Code.BAD_TARGET.error(
                expected="the target of the rows of every owner",
                found=f"ys[{i}]=None",
                fix=f"pass the target of owner {i}; for owners of columns, of whom one has the "
                "target, set partition='vertical'",
            )
    sizes = _slots_of_rows(plan, len(tables), slots)
    parts = [encode(table, y) for table, y in zip(tables, ys, strict=True)]
    parts = _within_slots(parts, sizes, absorbed, given=slots is not None)
    return by_rows(plan.layout, parts, sizes, entropy)


def _slots_of_rows(plan: Any, n_owners: int, slots: Sequence[int] | None) -> list[int]:
    sizes = equal_slots(plan.n_slots, n_owners) if slots is None else list(slots)
    # Slots are rounded up to equal numbers for all trees; the last owner has the rest.
    sizes[-1] += plan.n_slots - sum(sizes)
    return sizes


def _columns_of_owners(
    plan: Any,
    tables: Sequence[Any],
    ys: Sequence[Any],
    ids: Sequence[Any] | None,
    slots: Sequence[int] | None,
    *,
    key: bytes | None,
    entropy: Entropy,
    absorbed: AbsorbedRows | None = None,
) -> Integrated:
    """Encode and tag the tables of owners that hold columns, under a key or a fresh one.

    With `absorbed`, no record is refused; of too many, all owners keep the same.
    """
    _check_lengths(tables, ys=ys, ids=ids, slots=slots)
    if ids is None:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="row ids of every owner", found="ids=None", fix="pass ids="
        )
    holders = [i for i, y in enumerate(ys) if y is not None]
    if plan.domain.target is not None and len(holders) != 1:
        raise Code.BAD_TARGET.error(
            expected="the target at exactly one of the owners of columns",
            found=f"targets of {len(holders)} owners in ys",
            fix="pass the target at one place of ys and None at the others",
        )
    missing = [i for i, own in enumerate(ids) if own is None]
    if missing:
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="row ids of every owner",
            found=f"ids[{missing[0]}]=None",
            fix=f"pass the ids of the rows of owner {missing[0]}",
        )
    domain = plan.layout.domain
    groups = _groups(domain, tables, empty=absorbed is not None)
    parts = [
        encode(
            table,
            domain.select(group, target=y is not None),
            y if y is None else declared_target(y, view(table, empty=True).n_rows),
            ids=own,
            absorbed=absorbed,
        )
        for table, y, own, group in zip(tables, ys, ids, groups, strict=True)
    ]
    sizes = _slots_of_columns(plan, len(tables), slots)
    parts = _within_slots(parts, sizes, absorbed, given=slots is not None)
    return by_columns(plan.layout, parts, sizes, key, entropy)


def _slots_of_columns(plan: Any, n_owners: int, slots: Sequence[int] | None) -> list[int]:
    return [plan.n_slots] * n_owners if slots is None else list(slots)


def _within_slots(
    parts: Sequence[Encoded], sizes: Sequence[int], absorbed: AbsorbedRows | None, *, given: bool
) -> list[Encoded]:
    if absorbed is not None:
        return [p.within_capacity(n, absorbed) for p, n in zip(parts, sizes, strict=True)]
    for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        if part.n_slots > size:
            raise _too_few_slots(i, part.n_slots, size, given=given)
    return list(parts)


def _too_few_slots(owner: int, rows: int, size: int, *, given: bool) -> HedgerowError:
    if given:
        fix = f"give owner {owner} more in slots=, within the capacity of the domain"
    else:
        fix = (
            "pass slots= with a number for each owner (by default rows are given the capacity in "
            "equal parts, columns all of it), or raise the capacity in the domain (it is public)"
        )
    return Code.CAPACITY_EXCEEDED.error(
        expected=f"at most {size:,} rows of owner {owner}, its slots",
        found=f"{rows:,} rows",
        fix=fix,
    )


def _groups(domain: Domain, tables: Sequence[Any], *, empty: bool) -> list[list[int]]:
    """Return the attributes that each owner's columns are: by name, else by position in turn.

    Tables may be `empty` where rows are absorbed; then no row may say how many columns there are.
    """
    groups: list[list[int]] = []
    first = 0
    for i, table in enumerate(tables):
        if empty and is_sequence(table) and not isinstance(table, np.ndarray):
            raise Code.MISSING_COLUMN.error(
                expected="names for the columns of every owner, or arrays",
                found=f"rows in a {type(table).__name__} at owner {i}",
                fix="pass pandas or Arrow tables, mappings of columns, or arrays",
            )
        frame = view(table, empty=empty)
        if frame.named:
            group = [at for at, name in enumerate(domain.names) if name in frame.names]
        else:
            group = list(range(first, first + len(frame.columns)))
        if not group or group[-1] >= len(domain.names):
            raise Code.MISSING_COLUMN.error(
                expected=f"attributes among {', '.join(domain.names)}",
                found=f"{'none' if not group else len(group)} in the table of owner {i}",
                fix="pass columns that the domain declares",
            )
        groups.append(group)
        first = group[-1] + 1
    return groups


def check_lists(tables: Any, ys: Any) -> None:
    """Refuse one table where the tables of several owners are due, H109."""
    if not isinstance(tables, list | tuple) or not isinstance(ys, list | tuple):
        raise Code.WRONG_TYPE.error(
            expected="a list of tables and a list of targets, one per owner",
            found=f"{type(tables).__name__} and {type(ys).__name__}",
            fix="pass [table, table, ...] and [y, y, ...], or use fit for one table",
        )


def _check_lengths(tables: Sequence[Any], **others: Sequence[Any] | None) -> None:
    wrong = {
        name: len(values)
        for name, values in others.items()
        if values is not None and len(values) != len(tables)
    }
    if wrong or not tables:
        raise Code.WRONG_SHAPE.error(
            expected=f"one entry per owner, {len(tables)} in each list"
            if tables
            else "the table of at least one owner",
            found=", ".join(f"{n} in {name}" for name, n in wrong.items()) or "no table",
            fix="pass lists with one entry for every owner, in the same order"
            + (", and None where an owner has no target" if "ys" in wrong else ""),
        )
