import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError
from hedgerow.privacy import EACH, ROOT, Ledger, NoisyMax, Relation, part
from hedgerow.protocols.growers.choices import (
    TREES,
    BestSplits,
    Exponential,
    Noisy,
    RandomSplits,
    Restricted,
    SplitChooser,
    fitting_ring,
    split_reason,
    widen,
)
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.hidden.id3 import grow
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.training import score_of
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.protocols.hidden.hidden_runs import (
    ENGINES,
    domain,
    look,
    make_engine,
    make_slots,
    shared,
)

ChiSquare = Callable[..., float]
DRAWS = 120_000
CERTAIN = 1e-4  # seeds are fixed, so that this is no source of chance failures


def secret(engine: Engine, values: NDArray[Any], ring: Ring) -> Any:
    return engine.input(values, 0, values.shape, ring)


def chosen_by(choose: SplitChooser, *given: Any) -> NDArray[np.int64]:
    hot = look(choose(0, *given))
    assert np.all((hot == 0) | (hot == 1))
    np.testing.assert_array_equal(hot.sum(axis=-1), 1)
    return hot.argmax(axis=-1)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
def test_the_best_wins_and_of_equals_the_first(name: str, ring: Ring) -> None:
    engine, rng = make_engine(name), np.random.default_rng(0)
    scores = rng.integers(-3, 4, (3, 40, 7))
    found = chosen_by(BestSplits(), secret(engine, scores, ring), 3, None)
    np.testing.assert_array_equal(found, scores.argmax(axis=-1))
    assert (np.sort(scores, axis=-1)[..., -1] == np.sort(scores, axis=-1)[..., -2]).sum() > 40


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("hidden", [False, True], ids=["public", "secret"])
@pytest.mark.parametrize("low", [-5, 0], ids=["negative", "zero"])
def test_only_what_is_valid_is_chosen_however_low_it_scores(
    name: str, hidden: bool, low: int
) -> None:
    engine, rng = make_engine(name), np.random.default_rng(1)
    valid = rng.random((2, 60, 6)) < 0.4
    valid[..., -1] |= ~valid.any(axis=-1)
    scores = np.where(valid, rng.integers(-5, low + 1, valid.shape), 5)
    given = secret(engine, valid.astype(np.uint8), Z16) if hidden else valid
    found = chosen_by(BestSplits(), secret(engine, scores, Z16), 5, given)
    expected = np.where(valid, scores, -6).argmax(axis=-1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("hidden", [False, True], ids=["public", "secret"])
def test_noise_does_not_make_an_invalid_candidate_win(name: str, hidden: bool) -> None:
    engine, rng = make_engine(name), np.random.default_rng(2)
    valid = rng.random((1, 300, 5)) < 0.4
    valid[..., -1] |= ~valid.any(axis=-1)
    scores = np.where(valid, 0, 50)
    given = secret(engine, valid.astype(np.uint8), Z64) if hidden else valid
    ledger = Ledger()
    for choose in (Noisy(NoisyMax(0.5), ledger), Exponential(0.5, 1, ledger)):
        found = chosen_by(choose, secret(engine, scores, Z16), 50, given)
        assert np.take_along_axis(valid, found[..., None], -1).all()
        assert len(set(found[valid.all(axis=-1) | valid[..., 0]].tolist())) > 1


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("bound", [100, 8191, 8192, 20_000, 32_000])
def test_scores_of_any_size_are_lifted_into_a_larger_ring(name: str, bound: int) -> None:
    engine, rng = make_engine(name), np.random.default_rng(3)
    scores = rng.integers(-bound, bound + 1, (1, 30, 4))
    scores[0, :2] = [[-bound, bound, 0, -1], [bound, bound - 1, 0, -bound]]
    for ring in (Z32, Z64):
        np.testing.assert_array_equal(look(widen(secret(engine, scores, Z16), ring, bound)), scores)
    found = chosen_by(BestSplits(), secret(engine, scores, Z16), bound, None)
    np.testing.assert_array_equal(found, scores.argmax(axis=-1))
    # With next to no noise, so that it is the same choice.
    sharp = Noisy(NoisyMax(60.0), Ledger())
    far = scores * 1
    far[..., 0] = np.where(scores.argmax(axis=-1) == 0, bound, -bound)
    gap = np.sort(far, axis=-1)
    certain = gap[..., -1] - gap[..., -2] > 10
    found = chosen_by(sharp, secret(engine, far, Z16), bound, None)
    assert certain.sum() > 20
    np.testing.assert_array_equal(found[certain], far.argmax(axis=-1)[certain])


@pytest.mark.parametrize("valid", [None, [True, False, True, True, True]])
@pytest.mark.parametrize("monotone", [False, True])
def test_noisy_choices_follow_the_law_of_noisy_max(
    chi_square: ChiSquare, valid: list[bool] | None, monotone: bool
) -> None:
    engine = make_engine("clear")
    mechanism = NoisyMax(0.9, 2, monotone=monotone)
    one = np.array([-1, 3, 0, 2, 2])
    scores = np.broadcast_to(one, (1, DRAWS, 5))
    given = None
    if valid is not None:
        given = secret(engine, np.broadcast_to(valid, scores.shape).astype(np.uint8), Z16)
    found = chosen_by(Noisy(mechanism, Ledger()), secret(engine, scores, Z16), 3, given)
    law = mechanism.law(one, valid=valid)
    assert chi_square(np.bincount(found.reshape(-1), minlength=5), law) > CERTAIN
    # What an argmax of equal noise per candidate would do is told apart.
    wrong = NoisyMax(0.9, 1, monotone=monotone).law(one, valid=valid)
    assert chi_square(np.bincount(found.reshape(-1), minlength=5), wrong) < 1e-12


def test_noise_on_three_servers_follows_the_same_law(chi_square: ChiSquare) -> None:
    engine, mechanism = make_engine("three servers"), NoisyMax(1.0)
    one = np.array([0, 2, 1])
    scores = secret(engine, np.broadcast_to(one, (1, 10_000, 3)), Z16)
    found = chosen_by(Noisy(mechanism, Ledger()), scores, 2, None)
    assert chi_square(np.bincount(found.reshape(-1), minlength=3), mechanism.law(one)) > CERTAIN


def test_the_exponential_mechanism_of_the_paper_is_near_its_law(chi_square: ChiSquare) -> None:
    engine = make_engine("clear")
    one = np.array([1, 4, 0, 9])
    scores = secret(engine, np.broadcast_to(one, (1, 40_000, 4)), Z32)
    valid = np.broadcast_to([True, True, True, False], scores.shape)
    for given, allowed in ((None, [0, 1, 2, 3]), (valid, [0, 1, 2])):
        found = chosen_by(Exponential(1.2, 2, Ledger()), scores, 9, given)
        weights = np.zeros(4)
        weights[allowed] = np.exp(1.2 / 4 * one[allowed])
        counts = np.bincount(found.reshape(-1), minlength=4)
        assert chi_square(counts, weights / weights.sum()) > CERTAIN


@pytest.mark.parametrize("scope", [ROOT, ROOT / part(TREES, EACH)], ids=["tree", "forest"])
def test_every_level_charges_one_choice_of_each_node(scope: Any) -> None:
    ledger, engine = Ledger(), make_engine("clear", private=True)
    mechanism = NoisyMax(0.25, 3)
    choose = Noisy(mechanism, ledger, "analyst", scope)
    for level in range(3):
        choose(level, secret(engine, np.zeros((2, 4**level, 6), int), Z16), 10, None)
    delta = precision(mechanism, 6).delta
    assert 0 < delta < 2**-60
    for level, release in enumerate(ledger.releases):
        assert release.reason == split_reason(level) == f"split of each node at level {level}"
        assert (release.epsilon, release.delta) == (0.25, delta)
        assert (release.sensitivity, release.variables, release.times) == (3, 6, 1)
        assert release.audience == "analyst"
        last = release.scope.segments[-1]
        assert (last.partition.name, last.label) == ("nodes", EACH)
        assert release.scope.segments[-2].label == f"level {level}"
    assert ledger.total("analyst").epsilon == 0.75
    assert ledger.total("analyst").delta == pytest.approx(3 * delta, rel=1e-9)
    assert ledger.total("server").epsilon == 0
    # Replacing a record moves one out of its node and another in.
    assert ledger.total("analyst", Relation.REPLACE).epsilon == 1.5


def test_seeded_noise_is_marked_and_charged_all_the_same() -> None:
    ledger = Ledger()
    scores = secret(make_engine("clear"), np.zeros((1, 1, 2), int), Z16)
    Noisy(NoisyMax(0.5), ledger)(0, scores, 1, None)
    assert ledger.total("analyst").epsilon == math.inf
    assert [mark.reason for mark in ledger.not_private] == ["seeded noise"]
    assert ledger.releases[0].epsilon == 0.5


def test_the_paper_s_choice_is_charged_as_infinite_with_its_claim() -> None:
    ledger, engine = Ledger(), make_engine("clear", private=True)
    choose = Exponential(0.4, 1, ledger)
    for level in range(2):
        choose(level, secret(engine, np.zeros((1, 3, 4), int), Z16), 5, None)
    assert [release.epsilon for release in ledger.releases] == [math.inf] * 2
    assert [release.claimed for release in ledger.releases] == [0.4] * 2
    assert ledger.total("analyst").epsilon == math.inf
    assert ledger.claimed_total("analyst") == pytest.approx(0.8)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("mechanism", ["none", "discrete", "exponential"])
@pytest.mark.parametrize("filled", [0.0, 0.1, 1.0])
def test_no_attribute_is_used_twice_on_a_path(name: str, mechanism: str, filled: float) -> None:
    # Where all scores are 0 the paper's step 14 chooses a used attribute again.
    plan = plan_hidden(
        domain(),
        noise="none" if mechanism == "none" else "splits+leaves",
        mechanism="discrete" if mechanism == "none" else mechanism,
        criterion="max",
        branching="wary",
        capacity=30,
        depth=3,
    )
    engine, ledger = make_engine(name), Ledger()
    choose: SplitChooser = BestSplits()
    if mechanism == "discrete":
        choose = Noisy(plan.split_mechanism, ledger)
    elif mechanism == "exponential":
        choose = Exponential(plan.split_epsilon, 1, ledger)
    table = shared(engine, make_slots(domain(), 1, 30, filled=filled), plan.layout, plan.ring)
    grown = grow(Masks(table), 3, score_of(plan), choose)
    levels = [look(choice)[0].argmax(axis=-1) for choice in grown.choices]
    for leaf in range(5**3):
        path = [int(level[leaf // 5 ** (3 - i)]) for i, level in enumerate(levels)]
        assert len(set(path)) == 3


def test_drawn_splits_are_the_same_at_all_parties_and_among_the_valid() -> None:
    valid = np.random.default_rng(0).random((1, 500, 6)) < 0.5
    valid[..., 2] |= ~valid.any(axis=-1)
    found = []
    for name in ENGINES:
        engine = make_engine(name)
        scores = secret(engine, np.zeros(valid.shape, int), Z16)
        found.append(chosen_by(RandomSplits(4), scores, 1, valid))
    np.testing.assert_array_equal(*found)
    assert np.take_along_axis(valid, found[0][..., None], -1).all()
    assert set(found[0].reshape(-1).tolist()) == set(range(6))
    with pytest.raises(HedgerowError, match="H501"):
        RandomSplits(0)(0, scores, 1, secret(engine, valid.astype(int), Z16))


def test_what_is_drawn_is_even_among_the_valid() -> None:
    valid = np.ones((1, 20_000, 6), dtype=np.bool_)
    valid[0, :, 4] = False
    counts = RandomSplits(1).draw(2, valid.shape, valid)[0].sum(axis=0, dtype=int)
    assert counts[4] == 0
    assert ((counts[[0, 1, 2, 3, 5]] - 4000) ** 2 / 4000).sum() < 18.5  # 4 degrees, 0.001
    # Attributes have one to four candidates, which are drawn together.
    feature = np.repeat(np.arange(4), [1, 2, 3, 4])
    drawn = Restricted(BestSplits(), feature, 2, 1).draw(2, (20_000, 1))[:, 0]
    of_attribute = drawn[:, [0, 1, 3, 6]]
    assert np.array_equal(drawn, of_attribute[:, feature])
    pairs = (of_attribute @ (1 << np.arange(4))).tolist()
    counts = np.array([pairs.count((1 << a) + (1 << b)) for b in range(4) for a in range(b)])
    assert counts.sum() == 20_000
    assert ((counts - 20_000 / 6) ** 2 / (20_000 / 6)).sum() < 20.6  # 5 degrees, 0.001


def test_levels_seeds_and_addresses_have_coins_of_their_own() -> None:
    shape, feature = (1, 50, 6), np.arange(6)
    drawn = [
        RandomSplits(1).draw(0, shape, None),
        RandomSplits(1).draw(1, shape, None),
        RandomSplits(2).draw(0, shape, None),
        RandomSplits(1, "hidden/round 0").draw(0, shape, None),
        RandomSplits(1, "hidden/round 1").draw(0, shape, None),
        *(Restricted(BestSplits(), feature, 1, seed).draw(0, shape[:2]) for seed in (1, 2)),
        Restricted(BestSplits(), feature, 1, 1).draw(1, shape[:2]),
    ]
    picks = np.stack(drawn)[:, 0].argmax(axis=-1)
    alike = (picks[:, None] == picks).mean(axis=-1)
    # Of 50 nodes one in six agrees by chance.
    assert (alike[~np.eye(len(picks), dtype=bool)] < 0.45).all()
    # What was drawn before does not matter: a run that goes on at a level draws what it would have.
    one = Restricted(BestSplits(), feature, 1, 1)
    one.draw(0, shape[:2])
    assert np.array_equal(one.draw(1, shape[:2]), drawn[-1])


def test_the_smallest_ring_that_fits() -> None:
    assert fitting_ring(Z16, 2**15 - 1) == Z16
    assert fitting_ring(Z32, 1) == Z32
    assert fitting_ring(Z16, 2**15) == Z32
    assert fitting_ring(Z16, 2**31 - 1) == Z32
    assert fitting_ring(Z16, 2**31) == Z64
    assert fitting_ring(Z64, 2**63 - 1) == Z64
    with pytest.raises(HedgerowError, match=r"H501.*2\*\*64"):
        fitting_ring(Z16, 2**63)


def test_noise_that_does_not_fit_is_refused_before_it_is_charged() -> None:
    ledger, layout = Ledger(), Layout(domain(), "wary")
    choose = Noisy(NoisyMax(1e-9, 2**20), ledger)
    scores = secret(make_engine("clear"), np.zeros((1, 1, layout.n_features), int), Z16)
    with pytest.raises(HedgerowError, match="H501"):
        choose(0, scores, 2**62, None)
    assert not ledger.releases
