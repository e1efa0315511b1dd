"""Answers of hidden trees: opened to the analyst alone, and only what the ledger has paid for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Opening
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.training import answers_derive_from
from hedgerow.secure.argmax import argmax
from hedgerow.secure.secret import Secret

What = Literal["class", "distribution"]

CLASS = "class of each query"
COUNTS = "noisy counts of each query's leaf"
VOTES = "votes for each query"


def answer_openings(plan: HiddenPlan, n: int, what: What = "class") -> list[Opening]:
    """Declare what an answer to n queries opens, to the analyst."""
    name, width = _opened(plan, what)
    shape = (n,) if what == "class" else (n, width)
    return [Opening(name, "analyst", shape, derived=answers_derive_from(plan))]


def answer(
    model: SecretForest, plan: HiddenPlan, queries: Secret, what: What = "class"
) -> NDArray[Any] | None:
    """Answer secret queries (algorithm 4) and open the answers to the analyst.

    1. `hedgerow.protocols.hidden.predict.predict`.
    2. Several trees: their votes are added up; the class with the most votes, the lowest index of
       equals.
    3. Open the class, or the counts or votes that a distribution is made of.

    Reveals: to the analyst, the class of each query, or the numbers of its distribution; both are
    computed from what training released.
    Cost: that of `predict`, an argmax over the classes where trees vote, and one opening.

    Parameters
    ----------
    model : SecretForest
    plan : HiddenPlan
    queries : Secret, shape (n, B)
    what : {"class", "distribution"}

    Returns
    -------
    int64 array of shape (n,) or (n, k), or None where the analyst does not live
        Class indices; or noisy counts, which may be negative, or votes.
    """
    result, name = answered(model, plan, queries, what)
    opened: NDArray[Any] | None = model.engine.open(result, name, "analyst")
    return None if opened is None else model.ring.signed(opened).astype(np.int64)


def answered(
    model: SecretForest, plan: HiddenPlan, queries: Secret, what: What = "class"
) -> tuple[Secret, str]:
    """Answer secret queries without opening the answers: steps 1 and 2 of `answer`.

    Reveals: nothing.

    Returns
    -------
    Secret, shape (n,) or (n, k), and str
        The answers, and the name of their opening in `answer_openings`.
    """
    name, _ = _opened(plan, what)
    found = predict(model, queries)
    if plan.n_trees > 1:
        votes = found.sum(axis=1)
        return votes if what == "distribution" else winner(votes, plan.n_trees), name
    return found[:, 0, 1:] if what == "distribution" else found[:, 0, 0], name


def winner(votes: Secret, n_trees: int) -> Secret:
    """Return the class with the most votes (n, k), as its index (n,)."""
    hot = argmax(votes, bits=n_trees.bit_length() + 1)
    return (hot * np.arange(votes.shape[-1])).sum(axis=-1)


def distribution(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return class probabilities of opened counts (n, k): what is below 0 counts as 0.

    Where no count is above 0, the largest share equally, so that the class that is answered is
    always among the most probable.
    """
    kept = np.maximum(counts, 0)
    largest = counts == counts.max(axis=1, keepdims=True)
    kept = np.where(kept.any(axis=1, keepdims=True), kept, largest).astype(np.float64)
    shares: NDArray[np.float64] = kept / kept.sum(axis=1, keepdims=True)
    return shares


def _opened(plan: HiddenPlan, what: What) -> tuple[str, int]:
    if plan.noise == "votes":
        raise Code.BAD_PARAMETER.error(
            expected="answers of a voting forest through its budget of queries",
            found="noise='votes'",
        )
    if what == "class":
        return CLASS, 1
    if not plan.shows_counts:
        raise Code.BAD_PARAMETER.error(
            expected="noisy counts in the leaves, or several trees, for a distribution",
            found=f"noise={plan.noise!r}, mechanism={plan.mechanism!r}, "
            f"leaf_release={plan.leaf_release!r}",
            fix="ask for classes, or train with noise='splits+leaves' and leaf_release='counts'",
        )
    return (VOTES if plan.n_trees > 1 else COUNTS), plan.n_classes
