"""What all mechanisms that choose have in common: shapes, masks, refusals."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy.mechanisms import (
    ExponentialMechanism,
    Mechanism,
    NoisyMax,
    PermuteAndFlip,
)
from hedgerow.privacy.source import NoiseSource

CHOICES = [NoisyMax, PermuteAndFlip, ExponentialMechanism]
pytestmark = pytest.mark.parametrize("choice", CHOICES)


def refused(call, code: Code = Code.BAD_MECHANISM_INPUT) -> str:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is code
    return str(caught.value)


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
    refused(lambda: choice(1.0, sampler="numpy"))
