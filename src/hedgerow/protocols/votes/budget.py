"""What an answer of voting trees may cost, so that a number of answers stays within a budget.

Law: noisy max over the votes per class, p = exp(-epsilon_q / 2).

Privacy: trees are grown on disjoint records and share nothing that depends on data, so one record
is in one tree. For one query that tree's vote goes from one class to another: two counts move by 1,
one up and one down, which is noisy max with sensitivity 1 and not monotone. Answers to whomever,
repeats included, compose.
"""

from __future__ import annotations

import math

from hedgerow.errors import Code
from hedgerow.privacy import ROOT, Budget, Ledger, NoisyMax, Release, Reservation, step
from hedgerow.privacy.accounting import basic, tightest
from hedgerow.privacy.mechanisms.mechanism import check_whole_epsilon
from hedgerow.secure.noise.discrete import precision

ANSWERS = "answers of voting trees"
SCOPE = ROOT / step("answers")

_CLOSE = 1 + 1e-6
"""Ratio of an epsilon that was refused to the one that is returned."""


def vote_mechanism(query_epsilon: float) -> NoisyMax:
    """Return the mechanism of one answer."""
    return NoisyMax(query_epsilon, 1)


def vote_scale(query_epsilon: float) -> float:
    """Return the scale of the noise on the votes of a class: geometric, p = exp(-1 / scale)."""
    return 2 / query_epsilon


def answers_release(query_epsilon: float, n_classes: int, times: int) -> Release:
    """Return what a number of answers cost, as the ledger writes it."""
    mechanism = vote_mechanism(query_epsilon)
    return Release(
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        delta=precision(mechanism, n_classes).delta,
        sensitivity=mechanism.sensitivity,
        scope=SCOPE,
        audience="analyst",
        reason=ANSWERS,
        times=times,
        variables=n_classes,
    )


def query_epsilon_for(epsilon: float, queries: int, n_classes: int, *, delta: float = 0.0) -> float:
    """Return the largest epsilon of one answer with which so many stay within a budget.

    Either as many equal parts of epsilon, or what the tightest accountant allows at `delta` (zCDP,
    Renyi, optimal composition), whichever is larger. What is returned was checked by that
    accountant; an epsilon larger by one millionth was refused by it.

    Epsilon and delta are of all Q answers to all analysts together, add/remove neighbours; the
    price of finite precision depends on the classes. With a delta of 0 answers compose by addition;
    their finite precision, below Q * 2**-60, is in the ledger all the same.
    """
    check_whole_epsilon(epsilon)
    if queries < 1:
        raise Code.BAD_PARAMETER.error(
            expected="a budget of at least one answer", found=f"queries={queries}"
        )
    low = epsilon / queries
    while basic([answers_release(low, n_classes, queries)]).epsilon > epsilon:
        low = math.nextafter(low, 0.0)
    if delta == 0:
        return low

    def fits(each: float) -> bool:
        return tightest([answers_release(each, n_classes, queries)], delta).epsilon <= epsilon

    high = 2 * low
    while fits(high):
        low, high = high, 2 * high
    while high > low * _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def reserve_answers(every: Release, ledger: Ledger, delta: float) -> Reservation:
    """Charge the worst case, all answers that will ever be given, before the first of them.

    Where a delta is granted, the ledger of this model alone gets it as its budget, and prints the
    epsilon that holds at it beside the sum.
    """
    if delta and ledger.budget is None and not ledger.releases:
        ledger.budget = Budget(tightest([every], delta).epsilon, delta)
    return ledger.reserve(every)
