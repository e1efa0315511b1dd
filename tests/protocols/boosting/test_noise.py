"""What models say of the noise in their leaves is its law: draws of noise alone are compared."""

import numpy as np
import pytest
from scipy.stats import binom, kstest

from hedgerow.privacy import NoiseSource
from hedgerow.protocols.boosting.rounds import BoostDraws, assemble, draw
from hedgerow.reports.pictures.shapes import BAND, COVERAGE
from hedgerow.tables import Encoded
from hedgerow.trees.additive import effect
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.counts.boosting import LocalBoostCounts
from tests.protocols.boosting.test_rounds import CANCER, DIABETES, WINE, planned

DRAWS = 300


@pytest.mark.parametrize("encoded", [CANCER, WINE, DIABETES], ids=["two", "three", "number"])
def test_stated_noise_is_the_law_of_what_was_added(encoded: Encoded) -> None:
    plan = planned(encoded, 2.0, n_estimators=12, public_seed=3)
    source = NoiseSource.insecure_seeded(5)
    real = draw(LocalBoostCounts([plan.batch(encoded)]), plan, source)
    ratios = []
    for _ in range(DRAWS):
        # Shapes and marginals stay; sums are 0 and their noise, by the mechanism itself.
        rounds = [r._replace(sums=plan.sums(np.zeros_like(r.sums), source)) for r in real.rounds]
        model = assemble(plan, BoostDraws(real.histograms, rounds))
        found = [effect(model, j) for j in range(len(plan.domain.attributes))]
        ratios.append([(e.values / e.deviation)[3] for e in found if e and e.deviation is not None])
    z = np.array(ratios).reshape(DRAWS, -1)
    assert z.shape[1] >= 3
    for column in z.T:
        assert kstest(column, "norm").pvalue > 1e-4
        inside = int((np.abs(column) <= BAND).sum())
        low, high = binom.interval(1 - 1e-4, DRAWS, COVERAGE)
        assert low <= inside <= high


def test_noise_is_written_and_read_and_files_without_it_are_read() -> None:
    plan = planned(CANCER, 2.0, n_estimators=6)
    drawn = draw(LocalBoostCounts([plan.batch(CANCER)]), plan, NoiseSource.insecure_seeded(5))
    model = assemble(plan, drawn)
    document = model.to_dict()
    assert document["minor"] == 2
    assert Boosted.from_dict(document) == model
    del document["boosted"]["noise"]
    old = Boosted.from_dict(document | {"minor": 1})
    assert old.noise is None
    assert old.to_dict()["minor"] == 1
    assert np.array_equal(old.raw(CANCER.bins), model.raw(CANCER.bins))
