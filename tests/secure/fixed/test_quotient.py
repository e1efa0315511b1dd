import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.fixed.quotient import cost_floor_divide, floor_divide
from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine
from tests.secure.engines import metered, reveal, share
from tests.secure.worst_case import ERRORS, ErringEngine, spread

WIDTHS = [(2, 0), (2, 24), (2, 59), (10, 20), (16, 24), (16, 25), (20, 30), (13, 48), (11, 49)]
WIDTHS += [(30, 31), (37, 24), (59, 1), (61, 0)]


def floors(a: list[int], x: list[int]) -> list[int]:
    return [top // bottom if bottom else 0 for top, bottom in zip(a, x, strict=True)]


def hard(bits: int, quotient_bits: int) -> tuple[list[int], list[int]]:
    """Quotients next to a whole number, at both ends of their range and in between."""
    rng = np.random.default_rng(bits)
    divisors = sorted({1, 2, 3, 2 ** (bits - 1), 2**bits - 2, 2**bits - 1} - {0, 2**bits})
    divisors += rng.integers(1, 2**bits, 20).tolist()
    a, x = [0, 0, 5], [0, 1, 0]
    for divisor in divisors:
        some = rng.integers(0, 2**quotient_bits, 5, endpoint=True).tolist()
        for quotient in (0, 1, 2**quotient_bits - 1, 2**quotient_bits, *some):
            for more in (-1, 0, 1, divisor - 1):
                if 0 <= quotient * divisor + more <= divisor << quotient_bits:
                    a.append(quotient * divisor + more)
                    x.append(divisor)
    return a, x


@pytest.mark.parametrize("how", ERRORS)
@pytest.mark.parametrize(("bits", "quotient_bits"), WIDTHS)
def test_floors_where_truncations_err_as_much_as_they_may(
    how: str, bits: int, quotient_bits: int
) -> None:
    a, x = hard(bits, quotient_bits)
    wide = spread(bits, 5_000)
    ratio = np.random.default_rng(2).uniform(0, 1, wide.size) * (1 - 2**-40)
    some = (ratio * wide.astype(np.float64) * 2.0**quotient_bits).astype(np.int64)
    whole = some // wide * wide
    # This engine refuses numbers that leave the range, as they do where x is 0.
    top = np.concatenate([np.array(a[3:]), some, whole, np.maximum(whole - 1, 0)])
    bottom = np.concatenate([np.array(x[3:]), wide, wide, wide])
    e = ErringEngine(how)
    got = floor_divide(
        e.public(top, Z64), e.public(bottom, Z64), bits=bits, quotient_bits=quotient_bits
    )
    assert np.array_equal(got.data, top // bottom)


@pytest.mark.parametrize(("bits", "quotient_bits"), WIDTHS)
def test_hard_quotients_on_every_engine(engine: Engine, bits: int, quotient_bits: int) -> None:
    a, x = hard(bits, quotient_bits)
    got = floor_divide(
        share(engine, np.array(a), Z64),
        share(engine, np.array(x), Z64),
        bits=bits,
        quotient_bits=quotient_bits,
    )
    assert reveal(got).tolist() == floors(a, x)


@given(data=st.data())
def test_any_quotient_on_every_engine(engine: Engine, data: st.DataObject) -> None:
    bits = data.draw(st.integers(2, 61))
    quotient_bits = data.draw(st.integers(0, 61 - bits))
    x = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=5))
    a = [data.draw(st.integers(0, divisor << quotient_bits)) for divisor in x]
    got = floor_divide(
        share(engine, np.array(a), Z64),
        share(engine, np.array(x), Z64),
        bits=bits,
        quotient_bits=quotient_bits,
    )
    assert reveal(got).tolist() == floors(a, x)


def test_negative_numbers_are_rounded_down_too(engine: Engine) -> None:
    a, x = [-1, -7, -8, -9, -(2**30) * 5 + 1], [8, 8, 8, 8, 5]
    for quotient_bits in (30, 40):
        got = floor_divide(
            share(engine, np.array(a), Z64),
            share(engine, np.array(x), Z64),
            bits=4,
            quotient_bits=quotient_bits,
        )
        assert Z64.signed(reveal(got)).tolist() == floors(a, x)


def test_numerators_are_broadcast(engine: Engine) -> None:
    x = np.array([[1, 2, 3], [5, 7, 0]])
    row = np.array([100, 101, 0])
    got = floor_divide(share(engine, row, Z64), share(engine, x, Z64), bits=3, quotient_bits=7)
    assert reveal(got).tolist() == [[100, 50, 0], [20, 14, 0]]


@pytest.mark.parametrize(("bits", "quotient_bits"), [(2, 0), (16, 24), (16, 26), (8, 53)])
@pytest.mark.parametrize("shape", [(1,), (3, 30)])
def test_costs_are_as_declared(
    engine: Engine, bits: int, quotient_bits: int, shape: tuple[int, ...]
) -> None:
    x = share(engine, np.ones(shape, dtype=int), Z64)
    spent = metered(engine, lambda: floor_divide(x, x, bits=bits, quotient_bits=quotient_bits))
    assert spent == cost_floor_divide(engine, shape, bits=bits, quotient_bits=quotient_bits)


@pytest.mark.parametrize(("bits", "quotient_bits"), [(1, 5), (62, 0), (30, 32), (61, 1), (10, -1)])
def test_widths_outside_their_range_are_refused(bits: int, quotient_bits: int) -> None:
    e = ErringEngine("never")
    x = e.public([1], Z64)
    for call in (
        lambda: floor_divide(x, x, bits=bits, quotient_bits=quotient_bits),
        lambda: cost_floor_divide(e, (1,), bits=bits, quotient_bits=quotient_bits),
    ):
        with pytest.raises(HedgerowError) as caught:
            call()
        assert caught.value.code is Code.BAD_PARAMETER


def test_other_rings_are_refused() -> None:
    e = ErringEngine("never")
    for rings in ((Z32, Z64), (Z64, Z32)):
        a, x = (e.public([1], ring) for ring in rings)
        with pytest.raises(HedgerowError) as caught:
            floor_divide(a, x, bits=10, quotient_bits=10)
        assert caught.value.code is Code.SECRETS_DO_NOT_FIT
