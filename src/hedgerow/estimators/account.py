"""`Account`: what several fits on the same people cost together, and where that has to end.

An account is a ledger that outlives a fit. Every fit is a step of its own in it, so that the parts
of two fits never count as siblings, and one call: it may follow from the outcome of earlier fits,
and the costs of the fits add up as pairs.
"""

from __future__ import annotations

import copy
import fcntl
import math
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store.durable import open_regular, replacing, write_once
from hedgerow.privacy import ROOT, Guarantee, Ledger, Release, Scope, step
from hedgerow.privacy.accounting import Relation, basic, has_rho, tightest
from hedgerow.privacy.entries import Mark, as_budget, reasons_against, seen_by

_FIT = "fit "
_SHARE = 100
"""Fits at a delta that an account pays for, unless another share was agreed on."""
# A file that is being made has two names for a moment; somebody's own link stays.
_TRIES, _PAUSE = 20, 0.02


class FitCost(NamedTuple):
    """What one fit has cost."""

    fit: str
    epsilon: float
    delta: float


class Account:
    """A running account of the fits on one table.

    Copies, such as scikit-learn's `clone` makes them, are the same account. One in a file may be
    charged by several processes at once; one in memory by the process that made it.

    A budget is a promise, so an account with one refuses fits that promise nothing: with noise
    that is seeded, or a domain that was read from the data.

    Parameters
    ----------
    kept : str, Path or Ledger
        File that `Account.new` made, or a link to it; or a ledger in memory, mostly with a budget.
        What a fit whose releases are counted at a delta takes of the budget's delta is the
        ledger's ``delta``.

    Examples
    --------
    >>> from hedgerow import Account, Ledger
    >>> account = Account(Ledger(budget=(4.0, 1e-5), delta=1e-7))
    >>> account.spent().epsilon
    0.0
    """

    def __init__(self, kept: str | os.PathLike[str] | Ledger) -> None:
        self._ledger = kept if isinstance(kept, Ledger) else None
        # Workers need not stand in the same folder, and to write to a link would put another file
        # in its place.
        self._path = None if isinstance(kept, Ledger) else Path(os.path.realpath(kept))
        # A forked process has a copy of the ledger, which would add up on its own.
        self._process = os.getpid()

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        epsilon: float,
        delta: float | None = None,
        fit_delta: float | None = None,
    ) -> Account:
        """Make the file of an account; H902 if there is one.

        Epsilon and delta are what all fits together may cost; without a delta only releases with an
        epsilon of their own are paid for. A fit that is counted at a delta takes `fit_delta` of it,
        by default a hundredth.
        """
        path = Path(path)
        budget = as_budget((epsilon,) if delta is None else (epsilon, delta))
        if fit_delta is None and delta is not None:
            fit_delta = delta / _SHARE
        if fit_delta is not None and not 0 < fit_delta <= (delta or 0.0):
            raise Code.BAD_PARAMETER.error(
                expected="a delta of each fit above 0 and at most the account's delta",
                found=f"{fit_delta} of {delta}",
            )
        text = Ledger(budget=budget, delta=fit_delta).to_json()
        try:
            # To look first whether there is one would leave time for others to make it.
            made = write_once(path, text.encode())
        except OSError as error:
            raise Code.STATE_NOT_WRITTEN.error(
                found=f"{path}: {error.strerror or error}", fix="choose a folder that exists"
            ) from None
        if not made:
            raise Code.FILE_EXISTS.error(
                found=str(path), fix="choose another name: what was spent must not be forgotten"
            )
        return cls(path)

    @property
    def ledger(self) -> Ledger:
        """The account as it stands; a copy."""
        with self._hold_ledger() as ledger:
            return copy.deepcopy(ledger)

    def check(self, releases: Sequence[Release], marks: Collection[Mark] = ()) -> None:
        """Raise H207 if `charge` would; nothing is recorded."""
        self._charge(self.ledger, releases, marks)

    def charge(
        self, releases: Sequence[Release], marks: Collection[Mark] = (), what: str = ""
    ) -> str:
        """Record a fit, all of its releases or none; call it before the noise is drawn.

        The releases were fixed together, before anything of the fit is seen. Marks say why the fit
        promises nothing, which then holds for the account; with a budget it is refused. Of which
        model the fit is, `what`, the account keeps with the time.

        A mark about one relation of neighbours is no reason to refuse.

        Returns how the account calls the fit, such as ``"fit 3"``. H207 if the budget would be
        exceeded, or the fit or an earlier one promises nothing.
        """
        with self._hold_ledger(write=True) as ledger:
            about = f": {what}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC" if what else ""
            return self._charge(ledger, releases, marks, about)

    def costs(self, audience: str | None = None) -> list[FitCost]:
        """Return what every fit has cost an audience; by default the one that it cost the most.

        Infinite for a fit that promises this audience nothing.
        """
        ledger = self.ledger
        audiences = _audiences_of(ledger) if audience is None else [audience]
        each = {name: _costs_of(ledger, name) for name in audiences}
        for name, costs in each.items():
            lost = {_owner_of(reason) for reason in _against(ledger, name)}
            each[name] = [
                cost._replace(epsilon=math.inf) if _number_of(cost.fit) in lost else cost
                for cost in costs
            ]
        order = dict.fromkeys(_fit_of(release.scope) for release in ledger.releases)
        every = [cost for costs in each.values() for cost in costs]
        found = ([cost for cost in every if cost.fit == fit] for fit in order)
        return [max(costs) for costs in found if costs]

    def spent(self, audience: str | None = None) -> Guarantee:
        """Return what all fits have cost an audience, by default the one that they cost the most.

        Infinite if one promises this audience nothing.
        """
        ledger = self.ledger
        audiences = _audiences_of(ledger) if audience is None else [audience]
        return max((_spent_by(ledger, name) for name in audiences), key=_size)

    def charged(self) -> Guarantee:
        """Return what counts against a budget: `spent`, leaving aside who is promised nothing."""
        ledger = self.ledger
        each = (_sum_of(_costs_of(ledger, name)) for name in ledger.audiences)
        return replace(max(each, key=_size), method="sum of the fits")

    def __copy__(self) -> Account:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Account:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # A copy in another process would add up on its own; it refuses instead.
        return _reopen, (None if self._path is None else str(self._path),)

    def __repr__(self) -> str:
        return "Account(<in memory>)" if self._path is None else f"Account({str(self._path)!r})"

    def _charge(
        self,
        ledger: Ledger,
        releases: Sequence[Release],
        marks: Collection[Mark],
        about: str = "",
    ) -> str:
        if ledger.budget is not None:
            _refuse_marks(ledger.not_private, marks)
        name = _free_name(ledger)
        placed = [
            replace(r, scope=Scope((ROOT / step(name + about)).segments + r.scope.segments))
            for r in releases
        ]
        try:
            ledger.charge(*placed)
        except HedgerowError as error:
            if error.code is not Code.BUDGET_EXCEEDED:
                raise
            spent = Account(ledger).charged()
            fix = "lower epsilon, or fit less often; nothing was released"
            if has_rho(placed) and ledger.delta is not None:
                # At another delta than its own, a fit costs more or less than it says.
                fix += (
                    f"; the account counts such a fit at delta {ledger.delta:g}: pass "
                    f"delta={ledger.delta:g}, so that it costs the epsilon it says, or make an "
                    "account of another delta for each fit (`hedgerow account new --fit-delta`)"
                )
            elif has_rho(placed) and not (ledger.budget and ledger.budget.grants_delta):
                fix = (
                    "make the account with a delta (`hedgerow account new --delta`): this fit has "
                    "an epsilon at a delta only; or fit a tree or a median forest, which need "
                    "none; nothing was released"
                )
            raise Code.BUDGET_EXCEEDED.error(
                expected=f"a fit that the account pays for: {error.expected} in all",
                found=f"{_cost(placed, ledger)} for this fit, after epsilon {spent.epsilon:.6g}, "
                f"delta {spent.delta:.3g} for earlier fits",
                fix=fix,
            ) from None
        for mark in marks:
            ledger.mark_not_private(f"{name}: {mark.reason}", *mark[1:])
        return name + about

    @contextmanager
    def _hold_ledger(self, *, write: bool = False) -> Iterator[Ledger]:
        """Yield the ledger while nobody else changes it; keep it if the block does not raise."""
        if self._path is None:
            if self._ledger is None or self._process != os.getpid():
                raise Code.BAD_PARAMETER.error(
                    expected="an account that this process can charge",
                    found="an account in the memory of another process",
                    fix="keep the account in a file: Account.new(path, epsilon, delta)",
                )
            # Other accounts may be kept in the same ledger.
            with self._ledger._lock:
                yield self._ledger
            return
        with _hold_file(self._path) as descriptor:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                ledger = Ledger.from_json(file.read().decode("utf-8", "replace"))
            yield ledger
            if write:
                with replacing(self._path) as part:
                    part.write(ledger.to_json().encode())


