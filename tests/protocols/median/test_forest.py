"""Growing median forests: their law on tiny tables, charges first, any batches, exact medians."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import ExponentialMechanism, Ledger, NoiseSource, PermuteAndFlip
from hedgerow.protocols.median.forest import assemble, draw_forest, grow_median_forest
from hedgerow.protocols.median.plan import MedianPlan
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.trees.counts.forest import LocalCounts
from hedgerow.trees.layout import SplitKind
from tests.protocols.median.plans import median_plan

X = tuple(Attribute(name=f"x{i}", kind="numeric", bounds=(0, 4), bins=4) for i in range(2))
TINY = Domain(attributes=X, target=Target(classes=(0, 1)), capacity=50)
MECHANISMS = {"exp": ExponentialMechanism, "flip": PermuteAndFlip}


def encoded(domain: Domain, rows: np.ndarray, target: np.ndarray) -> Encoded:
    bins = np.asfortranarray(rows, dtype=domain.dtype)
    return Encoded(domain, bins, target, np.ones(len(rows), dtype=np.bool_))


def counts_of(plan: MedianPlan, table: Encoded, parts: int = 1) -> LocalCounts:
    pieces = np.array_split(np.arange(table.n_slots), parts)
    return LocalCounts([plan.batch(table.rows(rows), i) for i, rows in enumerate(pieces)])


def tiny() -> Encoded:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 4, (20, 2))
    rows[:9, 0] = 0
    return encoded(TINY, rows, (rows[:, 1] > 1).astype(np.uint8))


@pytest.mark.parametrize("variant", ["exp", "flip"])
def test_the_law_of_a_split_is_that_of_two_medians_and_a_choice(variant: str) -> None:
    table, copies, epsilon = tiny(), 40_000, 3.0
    plan = median_plan(
        TINY,
        epsilon=epsilon * copies,
        n_trees=copies,
        partition=False,
        depth=1,
        variant=variant,
        candidates=2,
    )
    # (1) A median of each attribute at epsilon / 8: half of the half for splits, shared by two.
    cuts, left = np.arange(3), []
    for f in range(2):
        histogram = np.bincount(table.bins[:, f], minlength=4)
        left.append(MECHANISMS[variant](epsilon / 8).law(-abs(2 * np.cumsum(histogram)[:3] - 20)))
    # (2) Of each pair of cuts, one attribute at epsilon / 4, by the exact integer Gini score.
    law = np.zeros((2, 3))
    choose = MECHANISMS[variant](epsilon / 4, 2 << 10, monotone=True)
    for a in cuts:
        for b in cuts:
            scores = [gini(table, 0, a), gini(table, 1, b)]
            chosen = choose.law(np.array(scores))
            law[0, a] += left[0][a] * left[1][b] * chosen[0]
            law[1, b] += left[0][a] * left[1][b] * chosen[1]
    (splits,) = draw_forest(counts_of(plan, table), plan, NoiseSource.insecure_seeded(1)).levels
    seen = np.bincount(3 * splits.feature + splits.cut, minlength=6)
    expected = law.ravel() * copies
    assert ((seen - expected) ** 2 / expected).sum() < chi2.ppf(0.9999, 5)
    assert law.sum() == pytest.approx(1.0)


def gini(table: Encoded, feature: int, cut: int) -> int:
    score = 0
    for side in (table.bins[:, feature] <= cut, table.bins[:, feature] > cut):
        counts = np.bincount(table.target[side], minlength=2)
        n = int(counts.sum())
        score += (int((counts**2).sum()) << 10) // n - (n << 10) if n else 0
    return score


def test_leaf_counts_are_the_exact_ones_plus_geometric_noise() -> None:
    table, copies = tiny(), 20_000
    plan = median_plan(
        TINY, epsilon=copies, n_trees=copies, partition=False, depth=1, variant="random"
    )
    drawn = draw_forest(counts_of(plan, table), plan, NoiseSource.insecure_seeded(5))
    (splits,) = drawn.levels
    noise = drawn.leaves.reshape(copies, 4)
    for i, (f, cut) in enumerate(zip(splits.feature, splits.cut, strict=True)):
        sides = table.bins[:, f] <= cut, table.bins[:, f] > cut
        exact = [np.bincount(table.target[s], minlength=2) for s in sides]
        noise[i] -= np.concatenate(exact)
        if i == 3000:
            break
    seen = np.bincount(np.abs(noise[:3000]).ravel().astype(int).clip(max=6), minlength=7)
    law = plan.count.law(np.arange(60))
    law[1:] *= 2
    expected = np.append(law[:6], law[6:].sum()) * 12_000
    assert ((seen - expected) ** 2 / expected).sum() < chi2.ppf(0.9999, 6)


def table_of(domain: Domain, n: int = 800) -> Encoded:
    rng = np.random.default_rng(4)
    rows = np.column_stack([rng.integers(0, b, n) for b in domain.n_bins])
    if domain.target.classes:
        return encoded(domain, rows, (rows[:, 0] > domain.n_bins[0] // 3).astype(np.uint8))
    return encoded(domain, rows, rows[:, 0] / domain.n_bins[0])


MIXED = Domain(
    attributes=(
        Attribute(name="fine", kind="numeric", bounds=(0, 1), bins=300),
        Attribute(name="few", kind="categorical", categories=tuple("abcd")),
        Attribute(name="many", kind="categorical", categories=tuple(range(30))),
        Attribute(name="flag", kind="categorical", categories=(False, True)),
    ),
    target=Target(classes=(0, 1)),
    capacity=1000,
)
REALS = MIXED.model_copy(update={"target": Target(bounds=(0.0, 1.0))})


def grown(plan: MedianPlan, counts: LocalCounts, seed: int = 3):
    return grow_median_forest(
        counts, plan, ledger=Ledger(domain=plan.domain), source=NoiseSource.insecure_seeded(seed)
    )


@pytest.mark.parametrize("domain", [MIXED, REALS], ids=["classes", "numbers"])
@pytest.mark.parametrize("variant", ["base", "exp", "flip", "max", "random"])
def test_batches_make_no_difference(domain: Domain, variant: str) -> None:
    plan = median_plan(
        domain, epsilon=2.0, n_trees=3, depth=4, variant=variant, candidates=3, partition=False
    )
    table = table_of(domain)
    one, many = (grown(plan, counts_of(plan, table, parts)) for parts in (1, 5))
    assert one == many
    kinds = np.concatenate([tree.kind for tree in one.trees])
    assert (kinds == SplitKind.SUBSET).any()
    assert one.from_json(one.to_json()) == one


@pytest.mark.parametrize("domain", [MIXED, REALS], ids=["classes", "numbers"])
def test_blocks_make_no_difference_without_noise(domain: Domain) -> None:
    plan = median_plan(domain, epsilon=None, n_trees=5, depth=5, variant="exp", candidates=3)
    table = table_of(domain)
    forests = []
    for cells in (1, 1000, 1 << 20):
        counts = counts_of(plan, table)
        counts.most_cells = cells
        forests.append(grown(plan, counts))
    assert forests[0] == forests[1] == forests[2]
    weights = [tree.weight[0] for tree in forests[0].trees]
    assert sum(weights) == 800  # each row in one tree
    assert all(abs(w - 160) < 60 for w in weights)


def test_without_noise_a_split_is_the_median_and_leaves_are_exact() -> None:
    plan = median_plan(REALS, epsilon=None, n_trees=1, depth=1, variant="exp", candidates=4)
    table = table_of(REALS)
    ledger = Ledger(domain=REALS)
    forest = grow_median_forest(
        counts_of(plan, table), plan, ledger=ledger, source=NoiseSource.system()
    )
    (tree,) = forest.trees
    assert (tree.kind[0], tree.feature[0]) == (SplitKind.THRESHOLD, 0)
    left = table.bins[:, 0] <= tree.cut[0]
    assert abs(left.mean() - 0.5) < 0.01
    np.testing.assert_allclose(
        tree.value[1:, 0], [table.target[left].mean(), table.target[~left].mean()], atol=1e-3
    )
    assert tree.weight.tolist() == [800, left.sum(), (~left).sum()]
    assert ledger.total().epsilon == math.inf
    assert "no noise" in ledger.total().why


def test_nodes_whose_attributes_are_used_up_become_leaves() -> None:
    flags = Domain(
        attributes=(
            Attribute(name="a", kind="categorical", categories=(0, 1)),
            Attribute(name="b", kind="numeric", bounds=(0, 1), bins=2),
        ),
        target=Target(classes=(0, 1)),
        capacity=100,
    )
    rows = np.random.default_rng(0).integers(0, 2, (60, 2))
    table = encoded(flags, rows, rows[:, 0].astype(np.uint8))
    plan = median_plan(flags, epsilon=5.0, n_trees=3, depth=6, variant="flip", candidates=2)
    forest = grown(plan, counts_of(plan, table))
    assert [tree.depth for tree in forest.trees] == [2, 2, 2]
    assert [tree.n_leaves for tree in forest.trees] == [4, 4, 4]


def test_an_empty_table_grows_a_forest_too() -> None:
    for domain in (MIXED, REALS):
        table = table_of(domain).rows(np.arange(0))
        plan = median_plan(domain, epsilon=1.0, n_trees=2, depth=3, candidates=3)
        assert grown(plan, counts_of(plan, table)).n_nodes == 2 * 15


class Stop(Exception):
    pass


class Unreadable(LocalCounts):
    def begin(self, shape, key):
        raise Stop


def test_everything_is_charged_before_a_row_is_counted() -> None:
    plan = median_plan(MIXED, epsilon=1.0, candidates=3, depth=3)
    ledger = Ledger(domain=MIXED)
    counts = Unreadable([plan.batch(table_of(MIXED))])
    with pytest.raises(Stop):
        grow_median_forest(counts, plan, ledger=ledger, source=NoiseSource.system())
    assert ledger.releases == tuple(plan.releases())
    assert ledger.total().epsilon == pytest.approx(1.0)


def test_a_refusal_charges_nothing() -> None:
    small = median_plan(MIXED, epsilon=1.0, candidates=3, capacity=799)
    draft = MIXED.model_copy(update={"provenance": "read from data"})
    read = median_plan(draft, epsilon=1.0, candidates=3)
    for plan, table, code in (
        (small, table_of(MIXED), Code.CAPACITY_EXCEEDED),
        (read, table_of(draft), Code.DOMAIN_READ_FROM_DATA),
    ):
        ledger = Ledger()
        with pytest.raises(HedgerowError) as caught:
            grow_median_forest(
                counts_of(plan, table), plan, ledger=ledger, source=NoiseSource.system()
            )
        assert caught.value.code is code
        assert ledger.entries == ()


def test_seeded_noise_is_marked() -> None:
    plan = median_plan(MIXED, epsilon=1.0, candidates=3, depth=2)
    ledger = Ledger(domain=MIXED)
    grow_median_forest(
        counts_of(plan, table_of(MIXED)),
        plan,
        ledger=ledger,
        source=NoiseSource.insecure_seeded(0),
    )
    assert "seeded" in ledger.total().why
    assert ledger.formal_total().epsilon <= 1.0


def test_trees_are_assembled_from_the_releases_alone() -> None:
    plan = median_plan(MIXED, epsilon=1.0, n_trees=2, candidates=3, depth=3)
    drawn = draw_forest(counts_of(plan, table_of(MIXED)), plan, NoiseSource.insecure_seeded(9))
    assert assemble(plan, drawn) == assemble(plan, drawn)
