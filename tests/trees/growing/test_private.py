"""The private grower: exact without noise, the declared law with it, charged before it draws."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Budget, Ledger, NoiseSource
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode, pad
from hedgerow.trees import Limits, SplitKind, grow_cart, grow_id3, grow_private, plan_private
from hedgerow.trees.counts.rows import Rows

ENOUGH = 1e7  # an epsilon at which noise is 0 for all that a test will see


def table(n: int = 400, bins: int = 8, classes: int = 3, seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    domain = Domain(
        attributes=(
            Attribute(name="a", kind="numeric", bounds=(0, 1), bins=bins),
            Attribute(name="b", kind="numeric", bounds=(0, 1), bins=bins),
            Attribute(name="c", kind="categorical", categories=("x", "y", "z")),
        ),
        target=Target(name="t", classes=tuple(range(classes))),
        capacity=1000,
    )
    numbers = rng.random((n, 2))
    letters = rng.choice(["x", "y", "z"], n)
    y = (numbers[:, 0] * 2 + (letters == "y") + rng.random(n) * 0.3).astype(int) % classes
    frame = {"a": numbers[:, 0], "b": numbers[:, 1], "c": letters}
    return encode(frame, domain, y)


def grown(encoded: Encoded, epsilon: float = ENOUGH, **options):
    ledger = Ledger(domain=encoded.domain)
    options = {"depth": 3, "criterion": "gini", "capacity": 1000} | options
    source = options.pop("source", NoiseSource.insecure_seeded(1))
    plan = plan_private(encoded.domain, epsilon=epsilon, **options)
    return grow_private(encoded, plan, ledger=ledger, source=source), ledger


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_with_no_noise_to_speak_of_it_predicts_as_cart(criterion: str) -> None:
    encoded = table()
    private = grown(encoded, criterion=criterion)[0]
    clear = grow_cart(encoded, criterion=criterion, limits=Limits(max_depth=3))
    np.testing.assert_array_equal(
        private.predict_class(encoded.bins), clear.predict_class(encoded.bins)
    )


@pytest.mark.parametrize("criterion", ["max", "gini", "entropy"])
def test_with_no_noise_to_speak_of_it_predicts_as_id3(criterion: str) -> None:
    encoded = table(bins=4)
    private = grown(encoded, criterion=criterion, branching="wary", depth=2)[0]
    clear = grow_id3(encoded, criterion=criterion, max_depth=2)
    np.testing.assert_array_equal(
        private.predict_class(encoded.bins), clear.predict_class(encoded.bins)
    )
    assert (private.kind[private.feature >= 0] == SplitKind.WARY).all()
    below = private.parents[1:]
    both = (private.feature[1:] >= 0) & (below >= 0)
    assert (private.feature[1:][both] != private.feature[below[both]]).all()


def test_the_shape_does_not_depend_on_the_rows() -> None:
    shapes = set()
    for seed, n in ((0, 400), (1, 3), (2, 1)):
        tree = grown(table(n=n, seed=seed), epsilon=1.0, depth=5)[0]
        shapes.add((tree.n_nodes, tree.depth, tuple(tree.first_child)))
    assert shapes == {(63, 5, next(iter(shapes))[2])}


def test_counts_add_up_from_the_leaves() -> None:
    tree = grown(table(), epsilon=0.5)[0]
    for node in np.flatnonzero(tree.feature >= 0):
        first = tree.first_child[node]
        np.testing.assert_array_equal(tree.value[node], tree.value[first : first + 2].sum(axis=0))
    np.testing.assert_array_equal(tree.weight, tree.value.sum(axis=1))


def test_absent_slots_are_not_counted() -> None:
    encoded = table()
    padded = pad(encoded, 1000)
    a, b = (grown(e, criterion="max")[0] for e in (encoded, padded))
    np.testing.assert_array_equal(a.value, b.value)


def test_everything_is_charged_before_anything_is_drawn() -> None:
    encoded = table()
    ledger = Ledger(domain=encoded.domain, budget=Budget(0.5, 1e-9))
    source = NoiseSource.insecure_seeded(7)
    before = NoiseSource.insecure_seeded(7).bytes(16)
    plan = plan_private(encoded.domain, epsilon=1.0, depth=3, criterion="max")
    with pytest.raises(HedgerowError) as caught:
        grow_private(encoded, plan, ledger=ledger, source=source)
    assert caught.value.code is Code.BUDGET_EXCEEDED
    # The refusal came before the first byte: the stream is where it began.
    np.testing.assert_array_equal(source.bytes(16), before)


@pytest.mark.parametrize("criterion", ["max", "gini"])
def test_the_root_follows_the_law_of_noisy_max(criterion: str, chi_square) -> None:
    encoded = table(n=60, bins=4)
    plan = plan_private(encoded.domain, epsilon=0.5, depth=1, criterion=criterion)
    rows = Rows(encoded, plan.candidates)
    scores = rows.integer_scores([0], plan.score, plan.public, 0 if criterion == "max" else 10)[0]
    root = plan.draw(encoded, NoiseSource.insecure_seeded(11), copies=100_000).levels[0]
    candidate = plan.candidates.first[root.feature] + root.cut
    seen = np.bincount(candidate, minlength=len(plan.candidates))
    assert chi_square(seen, plan.choose.law(scores)) > 1e-4


def test_leaf_noise_follows_its_law(chi_square) -> None:
    encoded = table(n=60)
    plan = plan_private(encoded.domain, epsilon=1.0, depth=2, criterion="max")
    drawn = plan.draw(encoded, NoiseSource.insecure_seeded(5), copies=20_000)
    noise = (drawn.leaf_counts - drawn.levels[-1].counts).ravel()
    support = np.arange(-300, 301)
    seen = np.bincount(noise + 300, minlength=601)
    assert chi_square(seen, plan.count.law(support)) > 1e-4


def test_copies_have_the_law_of_single_trees(chi_square_two) -> None:
    encoded = table(n=40, bins=3)
    plan = plan_private(encoded.domain, epsilon=2.0, depth=2, criterion="max")
    source = NoiseSource.insecure_seeded(3)

    def code(drawn) -> np.ndarray:
        candidates = [plan.candidates.first[s.feature] + s.cut for s in drawn.levels]
        below = candidates[1].reshape(-1, 2)
        return candidates[0] * 10_000 + below[:, 0] * 100 + below[:, 1]

    single = np.concatenate([code(plan.draw(encoded, source)) for _ in range(3000)])
    many = code(plan.draw(encoded, source, copies=30_000))
    values, where = np.unique(np.concatenate([single, many]), return_inverse=True)
    seen = [np.bincount(w, minlength=values.size) for w in (where[:3000], where[3000:])]
    assert chi_square_two(*seen) > 1e-4


def test_the_paid_total_is_what_was_asked_for() -> None:
    tree, ledger = grown(table(), epsilon=1.0, depth=4)
    assert tree.depth == 4
    assert ledger.formal_total().epsilon <= 1.0
    assert math.isclose(ledger.formal_total().epsilon, 1.0, rel_tol=1e-12)
    assert [release.mechanism for release in ledger.releases] == [
        *["noisy max"] * 4,
        "two-sided geometric",
    ]


def test_no_candidate_is_refused() -> None:
    domain = Domain(
        attributes=(Attribute(name="a", kind="categorical", categories=("x",)),),
        target=Target(name="t", classes=(0, 1)),
        capacity=10,
    )
    encoded = encode({"a": ["x", "x"]}, domain, [0, 1])
    with pytest.raises(HedgerowError) as caught:
        grown(encoded, epsilon=1.0)
    assert caught.value.code is Code.BAD_PARAMETER


def test_seeded_noise_marks_the_ledger() -> None:
    _, ledger = grown(table(), epsilon=1.0)
    assert ledger.total().epsilon == math.inf
    assert ledger.formal_total().epsilon <= 1.0
    _, ledger = grown(table(), epsilon=1.0, source=NoiseSource.system())
    assert ledger.total().epsilon <= 1.0


def test_a_domain_read_from_the_data_is_refused() -> None:
    encoded = table()
    read = replace(
        encoded, domain=encoded.domain.model_copy(update={"provenance": "read from data"})
    )
    plan = plan_private(read.domain, epsilon=1.0, depth=2, criterion="max")
    ledger = Ledger()
    with pytest.raises(HedgerowError) as caught:
        grow_private(read, plan, ledger=ledger, source=NoiseSource.system())
    assert caught.value.code is Code.DOMAIN_READ_FROM_DATA
    assert ledger.releases == ()


def test_a_table_of_another_domain_is_refused() -> None:
    plan = plan_private(table(bins=2).domain, epsilon=1.0, depth=2, criterion="max")
    ledger = Ledger()
    with pytest.raises(HedgerowError) as caught:
        grow_private(table(bins=200), plan, ledger=ledger, source=NoiseSource.system())
    assert caught.value.code is Code.BAD_DOMAIN
    assert ledger.releases == ()


def test_too_many_rows_are_refused_before_the_charge() -> None:
    encoded = table()
    plan = plan_private(encoded.domain, epsilon=1.0, depth=2, criterion="max", capacity=399)
    ledger = Ledger()
    with pytest.raises(HedgerowError) as caught:
        grow_private(encoded, plan, ledger=ledger, source=NoiseSource.system())
    assert caught.value.code is Code.CAPACITY_EXCEEDED
    assert ledger.releases == ()