def account_of(given: Any) -> Account | None:
    """Read the parameter ``account`` of an estimator: an account, its file, or None."""
    if given is None or isinstance(given, Account):
        return given
    if isinstance(given, str | os.PathLike):
        return Account(given)
    # A bare ledger would be copied with the estimator, and the copies would not add up.
    fix = "Account(ledger)" if isinstance(given, Ledger) else "Account.new(path, epsilon, delta)"
    raise Code.BAD_PARAMETER.error(
        expected="account to be an Account, the path of one, or None",
        found=f"account of type {type(given).__name__}",
        fix=f"pass {fix}",
    )


def _reopen(path: str | None) -> Account:
    if path is not None:
        return Account(path)
    lost = Account(Ledger())
    lost._ledger = None
    return lost


def _refuse_marks(earlier: Collection[Mark], marks: Collection[Mark]) -> None:
    """Refuse a fit after which the budget of an account would not hold, whatever it charges.

    What is about one relation of neighbours alone is known of a fit, and told, and paid for: peers
    who hold the rows of all know which there are, whatever the noise.
    """
    for every, whose in ((marks, "this fit"), (earlier, "an earlier fit of this account")):
        found = [mark for mark in every if mark.relation is None]
        if not found:
            continue
        why = "; ".join(dict.fromkeys(mark.reason for mark in found))
        fix = "leave out random_state (--seed), and declare a public domain"
        if every is earlier:
            fix = "agree anew on what may be promised; an account without a budget adds up still"
        raise Code.BUDGET_EXCEEDED.error(
            expected="fits that promise something: the account has a budget",
            found=f"{whose} is not private: {why}",
            fix=f"{fix}; nothing was released",
        )


