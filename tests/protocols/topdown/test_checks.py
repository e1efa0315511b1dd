import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, NoiseSource
from hedgerow.protocols.topdown import checks as topdown_checks
from hedgerow.protocols.topdown.checks import (
    OUT_OF_RANGE,
    cost_within_range,
    range_opening,
    within_range,
)
from hedgerow.protocols.topdown.numbers import SecureSplits
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.secret import Engine
from tests.protocols.topdown.secure_counts import CAPACITY, plan_of
from tests.secure.engines import metered, share

PLAN = plan_of()
RING = SecureSplits(PLAN).ring


def honest(owners: int, nodes: int) -> np.ndarray:
    """Counts (owners, nodes, classes, bins) with the most records that the capacity allows."""
    counts = np.zeros((owners, nodes, 3, 10), dtype=np.int64)
    counts[:, :, 0, [0, 5, 8]] = CAPACITY - 1
    counts[:, :, 2, [4, 7, 9]] = 1
    return counts


def engine_of(name: str, owners: int) -> Engine:
    leakage = Leakage([range_opening(owners)])
    if name == "clear":
        return ClearEngine(leakage, NoiseSource.insecure_seeded(0))
    return ReplicatedEngine(Simulator(3), leakage, insecure_seed=b"range")


def verdict(counts: np.ndarray, name: str = "three servers") -> list[bool]:
    engine = engine_of(name, len(counts))
    return within_range(share(engine, counts, RING), PLAN.candidates, CAPACITY).tolist()


HOSTILE = {
    "a negative count": ((0, 1, 3), -1),
    "a count above the capacity": ((1, 0, 0), CAPACITY + 1),
    "a count at half of the ring": ((1, 2, 8), 1 << 31),
    "a count before half of the ring": ((1, 2, 8), (1 << 31) - 1),
    "a count just below half, from above": ((1, 2, 8), (1 << 31) + CAPACITY),
    "one record too many in an attribute": ((1, 1, 6), 1),
}


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_honest_counts_pass_up_to_the_capacity(name: str) -> None:
    assert verdict(honest(3, 2), name) == [True] * 3
    assert verdict(np.zeros((1, 2, 3, 10), dtype=np.int64), name) == [True]


@pytest.mark.parametrize("what", list(HOSTILE))
@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_every_count_out_of_range_is_found(name: str, what: str) -> None:
    at, value = HOSTILE[what]
    counts = honest(3, 2)
    counts[(1, *at)] = value
    assert verdict(counts, name) == [True, False, True]


def test_sums_that_wrap_around_to_an_honest_total_are_found() -> None:
    counts = honest(2, 1)
    counts[0, 0, :, :2] = 1 << 30
    counts[0, 0, 0, 2] = 1 << 31
    assert verdict(counts) == [False, True]


@pytest.mark.parametrize("block", [1, 200, 1 << 21])
def test_blocks_change_rounds_and_not_the_verdict(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topdown_checks, "_BLOCK", block)
    counts = honest(2, 5)
    counts[1, 4, 1, 1] = -7
    engine = engine_of("three servers", 2)
    shared = share(engine, counts, RING)
    found: list[bool] = []
    cost = metered(
        engine, lambda: found.extend(within_range(shared, PLAN.candidates, CAPACITY).tolist())
    )
    assert found == [True, False]
    assert cost == cost_within_range(engine, counts.shape, PLAN.candidates, RING)


def test_honest_owners_give_away_nothing() -> None:
    for seed in range(2):
        engine = engine_of("clear", 2)
        drawn = np.random.default_rng(seed).integers(0, 9, (2, 1, 3, 10))
        assert within_range(share(engine, drawn, RING), PLAN.candidates, CAPACITY).all()
        (row,) = engine.leakage.what_was_learned("server 0")
        assert (row["name"], row["times"], row["values"]) == (OUT_OF_RANGE, 1, 2)
        assert row["why"].startswith("independent")
        assert not engine.leakage.what_was_learned("public")


def test_without_the_check_a_hostile_owner_would_read_the_others() -> None:
    """Why counts are checked: where a comparison wraps around, one record shows through noise."""
    plan = plan_of(criterion="max", epsilon=None)
    splits = SecureSplits(plan)
    valid = np.zeros((1, len(plan.candidates)), dtype=np.bool_)
    valid[0, 4] = True  # by colour
    worth = []
    for record in (0, 1):
        engine = engine_of("clear", 1)
        hist = np.zeros((1, 3, 10), dtype=np.int64)
        hist[0, 0, [0, 5, 8]] = 5
        hist[0, 1, [0, 5, 8]] = 4 + record
        # The hostile owner's: differences of class counts are compared in 11 bits here.
        hist[0, 1, 0] += 1019
        numbers = splits.numbers(share(engine, hist, splits.ring), [1], valid)
        worth.append(int(splits.wide.signed(numbers.data)[0, 1]))
    assert abs(worth[1] - worth[0]) > 1000
    assert plan.score.integer_sensitivity(plan.public, plan.shift).add_remove == 1
    assert verdict(np.broadcast_to(hist, (1, *hist.shape))) == [False]
