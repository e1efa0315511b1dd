import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, NoiseSource
from hedgerow.protocols.topdown.numbers import SecureSplits
from hedgerow.protocols.topdown.plan import TopDownPlan, plan_topdown
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.secure.secret import Engine
from hedgerow.tables import Domain
from hedgerow.trees.growing.scoring import integer_scores_from_histogram
from tests.protocols.topdown.secure_counts import domain_of, plan_of
from tests.secure.engines import metered, reveal, share


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
    other = plan_topdown(domain_of(), method="noisy-counts", criterion="entropy", max_depth=2)
    with pytest.raises(HedgerowError) as error:
        SecureSplits(other)
    assert error.value.code is Code.BAD_PARAMETER
    bare = Domain(attributes=domain_of().attributes, target=domain_of().target)
    with pytest.raises(HedgerowError) as error:
        SecureSplits(plan_topdown(bare, method="secure-counts", max_depth=2))
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
