"""Private boosting under attack: what is released keeps its epsilon, less noise is caught."""

import pytest

from hedgerow.estimators.audit_boosting import boosted_models
from hedgerow.privacy import NoiseSource
from hedgerow.privacy.audit import audit

TARGETS = {target.name: target for target in boosted_models()}


@pytest.mark.parametrize(
    "name",
    [
        "dp-boosting/classes@1",
        "dp-boosting/broken-eighth-noise@1",
        pytest.param("dp-boosting/numbers@1", marks=pytest.mark.slow),
        pytest.param("dp-boosting/sampled@1", marks=pytest.mark.slow),
    ],
)
def test_targets(name: str) -> None:
    target = TARGETS[name]
    result = audit(target, runs=1_000, source=NoiseSource.insecure_seeded(7))
    if target.sound:
        assert result.attacked <= target.claimed
    else:
        assert result.attacked > target.claimed
