"""Secret counts: what is added up is in range, and what comes out has the noise of one curator."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.topdown import secure_splits
from hedgerow.protocols.topdown.growth import TreeShape
from hedgerow.protocols.topdown.options import TopDownOptions
from hedgerow.protocols.topdown.plan import OUT_OF_RANGE, TopDownPlan
from hedgerow.protocols.topdown.secure_splits import (
    SecureSplits,
    answer_arrays,
    compute_numbers,
    cost_within_range,
    declare,
    opening_name,
    within_range,
)
from hedgerow.protocols.topdown.wire import Ask
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import deal
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.secure.secret import Engine
from hedgerow.tables import Domain
from hedgerow.trees.growing.scoring import integer_scores_from_histogram
from tests.protocols.topdown.secure_counts import CAPACITY, domain_of, plan_of
from tests.secure.engines import metered, reveal, share

PLAN = plan_of()
RING = SecureSplits(PLAN).ring


def honest(owners: int, nodes: int) -> np.ndarray:
    """Counts (owners, nodes, classes, bins) with the most records that the capacity allows."""
    counts = np.zeros((owners, nodes, 3, 10), dtype=np.int64)
    counts[:, :, 0, [0, 5, 8]] = CAPACITY - 1
    counts[:, :, 2, [4, 7, 9]] = 1
    return counts


def range_engine(name: str, owners: int) -> Engine:
    leakage = Leakage(PLAN.node_openings([1])[:1], owners=owners)
    if name == "clear":
        return ClearEngine(leakage, NoiseSource.insecure_seeded(0))
    return ReplicatedEngine(Simulator(3), leakage, insecure_seed=b"range")


def verdict(counts: np.ndarray, name: str = "three servers") -> list[bool]:
    engine = range_engine(name, len(counts))
    return within_range(share(engine, counts, RING), PLAN.candidates, CAPACITY).tolist()


HOSTILE = {
    "a negative count": ((0, 1, 3), -1),
    "a count above the capacity": ((1, 0, 0), CAPACITY + 1),
    "a count at half of the ring": ((1, 2, 8), 1 << 31),
    "a count before half of the ring": ((1, 2, 8), (1 << 31) - 1),
    "a count just below half, from above": ((1, 2, 8), (1 << 31) + CAPACITY),
    "one record too many in an attribute": ((1, 1, 6), 1),
}


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_honest_counts_pass_up_to_the_capacity(name: str) -> None:
    assert verdict(honest(3, 2), name) == [True] * 3
    assert verdict(np.zeros((1, 2, 3, 10), dtype=np.int64), name) == [True]


@pytest.mark.parametrize("what", list(HOSTILE))
@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_every_count_out_of_range_is_found(name: str, what: str) -> None:
    at, value = HOSTILE[what]
    counts = honest(3, 2)
    counts[(1, *at)] = value
    assert verdict(counts, name) == [True, False, True]


def test_sums_that_wrap_around_to_an_honest_total_are_found() -> None:
    counts = honest(2, 1)
    counts[0, 0, :, :2] = 1 << 30
    counts[0, 0, 0, 2] = 1 << 31
    assert verdict(counts) == [False, True]


@pytest.mark.parametrize("block", [1, 200, 1 << 21])
def test_blocks_change_rounds_and_not_the_verdict(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_splits, "_BLOCK", block)
    counts = honest(2, 5)
    counts[1, 4, 1, 1] = -7
    engine = range_engine("three servers", 2)
    shared = share(engine, counts, RING)
    found: list[bool] = []
    cost = metered(
        engine, lambda: found.extend(within_range(shared, PLAN.candidates, CAPACITY).tolist())
    )
    assert found == [True, False]
    assert cost == cost_within_range(engine, counts.shape, PLAN.candidates, RING)


def test_honest_owners_give_away_nothing() -> None:
    for seed in range(2):
        engine = range_engine("clear", 2)
        drawn = np.random.default_rng(seed).integers(0, 9, (2, 1, 3, 10))
        assert within_range(share(engine, drawn, RING), PLAN.candidates, CAPACITY).all()
        (row,) = engine.leakage.what_was_learned("server 0")
        assert (row["name"], row["times"], row["values"]) == (OUT_OF_RANGE, 1, 2)
        assert row["why"].startswith("independent")
        assert not engine.leakage.what_was_learned("public")


def test_without_the_check_a_hostile_owner_would_read_the_others() -> None:
    """Why counts are checked: where a comparison wraps around, one record shows through noise."""
    plan = plan_of(criterion="max", epsilon=None)
    splits = SecureSplits(plan)
    valid = np.zeros((1, len(plan.candidates)), dtype=np.bool_)
    valid[0, 4] = True  # by colour
    worth = []
    for record in (0, 1):
        engine = range_engine("clear", 1)
        hist = np.zeros((1, 3, 10), dtype=np.int64)
        hist[0, 0, [0, 5, 8]] = 5
        hist[0, 1, [0, 5, 8]] = 4 + record
        # The hostile owner's: differences of class counts are compared in 11 bits here.
        hist[0, 1, 0] += 1019
        numbers = splits.numbers(share(engine, hist, splits.ring), [1], valid)
        worth.append(int(splits.wide.signed(numbers.data)[0, 1]))
    assert abs(worth[1] - worth[0]) > 1000
    assert plan.score.integer_sensitivity(plan.public, plan.shift).add_remove == 1
    assert verdict(np.broadcast_to(hist, (1, *hist.shape))) == [False]


def histograms(seed: int, nodes: int, records: int = 40) -> NDArray[np.int64]:
    """Histograms (nodes, total bins, classes) of random records, skewed; the last node is empty."""
    rng = np.random.default_rng(seed)
    hist = np.zeros((nodes, 10, 3), dtype=np.int64)
    for node in range(nodes - 1):
        n = int(rng.integers(1, records))
        label = (rng.random(n) ** 2 * 3).astype(int)
        for first, bins in ((0, 5), (5, 3), (8, 2)):
            value = np.minimum(label + rng.integers(0, bins, n), bins - 1)
            np.add.at(hist[node], (first + value, label), 1)
    return hist


def engine_of(name: str, seed: int = 1) -> Engine:
    leakage = Leakage([])
    if name == "clear":
        return ClearEngine(leakage, NoiseSource.insecure_seeded(seed))
    return ReplicatedEngine(Simulator(3), leakage, insecure_seed=b"topdown %d" % seed)


def released(
    splits: SecureSplits,
    engine: Engine,
    hist: NDArray[np.int64],
    depths: list[int],
    valid: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    if valid is None:
        valid = np.ones((len(hist), len(splits.plan.candidates)), dtype=np.bool_)
    secret = share(engine, hist.transpose(0, 2, 1).copy(), splits.ring)
    numbers = splits.numbers(secret, depths, valid)
    return splits.wide.signed(reveal(numbers)).astype(np.int64)


def oracle(plan: TopDownPlan, hist: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    """Scores of all candidates, and of the nodes as they are, by the learner in the clear."""
    scores = integer_scores_from_histogram(
        hist, plan.candidates, plan.score, plan.public, plan.shift
    )
    node = hist[:, :5].sum(axis=1)
    n, squares = node.sum(axis=1), (node**2).sum(axis=1)
    if plan.criterion == "max":
        return scores, node.max(axis=1)
    return scores, (squares << plan.shift) // np.maximum(n, 1) - (n << plan.shift)


@pytest.mark.parametrize("criterion", ["gini", "max"])
@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_without_noise_the_numbers_are_those_of_the_learner_in_the_clear(
    name: str, criterion: str
) -> None:
    plan = plan_of(epsilon=None, criterion=criterion)
    splits, hist = SecureSplits(plan), histograms(3, 9)
    valid = np.random.default_rng(4).random((9, len(plan.candidates))) < 0.6
    valid[:, 2] = True
    got = released(splits, engine_of(name), hist, [1, 2, 3] * 3, valid)
    scores, whole = oracle(plan, hist)
    choice = np.where(valid, scores, np.iinfo(np.int64).min).argmax(axis=1)
    np.testing.assert_array_equal(got[:, 0], choice)
    np.testing.assert_array_equal(got[:, 1], scores[np.arange(9), choice] - whole)
    np.testing.assert_array_equal(got[:, 2], hist[:, :5].sum(axis=(1, 2)))
    assert (got[:-1, 1] > 0).any()
    assert (got[-1, 1:] == 0).all()


@pytest.mark.parametrize("criterion", ["gini", "max"])
def test_every_number_has_the_law_of_a_single_machine(criterion: str, chi_square) -> None:
    """Several depths side by side, each with the noise of its own epsilon, on plain arrays."""
    copies, depths = 4_000, [1, 3, 2]
    plan = plan_of(criterion=criterion, budget="decay", epsilon=6.0)
    splits, hist = SecureSplits(plan), histograms(5, 4, 12)[:3]
    many = np.repeat(hist, copies, axis=0)
    got = released(splits, engine_of("clear", 8), many, np.repeat(depths, copies).tolist())
    scores, whole = oracle(plan, hist)
    for node, depth in enumerate(depths):
        rows = got[node * copies : (node + 1) * copies]
        law = plan.choose(depth).law(scores[node])
        assert chi_square(np.bincount(rows[:, 0], minlength=law.size), law) > 1e-4
        noise = rows[:, 1] - (scores[node, rows[:, 0]] - whole[node])
        assert _fits(noise, plan.value(depth), chi_square)
        assert _fits(rows[:, 2] - hist[node, :5].sum(), plan.weigh(depth), chi_square)


def _fits(noise: NDArray[np.int64], mechanism, chi_square) -> bool:
    reach = max(1, int(np.abs(noise).max()))
    # Wide noise is compared in cells of equal width, else most cells would hold nobody.
    width = 1 + reach // 40
    edges = np.arange(-reach, reach + 1)
    law = mechanism.law(edges)
    cell = (edges + reach) // width
    masses = np.bincount(cell, law)
    masses = np.append(masses, max(0.0, 1 - masses.sum()))
    counts = np.bincount((noise + reach) // width, minlength=masses.size)
    return chi_square(counts, masses) > 1e-4


def test_servers_draw_the_law_too(chi_square) -> None:
    copies = 600
    plan = plan_of(criterion="max", epsilon=9.0)
    splits, hist = SecureSplits(plan), histograms(5, 3, 12)[:2]
    many = np.repeat(hist, copies, axis=0)
    got = released(splits, engine_of("three servers", 2), many, np.repeat([1, 2], copies).tolist())
    scores, whole = oracle(plan, hist)
    for node, depth in enumerate([1, 2]):
        rows = got[node * copies : (node + 1) * copies]
        law = plan.choose(depth).law(scores[node])
        assert chi_square(np.bincount(rows[:, 0], minlength=law.size), law) > 1e-4
        noise = rows[:, 1] - (scores[node, rows[:, 0]] - whole[node])
        assert _fits(noise, plan.value(depth), chi_square)


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_leaves_get_the_noise_of_one_curator(name: str, chi_square) -> None:
    plan = plan_of(n_owners=4)
    splits = SecureSplits(plan)
    engine, counts = engine_of(name, 3), np.tile([0, 7, 31], (700, 1))
    noisy = splits.leaf_numbers(share(engine, counts, splits.leaf_ring))
    got = splits.leaf_ring.signed(reveal(noisy)).astype(np.int64)
    assert _fits((got - counts).reshape(-1), plan.label, chi_square)


def test_without_noise_leaves_are_counts() -> None:
    splits = SecureSplits(plan_of(epsilon=None))
    counts = np.array([[1, 2, 3]])
    engine = engine_of("three servers")
    shared = share(engine, counts, splits.leaf_ring)
    np.testing.assert_array_equal(reveal(splits.leaf_numbers(shared)), counts)


def gains(splits: SecureSplits, hist: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    """Return what every candidate is worth, and its score, from (nodes, classes, bins)."""
    whole = hist[:, :, :5].sum(axis=-1)
    counts = np.concatenate([hist, whole[..., None], 0 * whole[..., None]], axis=-1)
    got = splits.scores(share(engine_of("clear"), counts, splits.wide))
    scores = splits.wide.signed(reveal(got)).astype(np.int64)
    return scores[:, :-1] - scores[:, -1:], scores[:, :-1]


@pytest.mark.parametrize("criterion", ["gini", "max"])
def test_one_record_moves_the_worth_by_no_more_than_its_sensitivity(criterion: str) -> None:
    """Whatever else is counted, also where another owner's attributes do not agree."""
    plan = plan_of(criterion=criterion, epsilon=None)
    splits, rng, nodes = SecureSplits(plan), np.random.default_rng(17), 4_000
    # Many small and many one-sided nodes: the worst cases are there.
    before = rng.integers(0, 1 + rng.integers(0, 12, (nodes, 3, 1)), (nodes, 3, 10))
    before[::3, 1:] = 0
    after, row = before.copy(), np.arange(nodes)
    label = rng.integers(0, 3, nodes)
    for first, bins in ((0, 5), (5, 3), (8, 2)):
        after[row, label, first + rng.integers(0, bins, nodes)] += 1
    (worth, score), (worth_more, score_more) = gains(splits, before), gains(splits, after)
    limit = plan.score.integer_sensitivity(plan.public, plan.shift).add_remove
    assert limit == (1 if criterion == "max" else 2 << plan.shift)
    moved = np.abs(worth_more - worth).max()
    assert limit * 0.8 < moved <= limit
    rises = score_more - score if criterion == "max" else score - score_more
    assert 0 <= rises.min() <= rises.max() <= limit


