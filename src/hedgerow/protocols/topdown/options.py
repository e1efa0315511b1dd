"""Parameters of DP-TopDown: what an estimator, a job or a program may ask for, checked once.

Paper: wang2020topdown, algorithm 1 and section 3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from hedgerow.errors import Code
from hedgerow.protocols.contract import AtLeastOne, Auto, Epsilon, Options, Share, Size
from hedgerow.protocols.topdown.plan import (
    PLAN_FIELDS,
    PLAN_VERSION,
    Accounting,
    Histograms,
    Impurity,
    Method,
    TopDownPlan,
)
from hedgerow.tables import Domain, Target

LEAF_SHARE = 0.2
"""Of 0.2, 0.35 and 0.5 (the paper's) the best on adult, bank and credit; splits need the rest."""
MIN_GAIN = 0.002
"""The paper has 0.01, with entropy."""
NODE_SHARES: dict[tuple[Method, bool], tuple[float, float, float]] = {
    ("single-machine", False): (0.1, 0.6, 0.3),
    ("secure-counts", False): (0.1, 0.6, 0.3),
    ("noisy-counts", False): (0.1, 0.9, 0.0),
    ("local-rnm", False): (0.1, 0.6, 0.3),
    # As published: half for the weight, and of the rest, with local choices, half for the counts.
    ("single-machine", True): (0.5, 0.5, 0.0),
    ("secure-counts", True): (0.5, 0.5, 0.0),
    ("noisy-counts", True): (0.5, 0.5, 0.0),
    ("local-rnm", True): (0.5, 0.25, 0.25),
}
"""Weight, choice, worth; the second key is whether accounting is the paper's."""
MOST_SPLITS = 1 << 16
MOST_OWNERS = 1024

_AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_UpToMostSplits = Annotated[int, Field(ge=1, le=MOST_SPLITS)]


class TopDownOptions(Options):
    """What may be chosen for a DP-TopDown tree; `plan` makes the rest of it."""

    epsilon: Epsilon | None = Field(
        None,
        description="Whole budget of a record (the paper's alpha), add/remove neighbours; None "
        "grows without noise.",
    )
    method: Literal["auto", Method] = Field(
        "auto",
        description="The implementation of PrivateSplit; 'auto' is 'single-machine' for one owner "
        "and 'secure-counts' for several.",
    )
    max_depth: _UpToMostSplits | Auto = Field(
        "auto",
        description="Depth of the deepest node that may be split; the root has depth 1. 'auto' is "
        "a public rule, which needs a capacity.",
    )
    histograms: Histograms = Field(
        "feature",
        description="Noisy counts of one histogram per attribute, or, as in the paper, of one per "
        "split.",
    )
    criterion: Impurity = Field(
        "gini",
        description="Score of a split, weighted by records; 'entropy' needs a capacity.",
    )
    n_splits: _UpToMostSplits = Field(512, description="M, the largest number of splits.")
    budget: (
        Literal["uniform", "decay"]
        | Annotated[tuple[Epsilon, ...], Strict(False), Field(min_length=1)]
    ) = Field(
        "uniform",
        description="B(d): equal shares, halved with each depth, or in the proportions given, one "
        "for each depth.",
    )
    leaf_share: Share = Field(
        LEAF_SHARE, description="Share of epsilon for the leaves (the paper's LPF)."
    )
    node_shares: Annotated[tuple[_Part, _Part, _Part], Strict(False)] | None = Field(
        None,
        description="How a node's budget is divided: number of records; choice of the split "
        "(histograms, for noisy counts); worth of the split (counts of the best ones, for "
        "'local-rnm'). None: as was found good for the method.",
    )
    min_gain: _AtLeastZero = Field(
        MIN_GAIN,
        description="A leaf whose noisy decrease of the impurity per record is not above this is "
        "not split.",
    )
    error: _AtLeastZero = Field(
        0.1,
        description="A leaf with less than error / n_splits of all records, by its noisy weight, "
        "is not split.",
    )
    lookahead: AtLeastOne | None = Field(
        None,
        description="Leaves that are looked below in one round; None: all that may still be split. "
        "It changes the number of rounds and neither the cost nor, without noise, the tree.",
    )
    accounting: Accounting = Field(
        "strict",
        description="'paper' draws as published; what that costs is in the ledger, beside what is "
        "claimed.",
    )
    capacity: AtLeastOne | None = Field(
        None,
        description="Public upper bound on the records of all owners; None: the domain's.",
    )

    def size(self, target: Target | None) -> Size:
        """See `Options.size`; a depth of 0 is one that a public rule will find."""
        del target
        depth = 0 if self.max_depth == "auto" else self.max_depth
        return Size(depth=depth, epsilon=self.epsilon or 0.0)

    def plan(self, domain: Domain, capacity: int | None = None, n_owners: int = 1) -> TopDownPlan:
        """Plan a tree of so many owners at most; a capacity goes before that of options or domain.

        H116 without target classes, H208 without a capacity where one is needed, H501 for numbers
        with which no tree can be grown, H201 or H212 for an epsilon that cannot be divided.
        """
        method: Any = self.method
        if method == "auto":
            method = "single-machine" if n_owners == 1 else "secure-counts"
        depth, budget = self.max_depth, self.budget
        if depth == "auto" and not isinstance(budget, str):
            depth = len(budget)
        capacity = self.capacity if capacity is None else capacity
        made = TopDownPlan(
            domain=domain,
            method=method,
            histograms=self.histograms,
            criterion=self.criterion,
            epsilon=self.epsilon,
            n_splits=self.n_splits,
            max_depth=1 if depth == "auto" else depth,
            budget=budget,
            leaf_share=self.leaf_share,
            node_shares=self.node_shares or NODE_SHARES[method, self.accounting == "paper"],
            min_gain=self.min_gain,
            error=self.error,
            lookahead=self.lookahead,
            accounting=self.accounting,
            capacity=domain.capacity if capacity is None else capacity,
            n_owners=n_owners,
        )
        _check_rules(made)
        if depth != "auto":
            return made
        if made.capacity is None:
            raise Code.MISSING_CAPACITY.error(
                found="no capacity, and no max_depth",
                fix="declare capacity in the domain, or set max_depth",
            )
        return replace(made, max_depth=made.affordable_depth(made.capacity))


def read_plan(data: dict[str, Any]) -> TopDownPlan:
    """Read what `TopDownPlan.to_dict` wrote; H501 for anything else."""
    if not isinstance(data, dict) or set(data) != {*PLAN_FIELDS, "version"}:
        raise Code.BAD_PARAMETER.error(expected="a plan as it was written", found="other data")
    if data["version"] != PLAN_VERSION:
        raise Code.BAD_PARAMETER.error(
            expected=f"a plan of version {PLAN_VERSION}", found=f"version {data['version']!r}"
        )
    given = {name: data[name] for name in TopDownOptions.model_fields}
    if given["epsilon"] is None:
        del given["epsilon"]
    domain = Domain.from_dict(data["domain"], source="the plan")
    return TopDownOptions.from_parameters(given).plan(domain, n_owners=data["n_owners"])


def _check_rules(plan: TopDownPlan) -> None:
    """Refuse numbers that are in order each, and with which no tree can be grown together."""
    target = plan.domain.target
    if target is None or target.classes is None:
        raise Code.BAD_TARGET.error(found="a domain without target classes")
    if not len(plan.candidates):
        raise Code.BAD_PARAMETER.error(
            expected="at least one attribute with two bins", found="no candidate split"
        )
    if plan.capacity is None and plan.criterion == "entropy":
        raise Code.MISSING_CAPACITY.error(
            found="criterion='entropy' without a capacity",
            fix="declare capacity in the domain, or choose criterion='gini'",
        )
    n = plan.n_owners
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST_OWNERS:
        raise Code.BAD_PARAMETER.error(
            expected=f"n_owners as a whole number from 1 to {MOST_OWNERS:,}",
            found=f"n_owners={n!r}",
        )
    if not isinstance(plan.budget, str) and len(plan.budget) != plan.max_depth:
        raise Code.BAD_PARAMETER.error(
            expected="budget 'uniform', 'decay' or one positive number for each of "
            f"{plan.max_depth} depths",
            found=f"budget={plan.budget!r}",
        )
    if not any(plan.node_shares):
        raise Code.BAD_PARAMETER.error(
            expected="node_shares of which one at least is above 0",
            found=f"node_shares={plan.node_shares!r}",
        )
    if plan.method == "secure-counts" and plan.criterion == "entropy":
        raise Code.BAD_PARAMETER.error(
            expected="criterion 'gini' or 'max' on secret counts", found="criterion='entropy'"
        )
    if plan.accounting == "paper" and plan.method == "secure-counts":
        raise Code.BAD_PARAMETER.error(
            expected="accounting='strict' for secret counts, which the paper does not have",
            found="accounting='paper'",
        )
    if plan.needs_curator and n != 1:
        raise Code.BAD_PARAMETER.error(
            expected="one owner of all records for method 'single-machine'",
            found=f"{n} owners",
            fix="choose 'noisy-counts', 'local-rnm' or 'secure-counts' for several owners",
        )
    if plan.is_private:
        # Noise that does not fit into 64 bits is refused here, before anybody is asked.
        plan.releases()
