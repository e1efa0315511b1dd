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
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.durable import replacing, write_once
from hedgerow.privacy import ROOT, Guarantee, Ledger, Release, Scope, step
from hedgerow.privacy.accounting import basic, has_rho, tightest
from hedgerow.privacy.entries import Mark, as_budget, seen_by

_FIT = "fit "
_SHARE = 100
"""Fits at a delta that an account pays for, unless another share was agreed on."""


class FitCost(NamedTuple):
    """What one fit has cost."""

    fit: str
    epsilon: float
    delta: float


class Account:
    """A running account of the fits on one table.

    Copies, such as scikit-learn's `clone` makes them, are the same account. One in a file may be
    charged by several processes at once; one in memory by the process that made it.

    Parameters
    ----------
    kept : str, Path or Ledger
        File that `Account.new` made, or a ledger in memory, mostly with a budget. What a fit whose
        releases are counted at a delta takes of the budget's delta is the ledger's ``delta``.

    Examples
    --------
    >>> from hedgerow import Account, Ledger
    >>> account = Account(Ledger(budget=(4.0, 1e-5), delta=1e-7))
    >>> account.spent().epsilon
    0.0
    """

    def __init__(self, kept: str | os.PathLike[str] | Ledger) -> None:
        self._ledger = kept if isinstance(kept, Ledger) else None
        # Workers need not stand in the same folder.
        self._path = None if isinstance(kept, Ledger) else Path(kept).absolute()
        self._lock = threading.Lock()

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        epsilon: float,
        delta: float | None = None,
        fit_delta: float | None = None,
    ) -> Account:
        """Make the file of an account.

        Parameters
        ----------
        path : str or Path
            Where there is no file yet.
        epsilon, delta : float
            What all fits together may cost. Without a delta only releases with an epsilon of their
            own are paid for.
        fit_delta : float, optional
            What each fit that is counted at a delta takes of it; by default a hundredth.

        Raises
        ------
        InputError
            H902 if there is such a file.
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
        if path.exists():
            raise Code.FILE_EXISTS.error(
                found=str(path), fix="choose another name: what was spent must not be forgotten"
            )
        try:
            write_once(path, text.encode())
        except OSError as error:
            raise Code.STATE_NOT_WRITTEN.error(
                found=f"{path}: {error.strerror or error}", fix="choose a folder that exists"
            ) from None
        return cls(path)

    @property
    def ledger(self) -> Ledger:
        """The account as it stands; a copy."""
        if self._ledger is not None:
            return copy.deepcopy(self._ledger)
        with self._opened() as ledger:
            return ledger

    def check(self, releases: Sequence[Release]) -> None:
        """Raise H207 if a fit with these releases would not be paid for; nothing is recorded."""
        self._charge(self.ledger, releases)

    def charge(self, releases: Sequence[Release], marks: Collection[Mark] = ()) -> str:
        """Record a fit, all of its releases or none; call it before the noise is drawn.

        Parameters
        ----------
        releases : sequence of Release
            Fixed together, before anything of the fit is seen.
        marks : collection of Mark
            Why the fit promises nothing, which then holds for the account.

        Returns
        -------
        str
            How the account calls the fit, such as ``"fit 3"``.

        Raises
        ------
        PrivacyError
            H207 if the budget would be exceeded.
        """
        with self._opened(write=True) as ledger:
            name = self._charge(ledger, releases)
            for mark in marks:
                ledger.mark_not_private(*mark)
        return name

    def costs(self, audience: str = "public") -> list[FitCost]:
        """Return what every fit has cost an audience."""
        ledger = self.ledger
        fits: dict[str, list[Release]] = {}
        for release in seen_by(ledger.releases, [audience]):
            fits.setdefault(_fit_of(release.scope), []).append(release)
        found = {fit: _cost(releases, ledger) for fit, releases in fits.items()}
        return [FitCost(fit, cost.epsilon, cost.delta) for fit, cost in found.items()]

    def spent(self, audience: str = "public") -> Guarantee:
        """Return what all fits have cost an audience; infinite if one was not private."""
        costs = self.costs(audience)
        total = Guarantee(
            math.fsum(c.epsilon for c in costs), min(1.0, math.fsum(c.delta for c in costs))
        )
        marks = self.ledger.not_private
        if marks:
            why = "; ".join(dict.fromkeys(mark.reason for mark in marks))
            return replace(total, epsilon=math.inf, method="none", why=why)
        return replace(total, method="sum of the fits")

    def __copy__(self) -> Account:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Account:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # A copy in another process would add up on its own; it refuses instead.
        return _again, (None if self._path is None else str(self._path),)

    def __repr__(self) -> str:
        return "Account(<in memory>)" if self._path is None else f"Account({str(self._path)!r})"

    def _charge(self, ledger: Ledger, releases: Sequence[Release]) -> str:
        name = f"{_FIT}{1 + len({_fit_of(release.scope) for release in ledger.releases})}"
        placed = [
            replace(r, scope=Scope((ROOT / step(name)).segments + r.scope.segments))
            for r in releases
        ]
        try:
            ledger.charge(*placed)
        except HedgerowError as error:
            if error.code is not Code.BUDGET_EXCEEDED:
                raise
            fix = "lower epsilon, or fit less often; nothing was released"
            if has_rho(placed) and ledger.delta is not None:
                # At another delta than its own, a fit costs more or less than it says.
                fix += f"; the account counts such a fit at delta {ledger.delta:.3g}"
            raise Code.BUDGET_EXCEEDED.error(
                expected=f"a fit that the account pays for: {error.expected} in all",
                found=f"{_cost(placed, ledger)} for this fit, after {_sum_text(ledger)}",
                fix=fix,
            ) from None
        return name

    @contextmanager
    def _opened(self, *, write: bool = False) -> Iterator[Ledger]:
        """Yield the ledger while nobody else changes it; keep it if the block does not raise."""
        if self._path is None:
            if self._ledger is None:
                raise Code.BAD_PARAMETER.error(
                    expected="an account that this process can charge",
                    found="an account in the memory of another process",
                    fix="keep the account in a file: Account.new(path, epsilon, delta)",
                )
            with self._lock:
                yield self._ledger
            return
        with _locked(self._path) as descriptor:
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


def _again(path: str | None) -> Account:
    if path is not None:
        return Account(path)
    lost = Account(Ledger())
    lost._ledger = None
    return lost


def _fit_of(scope: Scope) -> str:
    return scope.segments[0].label if scope.segments else str(scope)


def _cost(releases: Sequence[Release], ledger: Ledger) -> Guarantee:
    """Return what one fit costs, as the budget counts it."""
    granted = ledger.budget.delta if ledger.budget and ledger.budget.grants_delta else None
    delta = granted if ledger.delta is None else ledger.delta
    return tightest(releases, delta) if has_rho(releases) and delta else basic(releases)


def _sum_text(ledger: Ledger) -> str:
    spent = Account(ledger).spent()
    return f"epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g} for earlier fits"


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold a file for this process alone, the one that has the name when the lock is there."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDONLY)
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
                yield descriptor
                return
        finally:
            os.close(descriptor)