@pytest.mark.parametrize("epsilon", [2.0, None])
@pytest.mark.parametrize("criterion", ["gini", "max"])
@pytest.mark.parametrize("depths", [[1], [2, 1, 2, 3, 3]])
def test_rounds_and_bytes_are_as_declared(
    criterion: str, depths: list[int], epsilon: float | None
) -> None:
    splits = SecureSplits(plan_of(criterion=criterion, epsilon=epsilon))
    engine, m = engine_of("three servers"), len(depths)
    hist = share(engine, histograms(1, m).transpose(0, 2, 1).copy(), splits.ring)
    valid = np.ones((m, len(splits.plan.candidates)), dtype=np.bool_)
    assert metered(engine, lambda: splits.numbers(hist, depths, valid)) == splits.cost(
        engine, depths
    )
    counts = share(engine, np.ones((m, 3), dtype=np.int64), splits.leaf_ring)
    assert metered(engine, lambda: splits.leaf_numbers(counts)) == splits.cost_leaves(engine, m)


def test_rounds_depend_neither_on_nodes_nor_on_depths() -> None:
    splits, engine = SecureSplits(plan_of(budget="decay")), engine_of("three servers")
    rounds = {splits.cost(engine, d).rounds for d in ([3], [3] * 60, [1, 2, 3] * 20)}
    assert len(rounds) == 1


