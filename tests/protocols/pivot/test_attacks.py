"""The two attacks of section 5.1 of the paper succeed where the tree is seen, else they fail."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from hedgerow.protocols.hidden.plan import LEAF
from hedgerow.protocols.pivot.growth import PeerTrees
from hedgerow.protocols.pivot.plan import PivotPlan
from hedgerow.protocols.pivot.run import PivotRun
from reproduce.paper_003 import attacks
from reproduce.paper_003.attacks import grown, labels_by_collusion, patients, sides_by_collusion

ATTACKS = pytest.mark.parametrize(
    ("attack", "gained"), [(labels_by_collusion, 0.2), (sides_by_collusion, 0.1)]
)


def secrets_of(run: PivotRun) -> tuple[PeerTrees, Any, Any]:
    """Return the tree, the candidates of its splits and the labels of its leaves: all shares."""
    tree: Any = run.model
    choices, leaves = (
        x.data.sum(axis=0, dtype=x.data.dtype).astype(np.int64) for x in (tree.choices, tree.leaves)
    )
    return tree, choices.argmax(axis=1), leaves[:, 0]


@ATTACKS
def test_it_depends_on_what_is_seen(attack: Any, gained: float) -> None:
    seen, hidden = attack("nothing"), attack("thresholds")
    assert seen.right > seen.base + gained
    assert hidden.right < hidden.base + 0.05


def test_an_attribute_that_is_seen_and_what_everybody_knows_of_it() -> None:
    hidden = sides_by_collusion("thresholds")
    assert hidden.told is not None
    assert hidden.told > hidden.base + 0.1


def test_the_enhanced_protocol_opens_attributes_and_leaves_their_labels_shared() -> None:
    plan, run = grown(patients(), "thresholds", [0, 0, 0, 1, 1, 1], target_at=2)
    tree, chosen, _ = secrets_of(run)
    assert tree.opened is None
    feature = plan.layout.candidates.feature
    assert np.concatenate(tree.groups).tolist() == feature[chosen].tolist()
    # Attribute and candidate are told apart by these numbers.
    assert (feature[chosen] != chosen).any()
    # As many numbers as the plan declares, under the names that it declares, and no others.
    declared = [(one.name, prod(one.shape)) for one in plan.openings()]
    for leakage in run.leakages:
        learned = [(row["name"], row["values"]) for row in leakage.what_was_learned("peer 0")]
        assert sorted(learned) == sorted(declared)
    assert LEAF not in dict(declared)


@ATTACKS
def test_a_build_that_opens_more_than_it_says_is_attacked(
    attack: Any, gained: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens cuts in place of attributes, in as many numbers, and the labels of leaves."""
    train = attacks.train

    def leaky(rows: Any, plan: PivotPlan) -> PivotRun:
        run = train(rows, plan)
        tree, chosen, labels = secrets_of(run)
        assert np.concatenate(tree.groups).tolist() == chosen.tolist()
        return replace(run, model=replace(tree, opened=np.eye(plan.classes, dtype=int)[labels]))

    def attributes(plan: PivotPlan, group: Any, split: int) -> Any:
        return [[int(plan.layout.candidates.feature[index])] for index in group]

    every = property(lambda plan: np.arange(len(plan.layout.candidates)))
    monkeypatch.setattr(PivotPlan, "shown", every)
    monkeypatch.setattr(PivotPlan, "attributes", attributes)
    monkeypatch.setattr(attacks, "train", leaky)
    seen = attack("thresholds")
    assert seen.right > seen.base + gained
