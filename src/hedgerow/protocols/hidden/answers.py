"""Answers of hidden trees: opened to the analyst alone, and only what the ledger has paid for."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.options import ServerOptions, TreesOptions
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.predict import predict
from hedgerow.protocols.hidden.protocol import Classified, HiddenProtocol, Places, between
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.votes import votes
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import equal, less_than
from hedgerow.secure.ring import Z64
from hedgerow.secure.secret import Secret

CLASS = "class of each query"
COUNTS = "noisy counts of each query's leaf"
VOTES = "votes for each query"


class HiddenTreeProtocol(HiddenProtocol):
    """Trees of classes: one or several, that nobody sees."""

    options_type: ClassVar[type[ServerOptions]] = TreesOptions
    plan_type: ClassVar[type[ServerPlan]] = HiddenPlan
    grow = staticmethod(train_hidden)

    def asks(self, plan: HiddenPlan, proba: bool) -> str:
        """Ask for distributions, or for classes."""
        return "distribution" if proba else "class"

    def answer_openings(self, plan: HiddenPlan, n: int, what: str = "class") -> list[Opening]:
        """Return what an answer opens: classes, or the numbers that distributions are made of."""
        if plan.noise == "votes" and what == "class":
            return votes.vote_openings(n)
        name, width = _opened(plan, what)
        shape = (n,) if what == "class" else (n, width)
        return [Opening(name, "analyst", shape, derived=plan.answers_derive_from())]

    def answers(
        self, model: SecretForest, plan: HiddenPlan, queries: Secret, what: str, ledger: Ledger
    ) -> Secret:
        """Answer secret queries (algorithm 4), shape (n,), or (n, k) for distributions.

        1. `hedgerow.protocols.hidden.predict.predict`.
        2. Several trees: their votes are added up; the class with the most votes, the lowest index
           of equals. Trees that vote with noise: `hedgerow.protocols.votes.votes.answered`.

        Reveals: nothing. Cost: that of `predict`, and an argmax over the classes where trees vote.
        """
        if plan.noise == "votes" and what == "class":
            paid = votes.price_of(ledger, queries.shape[0])
            return votes.answered(model, plan, queries, ledger, paid)
        _opened(plan, what)
        found = predict(model, queries)
        if plan.n_trees > 1:
            each = found.sum(axis=1)
            return each if what == "distribution" else winner(each, plan.n_trees)
        return found[:, 0, 1:] if what == "distribution" else found[:, 0, 0]

    def read(self, plan: HiddenPlan, opened: NDArray[np.int64], what: str) -> NDArray[np.int64]:
        """Return class indices; or noisy counts, which may be negative, or votes."""
        return opened

    def classified(self, plan: HiddenPlan, answers: NDArray[Any], what: str) -> Classified:
        """Return classes, and probabilities where they were asked for."""
        if what == "class":
            return answers, None
        shares = distribution(answers)
        return shares.argmax(axis=1), shares

    def places(self, plan: HiddenPlan, ranges: int) -> Places:
        """Return the classes; of two, ranges of votes or of the share of a leaf's counts."""
        if plan.noise == "votes":
            return super().places(plan, ranges)
        if plan.n_classes > 2:
            return Places(plan.n_classes, None, ranges)
        if plan.n_trees > 1:
            least = _least_votes(plan.n_trees, ranges)
            return Places(len(least) + 1, 1 + int(np.argmax(2 * least > plan.n_trees)), ranges)
        return Places(ranges, ranges // 2, ranges) if plan.shows_counts else Places(2, 1, ranges)

    def place(self, model: SecretForest, plan: HiddenPlan, rows: Secret, places: Places) -> Secret:
        """Return where rows fall.

        1. `hedgerow.protocols.hidden.predict.predict`.
        2. Votes are compared with public numbers. Of counts c0 and c1 that are not below 0, and the
           label l, the share of the second class is beyond j of r ranges if
           (r - j) c1 + l > j c0: where both say the same, the label decides.

        Reveals: nothing. Cost: that of `predict`, and a comparison for every two places.
        """
        found = predict(model, rows)
        if plan.n_trees > 1:
            votes = found.sum(axis=1)
            if plan.n_classes > 2:
                return argmax(votes, bits=plan.n_trees.bit_length() + 1)
            least = _least_votes(plan.n_trees, places.ranges)
            width = plan.n_trees.bit_length() + 2
            return between(1 - less_than(votes[:, 1:], least[None], bits=width))
        label = found[:, 0, :1]
        if plan.n_classes > 2:
            return equal(label, np.arange(plan.n_classes)[None], bits=plan.n_classes.bit_length())
        if places.n == 2:
            return between(label)
        counts = found[:, 0, 1:]
        kept = counts * (1 - less_than(counts, 0))
        if kept.ring.bits < Z64.bits:
            kept, label = kept.engine.extend(kept, Z64), kept.engine.extend(label, Z64)
        j = np.arange(1, places.ranges)[None]
        left, right = kept[:, :1] * j, kept[:, 1:] * (places.ranges - j) + label
        return between(less_than(left, right))

    def check_budget(self, plan: HiddenPlan, n: int, ledger: Ledger) -> None:
        """Refuse, with H207, answers that voting trees have no budget for."""
        if plan.noise == "votes":
            votes.check_answers(ledger, n)

    def spend(self, plan: HiddenPlan, n: int, ledger: Ledger) -> None:
        """Take answers of voting trees out of their budget."""
        if plan.noise == "votes":
            votes.spend_answers(ledger, n)


HIDDEN_TREE = HiddenTreeProtocol()


def winner(votes: Secret, n_trees: int) -> Secret:
    """Return the class with the most votes (n, k), as its index (n,)."""
    hot = argmax(votes, bits=n_trees.bit_length() + 1)
    return (hot * np.arange(votes.shape[-1])).sum(axis=-1)


def _least_votes(n_trees: int, ranges: int) -> NDArray[np.int64]:
    """Return the votes of the second class from which on each range but the first begins."""
    beyond = np.arange(1, ranges) * n_trees // ranges + 1
    return np.unique(beyond[beyond <= n_trees])


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


def _opened(plan: HiddenPlan, what: str) -> tuple[str, int]:
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