def test_rings_follow_from_public_numbers() -> None:
    gini, largest = SecureSplits(plan_of()), SecureSplits(plan_of(criterion="max"))
    assert (gini.ring, gini.wide) == (Z32, Z64)
    assert largest.wide == Z32
    assert SecureSplits(plan_of(epsilon=None)).leaf_ring == Z16
    assert SecureSplits(plan_of(capacity=1 << 28, criterion="max", n_owners=1)).ring == Z64


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(HedgerowError) as error:
        plan_of(criterion="entropy")
    assert error.value.code is Code.BAD_PARAMETER
    assert "gini" in error.value.expected
    other = TopDownOptions(
        epsilon=1.0, method="noisy-counts", criterion="entropy", max_depth=2
    ).plan(domain_of())
    with pytest.raises(HedgerowError) as error:
        SecureSplits(other)
    assert error.value.code is Code.BAD_PARAMETER
    bare = Domain(attributes=domain_of().attributes, target=domain_of().target)
    with pytest.raises(HedgerowError) as error:
        SecureSplits(TopDownOptions(epsilon=1.0, method="secure-counts", max_depth=2).plan(bare))
    assert error.value.code is Code.MISSING_CAPACITY
    with pytest.raises(HedgerowError) as error:
        SecureSplits(plan_of(capacity=1 << 30))
    assert error.value.code is Code.BAD_PARAMETER
    splits, engine = SecureSplits(plan_of()), engine_of("clear")
    hist = share(engine, np.zeros((2, 3, 10), dtype=np.int64), splits.ring)
    mask = np.ones((2, len(splits.plan.candidates)), dtype=np.bool_)
    for depths, valid, code in (
        ([1], mask, Code.WRONG_SHAPE),
        ([1, 1], mask[:1], Code.WRONG_SHAPE),
        ([1, 1], mask & np.array([[True], [False]]), Code.BAD_PARAMETER),
    ):
        with pytest.raises(HedgerowError) as error:
            splits.numbers(hist, depths, valid)
        assert error.value.code is code


