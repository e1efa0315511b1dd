"""What a training will charge, from its plan alone: a ledger that is written without data."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import product

from hedgerow.errors import Code
from hedgerow.parties.runs.job_plans import AnyPlan
from hedgerow.privacy import ROOT, Ledger, NoisyMax, Release, Scope, TwoSidedGeometric
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.growers.choices import level_charge
from hedgerow.protocols.growers.leaves import LEAF_COUNTS, LEAF_LABELS, leaf_charge
from hedgerow.protocols.hidden import boosting as hidden_boosting
from hedgerow.protocols.hidden import regression as hidden_regression
from hedgerow.protocols.hidden.boosting_plan import BoostingPlan
from hedgerow.protocols.hidden.open_id3 import AUDIENCE, charge_exact
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.regression_plan import RegressionPlan
from hedgerow.protocols.hidden.sampling import sampled_release
from hedgerow.protocols.hidden.training import charge_what_is_exact, scope_of
from hedgerow.protocols.votes.votes import reserve_answers
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.paper import EXPONENTIAL, LAPLACE
from hedgerow.secure.noise.releases import Charge


def costs_of(kind: str, plan: AnyPlan) -> dict[str, Guarantee]:
    """Return what every audience of a training learns; infinite where nothing is promised.

    Where the plan grants a delta, the tightest figure at it counts if it is the smaller one.

    Parameters
    ----------
    kind : {"trees", "open", "regression", "boosting"}
    plan : HiddenPlan, RegressionPlan or BoostingPlan
        Of that kind.

    Returns
    -------
    dict of str to Guarantee
        The public among them, always.
    """
    if kind == "boosting" and isinstance(plan, BoostingPlan):
        return _boosting_costs(plan)
    return guarantees(dry_ledger(kind, plan))


def _boosting_costs(plan: BoostingPlan) -> dict[str, Guarantee]:
    """Return the totals of `dry_ledger` from one tree: all have the same releases, which add up.

    Sums of floats are correctly rounded, so of equal numbers they are products, bit by bit.
    """
    ledger = Ledger(domain=plan.domain)
    hidden_boosting.charge_plan(plan, ledger)
    _charge_numbers(plan, ledger, [[hidden_boosting.tree_scope(ROOT, 0)]])
    found = {}
    for audience, tree in guarantees(ledger).items():
        epsilon, delta = (x * plan.n_scores * plan.n_rounds for x in (tree.epsilon, tree.delta))
        found[audience] = replace(tree, epsilon=epsilon, delta=min(1.0, delta))
    return found


def guarantees(ledger: Ledger) -> dict[str, Guarantee]:
    """Return the totals of a ledger by audience, as `costs_of` does."""
    found = {audience: ledger.total(audience) for audience in ledger.audiences}
    budget = ledger.budget
    if budget is None or not budget.grants_delta:
        return found
    for audience, total in found.items():
        tight = ledger.tightest(audience, budget.delta)
        if tight.epsilon < total.epsilon:
            found[audience] = tight
    return found


def dry_ledger(kind: str, plan: AnyPlan) -> Ledger:
    """Return the ledger of a training that has not happened: the same releases, in order.

    Parameters
    ----------
    kind : {"trees", "open", "regression", "boosting"}
    plan : HiddenPlan, RegressionPlan or BoostingPlan
        Of that kind.

    Raises
    ------
    HedgerowError
        H202 for a finite epsilon and a domain that was read from data, H501 for a plan of another
        kind.
    """
    ledger = Ledger(domain=plan.domain)
    charge_training(kind, plan, ledger)
    return ledger


def charge_training(kind: str, plan: AnyPlan, ledger: Ledger) -> None:
    """Charge a ledger with what a training will charge, before it begins.

    Parameters
    ----------
    kind, plan
        As for `dry_ledger`.
    ledger : Ledger
    """
    match kind, plan:
        case "open", HiddenPlan():
            charge_exact(plan, ledger)
            _charge_tree(plan, ledger, AUDIENCE)
        case "trees", HiddenPlan():
            charge_what_is_exact(plan, ledger)
            if plan.noise == "votes":
                reserve_answers(plan, ledger)
            elif plan.sampling == "poisson":
                ledger.charge(sampled_release(plan))
            else:
                _charge_tree(plan, ledger, "analyst")
        case "regression", RegressionPlan():
            hidden_regression.charge_plan(plan, ledger)
            _charge_numbers(plan, ledger, [[ROOT]])
        case "boosting", BoostingPlan():
            hidden_boosting.charge_plan(plan, ledger)
            rounds = [hidden_boosting.round_scope(turn) for turn in range(plan.n_rounds)]
            trees = range(plan.n_scores)
            scopes = [[hidden_boosting.tree_scope(turn, k) for k in trees] for turn in rounds]
            _charge_numbers(plan, ledger, scopes)
        case _:
            raise Code.BAD_PARAMETER.error(
                expected="a kind of job, and a plan of that kind",
                found=f"kind {kind!r} and {type(plan).__name__}",
            )


def _charge_numbers(
    plan: RegressionPlan | BoostingPlan, ledger: Ledger, rounds: list[list[Scope]]
) -> None:
    """Charge, round by round, noisy splits of all trees level by level, then their leaves."""
    if plan.noise == "none":
        return
    candidates = len(plan.layout.candidates)
    split = plan.split_mechanism if plan.is_noisy_in_splits else None
    for trees in rounds:
        if split is not None:
            for level, where in product(range(plan.depth), trees):
                _charge(level_charge(ledger, where, "analyst", level), split, candidates)
        for where in trees:
            for mechanism, charge in plan.noisy_quotient(ledger, where).charges():
                _charge(charge, mechanism, 1)


def _charge_tree(plan: HiddenPlan, ledger: Ledger, audience: str) -> None:
    """Charge noisy splits level by level, then the leaves."""
    where, k = scope_of(plan), plan.n_classes
    if plan.is_noisy_in_splits:
        sensitivity = plan.score.integer_sensitivity(plan.public, plan.shift).add_remove
        for level in range(plan.depth):
            charge = level_charge(ledger, where, audience, level)
            if plan.mechanism == "discrete":
                _charge(charge, plan.split_mechanism, len(plan.layout.candidates))
            else:
                _charge_paper(charge, EXPONENTIAL.name, plan.split_epsilon, sensitivity, 1)
    if plan.noise not in ("leaves", "splits+leaves"):
        return
    if plan.mechanism == "discrete":
        labels = plan.leaf_release == "labels"
        charge = leaf_charge(ledger, where, audience, LEAF_LABELS if labels else LEAF_COUNTS)
        _charge(charge, plan.label_mechanism if labels else plan.count_mechanism, k)
    elif plan.mechanism == "exponential":
        charge = leaf_charge(ledger, where, audience, LEAF_LABELS)
        _charge_paper(charge, EXPONENTIAL.name, plan.leaf_epsilon, 1, 1)
    else:
        leaves = plan.n_trees * plan.layout.n_nodes(plan.depth)
        charge = leaf_charge(ledger, where, audience, LEAF_COUNTS)
        _charge_paper(charge, LAPLACE.name, plan.leaf_epsilon, 1, 2 * leaves * k)


def _charge(charge: Charge, mechanism: NoisyMax | TwoSidedGeometric, m: int) -> None:
    """Charge what `hedgerow.secure.noise.releases` charges for m values or candidates."""
    charge.ledger.charge(
        Release(
            mechanism=mechanism.name,
            epsilon=mechanism.epsilon,
            delta=_delta(mechanism, m),
            sensitivity=mechanism.sensitivity,
            scope=charge.scope,
            audience=charge.audience,
            reason=charge.reason,
            variables=m * (2 if isinstance(mechanism, TwoSidedGeometric) else 1),
        )
    )


@lru_cache(maxsize=1024)
def _delta(mechanism: NoisyMax | TwoSidedGeometric, m: int) -> float:
    """Return what finite precision costs; a booster has the same few mechanisms in all rounds."""
    return precision(mechanism, m).delta


def _charge_paper(
    charge: Charge, mechanism: str, epsilon: float, sensitivity: int, variables: int
) -> None:
    """Charge what `hedgerow.secure.noise.paper` charges: no finite epsilon."""
    charge.ledger.charge(
        Release(
            mechanism=mechanism,
            epsilon=math.inf,
            delta=0.0,
            sensitivity=sensitivity,
            scope=charge.scope,
            audience=charge.audience,
            reason=charge.reason,
            claimed=epsilon,
            variables=variables,
        )
    )
