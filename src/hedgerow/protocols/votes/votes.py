"""Voting trees: noiseless hidden trees on disjoint records, noise on the vote of every query.

Papers: hiddentrees, papernot2017pate.
"""

from __future__ import annotations

import numpy as np

from hedgerow.errors import Code, PrivacyError
from hedgerow.privacy import Ledger, Opening, Release, Reservation
from hedgerow.protocols.growers.choices import fitting_ring
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.votes.budget import ANSWERS, SCOPE, answers_release, vote_mechanism
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.releases import Charge, Prepaid, noisy_max
from hedgerow.secure.ring import Z16, Ring
from hedgerow.secure.secret import Secret

VOTED = "voted class of each query"


def vote_openings(n: int, times: int = 1) -> list[Opening]:
    """Declare what the answers to n queries, asked `times` times, open to the analyst."""
    return [Opening(VOTED, "analyst", (n,), release=ANSWERS, times=times)]


def reservation_of(ledger: Ledger) -> Reservation:
    """Return the answers that a ledger reserved; H205 for none, or those of several models."""
    found = [
        Reservation(index, entry.release)
        for index, entry in enumerate(ledger.entries)
        if entry.kind == "reservation" and entry.release.reason == ANSWERS
    ]
    if len(found) != 1:
        raise Code.BAD_RELEASE.error(
            expected="one reservation of answers, made when the trees were trained",
            found=f"{len(found)} of them",
            fix="answer with the ledger that training charged",
        )
    return found[0]


def answers_left(ledger: Ledger) -> int:
    """Return how many answers the budget still holds, for all analysts together."""
    held = reservation_of(ledger)
    spent = sum(e.release.times for e in ledger.entries if e.inside == held.index)
    return held.release.times - spent


def spend_answers(ledger: Ledger, n: int) -> Release:
    """Take n answers out of the budget, for good; H207 if it holds fewer, and none is taken."""
    spent = price_of(ledger, n)
    try:
        ledger.realise(reservation_of(ledger), spent)
    except PrivacyError as error:
        if error.code is Code.BUDGET_EXCEEDED:
            check_answers(ledger, n)
        raise
    return spent


def price_of(ledger: Ledger, n: int) -> Release:
    """Return what n answers cost, as `spend_answers` writes it; nothing is recorded."""
    held = reservation_of(ledger).release
    return answers_release(held.epsilon, held.variables or 1, n)


def check_answers(ledger: Ledger, n: int) -> None:
    """Refuse, with H207, n answers that the budget does not hold; nothing is recorded."""
    left = answers_left(ledger)
    if n > left:
        most = reservation_of(ledger).release.times
        raise Code.BUDGET_EXCEEDED.error(
            expected=f"at most {most:,} answers to all analysts together, repeats included",
            found=f"{n:,} more asked for, {left:,} left",
            fix="ask for fewer, keep answers that were given, or train with a larger queries=",
        )


def answered(
    model: SecretForest, plan: HiddenPlan, queries: Secret, ledger: Ledger, paid: Release
) -> Secret:
    """Answer secret queries (q, B) by a noisy vote, without opening the classes (q,).

    1. Every tree, whose leaves hold one-hot labels, finds the class of every query
       (`hidden.predict.predict`); votes are added up.
    2. Noisy max over the votes, lowest index of equals, in the smallest ring that holds them.

    `paid` was taken out of the budget for these very answers, before, see `spend_answers`; a query
    that was asked before is one more answer. Declared in `vote_openings`.

    Reveals: nothing; opened to the analyst, the class of each query is a release that was charged
    when the trees were trained. Cost: that of `predict` and of `noisy_max` over (q, k).
    """
    _check_votes(plan, queries)
    votes = predict(model, queries).sum(axis=1)
    ring = vote_ring(plan)
    chosen = noisy_max(
        _over(votes, ring),
        vote_mechanism(plan.query_epsilon),
        Charge(Prepaid(ledger, [paid]), SCOPE, "analyst", ANSWERS),
        bound=plan.n_trees,
    )
    return (chosen * np.arange(plan.n_classes)).sum(axis=-1)


def _check_votes(plan: HiddenPlan, queries: Secret) -> None:
    if plan.noise != "votes":
        raise Code.BAD_PARAMETER.error(expected="noise='votes'", found=f"noise={plan.noise!r}")
    if not queries.shape[0]:
        raise Code.EMPTY_TABLE.error(expected="at least one query", found="none")


def vote_ring(plan: HiddenPlan) -> Ring:
    """Return the smallest ring in which votes and their noise do not wrap."""
    drawn = precision(vote_mechanism(plan.query_epsilon), plan.n_classes)
    return fitting_ring(Z16, 2 * plan.n_trees + (1 << drawn.variable.length) + 1)


def _over(votes: Secret, ring: Ring) -> Secret:
    if votes.ring.bits > ring.bits:
        return votes.engine.reduce(votes, ring)
    return votes if votes.ring == ring else votes.engine.extend(votes, ring)
