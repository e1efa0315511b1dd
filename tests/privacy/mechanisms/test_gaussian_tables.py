"""Distribution functions of discrete Gaussian variables, bit by bit, against mpmath."""

from fractions import Fraction

import mpmath
import pytest

from hedgerow.privacy.mechanisms import gaussian_tables
from hedgerow.privacy.mechanisms.gaussian_tables import GaussianTable


def exact(x: Fraction, halves: bool, bits: int, count: int) -> list[int]:
    """The floors that the table should hold, from a theta function with 60 spare digits."""
    with mpmath.workdps(60 + bits // 3):
        rate = mpmath.mpf(x.numerator) / x.denominator
        both = mpmath.jtheta(3, 0, mpmath.exp(-rate))
        total = (both + 1) / 2 if halves else both
        floors, so_far = [], mpmath.mpf(0)
        for k in range(count):
            so_far += (1 if halves or k == 0 else 2) * mpmath.exp(-rate * k * k)
            floors.append(int(mpmath.floor(so_far / total * 2**bits)))
    return floors


@pytest.mark.parametrize("x", [Fraction(1, 2), Fraction(12.5), Fraction(0.0123), Fraction(1, 900)])
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("bits", [7, 63, 128, 200])
def test_floors_are_exact(x: Fraction, halves: bool, bits: int) -> None:
    floors = GaussianTable(x, halves).floors(bits)
    assert floors[-1] == 2**bits - 1
    assert list(floors[:-1]) == exact(x, halves, bits, len(floors) - 1)


def test_a_table_may_be_all_at_zero() -> None:
    assert GaussianTable(Fraction(10**300), halves=False).floors(63) == (2**63 - 1,)
    assert GaussianTable(Fraction(10**300), halves=False).resolve(2**63 - 1, 63, lambda: 5) == 0


def test_guard_bits_that_do_not_suffice_are_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    table = GaussianTable(Fraction(1, 50), halves=False)
    wanted = table.floors(40)
    gaussian_tables._floors.cache_clear()
    monkeypatch.setattr(gaussian_tables, "_GUARD", 1)
    assert gaussian_tables._try_floors(table, 40, 1) is None
    assert table.floors(40) == wanted
    gaussian_tables._floors.cache_clear()


def test_ties_are_decided_by_the_bits_that_follow() -> None:
    table = GaussianTable(Fraction(1, 2), halves=False)
    short, long = table.floors(10), table.floors(74)
    for k, (tie, following) in enumerate(zip(short[:-1], long, strict=False)):
        low = following & (2**64 - 1)
        assert following >> 64 == tie
        assert table.resolve(tie, 10, lambda low=low: low - 1) == k
        assert table.resolve(tie, 10, lambda low=low: low + 1) == k + 1
    # What is above everything that 10 bits can tell lies in the tail.
    assert table.resolve(2**10 - 1, 10, lambda: 2**64 - 2**20) > len(short)
