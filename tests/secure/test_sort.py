import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.errors import HedgerowError, InputError, LeakageError
from hedgerow.privacy import Leakage
from hedgerow.secure import sort
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share, share_bits


def declare(engine: Engine, n: int, times: int) -> Leakage:
    engine.leakage = Leakage(sort.openings(n, times, engine.everyone))
    return engine.leakage


@settings(max_examples=25, deadline=None)
@given(ring=st.sampled_from([Z16, Z32, Z64]), signed=st.booleans(), data=st.data())
def test_rows_are_sorted_stably(
    engine: Engine, ring: Ring, signed: bool, data: st.DataObject
) -> None:
    bits = data.draw(st.integers(1, 9))
    n = data.draw(st.integers(1, 40))
    lowest = -(1 << (bits - 1)) if signed else 0
    numbers = st.integers(lowest, lowest + (1 << bits) - 1)
    keys = data.draw(npst.arrays(np.int64, n, elements=numbers))
    rows = np.arange(2 * n).reshape(n, 2)
    leakage = declare(engine, n, sort.passes(bits))
    key, x = share(engine, keys, ring), share(engine, rows, Z64)
    got = sort.sort_by(key, x, bits=bits, signed=signed)
    assert np.array_equal(reveal(got), rows[np.argsort(keys, kind="stable")])
    assert all(row["equal"] for row in leakage.compare())


def test_whole_numbers_are_sorted(engine: Engine) -> None:
    keys = np.array([5, -1, 2**15 - 1, -(2**15), 0, -1, 5])
    declare(engine, 7, sort.passes(16))
    x = share(engine, keys, Z16)
    assert np.array_equal(Z16.signed(reveal(sort.sort_by(x, x))), np.sort(keys))


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 50), bits=st.integers(1, 6), data=st.data())
def test_destinations_and_both_directions(
    engine: Engine, n: int, bits: int, data: st.DataObject
) -> None:
    planes = data.draw(npst.arrays(np.bool_, (bits, n)))
    order = np.argsort((planes * (1 << np.arange(bits))[:, None]).sum(0), kind="stable")
    declare(engine, n, sort.passes(bits) + 1)
    d = sort.destinations(share_bits(engine, planes))
    assert np.array_equal(reveal(d), np.argsort(order))
    rows = np.arange(3 * n).reshape(n, 3)
    moved = sort.permute(share(engine, rows, Z32), d)
    assert np.array_equal(reveal(moved), rows[order])


def test_what_is_opened_is_a_fresh_uniform_permutation(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, chi_square: object
) -> None:
    seen = []

    def watch(x: object, name: str, to: str) -> object:
        seen.append(type(engine).open(engine, x, name, to))  # type: ignore[arg-type]
        return seen[-1]

    n, runs = 3, 240
    d = share(engine, np.arange(n), sort.position_ring(n))
    declare(engine, n, runs)
    monkeypatch.setattr(engine, "open", watch)
    for _ in range(runs):
        sort.permute(d, d)
    counts = np.bincount([int(9 * p[0] + 3 * p[1] + p[2]) for p in seen], minlength=27)
    possible = [9 * a + 3 * b + c for a, b, c in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))]  # fmt: skip # noqa: E501
    assert counts.sum() == counts[possible].sum() == runs
    # Six cells of 40: no seed fixes the permutations of every engine, so the bound is far out.
    assert chi_square(counts[possible], np.full(6, 1 / 6)) > 1e-9  # type: ignore[operator]


def test_an_undeclared_or_broken_permutation_is_refused(engine: Engine) -> None:
    x = share(engine, np.arange(4), Z32)
    engine.leakage = Leakage([])
    with pytest.raises(LeakageError, match="H301"):
        sort.permute(x, x)
    declare(engine, 4, 2)
    for wrong in ([0, 1, 2, 2], [0, 1, 2, -1]):
        with pytest.raises(InputError, match="H702"):
            sort.permute(x, share(engine, np.array(wrong), Z64))


@pytest.mark.parametrize(
    ("n", "ring"), [(1, Z16), (1 << 16, Z16), ((1 << 16) + 1, Z32), ((1 << 32) + 1, Z64)]
)
def test_places_are_kept_in_the_smallest_ring(n: int, ring: Ring) -> None:
    assert sort.position_ring(n) == ring


def test_keys_and_rows_must_agree(engine: Engine) -> None:
    with pytest.raises(HedgerowError, match="one key for every row"):
        sort.sort_by(share(engine, np.arange(4), Z32), share(engine, np.arange(5), Z32))


@pytest.mark.parametrize("bits", [1, 2, 5])
def test_costs_are_as_declared(engine: Engine, bits: int) -> None:
    n = 70
    key, x = share(engine, np.arange(n), Z32), share(engine, np.arange(3 * n).reshape(n, 3), Z64)
    declare(engine, n, sort.passes(bits) + 2)
    spent = metered(engine, lambda: sort.sort_by(key, x, bits=bits))
    assert spent == sort.cost_sort_by(engine, Z32, (n, 3), Z64, bits)
    d = share(engine, np.arange(n), sort.position_ring(n))
    spent = metered(engine, lambda: sort.permute(x, d))
    assert spent == sort.cost_permute(engine, (n, 3), Z64)
