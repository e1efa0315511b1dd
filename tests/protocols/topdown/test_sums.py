from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.topdown.numbers import SecureSplits
from hedgerow.protocols.topdown.questions import shape_of
from hedgerow.protocols.topdown.sums import answer_arrays, numbers_name, openings_of, released
from hedgerow.protocols.topdown.wire import Ask
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import deal
from hedgerow.secure.secret import Engine
from tests.protocols.topdown.secure_counts import CAPACITY, plan_of
from tests.secure.engines import reveal

NOTHING = np.zeros(0, dtype=np.uint8)
OWNERS = {"amsterdam": NOTHING, "berlin": NOTHING}
EXACT = SecureSplits(plan_of(epsilon=None))
NODES = Ask(EXACT.plan.digest, 3, "servers", ((0, 2),), (1, 2), (), OWNERS)
LEAVES = replace(NODES, phase="servers, leaves")
SHAPE = shape_of(EXACT.plan, NODES.expand)


def engine_of(name: str, splits: SecureSplits, ask: Ask) -> Engine:
    ledger = Ledger()
    ledger.charge(*splits.plan.releases(joint=True))
    leakage = Leakage(openings_of(splits, ask, SHAPE), ledger=ledger)
    if name == "clear":
        return ClearEngine(leakage, NoiseSource.insecure_seeded(0))
    return ReplicatedEngine(Simulator(3), leakage, insecure_seed=b"sums")


def parts_of(*counts: np.ndarray, ring) -> dict:
    dealt = [deal(ring.encode(each)) for each in counts]
    return {server: [one[server] for one in dealt] for server in range(3)}


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_leaves_are_added_up_over_owners(name: str) -> None:
    engine, ring = engine_of(name, EXACT, LEAVES), EXACT.leaf_ring
    one, two = np.array([[1, 2, 3], [0, 0, 9]]), np.array([[5, 0, 0], [1, 1, 1]])
    made = released(engine, EXACT, LEAVES, SHAPE, parts_of(one, two, ring=ring))
    np.testing.assert_array_equal(reveal(made.numbers), one + two)
    assert made.used.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_owners_that_cannot_be_used_are_left_out(name: str) -> None:
    good = np.zeros((2, 3, 10), dtype=np.int64)
    good[:, 1, [0, 5, 8]] = 7
    bad = good.copy()
    bad[1, 2, 3] = CAPACITY + 1
    made = released(
        engine_of(name, EXACT, NODES), EXACT, NODES, SHAPE, parts_of(bad, good, ring=EXACT.ring)
    )
    assert made.used.tolist() == [Code.CAPACITY_EXCEEDED.value, 0]
    assert reveal(made.numbers)[:, 2].tolist() == [7, 7]
    broken = parts_of(good, good, ring=EXACT.ring)
    broken[2][1] = None
    made = released(engine_of(name, EXACT, NODES), EXACT, NODES, SHAPE, broken)
    assert made.used.tolist() == [0, Code.SHARES_DIFFER.value]
    none = {server: [None, None] for server in range(3)}
    with pytest.raises(HedgerowError) as error:
        released(engine_of(name, EXACT, NODES), EXACT, NODES, SHAPE, none)
    assert error.value.code is Code.TOO_FEW_OWNERS


def test_openings_name_the_releases_that_pay() -> None:
    splits = SecureSplits(plan_of())
    checks, numbers = openings_of(splits, NODES, SHAPE)
    assert (checks.audience, numbers.audience) == ("server", "public")
    assert (checks.shape, numbers.shape) == ((2,), (2, 3))
    assert numbers.derived == (
        "split of each node at depth 2",
        "worth of the split of each node at depth 2",
        "number of records of each node at depth 2",
    )
    (leaves,) = openings_of(splits, LEAVES, SHAPE)
    assert (leaves.shape, leaves.derived) == ((2, 3), ("class counts of each leaf",))
    charged = {release.reason for release in splits.plan.releases(joint=True)}
    assert {*numbers.derived, *leaves.derived} <= charged


def test_nothing_is_opened_that_was_not_charged() -> None:
    splits = SecureSplits(plan_of())
    leakage = Leakage(openings_of(splits, LEAVES, SHAPE), ledger=Ledger())
    engine = ClearEngine(leakage, NoiseSource.insecure_seeded(0))
    counts = np.zeros((2, 3), dtype=np.int64)
    parts = parts_of(counts, counts, ring=splits.leaf_ring)
    made = released(engine, splits, LEAVES, SHAPE, parts)
    with pytest.raises(HedgerowError) as error:
        engine.open(made.numbers, numbers_name(LEAVES), "public")
    assert error.value.code is Code.NOT_CHARGED


def test_answers_name_their_numbers() -> None:
    used = np.array([0, 0])
    found = answer_arrays(NODES, np.array([[4, -1, 9], [0, 2, 8]]), used)
    assert {name: array.tolist() for name, array in found.items()} == {
        "choice": [4, 0],
        "worth": [-1, 2],
        "weight": [9, 8],
        "used": [0, 0],
    }
    assert set(answer_arrays(LEAVES, np.zeros((2, 3)), used)) == {"classes", "used"}
