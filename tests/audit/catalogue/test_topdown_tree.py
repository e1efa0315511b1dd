"""What the public's attack reads from a tree: the trees are real ones, and the rest is known."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from hedgerow.audit.catalogue.curated import EPSILON, domain_of
from hedgerow.audit.catalogue.topdown import SecretViews, TopDownViews
from hedgerow.audit.catalogue.topdown_tree import CANARY, DECISIVE, LOCAL, NOT_SPLIT, table_of
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.trees import Tree

OWNERS = {"single-machine": 1, "noisy-counts": 2, "local-rnm": 2}


def as_row(tree: Tree) -> list[int]:
    """Write a tree of at most one split as the attack reads it."""
    if tree.n_leaves == 1:
        return [NOT_SPLIT, *tree.value[0].astype(int), 0, 0]
    return [int(tree.cut[0]), *tree.value[1].astype(int), *tree.value[2].astype(int)]


def real_trees(views: TopDownViews, side: int, runs: int, epsilon: float | None) -> np.ndarray:
    """Grow trees with real owners and a real coordinator."""
    table = views.decisive.pair[1 + side]
    domain = domain_of(table)
    plan = views.plan(domain, epsilon)
    source, tables = NoiseSource.insecure_seeded(5), views.tables(table, domain)
    rows = []
    for _ in range(runs):
        owners = {str(i): Owner(t, plan, name=str(i), source=source) for i, t in enumerate(tables)}
        coordinator = Coordinator(plan, tuple(owners))
        while asks := coordinator.asks():
            for name, ask in asks.items():
                coordinator.hear(name, owners[name].answer(ask))
        rows.append(as_row(coordinator.tree()))
    return np.array(rows)


@pytest.mark.parametrize("method", OWNERS)
def test_trees_that_are_drawn_side_by_side_have_the_law_of_real_ones(method: str) -> None:
    views = TopDownViews({"method": method}, "tree", OWNERS[method])
    real = views.decisive.evidence(real_trees(views, 1, 300, EPSILON), views.owners)
    drawn = views(views.decisive.pair[2], 3000, NoiseSource.insecure_seeded(6))
    counts = [np.bincount(each[:, 0] + 1, minlength=3) for each in (real, drawn)]
    table = np.array(counts)[:, np.sum(counts, axis=0) > 0]
    assert chi2_contingency(table).pvalue > 1e-3
    # What is known is subtracted, so that the canary is left, and noise.
    spread = drawn[:, 1].std()
    assert abs(drawn[:, 1].mean() - 1) < 4 * spread / np.sqrt(3000)
    assert abs(real[:, 1].mean() - 1) < 4 * spread / np.sqrt(300)


@pytest.mark.parametrize("split", [0, 1, NOT_SPLIT])
@pytest.mark.parametrize("method", DECISIVE)
def test_nothing_is_left_of_records_that_are_known(method: str, split: int) -> None:
    decisive = DECISIVE[method]
    for more in (0, 1):
        known = {**decisive.known, CANARY: decisive.known.get(CANARY, 0) + more}
        tables = [table_of(known), table_of(decisive.others)]
        bins = np.concatenate([table.rows[:, 0] for table in tables])
        classes = np.concatenate([table.classes for table in tables])
        right = (bins > split) & (split != NOT_SPLIT)
        leaves = [np.bincount(classes[right == side], minlength=2) for side in (False, True)]
        row = np.concatenate([[split], *leaves])[None]
        assert decisive.evidence(row, 2).tolist() == [[split, more]]


def test_servers_draw_the_same_trees_as_one_curator() -> None:
    one = TopDownViews({"method": "single-machine"}, "tree", 1)
    three = SecretViews({"method": "secure-counts"}, "tree", 2)
    found = [
        each(each.decisive.pair[2], 4000, NoiseSource.insecure_seeded(8))[:, 0]
        for each in (one, three)
    ]
    counts = [np.bincount(each + 1, minlength=3) for each in found]
    assert chi2_contingency(np.array(counts)[:, 1:]).pvalue > 1e-3


def test_the_other_owner_lets_the_attacked_one_decide() -> None:
    """It always names one candidate; the other is taken whenever it is named."""
    views = TopDownViews({"method": "local-rnm"}, "tree", 2)
    assert views.decisive is LOCAL
    drawn = views(LOCAL.pair[1], 1000, NoiseSource.insecure_seeded(9))
    assert abs((drawn[:, 0] == 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(1000)
