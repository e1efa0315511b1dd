import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.noise.coin_circuit import Circuit, compile_coins


def ands_of(circuit: Circuit) -> list[int]:
    """Number of ANDs in each round that has any."""
    return [level.left.size for level in circuit.levels if level.left.size]


def run(circuit: Circuit, planes: np.ndarray) -> np.ndarray:
    """Evaluate on public bits (circuit.bits, n)."""
    for level in circuit.levels:
        products = planes[level.left] & planes[level.right]
        pool = np.concatenate([planes, products])
        planes = np.zeros((len(level.terms), planes.shape[1]), dtype=np.bool_)
        for row, terms in enumerate(level.terms):
            for term in terms:
                planes[row] ^= pool[term]
        planes[level.flips] ^= True
    return planes


def everything(bits: int) -> np.ndarray:
    """All values of `bits` bits, as planes (bits, 2**bits)."""
    return (np.arange(1 << bits) >> np.arange(bits)[:, None]) & 1 == 1


@pytest.mark.parametrize("t", range(1, 9))
def test_heads_as_often_as_the_constant_says(t: int) -> None:
    for constant in range((1 << t) + 1):
        circuit = compile_coins((constant,), t)
        heads = run(circuit, everything(circuit.bits)).sum()
        assert heads << (t - circuit.bits) == constant


@given(st.integers(2, 7).flatmap(lambda t: st.tuples(st.just(t), st.integers(1, 2**t - 1))))
def test_coins_of_one_circuit_are_independent(case: tuple[int, int]) -> None:
    t, constant = case
    circuit = compile_coins((constant, 1, constant), t)
    if circuit.bits > 16:
        return
    a, b, c = run(circuit, everything(circuit.bits))
    n = a.size
    assert a.sum() / n == c.sum() / n == constant / 2**t
    assert (a & c).sum() * n == a.sum() * c.sum()
    assert (a & b & c).sum() * n * n == a.sum() * b.sum() * c.sum()


@given(st.integers(2, 100).flatmap(lambda t: st.tuples(st.just(t), st.integers(0, 2**t))))
def test_depth_is_logarithmic_and_ands_are_few(case: tuple[int, int]) -> None:
    t, constant = case
    ands = ands_of(compile_coins((constant,), t))
    assert len(ands) <= math.ceil(math.log2(t))
    assert sum(ands) <= 1.5 * t


@given(st.integers(30, 110), st.data())
def test_long_constants_compare_correctly(t: int, data: st.DataObject) -> None:
    constant = data.draw(st.integers(1, 2**t - 1))
    circuit = compile_coins((constant,), t)
    # Bit j of v is 1 where bit j of U equals bit j of C, most significant first.
    numbers = [constant, constant - 1, constant + 1, 0, 2**t - 1]
    numbers += [constant ^ (1 << j) for j in range(t)]
    used = circuit.bits
    tops = [(number, number >> (t - used)) for number in numbers if 0 <= number < 2**t]
    top = constant >> (t - used)
    v = [[(u >> j & 1) == (top >> j & 1) for _, u in tops] for j in reversed(range(used))]
    assert run(circuit, np.array(v))[0].tolist() == [number < constant for number, _ in tops]


def test_trailing_zeros_and_certain_coins_cost_nothing() -> None:
    assert compile_coins((0, 256), 8).bits == 0
    assert run(compile_coins((0, 256), 8), np.zeros((0, 3), dtype=np.bool_)).tolist() == [
        [False] * 3,
        [True] * 3,
    ]
    assert ands_of(compile_coins((128, 64), 8)) == [1]


@pytest.mark.parametrize(("constants", "t"), [((1,), 0), ((), 3), ((9,), 3), ((-1,), 3)])
def test_constants_outside_the_range_are_refused(constants: tuple[int, ...], t: int) -> None:
    with pytest.raises(HedgerowError) as caught:
        compile_coins(constants, t)
    assert caught.value.code is Code.BAD_PARAMETER