def _free_name(ledger: Ledger) -> str:
    """Return a name that no fit in a ledger has: parts of two fits must never be siblings."""
    fits = {_fit_of(release.scope) for release in ledger.releases}
    names = {fit.partition(":")[0] for fit in fits}
    number = 1 + len(names)
    while f"{_FIT}{number}" in names:
        number += 1
    return f"{_FIT}{number}"


def _fit_of(scope: Scope) -> str:
    return scope.segments[0].label if scope.segments else str(scope)


def _costs_of(ledger: Ledger, audience: str) -> list[FitCost]:
    fits: dict[str, list[Release]] = {}
    for release in seen_by(ledger.releases, [audience]):
        fits.setdefault(_fit_of(release.scope), []).append(release)
    found = {fit: _cost(releases, ledger) for fit, releases in fits.items()}
    return [FitCost(fit, cost.epsilon, cost.delta) for fit, cost in found.items()]


def _number_of(fit: str) -> str:
    """Return the name of a fit without the time and the model."""
    return fit.partition(":")[0]


def _owner_of(reason: str) -> str:
    """Return the fit that a mark of an account is about; of older accounts it is not known."""
    found = _number_of(reason)
    return found if found.startswith(_FIT) else ""


def _audiences_of(ledger: Ledger) -> list[str]:
    """Return everybody who is named by a charge, or alone by a mark."""
    marked = (mark.audiences for mark in ledger.not_private if len(mark.audiences) == 1)
    return list(dict.fromkeys([*ledger.audiences, *(name for (name,) in marked)]))


def _against(ledger: Ledger, audience: str) -> list[str]:
    return reasons_against(ledger.not_private, [audience], Relation.ADD_REMOVE)


def _spent_by(ledger: Ledger, audience: str) -> Guarantee:
    total = _sum_of(_costs_of(ledger, audience))
    if why := _against(ledger, audience):
        found = "; ".join(dict.fromkeys(why))
        return replace(total, epsilon=math.inf, method="none", why=found)
    return replace(total, method="sum of the fits")


def _size(total: Guarantee) -> tuple[float, float]:
    return total.epsilon, total.delta


def _sum_of(costs: Sequence[FitCost]) -> Guarantee:
    delta = math.fsum(cost.delta for cost in costs)
    return Guarantee(math.fsum(cost.epsilon for cost in costs), min(1.0, delta))


def _cost(releases: Sequence[Release], ledger: Ledger) -> Guarantee:
    """Return what one fit costs, as the budget counts it."""
    granted = ledger.budget.delta if ledger.budget and ledger.budget.grants_delta else None
    delta = granted if ledger.delta is None else ledger.delta
    return tightest(releases, delta) if has_rho(releases) and delta else basic(releases)


@contextmanager
def _hold_file(path: Path) -> Iterator[int]:
    """Hold a file for this process alone, the one that has the name when the lock is there.

    Yields a descriptor to read from. H211 if there is no such file, or one with several names: a
    charge under one of them would not be seen under the others.
    """
    tries = _TRIES
    while True:
        try:
            descriptor = open_regular(path)
        except OSError as error:
            raise Code.BAD_LEDGER_FILE.error(
                expected="the file of an account",
                found=f"{path}: {error.strerror}",
                fix="make it with `hedgerow account new`",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Whoever held it before may have put another file in its place.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                names = os.fstat(descriptor).st_nlink
                if names == 1:
                    yield descriptor
                    return
                tries -= 1
                if not tries:
                    raise Code.BAD_LEDGER_FILE.error(
                        expected="the file of an account, under one name",
                        found=f"{path}: {names} hard links to one file",
                        fix="remove the other names; a symbolic link may stand for the file",
                    )
        finally:
            os.close(descriptor)
        if tries < _TRIES:
            time.sleep(_PAUSE)
