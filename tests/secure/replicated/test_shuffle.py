"""Shuffle: the law of the permutation, and that no server knows it."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16, Z64
from tests.secure.engines import reveal, share
from tests.secure.replicated.wires import apart, everything


def test_all_orders_are_equally_likely(chi_square: Any) -> None:
    engine = ReplicatedEngine(Simulator(), everything(), insecure_seed=b"orders")
    rows = share(engine, np.arange(3), Z16)
    seen = Counter(tuple(reveal(engine.shuffle(rows, engine.permutation(3)))) for _ in range(1200))
    assert len(seen) == 6
    assert chi_square(np.array(list(seen.values())), np.full(6, 1 / 6)) > 1e-3


def test_a_server_holds_two_of_three_orders() -> None:
    def held(engine: ReplicatedEngine, party: int) -> set[int]:
        permutation: Any = engine.permutation(5)
        return set(permutation.orders)

    parts = apart(4, held, everything)
    assert [keys for keys, _ in parts] == [{0, 1}, {1, 2}, {0, 2}, set()]


@pytest.mark.parametrize("shape", [(1,), (4, 0), (5, 2, 3)])
def test_rows_of_any_shape_come_back(shape: tuple[int, ...]) -> None:
    engine = ReplicatedEngine(Simulator(), everything())
    a = np.arange(int(np.prod(shape))).reshape(shape)
    x, permutation = share(engine, a, Z64), engine.permutation(shape[0])
    there = engine.shuffle(x, permutation)
    assert sorted(map(str, reveal(there).tolist())) == sorted(map(str, a.tolist()))
    assert np.array_equal(reveal(engine.unshuffle(there, permutation)), a)
    assert np.array_equal(reveal(engine.shuffle(engine.unshuffle(x, permutation), permutation)), a)


def test_a_permutation_shows_nothing() -> None:
    engine = ReplicatedEngine(Simulator(), everything())
    assert repr(engine.permutation(5)) == "<JointPermutation of 5 rows>"