NOTHING = np.zeros(0, dtype=np.uint8)
OWNERS = {"amsterdam": NOTHING, "berlin": NOTHING}
EXACT = SecureSplits(plan_of(epsilon=None))
NODES = Ask(EXACT.plan.digest, 3, "servers", ((0, 2),), (1, 2), (), OWNERS)
LEAVES = replace(NODES, phase="servers, leaves")
SHAPE = TreeShape(EXACT.plan, NODES.expand)


def sums_engine(name: str, splits: SecureSplits, ask: Ask) -> Engine:
    ledger = Ledger()
    ledger.charge(*splits.plan.releases(joint=True))
    leakage = declare(splits.plan, ask, SHAPE, ledger=ledger)
    if name == "clear":
        return ClearEngine(leakage, NoiseSource.insecure_seeded(0))
    return ReplicatedEngine(Simulator(3), leakage, insecure_seed=b"sums")


def parts_of(*counts: np.ndarray, ring) -> dict:
    dealt = [deal(ring.encode(each)) for each in counts]
    return {server: [one[server] for one in dealt] for server in range(3)}


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_leaves_are_added_up_over_owners(name: str) -> None:
    engine, ring = sums_engine(name, EXACT, LEAVES), EXACT.leaf_ring
    one, two = np.array([[1, 2, 3], [0, 0, 9]]), np.array([[5, 0, 0], [1, 1, 1]])
    made = compute_numbers(engine, EXACT, LEAVES, SHAPE, parts_of(one, two, ring=ring))
    np.testing.assert_array_equal(reveal(made.numbers), one + two)
    assert made.used.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_owners_that_cannot_be_used_are_left_out(name: str) -> None:
    good = np.zeros((2, 3, 10), dtype=np.int64)
    good[:, 1, [0, 5, 8]] = 7
    bad = good.copy()
    bad[1, 2, 3] = CAPACITY + 1
    made = compute_numbers(
        sums_engine(name, EXACT, NODES), EXACT, NODES, SHAPE, parts_of(bad, good, ring=EXACT.ring)
    )
    assert made.used.tolist() == [Code.CAPACITY_EXCEEDED.value, 0]
    assert reveal(made.numbers)[:, 2].tolist() == [7, 7]
    broken = parts_of(good, good, ring=EXACT.ring)
    broken[2][1] = None
    made = compute_numbers(sums_engine(name, EXACT, NODES), EXACT, NODES, SHAPE, broken)
    assert made.used.tolist() == [0, Code.SHARES_DIFFER.value]
    none = {server: [None, None] for server in range(3)}
    with pytest.raises(HedgerowError) as error:
        compute_numbers(sums_engine(name, EXACT, NODES), EXACT, NODES, SHAPE, none)
    assert error.value.code is Code.TOO_FEW_OWNERS


