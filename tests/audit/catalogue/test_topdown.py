"""The auditor attacks every implementation of DP-TopDown, and catches too little noise."""

import pytest

from hedgerow.audit import audit
from hedgerow.audit.catalogue.topdown import WholeViews, topdown_trees
from hedgerow.privacy import NoiseSource

TARGETS = {target.name: target for target in topdown_trees()}
SOUND = [target for target in TARGETS.values() if target.sound]
MESSAGES = [target for target in SOUND if not target.name.endswith("/tree@1")]
BROKEN = [target for target in TARGETS.values() if not target.sound]
FAST = ("single-machine", "noisy-counts", "secure-counts")


def _attacked(target, runs: int) -> float:
    return audit(target, runs=runs, source=NoiseSource.insecure_seeded(7)).attacked


@pytest.mark.slow
@pytest.mark.parametrize("target", MESSAGES, ids=lambda target: target.name)
def test_what_is_sound_holds(target) -> None:
    assert _attacked(target, target.runs) <= target.proven


@pytest.mark.parametrize("name", FAST)
def test_messages_hold(name: str) -> None:
    target = TARGETS[f"topdown/{name}/messages@1"]
    assert 0.5 < _attacked(target, 10_000) <= target.proven


def test_real_messages_hold() -> None:
    for target in SOUND:
        if isinstance(target.run, WholeViews):
            assert _attacked(target, 100) <= target.proven


@pytest.mark.parametrize("name", FAST)
def test_the_tree_alone_holds_and_gives_much_away(name: str) -> None:
    target = TARGETS[f"topdown/{name}/tree@1"]
    assert 0.5 < _attacked(target, 20_000) <= target.proven


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("single-machine", 0.7),
        ("single-machine-entropy", 0.65),
        ("noisy-counts", 0.7),
        ("noisy-counts-split", 0.35),
        ("local-rnm", 0.42),
        ("local-rnm-split", 0.42),
        ("secure-counts", 0.7),
        ("secure-counts-max", 0.7),
    ],
)
def test_what_the_tree_alone_gives_away(name: str, least: float) -> None:
    target = TARGETS[f"topdown/{name}/tree@1"]
    assert least < _attacked(target, target.runs) <= target.proven


@pytest.mark.parametrize("name", FAST)
def test_too_little_noise_is_caught_by_the_tree_alone(name: str) -> None:
    target = TARGETS[f"topdown/{name}/broken-third-of-the-noise/tree@1"]
    assert _attacked(target, 10_000) > target.claimed


def test_too_little_noise_is_caught() -> None:
    target = TARGETS["topdown/single-machine/broken-third-of-the-noise@1"]
    assert _attacked(target, 10_000) > target.claimed


@pytest.mark.slow
@pytest.mark.parametrize("target", BROKEN, ids=lambda target: target.name)
def test_all_that_is_broken_is_caught(target) -> None:
    assert _attacked(target, target.runs) > target.claimed


def test_both_views_of_each_implementation_are_targets() -> None:
    for name in (*FAST, "local-rnm"):
        for seen in ("messages", "tree"):
            assert f"topdown/{name}/{seen}@1" in TARGETS
    assert len(BROKEN) == 8
