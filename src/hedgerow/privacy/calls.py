"""What several calls of `charge` cost together, whatever was chosen when.

Releases of one call are fixed together, before anything of them is seen: every accountant holds for
them. A later call may follow from the outcomes of earlier ones, and so may the decision to make it.
Pairs then still add up, curves do not (Paper: rogers2016odometers): one who stops as soon as the
realised loss exceeds what a curve says exceeds it more often than its delta.

**Pairs that hold at every stop.** A call that is (e, d)-DP is a post-processing of "with
probability d tell all, else a pure release with e" (Paper: kairouz2015composition, theorem 3.3).
While nothing is told the loss is at most the sum of the e so far, wherever one stops. That anything
was told by then has at most the mean of the sum of the d so far as its probability, and so at most
any bound that is kept on that sum. All this needs pairs that are settled when a call is made, by
what went before: the delta of a call is not chosen anew when more calls follow, and several calls
at one delta cost it several times.

Calls without a rho have pairs of their own and cost no further delta. They are composed by scopes,
so that of sibling parts the dearest counts; calls with a rho in sibling parts add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hedgerow.privacy.accounting import Guarantee, Relation, basic, has_rho, tightest
from hedgerow.privacy.entries import Entry
from hedgerow.privacy.release import Release

Calls = list[list[Release]]


def calls_of(entries: Sequence[Entry], joined: set[int]) -> Calls:
    """Return what was charged, by the calls that did; a reservation is a call.

    Parameters
    ----------
    entries : sequence of Entry
    joined : set of int
        Entries of the same call as the entry before.
    """
    calls: Calls = []
    for index, entry in enumerate(entries):
        if entry.kind != "realised":
            calls += [] if index in joined else [[]]
            calls[-1].append(entry.release)
    return calls


def realised_calls(entries: Sequence[Entry], joined: set[int]) -> Calls:
    """Return the same with reservations replaced by what was spent in each."""
    calls: Calls = []
    call_at: dict[int, list[Release]] = {}
    for index, entry in enumerate(entries):
        if entry.kind == "realised" and entry.inside is not None:
            call_at[entry.inside].append(entry.release)
        elif entry.kind == "reservation":
            call_at[index] = []
            calls.append(call_at[index])
        else:
            calls += [] if index in joined else [[]]
            calls[-1].append(entry.release)
    return [call for call in calls if call]


def sum_of_calls(
    calls: Iterable[list[Release]],
    delta: float,
    relation: Relation = Relation.ADD_REMOVE,
    *,
    own_included: bool = False,
) -> Guarantee:
    """Return the total of calls that may follow from each other's outcomes.

    One call is stated by its tightest figure. Of several, those with a rho are pairs, each the
    tightest at `delta`, and the deltas add up.

    Parameters
    ----------
    calls : iterable of list of Release
        In order.
    delta : float
        Of each call with a rho.
    relation : Relation
    own_included : bool
        Take the deltas that earlier calls brought themselves off `delta`, as far as that goes: one
        call with a rho then keeps the sum at `delta`.
    """
    calls = list(calls)
    if len(calls) < 2:
        return tightest([release for call in calls for release in call], delta, relation)
    plain: list[Release] = []
    pairs: list[Guarantee] = []
    for call in calls:
        if not has_rho(call):
            plain += call
            continue
        left = delta - basic(plain).delta if own_included else delta
        pairs.append(tightest(call, left if left > 0 else delta, relation))
    pairs.append(basic(plain, relation))
    epsilon = sum(pair.epsilon for pair in pairs)
    total = min(1.0, math.fsum(pair.delta for pair in pairs))
    if math.isinf(epsilon):
        why = next((pair.why for pair in pairs if pair.why), "")
        return Guarantee(epsilon, total, relation, "none", why)
    return Guarantee(epsilon, total, relation, f"sum of {len(calls)} calls")