def test_openings_name_the_releases_that_pay() -> None:
    splits = SecureSplits(plan_of())
    checks, numbers = declare(splits.plan, NODES, SHAPE, ledger=Ledger()).openings
    assert (checks.audience, numbers.audience) == ("server", "public")
    assert (checks.shape, numbers.shape) == ((2,), (2, 3))
    assert numbers.derived == (
        "split of each node at depth 2",
        "worth of the split of each node at depth 2",
        "number of records of each node at depth 2",
    )
    (leaves,) = declare(splits.plan, LEAVES, SHAPE, ledger=Ledger()).openings
    assert (leaves.shape, leaves.derived) == ((2, 3), ("class counts of each leaf",))
    declared = {opening.name: opening for opening in splits.plan.openings()}
    assert list(declared) == [checks.name, numbers.name, leaves.name]
    assert set(numbers.derived) < set(declared[numbers.name].derived or ())
    charged = {release.reason for release in splits.plan.releases(joint=True)}
    assert {*numbers.derived, *leaves.derived} <= charged


def test_nothing_is_opened_that_was_not_charged() -> None:
    splits = SecureSplits(plan_of())
    leakage = declare(splits.plan, LEAVES, SHAPE, ledger=Ledger())
    engine = ClearEngine(leakage, NoiseSource.insecure_seeded(0))
    counts = np.zeros((2, 3), dtype=np.int64)
    parts = parts_of(counts, counts, ring=splits.leaf_ring)
    made = compute_numbers(engine, splits, LEAVES, SHAPE, parts)
    with pytest.raises(HedgerowError) as error:
        engine.open(made.numbers, opening_name(LEAVES), "public")
    assert error.value.code is Code.NOT_CHARGED


def test_answers_name_their_numbers() -> None:
    used = np.array([0, 0])
    found = answer_arrays(NODES, np.array([[4, -1, 9], [0, 2, 8]]), used)
    assert {name: array.tolist() for name, array in found.items()} == {
        "choice": [4, 0],
        "worth": [-1, 2],
        "weight": [9, 8],
        "used": [0, 0],
    }
    assert set(answer_arrays(LEAVES, np.zeros((2, 3)), used)) == {"classes", "used"}
