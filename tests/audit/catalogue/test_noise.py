"""Noise drawn by three servers under attack: it holds, and the attack comes near."""

import pytest

from hedgerow.audit import audit
from hedgerow.audit.catalogue.noise import three_servers
from hedgerow.privacy import NoiseSource


@pytest.mark.parametrize("target", three_servers(), ids=lambda t: t.name)
def test_the_claim_holds_and_is_nearly_tight(target) -> None:
    result = audit(target, runs=40_000, source=NoiseSource.insecure_seeded(3))
    assert 0.8 < result.attacked <= target.holds == 1.0
    assert 0 < target.delta < 2**-60
