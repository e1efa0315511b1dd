"""A ledger as a tree of scopes: what was charged where, and what each branch costs together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import isfinite

from hedgerow.privacy import Ledger, Release
from hedgerow.privacy.accounting import has_rho, zcdp
from hedgerow.privacy.calls import Calls
from hedgerow.privacy.scopes import ROOT

_MOST = 40
"""Branches of a scope that are written out."""


@dataclass(frozen=True)
class ReleaseLine:
    """Equal releases in one scope."""

    release: Release
    times: int

    @property
    def cost(self) -> str:
        """Epsilon or rho of one time."""
        one = self.release
        if one.rho is not None:
            return f"rho {one.rho:.6g}"
        return f"{one.epsilon:.6g}" if isfinite(one.epsilon) else "no finite ε"


@dataclass(frozen=True)
class LedgerScope:
    """A scope with what was charged in it and below; `left_out` are branches too many to show."""

    label: str
    cost: str
    lines: tuple[ReleaseLine, ...] = ()
    scopes: tuple[LedgerScope, ...] = field(default=(), repr=False)
    left_out: int = 0


def ledger_tree(ledger: Ledger, audience: str) -> LedgerScope:
    """Return what was charged for an audience, by scopes.

    The cost at the top is the ledger's total. That of a branch is what the ledger states for its
    charges alone; of releases by rho, which have an epsilon only all together, their rho.
    """
    calls = ledger.calls(audience)
    tree = _scope(ledger, calls, 0, audience)
    total = ledger.total(audience)
    return replace(tree, cost=_figure(total.epsilon, total.delta))


def _scope(ledger: Ledger, calls: Calls, depth: int, label: str) -> LedgerScope:
    here: Counter[Release] = Counter()
    below: dict[str, None] = {}
    for release in (release for call in calls for release in call):
        if len(release.scope.segments) == depth:
            # Where it stands is told by the tree.
            here[replace(release, times=1, scope=ROOT)] += release.times
        else:
            below[str(release.scope.segments[depth])] = None
    scopes = []
    for name in list(below)[:_MOST]:
        part = [[r for r in call if _at(r, depth) == name] for call in calls]
        scopes.append(_scope(ledger, [call for call in part if call], depth + 1, name))
    if len(scopes) == 1 and not here and depth:
        # A scope with one branch and nothing else is one fold, not two.
        return replace(scopes[0], label=f"{label} / {scopes[0].label}")
    lines = tuple(ReleaseLine(release, times) for release, times in here.items())
    cost = _cost(ledger, calls) if depth else ""
    return LedgerScope(label, cost, lines, tuple(scopes), len(below) - len(scopes))


def _at(release: Release, depth: int) -> str | None:
    segments = release.scope.segments
    return str(segments[depth]) if len(segments) > depth else None


def _cost(ledger: Ledger, calls: Calls) -> str:
    releases = [release for call in calls for release in call]
    if has_rho(releases):
        return f"rho {zcdp(releases).epsilon:.6g}"
    found = ledger.figure(calls)
    return _figure(found.epsilon, found.delta)


def _figure(epsilon: float, delta: float) -> str:
    if not isfinite(epsilon):
        return "no finite ε"
    return f"ε {epsilon:.6g}" + (f", δ {delta:.3g}" if delta else "")
