"""Private boosting of a few hundred rows: no worse than the prior, and pairs where they are few."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.boosting.marginals import Marginals, Profile, read_marginals
from hedgerow.protocols.boosting.options import BoostOptions
from hedgerow.protocols.boosting.rounds import boost, draw, step_of
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.counts.boosting import FunctionShape, LocalBoostCounts

DELTA = 1e-6


def domain_of(d: int, capacity: int) -> Domain:
    attributes = tuple(
        Attribute(name=f"x{i}", kind="numeric", bounds=(0, 1), bins=16) for i in range(d)
    )
    return Domain(attributes=attributes, target=Target(name="y", classes=(0, 1)), capacity=capacity)


def trained(encoded: Encoded, epsilon: float, seed: int) -> Boosted:
    plan = BoostOptions(epsilon=epsilon, delta=DELTA).plan(encoded.domain)
    counts = LocalBoostCounts([plan.batch(encoded)])
    source = NoiseSource.insecure_seeded(seed)
    return boost(counts, plan, ledger=Ledger(delta=DELTA), source=source)


def test_a_noisy_prior_does_not_turn_the_order_of_the_leaves_around() -> None:
    plan = BoostOptions(epsilon=0.1, delta=DELTA).plan(domain_of(1, 600))
    part = np.repeat([0, 1], [8, 8])
    profile = Profile(part, np.array([0.9, 0.1]), 1.0)
    # The prior says one half. In truth 30% of the 540 records in the dense leaf are positive, and
    # 5% of the 60 in the other: all sums are negative, and that of the dense leaf is the lower.
    marginals = Marginals(600.0, np.zeros(1), np.array([0.25]), [profile])
    shape = FunctionShape(np.array([0]), (part,), (2,))
    sums = np.array([[540 * (0.3 - 0.5)], [60 * (0.05 - 0.5)]]) * plan.gradients.unit
    dense, sparse = step_of(plan, marginals, shape, sums.astype(np.int64))[:, 0]
    assert dense > sparse
    assert sparse < 0


def test_a_model_of_noise_is_as_good_as_the_prior() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((600, 6)), (rng.random(600) < 0.3).astype(int)
    encoded = encode(X, domain_of(6, 600), y)
    fresh = encode(rng.random((2_000, 6)), encoded.domain).bins
    truth = (rng.random(2_000) < 0.3).astype(int)
    prior = log_loss(truth, np.full(2_000, truth.mean()))
    worse = [
        log_loss(truth, trained(encoded, 0.1, seed).distribution(fresh)[:, 1]) - prior
        for seed in range(6)
    ]
    # What is left is the noise of the share of positives.
    assert np.mean(worse) < 0.06


def test_cuts_are_left_where_noise_is_larger_than_the_table() -> None:
    X = np.random.default_rng(1).random((600, 20))
    encoded = encode(X, domain_of(20, 600), (X[:, 0] > 0.5).astype(int))
    plan = BoostOptions(epsilon=0.1, delta=DELTA).plan(encoded.domain)
    counts = LocalBoostCounts([plan.batch(encoded)])
    drawn = draw(counts, plan, NoiseSource.insecure_seeded(2))
    groups = [len(profile.share) for profile in read_marginals(plan, drawn.histograms).profiles]
    assert np.mean(groups) > 3


@pytest.mark.parametrize("seed", [1, 2])
def test_what_only_two_attributes_tell_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.random((1_000, 6))
    y = ((X[:, 2] > 0.5) ^ (X[:, 4] > 0.5)).astype(int)
    encoded = encode(X, domain_of(6, 1_000), y)
    model = trained(encoded, 10.0, seed)
    fresh = rng.random((2_000, 6))
    truth = (fresh[:, 2] > 0.5) ^ (fresh[:, 4] > 0.5)
    found = model.distribution(encode(fresh, encoded.domain).bins)[:, 1]
    assert roc_auc_score(truth, found) > 0.9


def test_a_strong_signal_is_ranked_right_at_a_small_epsilon() -> None:
    rng = np.random.default_rng(5)
    # Thirty measures of one hidden thing, as of a tumour's size.
    hidden = rng.normal(size=800)
    X = np.clip(0.5 + 0.12 * hidden[:, None] + 0.05 * rng.normal(size=(800, 30)), 0, 1)
    y = (hidden > 0.3).astype(int)
    encoded = encode(X[:600], domain_of(30, 600), y[:600])
    fresh = encode(X[600:], encoded.domain).bins
    areas = [
        roc_auc_score(y[600:], trained(encoded, 0.1, seed).distribution(fresh)[:, 1])
        for seed in range(4)
    ]
    assert np.mean(areas) > 0.85
