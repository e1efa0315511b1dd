"""What all mechanisms that choose have in common: laws, privacy, shapes, masks, refusals."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms import Mechanism
from hedgerow.privacy.release import mechanism_rule
from hedgerow.privacy.source import NoiseSource
from tests.privacy.mechanisms.choice_laws import CHOICES, worst_loss

N = 10**6
pytestmark = pytest.mark.parametrize("choice", CHOICES)


def refused(call, code: Code = Code.BAD_MECHANISM_INPUT) -> str:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is code
    return str(caught.value)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "monotone", "scores"),
    [
        (1.0, 1, False, [3, 1, 0, 3]),
        (1.0, 1, True, [3, 1, 0, 3]),
        (0.02, 1, False, [0, 40, 90, 100, 7]),
        (1e-6, 1, False, [0, 2_000_000, 1_000_000]),
        (2.0, 5, True, [-7, -7, -7, -5]),
        (8.0, 1, False, [0, 1, 1, 0]),
        (30.0, 1, True, [5, 5, 4]),
        (0.5, 1, False, list(range(30))),
    ],
)
def test_choice_has_its_law(
    choice, epsilon: float, sensitivity: int, monotone: bool, scores: list[int], chi_square
) -> None:
    mechanism = choice(epsilon, sensitivity, monotone)
    rows = np.broadcast_to(np.array(scores), (N, len(scores)))
    counts = np.bincount(mechanism(rows, NoiseSource.insecure_seeded(1)), minlength=len(scores))
    assert chi_square(counts, mechanism.law(scores)) > 1e-4


def test_masked_choice_has_its_law(choice, chi_square) -> None:
    mechanism, scores = choice(0.7), np.array([2, 9, 0, 1, 2])
    valid = np.array([True, False, True, True, False])
    law = mechanism.law(scores, valid=valid)
    assert law[[0, 2, 3]] == pytest.approx(mechanism.law(scores[[0, 2, 3]]))
    rows, masks = (np.broadcast_to(x, (N, 5)) for x in (scores, valid))
    counts = np.bincount(mechanism(rows, NoiseSource.insecure_seeded(2), valid=masks), minlength=5)
    assert chi_square(counts, law) > 1e-4


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 3.0])
def test_law_respects_epsilon(choice, epsilon: float) -> None:
    assert worst_loss(choice(epsilon), [-1, 0, 1]) <= epsilon + 1e-12
    assert worst_loss(choice(epsilon, monotone=True), [0, 1]) <= epsilon + 1e-12
    assert worst_loss(choice(epsilon, sensitivity=2, monotone=True), [0, 1, 2]) <= epsilon + 1e-12


def test_the_accountant_knows_it(choice) -> None:
    rule = mechanism_rule(choice.name)
    assert rule.guarantee
    assert rule.rho(1.0) <= 0.5


def test_shapes(choice) -> None:
    mechanism, source = choice(1000.0), NoiseSource.system()
    scores = np.random.default_rng(0).permuted(np.tile(np.arange(5), (4, 3, 1)), axis=-1)
    best = scores.argmax(axis=-1)
    for given in (scores, np.asfortranarray(scores), scores.astype(np.uint8), scores.tolist()):
        out = mechanism(given, source)
        assert out.dtype == np.int64
        assert (out == best).all()
    assert mechanism(scores[0, 0], source).shape == ()
    assert mechanism(scores[0, 0], source) == best[0, 0]
    assert mechanism(scores[:0], source).shape == (0, 3)
    assert mechanism(scores[..., :1], source).tolist() == np.zeros((4, 3)).tolist()
    assert isinstance(mechanism, Mechanism)


def test_rows_are_chosen_independently(choice, chi_square) -> None:
    scores = np.tile([[0, 2], [2, 0]], (250_000, 1))
    mechanism = choice(1.0)
    picks = mechanism(scores, NoiseSource.insecure_seeded(4)).reshape(-1, 2)
    law = np.outer(mechanism.law([0, 2]), mechanism.law([2, 0])).ravel()
    assert chi_square(np.bincount(2 * picks[:, 0] + picks[:, 1], minlength=4), law) > 1e-4


def test_masked_candidates_are_never_chosen(choice) -> None:
    rng = np.random.default_rng(1)
    valid = rng.random((2000, 12)) < 0.3
    valid[~valid.any(axis=1), 0] = True
    scores = np.where(valid, 0, 10**6)
    picks = choice(0.1)(scores, NoiseSource.system(), valid=valid)
    assert valid[np.arange(2000), picks].all()


def test_extreme_scores_never_wrap(choice) -> None:
    ends = np.tile([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0], (100, 1))
    assert (choice(1e-12)(ends, NoiseSource.insecure_seeded(1)) == 1).all()
    assert choice(1e-12).law(ends[0])[1] == pytest.approx(1)


def test_seeded_choices_repeat(choice) -> None:
    scores = np.zeros((200, 9), dtype=np.int64)
    first, second = (choice(1.0)(scores, NoiseSource.insecure_seeded(1)) for _ in range(2))
    assert (first == second).all()
    system = NoiseSource.system()
    assert (choice(1.0)(scores, system) != choice(1.0)(scores, system)).any()


def test_refusals(choice) -> None:
    source, good = NoiseSource.system(), np.zeros((2, 3), dtype=np.int64)
    for epsilon in (0, -1, np.inf, np.nan, True, "1"):
        refused(lambda epsilon=epsilon: choice(epsilon), Code.BAD_EPSILON)
    for sensitivity in (0, 1.5, True):
        refused(lambda sensitivity=sensitivity: choice(1.0, sensitivity))
    for scores in (good.astype(float), good.astype(bool), good[:, :0], np.int64(3)):
        refused(lambda scores=scores: choice(1.0)(scores, source))
    for valid in (np.ones(3, dtype=bool), np.ones((2, 3)), np.ones((3, 2), dtype=bool)):
        refused(lambda valid=valid: choice(1.0)(good, source, valid=valid))
    nothing = np.array([[True, False, True], [False, False, False]])
    assert "1 rows" in refused(lambda: choice(1.0)(good, source, valid=nothing))
    refused(lambda: choice(1.0).law(good))
    refused(lambda: choice(1.0).delta(0))
